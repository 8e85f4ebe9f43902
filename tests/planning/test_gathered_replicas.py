"""A plan says which workloads stand closer together after it, on one node or in one zone."""

from collections import defaultdict

import pytest

from bench import random_clusters
from bench.replay import replay
from harness import builders as b
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.plan import in_stages
from rescheduler.planning.planner import plan
from rescheduler.planning.summary import gathered
from rescheduler.policies.workload_spread import WorkloadSpread, WorkloadSpreadArgs
from rescheduler.scheduling.state import SchedulingState

ZONES = {f"n{i}": f"z{i}" for i in range(3)}
PACK = ("HighNodeUtilization", {"thresholds": {"cpu": 30.0}, "target_thresholds": {"cpu": 90.0}})


def nodes():
    return [b.node(name).zone(zone) for name, zone in ZONES.items()]


def full_in_z0(app):
    """So that the zone of n0 has pods when n0 is emptied."""
    return [b.node("n3").zone("z0"), *app("other", ["n3"], lambda s: s.cpu("3600m"))]


def test_replicas_that_come_together_are_told(decide, app):
    """n0 is emptied: one of three replicas joins another one, and so does its zone."""
    web = app("web", ["n0", "n1", "n2"], lambda s: s.cpu("800m"))
    base = app("base", ["n1", "n2"], lambda s: s.cpu("1"))
    plan = decide(b.snapshot(nodes(), web, base, full_in_z0(app)), PACK)
    (move,) = plan.moves
    assert plan.metadata.warnings == (
        f"1 workload has more replicas on one node after it than before, such as default/web: 2 of 3 on node/{move.target}",
        f"1 workload has more replicas in one zone after it than before, such as default/web: 2 of 3 in zone {ZONES[move.target]}",
    )


def test_nothing_is_told_where_replicas_stay_apart(decide, app):
    alone = app("alone", ["n0"], lambda s: s.cpu("800m"))
    base = app("base", ["n1", "n2"], lambda s: s.cpu("2"))
    plan = decide(b.snapshot(nodes(), alone, base, full_in_z0(app)), PACK)
    assert len(plan.moves) == 1
    assert plan.metadata.warnings == ()


@pytest.mark.parametrize(("replicas", "told"), [(5, 1), (7, 0)])
def test_half_of_the_replicas_together_are_told_and_a_smaller_part_is_not(app, replicas, told):
    web = app("web", ["n0", "n1", "n1", "n2", "n2", "n3", "n3"][:replicas])
    snapshot = b.snapshot([b.node(f"n{i}") for i in range(4)], web)
    first = next(pod for pod in snapshot.pods.values() if pod.node == "n0")
    assert len(list(gathered(snapshot, [(first, "n1")]))) == told


@pytest.mark.parametrize("policies", [(PACK,), (PACK, ("WorkloadSpread", {}))])
def test_replicas_that_move_anyway_are_kept_apart(decide, app, policies):
    """Four nodes are emptied, on each a replica of one of two workloads; two others have room for two pods each."""
    apps = [app(name, on, lambda s: s.cpu("1")) for name, on in (("a", ["n0", "n1"]), ("b", ["n2", "n3"]))]
    base = app("base", ["n4", "n5"], lambda s: s.cpu("1500m").priority(2_000_000_000))
    plan = decide(b.snapshot([b.node(f"n{i}") for i in range(6)], *apps, base), *policies)
    places = defaultdict(set)
    for move in plan.moves:
        places[move.controller.name].add(move.target)
    assert places == {"a": {"n4", "n5"}, "b": {"n4", "n5"}}
    assert plan.metadata.warnings == ()


def test_a_replica_goes_where_none_of_its_workload_is_if_there_is_room(decide, app):
    """Packed closely it would join the other replica on the fuller node."""
    web = app("web", ["n0", "n1"], lambda s: s.cpu("500m"))
    base = app("base", ["n1", "n1", "n2"], lambda s: s.cpu("1200m"))
    plan = decide(b.snapshot([b.node(f"n{i}") for i in range(3)], web, base), PACK)
    assert [(move.pod.name, move.target) for move in plan.moves] == [("web-0", "n2")]


