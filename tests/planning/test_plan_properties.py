"""What every plan of every cluster keeps: room, rules, budgets, limits. Rest, exact figures and any order of reading: ``harness.rest``, ``harness.shapes``."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from bench.replay import replay
from harness import builders as b
from harness.rest.clusters import RULES
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.plan import in_stages, stages_of
from rescheduler.planning.planner import plan
from rescheduler.policies.registry import REGISTRY
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import examples

ORDINARY = ("NodeTaints", "NodeAffinity", "InterPodAntiAffinity", "TopologySpread", "LowNodeUtilization")
PACKING = ("NodeTaints", "NodeAffinity", "InterPodAntiAffinity", "TopologySpread", "HighNodeUtilization")
WITHIN_LIMITS = PlanningInputs(
    limits=Limits(moves_at_once=20, moves_per_hour=99, per_node=9, per_namespace=20, per_workload=9)
)
QUICK = settings(max_examples=examples(10, 60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def clusters(draw):
    """Up to six nodes in three zones, up to four applications with any of the constraints, budgets, bare pods."""
    nodes = []
    for i in range(draw(st.integers(1, 6))):
        node = b.node(f"n{i}").zone("abc"[i % 3]).cpu(draw(st.sampled_from(["2", "4"])))
        node = node.label(disk=draw(st.sampled_from(["ssd", "hdd"])))
        kind = draw(st.integers(0, 9))
        if kind == 0:
            node = node.cordoned()
        elif kind <= 2:
            node = node.taint("old")
        nodes.append(node)
    objects = list(nodes)
    for number in range(draw(st.integers(1, 4))):
        name = f"app{number}"
        kind = draw(st.sampled_from([b.replicaset, b.statefulset]))
        owner = kind(name).cpu(draw(st.sampled_from(["100m", "400m", "800m"])))
        for extra in draw(st.lists(st.sampled_from(sorted(RULES)), max_size=2, unique=True)):
            owner = RULES[extra](owner, name)
        places = draw(st.lists(st.integers(0, len(nodes) - 1), max_size=6))
        owner = owner.replicas(max(len(places), 1))
        objects.append(owner)
        for i, place in enumerate(places):
            pod = owner.pod(f"{name}-{i}").on(f"n{place}")
            objects.append(pod.not_ready() if draw(st.integers(0, 9)) == 0 else pod)
        if draw(st.booleans()):
            objects.append(b.pdb(name).allows(draw(st.integers(0, 3)), healthy=len(places)))
    if draw(st.booleans()):
        objects.append(b.pod("waiting").cpu(draw(st.sampled_from(["500m", "9"]))))
    return b.snapshot(*objects)


def policies(names):
    return [REGISTRY[name].build(REGISTRY[name].args()) for name in names]


def decided(cluster, names=ORDINARY, inputs=None):
    inputs = inputs or PlanningInputs(unlimited=True)
    return plan(cluster, policies(names), inputs, SchedulingState(cluster))


@pytest.mark.parametrize("names", [ORDINARY, PACKING])
@QUICK
@given(cluster=clusters())
def test_moves_can_be_carried_out_one_after_the_other(names, cluster):
    assert replay(cluster, in_stages(decided(cluster, names).moves)).refused == ()


@QUICK
@given(cluster=clusters())
def test_no_room_is_used_twice_even_if_all_old_pods_that_nobody_waits_for_still_stand(cluster):
    made = decided(cluster)
    assume(made.moves)
    state = SchedulingState(cluster)
    pods = {p.uid: p for p in cluster.pods.values()}
    waited_for = {ref.uid for move in made.moves for ref in move.after}
    for stage in range(1, max(stages_of(made.moves)) + 1):
        now = [m for m, number in zip(made.moves, stages_of(made.moves), strict=True) if number == stage]
        for move in now:
            state.place(Replacements(cluster).of(pods[move.pod.uid]).pod, move.target)
        for move in now:
            at = state.node_index[move.target]
            for resource in ("cpu", "memory", "pods"):
                assert state.requested(resource)[at] <= state.allocatable(resource)[at]
        for move in now:  # only of the moves that others begin after the rooms are free by then
            if move.pod.uid in waited_for:
                state.remove(pods[move.pod.uid])


@pytest.mark.crossed
@pytest.mark.parametrize("inputs", [PlanningInputs(unlimited=True), WITHIN_LIMITS])
@pytest.mark.parametrize("names", [ORDINARY, PACKING])
@QUICK
@given(cluster=clusters())
def test_budgets_are_never_overrun(names, inputs, cluster):
    made = decided(cluster, names, inputs)
    pods = {p.uid: p for p in cluster.pods.values()}
    for budget in cluster.budgets.values():
        spending = {
            move.pod.uid: {pod.uid for pod in move.after}
            for move in made.moves
            if budget.selector.matches(pods[move.pod.uid].labels) and pods[move.pod.uid].ready
        }
        # Where each begins after another one, they form so many rows, and of each row one pod is away at a time.
        earlier = [
            next(iter(after & spending.keys())) for after in spending.values() if after & spending.keys()
        ]
        assert len(set(earlier)) == len(earlier)
        assert len(spending) - len(earlier) <= budget.disruptions_allowed


@QUICK
@given(cluster=clusters())
def test_only_fit_nodes_are_targets_and_pods_move_once(cluster):
    made = decided(cluster)
    assert all(not cluster.nodes[m.target].unschedulable for m in made.moves)
    assert all(m.source != m.target for m in made.moves)
    uids = [m.pod.uid for m in made.moves] + [s.pod.uid for s in made.skipped]
    assert len(uids) == len(set(uids))


@QUICK
@given(cluster=clusters())
def test_limited_moves_are_within_the_limits(cluster):
    inputs = PlanningInputs()
    made = decided(cluster, inputs=inputs)
    assert len(made.moves) <= inputs.limits.moves_at_once
    assert all(n <= inputs.limits.per_node for n in Counter(m.source for m in made.moves).values())
    owners = Counter((m.pod.namespace, m.controller) for m in made.moves)
    assert all(n <= inputs.limits.per_workload for n in owners.values())


@QUICK
@given(cluster=clusters())
def test_a_state_that_was_used_before_decides_the_same(cluster):
    state = SchedulingState(cluster)
    first = plan(cluster, policies(ORDINARY), PlanningInputs(unlimited=True), state)
    assert state.checkpoint() == 0
    assert plan(cluster, policies(ORDINARY), PlanningInputs(unlimited=True), state) == first
