"""Where no node has room for a badly placed pod, others make room: in stages, by the scheduler's rules, bounded, deterministic."""

import random

import msgspec
import pytest

from bench.random_clusters import Kind, random_cluster
from bench.replay import replay
from harness import builders as b
from rescheduler.model.names import ZONE
from rescheduler.planning.limits import Limits, PlanningInputs, Protections
from rescheduler.planning.plan import in_stages
from rescheduler.planning.planner import plan
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import lowers
from rescheduler.scheduling.state import SchedulingState
from tests.seeds import seeds

OLD = b.node("n0").taint("old")
MINE = {"kind": "x"}


def steps(made):
    return [(m.pod.name, m.target, [p.name for p in m.after]) for m in made.moves]


def tight(app, *, other="2", cpu="1"):
    """w must leave n0 and may only go to n1, where o stands in its way; n2 is for o."""
    return (
        OLD, b.node("n1").cpu("2").label(**MINE), b.node("n2").cpu(other),
        app("w", ["n0"], lambda s: s.cpu("2").node_selector(MINE)), app("o", ["n1"], lambda s: s.cpu(cpu)),
    )  # fmt: skip


def test_a_pod_that_is_in_the_way_goes_first(decide, app):
    made = decide(b.snapshot(*tight(app)), "NodeTaints")
    assert steps(made) == [("o-0", "n2", []), ("w-0", "n1", ["o-0"])]
    assert (made.moves[0].reason, made.moves[0].message) == ("MakesRoom", "makes room for default/w-0")
    assert not made.skipped


def test_a_spread_with_an_empty_selector_keeps_nobody_where_he_stands(decide, app):
    """It counts no pods (podtopologyspread/common.go): to those of the scheduler's rules it is met everywhere."""
    n0, n1, n2, w, _ = tight(app, other="4")
    o = app("o", ["n1"], lambda s: s.cpu("1").spread(ZONE))
    beside = [app(f"x{i}", ["n2"], lambda s: s.cpu("100m")) for i in range(2)]
    made = decide(b.snapshot(n0.zone("a"), n1.zone("a"), n2.zone("b"), w, o, *beside), "NodeTaints")
    assert steps(made) == [("o-0", "n2", []), ("w-0", "n1", ["o-0"])]


def test_a_pod_goes_where_one_leaves_that_waits_for_others_itself(decide, app):
    """So a plan that is carried out leaves nothing that the next one would find."""
    _, *others = tight(app)
    nodes = b.node("n0").label(kind="y"), b.node("n3")
    v = app("v", ["n3"], lambda s: s.cpu("3").node_selector({"kind": "y"}))
    made = decide(b.snapshot(*nodes, *others, v), "NodeAffinity")
    assert steps(made) == [("o-0", "n2", []), ("w-0", "n1", ["o-0"]), ("v-0", "n0", ["w-0"])]


def test_a_pod_that_waits_for_rooms_of_this_plan_is_told_so(decide, app):
    """Moves for balance use no room that moves of the same plan leave."""
    _, *others = tight(app)
    nodes = b.node("n0").cpu("2").label(pool="x"), b.node("n3").cpu("2").label(pool="x")
    v = app("v", ["n3", "n3"], lambda s: s.cpu("800m").node_selector({"pool": "x"}))
    low = ("LowNodeUtilization", {"target_thresholds": {"cpu": 50.0}, "node_selector": {"pool": "x"}})
    made = decide(b.snapshot(*nodes, *others, v), "NodeAffinity", low)
    assert steps(made) == [("o-0", "n2", []), ("w-0", "n1", ["o-0"])]
    assert {s.message for s in made.skipped} == {
        "none of 4 nodes takes its replacement: NodeAffinity refuses 2; 1 node will have room once other moves have landed"
    }


def swap(*more, x="n1", y="n2"):
    """Two pods fill two nodes, and each would rather be where the other one is."""
    nodes = b.node("n1").cpu("4").label(disk="hdd"), b.node("n2").cpu("4").label(disk="ssd")
    found = []
    for name, disk, on in (("x", "ssd", x), ("y", "hdd", y)):
        owner = b.replicaset(name).cpu("4").replicas(1).prefers_node("disk", disk, weight=100)
        found += [owner, owner.pod(f"{name}-0").on(on)]
    return b.snapshot(*nodes, *more, *found)


def test_two_pods_that_fill_two_nodes_swap_by_a_third_one(decide):
    third, wishes = b.node("n3").cpu("4"), ("NodeAffinity", {"types": ("preferred",)})
    made = decide(swap(third), wishes)
    assert steps(made) == [("x-0", "n3", []), ("y-0", "n1", ["x-0"])]
    afterwards = decide(swap(third, x="n3", y="n1"), wishes)
    assert steps(afterwards) == [("x-0", "n2", [])]
    assert not decide(swap(third, x="n2", y="n1"), wishes).moves


def test_without_a_third_node_neither_of_them_moves_and_both_are_named(decide):
    made = decide(swap(), ("NodeAffinity", {"types": ("preferred",)}))
    assert not made.moves
    assert [(s.pod.name, str(s.reason)) for s in made.skipped] == [("x-0", "NoTarget"), ("y-0", "NoTarget")]


def test_another_one_makes_room_for_the_pod_that_is_in_the_way(decide, app):
    third = (b.node("n3").cpu("1"), app("s", ["n2"], lambda s: s.cpu("1")))
    made = decide(b.snapshot(*tight(app, cpu="2"), *third), "NodeTaints")
    assert steps(made) == [("s-0", "n3", []), ("o-0", "n2", ["s-0"]), ("w-0", "n1", ["o-0"])]


