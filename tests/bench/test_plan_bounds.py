"""Bounds of ``plan --prove``: never below what a plan reaches, and those of trying everything where the models know every rule."""

import msgspec
import numpy as np
import pytest

pytest.importorskip("highspy", reason="highspy is not installed: make install")

from harness import builders as b
from harness.rest.clusters import random_cluster
from rescheduler.configuration.document import parse_configuration
from rescheduler.model.names import ZONE
from rescheduler.optima.bounds import JudgedPlan, bounds
from rescheduler.optima.placement import Places
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.plan import Question
from rescheduler.planning.planner import plan
from rescheduler.reports.structured import pretty_json
from rescheduler.reports.text import plan_text
from rescheduler.scheduling.state import SchedulingState
from tests.bench.tiny_clusters import one_stage, tiny
from tests.seeds import seeds

SECONDS = 120.0
HEAD = "apiVersion: rescheduler.dev/v1alpha1\nkind: ReschedulerConfiguration\npolicies:\n"
REPAIRS = (
    HEAD + "- name: NodeTaints\n- name: NodeAffinity\n- name: InterPodAntiAffinity\n- name: TopologySpread\n"
)
PACKING = "- {name: HighNodeUtilization, thresholds: {cpu: 99.99}, targetThresholds: {cpu: 100}}\n"
ROOMS = "- {name: Defragmentation, template: {cpu: 1500m}}\n"
ROOMS_OF_TWO = (
    "- {name: Defragmentation, template: {cpu: 1500m}, moreTemplates: [{cpu: 500m, memory: 1Gi}]}\n"
)
RELIEF = "- {name: LowNodeUtilization, thresholds: {cpu: 40, memory: 40}, targetThresholds: {cpu: 60, memory: 60}}\n"


def proved(snapshot, text, max_moves=None):
    configuration = parse_configuration(text, "test")
    inputs = PlanningInputs(
        limits=Limits(minimum_gain=0.0, workload_cooldown_s=0.0), unlimited=True, max_moves=max_moves
    )
    made = plan(snapshot, configuration.build_policies(), inputs, SchedulingState(snapshot))
    judged = JudgedPlan(
        snapshot=snapshot,
        plan=made,
        policies=[p.args for p in configuration.policies],
        inputs=inputs,
        profile=configuration.profile,
        seconds=SECONDS,
    )
    return msgspec.structs.replace(made, bounds=bounds(judged))


@pytest.mark.parametrize(("selector", "skews"), [({"app": "web"}, {1}), ({}, {0})])
def test_a_spread_with_an_empty_selector_counts_nobody(selector, skews):
    web = b.replicaset("web").cpu("1").replicas(2).spread(ZONE, **selector)
    pods = [web.pod(f"web-{i}").on(node) for i, node in enumerate(("n1", "n2"))]
    places = Places(b.snapshot(b.node("n1").zone("a"), b.node("n2").zone("b"), web, *pods))
    assert {kind.max_skew for kind in places.placement.kinds} == skews


@pytest.mark.crossed
@pytest.mark.parametrize("max_moves", [1, 2, None])
@pytest.mark.parametrize("seed", seeds(40, 48, 3))
def test_most_emptied_nodes_are_those_of_trying_everything(seed, max_moves):
    snapshot = tiny(seed)
    (bound,) = proved(snapshot, HEAD + PACKING, max_moves).bounds
    placement = Places(snapshot).placement
    best = max(
        placement.in_use(placement.start) - placement.in_use(counts)
        for counts, arrived in one_stage(placement)
        if max_moves is None or arrived.sum() <= max_moves
    )
    assert bound.question is Question.NODES_EMPTIED
    assert bound.reached <= best <= bound.bound
    spread = any(kind.max_skew for kind in placement.kinds)
    assert bound.bound == best or spread, "spread of arriving pods is left out"
    assert bound.proven == (bound.reached == bound.bound)