def test_a_search_that_knows_what_may_be_together_leaves_nothing_to_the_next_plan(monkeypatch):
    """Nodes of one zone that a spread needs are not all chosen, to be refused and given up one by one."""
    monkeypatch.setattr(random_clusters, "ZONES", ("a", "b", "a"))
    cluster = random_clusters.random_cluster(random_clusters.Kind.CONSOLIDATION, 50006)
    policies = [*cluster.policies, WorkloadSpread(WorkloadSpreadArgs())]
    inputs = PlanningInputs(limits=Limits(minimum_gain=0.0), aggressiveness=1.0, unlimited=True)
    made = plan(cluster.snapshot, policies, inputs, SchedulingState(cluster.snapshot))
    done = replay(cluster.snapshot, in_stages(made.moves)).snapshot
    assert made.moves
    assert not plan(done, policies, inputs, SchedulingState(done)).moves


def test_a_zone_that_the_plan_leaves_without_pods_is_told(decide, app):
    alone = app("alone", ["n0"], lambda s: s.cpu("800m"))
    agent = b.pod("agent").owner("DaemonSet", "agent").on("n0")
    base = app("base", ["n1", "n2"], lambda s: s.cpu("2"))
    plan = decide(b.snapshot(nodes(), alone, agent, base), PACK)
    assert plan.metadata.warnings == (
        "no pods but those of DaemonSets are left in zone z0: an autoscaler may remove all nodes there",
    )


def test_of_equal_pods_those_leave_whose_replicas_stay_apart(decide, app):
    """Twelve equal workloads stand on four full nodes: no two replicas of one are needed to fill the empty node."""
    apps = [
        app(f"app{k:02}", [f"n{(k + j) % 4}" for j in range(3)], lambda s: s.cpu("600m")) for k in range(12)
    ]
    full = [b.node(f"n{i}").cpu("8").zone("abcd"[i]) for i in range(4)]
    plan = decide(
        b.snapshot(full, b.node("n4").cpu("8").zone("e"), *apps),
        ("LowNodeUtilization", {"target_thresholds": {"cpu": 50.0}}),
    )
    assert len(plan.moves) == 6
    assert len({move.controller for move in plan.moves}) == 6
    assert plan.metadata.warnings == ()


def test_of_equal_pods_one_leaves_that_shares_its_node_with_a_replica(decide, app):
    alone = app("alone", ["n0", "n1"], lambda s: s.cpu("1"))
    pair = app("pair", ["n0", "n0"], lambda s: s.cpu("1"))
    plan = decide(
        b.snapshot([b.node(f"n{i}").cpu("4") for i in range(3)], alone, pair),
        ("LowNodeUtilization", {"target_thresholds": {"cpu": 50.0}}),
    )
    assert [move.controller.name for move in plan.moves] == ["pair"]


def test_a_pod_that_relieves_its_node_stays_in_its_zone_where_another_may_leave_it(decide, app):
    """Each of two empty nodes takes one of two pods: the single pod goes to the other zone, although there is more room."""
    zones = {"n0": "z0", "n1": "z1", "n2": "z2", "n3": "z0", "n4": "z1"}
    single, stays = (app(name, ["n0"], lambda s: s.cpu("1500m")) for name in ("alone", "stays"))
    web = app("web", ["n0", "n1", "n2"], lambda s: s.cpu("1600m"))
    full = [b.node(name).cpu("5" if name == "n4" else "4").zone(zone) for name, zone in zones.items()]
    wishes = ("LowNodeUtilization", {"target_thresholds": {"cpu": 40.0}}), ("WorkloadSpread", {})
    plan = decide(b.snapshot(full, single, stays, web), *wishes)
    assert sorted((move.controller.name, zones[move.target]) for move in plan.moves) == [
        ("alone", "z1"),
        ("web", "z0"),
    ]
    assert plan.metadata.warnings == ()