def test_two_small_ones_make_room_together(decide, app):
    cluster = b.snapshot(*tight(app), app("p", ["n1"], lambda s: s.cpu("1")))
    made = decide(cluster, "NodeTaints")
    assert sorted(steps(made)[:2]) == [("o-0", "n2", []), ("p-0", "n2", [])]
    assert [sorted(p.name for p in m.after) for m in made.moves][-1] == ["o-0", "p-0"]


def test_four_small_ones_make_room_together_where_fewer_are_not_enough(decide, app):
    small = [app(f"s{i}", ["n1"], lambda s: s.cpu("500m")) for i in range(4)]
    w, n1, n2 = tight(app)[3], *tight(app)[1:3]
    made = decide(b.snapshot(OLD, n1, n2, w, *small), "NodeTaints")
    assert sorted(steps(made)[:4]) == [(f"s{i}-0", "n2", []) for i in range(4)]
    assert sorted(p.name for p in made.moves[-1].after) == [f"s{i}-0" for i in range(4)]


def test_the_room_of_a_move_that_is_planned_anyway_is_used_after_it(decide, app):
    cluster = b.snapshot(
        OLD, b.node("n1").cpu("1").label(kind="x"), b.node("n2").cpu("1").label(kind="y"),
        app("a", ["n1"], lambda s: s.cpu("1").node_selector({"kind": "y"})),
        app("b", ["n0"], lambda s: s.cpu("1").node_selector(MINE)),
    )  # fmt: skip
    made = decide(cluster, "NodeAffinity", "NodeTaints")
    assert steps(made) == [("a-0", "n2", []), ("b-0", "n1", ["a-0"])]


@pytest.mark.parametrize("limits", [Limits(moves_per_hour=1), Limits(per_workload=0), Limits(per_node=0)])
def test_a_chain_is_planned_as_a_whole_or_not_at_all(decide, app, limits):
    inputs = PlanningInputs(limits=limits, aggressiveness=1.0)
    made = decide(b.snapshot(*tight(app)), "NodeTaints", inputs=inputs)
    assert not made.moves
    assert [skipped.pod.name for skipped in made.skipped] == ["w-0"]


def test_a_protected_pod_does_not_step_aside(decide, app):
    inputs = PlanningInputs(protections=Protections(priority_threshold=5), unlimited=True)
    cluster = list(tight(app))
    cluster[-1] = app("o", ["n1"], lambda s: s.cpu("1").priority(7))
    assert not decide(b.snapshot(*cluster), "NodeTaints", inputs=inputs).moves


def test_a_move_that_follows_another_takes_no_place_of_its_own_among_the_moves_at_once(decide, app):
    inputs = PlanningInputs(limits=Limits(moves_at_once=1), aggressiveness=1.0)
    assert len(decide(b.snapshot(*tight(app)), "NodeTaints", inputs=inputs).moves) == 2


def test_what_a_chain_costs_is_what_all_of_its_moves_cost(decide, app):
    """One move of a single replica costs 0.15 at this level: gain 0.8 is enough for two moves only where 0.5 is the least."""
    for least, planned in ((0.45, 2), (0.6, 0)):
        inputs = PlanningInputs(limits=Limits(minimum_gain=least), aggressiveness=0.5)
        assert len(decide(b.snapshot(*tight(app)), "NodeTaints", inputs=inputs).moves) == planned


def badness(policies, snapshot):
    view = PolicyView.of(snapshot, SchedulingState(snapshot))
    return sum(policy.badness(view) for policy in policies)


@pytest.mark.parametrize("seed", seeds(0, 6, 2))
def test_plans_with_chains_on_tight_clusters(seed):
    """Stage by stage the scheduler's filters take every move; the badness falls; the same cluster gives the same plan."""
    cluster = random_cluster(Kind.TIGHT, seed)
    inputs = PlanningInputs(limits=Limits(minimum_gain=0.0), aggressiveness=1.0, unlimited=True)
    made = plan(cluster.snapshot, cluster.policies, inputs, SchedulingState(cluster.snapshot))
    again = plan(cluster.snapshot, cluster.policies, inputs, SchedulingState(cluster.snapshot))
    assert msgspec.json.encode(made) == msgspec.json.encode(again)
    stages = in_stages(made.moves)
    assert len(stages) > 1
    assert len({move.pod.uid for move in made.moves}) == len(made.moves), "no pod moves twice in one plan"
    for order in range(3):
        assert not replay(cluster.snapshot, stages, random.Random(order)).refused  # noqa: S311
    carried_out = replay(cluster.snapshot, stages)
    assert not carried_out.refused
    change = badness(cluster.policies, carried_out.snapshot) - badness(cluster.policies, cluster.snapshot)
    assert lowers(change)


def test_a_repair_goes_to_the_less_used_of_two_nodes_that_repair_as_much(decide, app):
    """Node c0 holds four small pods, so only a draft finds who goes to zone c; the others share the two nodes of zone b."""
    zone = "topology.kubernetes.io/zone"

    def spread(name, cpu):
        return app(name, ["a0"] * 3, lambda s: s.template_label(app=name).cpu(cpu).spread(zone, app=name))

    nodes = (("a0", "20"), ("b0", "5"), ("b1", "5"), ("c0", "1"))
    cluster = b.snapshot(
        *(b.node(name).zone(name[0]).cpu(cpu) for name, cpu in nodes),
        *(spread(f"big{i}", "800m") for i in range(3)),
        *(spread(f"small{i}", "250m") for i in range(4)),
    )
    made = decide(cluster, "TopologySpread", "LowNodeUtilization")
    repaired = {policy.name: policy.badness.hard for policy in made.after.policies}
    assert repaired["TopologySpread"] == 3
    held = {node.name: node.cpu_requested_milli for node in made.after.nodes}
    assert held["c0"] == 1000
    assert max(held["b0"], held["b1"]) <= 2500