@pytest.mark.crossed
@pytest.mark.parametrize("max_moves", [1, 2, None])
@pytest.mark.parametrize("seed", seeds(40, 48, 3))
def test_the_highest_price_of_emptied_nodes_is_that_of_trying_everything(seed, max_moves):
    snapshot = tiny(seed)
    names = sorted(snapshot.nodes)
    cents = {name: 3 + 2 * number for number, name in enumerate(names)}
    entries = ", ".join(
        f"{{nodeSelector: {{kubernetes.io/hostname: {name}}}, price: {cents[name] / 100}}}" for name in names
    )
    (bound,) = proved(snapshot, HEAD + PACKING.replace("}}", f"}}, prices: [{entries}]}}"), max_moves).bounds
    placement = Places(snapshot).placement
    prices = np.array([cents[name] for name in placement.nodes])

    def worth(counts):
        return int(prices[placement.used(placement.start)].sum() - prices[placement.used(counts)].sum())

    best = max(
        worth(counts)
        for counts, arrived in one_stage(placement)
        if max_moves is None or arrived.sum() <= max_moves
    )
    assert bound.question is Question.PRICE_EMPTIED
    assert bound.reached <= best / 100 + 1e-9 <= bound.bound + 1e-5
    if not any(kind.max_skew for kind in placement.kinds):
        assert bound.bound == pytest.approx(best / 100, abs=1e-5), "spread of arriving pods is left out"
    assert bound.proven == (bound.reached == pytest.approx(bound.bound, abs=1e-5))


def test_the_dearest_nodes_are_what_a_plan_by_price_is_compared_with():
    """Two moves empty two cheap nodes or the dear one: by number the plan would seem to miss half."""
    nodes = [b.node(f"cheap{i}").label(cost="1") for i in range(2)]
    nodes += [b.node("dear").label(cost="7.5"), b.node("full").label(cost="1")]
    small, big = b.replicaset("small").replicas(4).cpu("100m"), b.replicaset("big").cpu("3")
    pods = [small.pod(f"small-{i}").on(f"cheap{i}") for i in range(2)]
    pods += [small.pod(f"dear-{i}").on("dear") for i in range(2)]
    snapshot = b.snapshot(nodes, [small, big, *pods, big.pod("big-0").on("full")])
    text = HEAD + PACKING.replace("}}", "}, priceLabel: cost}")
    (bound,) = proved(snapshot, text, 2).bounds
    assert bound.question is Question.PRICE_EMPTIED
    assert (bound.reached, bound.bound, bound.gap, bound.proven) == (7.5, 7.5, 0.0, True)


def test_equal_prices_count_nodes():
    snapshot = tiny(40)
    (counted,) = proved(snapshot, HEAD + PACKING).bounds
    (priced,) = proved(snapshot, HEAD + PACKING.replace("}}", "}, defaultPrice: 3}")).bounds
    assert (priced.question, priced.reached, priced.bound) == (
        counted.question,
        counted.reached,
        counted.bound,
    )


@pytest.mark.parametrize("max_moves", [1, None])
@pytest.mark.parametrize("seed", seeds(48, 60, 2))
def test_most_repairs_are_those_of_trying_everything(seed, max_moves):
    snapshot = tiny(seed)
    (bound,) = proved(snapshot, REPAIRS, max_moves).bounds
    placement = Places(snapshot).placement
    least = min(
        placement.violations(counts)
        for counts, arrived in one_stage(placement)
        if max_moves is None or arrived.sum() <= max_moves
    )
    best = placement.violations(placement.start) - least
    assert bound.question is Question.VIOLATIONS_REPAIRED
    assert bound.reached <= best <= bound.bound <= placement.violations(placement.start)


