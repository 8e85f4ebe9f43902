"""HighNodeUtilization: nodes are emptied as a whole or not at all."""

import dataclasses
from collections import Counter

import pytest

from harness import builders as b
from rescheduler.model.past_moves import PastMove
from rescheduler.model.records import ObjectKey
from rescheduler.planning.limits import Limits, PlanningInputs
from rescheduler.planning.plan import stages_of

CPU = {"thresholds": {"cpu": 30.0}, "target_thresholds": {"cpu": 90.0}}


def load(app, name, node, count, cpu="400m"):
    return app(name, [node] * count, lambda spec: spec.cpu(cpu))


def test_the_emptiest_node_is_emptied_onto_the_fullest(decide, app, landings):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3"),
        load(app, "a", "n1", 1), load(app, "b", "n2", 4), load(app, "c", "n3", 6),
    )  # fmt: skip
    plan = decide(cluster, ("HighNodeUtilization", CPU))
    assert landings(plan) == {"a-0": "n3"}
    assert plan.after.empty_nodes == 1


def test_all_or_nothing(decide, app):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"),
        load(app, "a", "n1", 2), load(app, "b", "n2", 8),
    )  # fmt: skip
    plan = decide(cluster, ("HighNodeUtilization", CPU))
    assert plan.moves == ()  # one would fit below 90 %, two do not
    assert Counter(s.reason for s in plan.skipped) == {"NoBetterTarget": 1, "GroupIncomplete": 1}


def test_a_protected_pod_keeps_its_node(decide, app):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), load(app, "a", "n1", 1), b.pod("bare").cpu("100m").on("n1"),
        load(app, "b", "n2", 4),
    )  # fmt: skip
    plan = decide(cluster, ("HighNodeUtilization", CPU))
    assert plan.moves == ()
    by_pod = {s.pod.name: (s.reason, s.blocked_by) for s in plan.skipped}
    assert by_pod == {"bare": ("Protected", "no controller"), "a-0": ("GroupIncomplete", "default/bare")}


def test_daemon_set_pods_do_not_count(decide, app, landings):
    agent = b.daemonset("agent").cpu("100m")
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), agent, agent.pod("agent-1").on("n1"), agent.pod("agent-2").on("n2"),
        load(app, "a", "n1", 1), load(app, "b", "n2", 4),
    )  # fmt: skip
    assert landings(decide(cluster, ("HighNodeUtilization", CPU))) == {"a-0": "n2"}


def test_nodes_to_be_emptied_are_not_filled(decide, app, landings):
    nodes = [b.node(f"n{i}") for i in range(1, 5)]
    pods = [load(app, f"a{i}", f"n{i}", 1) for i in range(1, 4)]
    cluster = b.snapshot(nodes, *pods, load(app, "b", "n4", 4))
    plan = decide(cluster, ("HighNodeUtilization", CPU))
    assert landings(plan) == {"a1-0": "n4", "a2-0": "n4", "a3-0": "n4"}
    assert plan.after.empty_nodes == 3


def test_where_all_nodes_are_low_they_are_packed(decide, app):
    nodes = [b.node(f"n{i}") for i in range(1, 5)]
    cluster = b.snapshot(nodes, *(load(app, f"a{i}", f"n{i}", 1) for i in range(1, 5)))
    plan = decide(cluster, ("HighNodeUtilization", CPU))
    assert plan.after.empty_nodes == 3
    assert len({m.target for m in plan.moves}) == 1


def test_a_pod_that_another_policy_moves_lands_on_a_node_that_stays(decide, app, landings):
    """kube-scheduler's points prefer the emptiest node, which the pod would have to leave again."""
    cluster = b.snapshot(
        b.node("n0").taint("old"), b.node("n1"), b.node("n2"),
        load(app, "moved", "n0", 1, "100m"), load(app, "low", "n1", 1), load(app, "full", "n2", 6),
    )  # fmt: skip
    plan = decide(cluster, "NodeTaints", ("HighNodeUtilization", CPU))
    assert landings(plan) == {"moved-0": "n2", "low-0": "n2"}


@pytest.mark.parametrize(("allowed", "stages"), [(1, [1, 2, 3, 4]), (2, [1, 1, 2, 2]), (4, [1, 1, 1, 1])])
def test_a_node_is_emptied_as_fast_as_a_budget_allows(decide, app, allowed, stages):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), load(app, "a", "n1", 4, "100m"), load(app, "b", "n2", 4),
        b.pdb("a").allows(allowed, healthy=5),
    )  # fmt: skip
    plan = decide(cluster, ("HighNodeUtilization", CPU))
    assert plan.after.empty_nodes == 1
    assert sorted(stages_of(plan.moves)) == stages


def test_two_nodes_with_a_budget_of_one_at_a_time_are_emptied(decide, app):
    cluster = b.snapshot(
        b.node("n1").cpu("10"), b.node("n2").cpu("10"), b.node("n3").cpu("10"),
        app("web", ["n1", "n1", "n2", "n2"], lambda spec: spec.cpu("450m")), load(app, "b", "n3", 9, "500m"),
        b.pdb("web").allows(1, healthy=4),
    )  # fmt: skip
    plan = decide(cluster, ("HighNodeUtilization", {}))
    assert plan.after.empty_nodes == 2
    assert stages_of(plan.moves) == [1, 2, 3, 4]