@pytest.mark.parametrize(
    "text",
    [REPAIRS + PACKING, REPAIRS + RELIEF, REPAIRS + ROOMS, REPAIRS + ROOMS_OF_TWO],
    ids=["packing", "relief", "rooms", "rooms-of-two"],
)
@pytest.mark.parametrize("seed", seeds(700, 712, 1))
def test_no_plan_passes_its_bound(seed, text):
    """Clusters with every rule that there is, most of which the models leave out."""
    for max_moves in (3, None):
        for bound in proved(random_cluster(seed), text, max_moves).bounds:
            assert bound.bound is not None, (seed, bound)
            assert 0.0 <= bound.gap <= 1.0
            assert bound.reached <= bound.bound


def test_a_pod_that_is_protected_is_no_gap():
    nodes = [b.node("n0").label(disk="hdd"), b.node("n1").label(disk="ssd")]
    wrong = b.replicaset("wrong").cpu("1").requires_node("disk", "ssd")
    alone = b.snapshot(nodes, [
        wrong,
        wrong.pod("wrong-0") .on("n0") .annotate({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}),
    ])  # fmt: skip
    (bound,) = proved(alone, REPAIRS).bounds
    assert (bound.reached, bound.bound, bound.proven) == (0, 0, True)


def test_a_pod_that_must_stand_beside_another_may_follow_it():
    """Where it must stand depends on others, which the models leave out: the bound may be too high, never too low."""
    nodes = [b.node(f"n{i}") for i in range(3)]
    one, other = (
        b.replicaset("one").cpu("500m"),
        b.replicaset("other").cpu("500m").near("kubernetes.io/hostname", app="one"),
    )
    snapshot = b.snapshot(
        nodes,
        [one.replicas(2), one.pod("one-0").on("n0"), one.pod("one-1").on("n1")],
        [other, other.pod("other-0").on("n1")],
    )
    (bound,) = proved(snapshot, HEAD + PACKING).bounds
    assert bound.reached <= 1 <= bound.bound
    assert "rules about other pods" in bound.notes[-1]


@pytest.mark.parametrize(("policy", "cpu", "memory", "nodes", "reached"), [
    pytest.param(PACKING, "4", "64Gi", 4, 2, id="packing"),
    pytest.param(RELIEF, "4", "64Gi", 3, 0.9 + 4 * 0.9**2, id="relief of CPU"),
    pytest.param(RELIEF, "64", "8000Mi", 3, 2 * (0.9 + 4 * 0.9**2), id="relief of memory"),
])  # fmt: skip
def test_pods_without_requests_count_in_the_model_as_in_the_plan(policy, cpu, memory, nodes, reached):
    """60 pods without requests are 150 % of a node: two nodes at most 90 % full take them, and three at 60 %."""
    packed = policy == PACKING
    idle = b.replicaset("idle").replicas(60)
    built = [b.node(f"n{i}").cpu(cpu).allocatable(memory=memory) for i in range(nodes)]
    pods = [idle.pod(f"idle-{i}").on(f"n{i % 4}" if packed else "n0") for i in range(60)]
    text = HEAD + policy.replace("100}", "90}").replace("99.99", "80")
    (bound,) = proved(b.snapshot(*built, idle, *pods), text).bounds
    assert bound.proven
    assert bound.reached == pytest.approx(reached)


def test_what_the_model_does_not_know_has_no_bound():
    text = HEAD + "- {name: LowNodeUtilization, useDeviationThresholds: true}\n"
    (bound,) = proved(random_cluster(1), text).bounds
    assert bound.bound is None
    assert not bound.proven
    assert "deviation" in bound.notes[0]


def test_reports_show_bounds_only_where_they_were_asked_for():
    made = proved(random_cluster(3), REPAIRS + PACKING)
    assert "nodes emptied" in plan_text(made)
    assert '"question": "NodesEmptied"' in pretty_json(made)
    without = msgspec.structs.replace(made, bounds=msgspec.UNSET)
    assert "bounds" not in pretty_json(without)
    assert "BEST PLAN" not in plan_text(without)