def test_a_budget_that_allows_nothing_keeps_the_whole_node(decide, app):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), load(app, "a", "n1", 2), load(app, "b", "n2", 4),
        b.pdb("a").allows(0, healthy=2),
    )  # fmt: skip
    plan = decide(cluster, ("HighNodeUtilization", CPU))
    assert plan.moves == ()
    assert Counter(s.reason for s in plan.skipped) == {"DisruptionBudget": 1, "GroupIncomplete": 1}


def test_a_budget_spreads_the_emptying_of_a_node_over_cycles(decide, app):
    inputs = PlanningInputs(limits=Limits(moves_at_once=9, per_node=9, per_workload=9))
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), load(app, "a", "n1", 3, "100m"), load(app, "b", "n2", 4),
        b.pdb("a").allows(1, healthy=3),
    )  # fmt: skip
    plan = decide(cluster, ("HighNodeUtilization", CPU), inputs=inputs)
    assert [(m.target, m.after) for m in plan.moves] == [("n2", ())]
    assert Counter(s.reason for s in plan.skipped) == {"DisruptionBudget": 1, "GroupIncomplete": 1}


def test_limits_spread_the_emptying_of_a_node_over_cycles(decide, app):
    inputs = PlanningInputs(limits=Limits(moves_at_once=9, per_node=2, per_workload=9))
    cluster = b.snapshot(
        b.node("n1"),
        b.node("n2"),
        load(app, "a", "n1", 3, "100m"),
        load(app, "b", "n2", 4),
        b.pdb("a").allows(3),
    )
    plan = decide(cluster, ("HighNodeUtilization", CPU), inputs=inputs)
    assert [m.target for m in plan.moves] == ["n2", "n2"]
    assert [str(s.reason) for s in plan.skipped] == ["LimitPerNode"]


def either_of_two(app, *places_of_a):
    """Only n3 takes their pods, and has room for those of n1 (a) or those of n2 (c)."""
    return b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3").label(disk="ssd"),
        app("a", places_of_a, lambda spec: spec.cpu("400m").requires_node("disk", "ssd")),
        app("c", ["n2"] * 3, lambda spec: spec.cpu("160m").requires_node("disk", "ssd")),
        load(app, "full", "n3", 9, "300m"),
    )  # fmt: skip


def test_what_is_left_of_a_node_keeps_the_room_that_it_needs(decide, app, landings):
    inputs = PlanningInputs(limits=Limits(moves_at_once=9, per_node=1))
    plan = decide(either_of_two(app, "n1", "n1"), ("HighNodeUtilization", CPU), inputs=inputs)
    assert landings(plan) == {"a-0": "n3"}
    assert Counter(s.reason for s in plan.skipped) == {"LimitPerNode": 1, "GroupIncomplete": 3}


def test_it_keeps_that_room_while_its_workload_rests(decide, app):
    cluster = either_of_two(app, "n1", "n3")
    owner = cluster.pods[ObjectKey("default", "a-0")].controller.uid
    left = PastMove(begun_s=cluster.taken_at_s - 20, evicting_s=cluster.taken_at_s - 15, workload_uid=owner)
    inputs = PlanningInputs(limits=Limits(moves_at_once=9))
    plan = decide(
        dataclasses.replace(cluster, past_moves={"a": left}), ("HighNodeUtilization", CPU), inputs=inputs
    )
    assert plan.moves == ()
    assert Counter(s.reason for s in plan.skipped) == {"WorkloadCooldown": 1, "GroupIncomplete": 3}
    assert len(decide(cluster, ("HighNodeUtilization", CPU), inputs=inputs).moves) == 1


def test_a_group_that_is_undone_gives_its_disruptions_back(decide, app, landings):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3"),
        app("web", ["n1", "n2"], lambda spec: spec.cpu("300m")), b.pdb("web").allows(1),
        b.pod("bare").cpu("100m").on("n1"), load(app, "c", "n2", 1, "200m"), load(app, "d", "n3", 4),
    )  # fmt: skip
    plan = decide(cluster, ("HighNodeUtilization", CPU))
    # web-0 is planned first and spends the disruption; then the bare pod keeps n1 from being emptied.
    assert landings(plan) == {"web-1": "n3", "c-0": "n3"}


def test_what_a_limit_cuts_off_a_group_gives_its_disruptions_back(decide, app, landings):
    agent = b.daemonset("agent").cpu("200m")
    inputs = PlanningInputs(limits=Limits(moves_at_once=9, per_node=1, per_workload=9))
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3"), agent, agent.pod("agent-2").on("n2"),
        app("web", ["n1", "n1", "n2"], lambda spec: spec.cpu("100m")), b.pdb("web").allows(2),
        load(app, "c", "n2", 2, "50m"), load(app, "d", "n3", 4),
    )  # fmt: skip
    plan = decide(cluster, ("HighNodeUtilization", CPU), inputs=inputs)
    # Both pods of n1 are planned before the limit is looked at, which leaves the second for later.
    assert landings(plan) == {"web-0": "n3", "web-2": "n3"}
