"""LowNodeUtilization: which pods leave overloaded nodes, where they land, and when it stops."""

import dataclasses
from collections import Counter

import pytest

from harness import builders as b
from harness.rest.clusters import random_cluster as rest_cluster
from harness.rest.cycles import moved
from rescheduler.model import names
from rescheduler.model.measured import NodeUsage
from rescheduler.planning.limits import PlanningInputs
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.low_node_utilization import LowNodeUtilization, LowNodeUtilizationArgs
from rescheduler.policies.objective import Tier
from rescheduler.scheduling.state import SchedulingState


def with_usage(cluster, *, age_s=30.0, **milli):
    measured_at_s = cluster.taken_at_s - age_s
    usage = {name: NodeUsage(name, cpu, 0, measured_at_s) for name, cpu in milli.items()}
    return dataclasses.replace(cluster, usage=usage)


CPU = {"thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 50.0}}


def crowd(app, node, count, cpu="400m", name="web"):
    return app(name, [node] * count, lambda spec: spec.cpu(cpu))


def test_just_the_excess_leaves_and_spreads_over_the_free_nodes(decide, app, landings):
    cluster = b.snapshot(b.node("n1"), b.node("n2"), b.node("n3"), crowd(app, "n1", 9))
    plan = decide(cluster, ("LowNodeUtilization", CPU))
    # 9 x 10 % = 90 %; four pods leave, so that exactly 50 % stay.
    assert Counter(landings(plan).values()) == {"n2": 2, "n3": 2}
    assert plan.skipped == ()
    after = {n.name: n.cpu_requested_milli for n in plan.after.nodes}
    assert after == {"n1": 2000, "n2": 800, "n3": 800}


def test_target_is_not_filled_above_its_threshold(decide, app):
    cluster = b.snapshot(b.node("n1"), b.node("n2").cpu("1"), crowd(app, "n1", 9))
    plan = decide(cluster, ("LowNodeUtilization", CPU))
    assert len(plan.moves) == 1  # one pod is 40 % of the small node, two would be 80 %
    assert {s.reason for s in plan.skipped} == {"NoBetterTarget"}
    (message,) = {s.message for s in plan.skipped}
    assert message == "no other node would be better for LowNodeUtilization than node/n1"


def test_the_fullest_node_is_relieved_first_and_every_move_pays(decide, app):
    """n1 at 94 %, three others at 57 %, small pods everywhere: what moves takes 2 points of a node at least."""
    nodes = [b.node(f"n{i}").cpu("10").memory("40Gi") for i in range(1, 7)]
    cluster = b.snapshot(
        nodes, crowd(app, "n1", 9, "1"), crowd(app, "n1", 4, "100m", "small"),
        *(crowd(app, n, 5, "1", f"big-{n}") for n in ("n2", "n3", "n4")),
        *(crowd(app, n, 7, "100m", f"tiny-{n}") for n in ("n2", "n3", "n4")),
    )  # fmt: skip
    plan = decide(cluster, ("LowNodeUtilization", CPU))
    after = {n.name: n.cpu_requested_milli for n in plan.after.nodes}
    assert [move.source for move in plan.moves][:4] == ["n1"] * 4
    assert after["n1"] <= 5400
    assert all(not move.pod.name.startswith(("small", "tiny")) for move in plan.moves)


def test_without_thresholds_nodes_below_the_mean_receive(decide, app):
    """No node is nearly empty: n1 is at 95 %, n2 at 85 %, the others at 40 and 55 %."""
    nodes = [b.node(f"n{i}").cpu("10").memory("100Gi") for i in range(1, 5)]
    counts = {"n1": 19, "n2": 17, "n3": 8, "n4": 11}
    cluster = b.snapshot(nodes, *(crowd(app, n, count, "500m", f"on-{n}") for n, count in counts.items()))
    plan = decide(cluster, ("LowNodeUtilization", {"target_thresholds": {"cpu": 60.0}}))
    after = {n.name: n.cpu_requested_milli for n in plan.after.nodes}
    assert after["n1"] + after["n2"] == 15500, "all room below the targets is used"
    assert {move.target for move in plan.moves} <= {"n3", "n4"}
    assert max(after["n3"], after["n4"]) <= 6000


def test_a_node_that_the_plan_relieves_receives_in_the_same_plan(decide, app):
    """Else a second plan would find the move: n1 is above its target before, and below the mean by what the first move leaves."""
    cluster = b.snapshot(
        b.node("n1").cpu("10"), b.node("n2").cpu("10"), b.node("n3").cpu("10"),
        app("kept", ["n1"], lambda spec: spec.cpu("5")), app("large", ["n1"], lambda spec: spec.cpu("3")),
        app("small", ["n2"] * 8, lambda spec: spec.cpu("800m")), app("low", ["n3"], lambda spec: spec.cpu("2800m")),
    )  # fmt: skip
    args = {"target_thresholds": {"cpu": 60.0}}
    inputs = PlanningInputs(aggressiveness=1.0, unlimited=True)
    plan = decide(cluster, ("LowNodeUtilization", args), inputs=inputs)
    assert [(m.pod.name[:5], m.source, m.target) for m in plan.moves] == [
        ("large", "n1", "n3"),
        ("small", "n2", "n1"),
    ]
    assert decide(moved(cluster, plan), ("LowNodeUtilization", args), inputs=inputs).moves == ()


def test_where_all_nodes_are_full_it_is_said(decide, app):
    cluster = b.snapshot([b.node("n1"), b.node("n2")], crowd(app, "n1", 9), crowd(app, "n2", 8, name="other"))
    (warning,) = decide(
        cluster, ("LowNodeUtilization", {"target_thresholds": {"cpu": 50.0}})
    ).metadata.warnings
    assert warning.endswith(
        "no node is below the mean and its targets in all resources to take their pods: raise targetThresholds, or add nodes"
    )


def test_too_much_memory_is_worse_than_too_much_cpu(decide, app):
    both = {"thresholds": {"cpu": 20.0, "memory": 20.0}, "target_thresholds": {"cpu": 50.0, "memory": 50.0}}
    cluster = b.snapshot(
        *(b.node(f"n{i}").cpu("10").memory("100Gi") for i in (1, 2, 3)),
        app("busy", ["n1"] * 7, lambda spec: spec.cpu("1").memory("1Gi")),
        app("large", ["n2"] * 7, lambda spec: spec.cpu("100m").memory("10Gi")),
    )
    assert next(iter(decide(cluster, ("LowNodeUtilization", both)).moves)).source == "n2"


def test_it_is_said_that_pods_are_too_small(decide, app):
    cluster = b.snapshot(
        b.node("n1").cpu("40"), b.node("n2"), app("a", ["n1"] * 105, lambda s: s.cpu("200m"))
    )
    plan = decide(cluster, ("LowNodeUtilization", CPU))
    assert plan.moves == ()
    (warning,) = plan.metadata.warnings
    assert warning.startswith(
        "LowNodeUtilization moves nothing: 1 node is above targetThresholds, but no pod"
    )
    assert warning.endswith("relieves its node by minimumRelief (2 percent of a node): lower it")


def test_it_is_said_that_pods_are_too_large(decide, app):
    nodes = [b.node("n1"), b.node("n2"), b.node("n3")]
    agents = [app(f"agent-{i}", [f"n{i}"], lambda s: s.cpu("1800m").memory("1Mi")) for i in (2, 3)]
    plan = decide(
        b.snapshot(nodes, app("web", ["n1"] * 7, lambda s: s.cpu("500m").memory("1Mi")), *agents),
        ("LowNodeUtilization", {"target_thresholds": {"cpu": 50.0}}),
    )
    assert plan.moves == ()
    (warning,) = plan.metadata.warnings
    assert warning.endswith(
        "1 node is above targetThresholds, but each pod there would lift any under-utilised node above them: raise them, or add nodes"
    )


def test_targets_of_a_resource_are_compared_with_that_resource(decide, app):
    """n2 would be at 70 % of its memory, of 90 % that it may have, and n1 is at 60 % of its CPU: that is better all the same."""
    apart = {"thresholds": {"cpu": 20.0, "memory": 75.0}, "target_thresholds": {"cpu": 50.0, "memory": 90.0}}
    cluster = b.snapshot(
        *(b.node(f"n{i}").cpu("10").memory("10Gi") for i in (1, 2)),
        app("web", ["n1"] * 6, lambda spec: spec.cpu("1").memory("1Mi")),
        app("cache", ["n2"], lambda spec: spec.cpu("100m").memory("7Gi")),
    )
    assert len(decide(cluster, ("LowNodeUtilization", apart)).moves) == 1


def test_nodes_between_the_thresholds_neither_shed_nor_receive(decide, app):
    cluster = b.snapshot(b.node("n1"), b.node("n2"), crowd(app, "n1", 9), crowd(app, "n2", 3, name="other"))
    plan = decide(cluster, ("LowNodeUtilization", CPU))
    assert plan.moves == ()


def test_cordoned_and_unready_nodes_receive_nothing(decide, app):
    cluster = b.snapshot(b.node("n1"), b.node("n2").cordoned(), b.node("n3").not_ready(), crowd(app, "n1", 9))
    assert decide(cluster, ("LowNodeUtilization", CPU)).moves == ()


def test_one_pod_that_covers_the_excess_is_preferred_to_many(decide, app, landings):
    cluster = b.snapshot(
        b.node("n1"),
        b.node("n2"),
        crowd(app, "n1", 8, "200m", name="small"),
        crowd(app, "n1", 1, "1200m", name="large"),
    )
    assert landings(decide(cluster, ("LowNodeUtilization", CPU))) == {"large-0": "n2"}


def test_extended_resources_and_pods_count(decide, app, landings):
    arguments = {"thresholds": {"example.com/gpu": 30.0}, "target_thresholds": {"example.com/gpu": 60.0}}
    node = {"example.com/gpu": "4"}
    cluster = b.snapshot(
        b.node("n1").allocatable(node),
        b.node("n2").allocatable(node),
        app("train", ["n1"] * 3, lambda spec: spec.requests({"example.com/gpu": "1"})),
        app("web", ["n1"]),
    )
    moved = landings(decide(cluster, ("LowNodeUtilization", arguments)))
    assert list(moved.values()) == ["n2"]
    assert "web-0" not in moved  # it takes nothing of what is scarce


def test_measured_usage_instead_of_requests(decide, app, landings):
    objects = [b.node("n1"), b.node("n2"), crowd(app, "n1", 2), crowd(app, "n2", 2, name="other")]
    cluster = with_usage(b.snapshot(*objects), n1=3600, n2=100)
    assert decide(cluster, ("LowNodeUtilization", CPU)).moves == ()
    moved = landings(decide(cluster, ("LowNodeUtilization", {**CPU, "usage": "actual"})))
    # Each pod of n1 uses 45 % of a node: one goes, and n2 is then just below 50 %.
    assert list(moved.values()) == ["n2"]


ACTUAL = ("LowNodeUtilization", {**CPU, "usage": "actual"})


def test_node_that_nobody_measured_is_no_target(decide, app):
    cluster = with_usage(b.snapshot(b.node("n1"), b.node("n2"), crowd(app, "n1", 2)), n1=3600)
    plan = decide(cluster, ACTUAL)
    assert plan.moves == ()
    warning, shared, _ = plan.metadata.warnings  # and that no node is left to take pods
    assert "no pod is measured" in shared
    assert "leaves out 1 of 2 nodes (n2; never measured)" in warning
    assert "metrics-server" in warning


def overfull(app):
    """By requests four pods of n1 are to go."""
    return b.snapshot(b.node("n1"), b.node("n2"), b.node("n3"), crowd(app, "n1", 9))


def test_where_nothing_is_measured_nothing_is_proposed(decide, app):
    """An outage of metrics-server starts no moves: requests do not take the place of a usage that is not known."""
    assert len(decide(overfull(app), ("LowNodeUtilization", CPU)).moves) == 4
    plan = decide(overfull(app), ACTUAL)
    assert plan.moves == () == plan.skipped
    (warning,) = plan.metadata.warnings
    assert "leaves out 3 of 3 nodes (n1, n2, n3; never measured) and proposes nothing" in warning
    assert decide(overfull(app), ("LowNodeUtilization", CPU)).metadata.warnings == ()


@pytest.mark.parametrize(("age_s", "moves"), [(-30.0, 4), (0.0, 4), (180.0, 4), (181.0, 0)])
def test_a_measurement_that_is_old_is_none(decide, app, age_s, moves):
    cluster = with_usage(overfull(app), age_s=age_s, n1=3600, n2=0, n3=0)
    plan = decide(cluster, ACTUAL)
    assert len(plan.moves) == moves
    (said,) = plan.metadata.warnings
    assert ("no pod is measured" if moves else "last measured at 2027-01-15T07:56:59Z") in said


def test_a_measurement_without_a_time_is_none(decide, app):
    cluster = dataclasses.replace(
        overfull(app),
        usage={name: NodeUsage(name, cpu, 0) for name, cpu in (("n1", 3600), ("n2", 0), ("n3", 0))},
    )
    plan = decide(cluster, ACTUAL)
    assert plan.moves == ()
    assert "never measured" in plan.metadata.warnings[0]


def test_an_overfull_node_without_a_measurement_gives_nothing(decide, app):
    assert decide(with_usage(overfull(app), n2=0, n3=0), ACTUAL).moves == ()


def test_nodes_without_a_measurement_are_in_no_mean(decide, app):
    """The mean of n1 and n2 is 50 %; with eight empty nodes that are not measured it would be 10 %, and n2 too full."""
    relative = {
        "thresholds": {"cpu": 10.0},
        "target_thresholds": {"cpu": 10.0},
        "use_deviation_thresholds": True,
    }
    nodes = [b.node(f"n{i}") for i in range(1, 11)]
    cluster = b.snapshot(nodes, crowd(app, "n1", 9), crowd(app, "n2", 1, name="other"))
    plan = decide(
        with_usage(cluster, n1=3600, n2=400), ("LowNodeUtilization", {**relative, "usage": "actual"})
    )
    assert plan.moves
    assert {(m.source, m.target) for m in plan.moves} == {("n1", "n2")}


def test_resources_that_are_not_measured_go_by_requests(decide, app):
    pods = {
        "thresholds": {"pods": 4.0},
        "target_thresholds": {"pods": 5.0},
        "usage": "actual",
        "minimum_relief": 0,
    }
    plan = decide(overfull(app), ("LowNodeUtilization", pods))
    assert plan.before.policies[0].badly_placed == 4
    assert plan.metadata.warnings == ()


def test_of_a_pod_from_a_node_without_a_measurement_the_requests_are_counted(app):
    cluster = with_usage(overfull(app), n2=1800, n3=0)
    state = SchedulingState(cluster)
    policy = LowNodeUtilization(LowNodeUtilizationArgs(**CPU, usage="actual"))
    pod = next(iter(cluster.pods.values()))
    change = policy.change(pod, pod, PolicyView.of(cluster, state))[Tier.BALANCE]
    # 400m of 4 CPUs more: n2 would be at 55 %, n3 at 10 %.
    assert dict(zip(state.node_names, change.tolist(), strict=True)) == {"n1": 0, "n2": 60_000, "n3": 0}


def test_what_is_protected_is_reported_where_nothing_else_could_go(decide, app):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), app("data", ["n1"] * 8, lambda spec: spec.cpu("400m").empty_dir())
    )
    plan = decide(cluster, ("LowNodeUtilization", CPU))
    assert {s.blocked_by for s in plan.skipped} == {"protections.localStorage"}


def test_no_free_node_no_move(decide, app):
    cluster = b.snapshot(b.node("n1"), crowd(app, "n1", 9))
    plan = decide(cluster, ("LowNodeUtilization", CPU))
    assert (plan.moves, plan.skipped) == ((), ())


@pytest.mark.parametrize(("arguments", "where"), [
    ({"thresholds": {"cpu": 60.0}, "target_thresholds": {"cpu": 50.0}}, ("thresholds", "cpu")),
    ({"thresholds": {"cpu": 20.0}, "target_thresholds": {"memory": 50.0}}, ("targetThresholds",)),
    ({"thresholds": {"cpu": -1.0}, "target_thresholds": {"cpu": 50.0}}, ("thresholds", "cpu")),
    ({"thresholds": {}, "target_thresholds": {}}, ("thresholds",)),
])  # fmt: skip
def test_wrong_arguments_are_named(arguments, where):
    assert where in [path for path, _ in LowNodeUtilizationArgs(**arguments).problems()]


def room(node, cpu, name="room"):
    """An empty placeholder."""
    holder = b.pod(name, names.DEFAULT_NAMESPACE).cpu(cpu).on(node).label({names.LABEL_PLACEHOLDER: name})
    return holder.owner("Reservation", name, api_version=names.API_VERSION).priority(
        -1000, names.PRIORITY_CLASS
    )


@pytest.mark.parametrize(
    "how", [CPU, {**CPU, "use_deviation_thresholds": True}], ids=["fixed", "above the mean"]
)
def test_an_empty_room_makes_no_node_overloaded(decide, app, how):
    cluster = b.snapshot(
        b.node("n1"), b.node("n2"), b.node("n3"), crowd(app, "n1", 4), crowd(app, "n3", 2, name="o"),
        room("n1", "2"),
    )  # fmt: skip
    plan = decide(cluster, ("LowNodeUtilization", how))
    assert plan.moves == ()
    assert not plan.skipped, "a node at 40 % is not too full"


def test_the_load_that_pods_are_stays_the_load_beside_a_room(decide, app, landings):
    cluster = b.snapshot(b.node("n1"), b.node("n2"), crowd(app, "n1", 7), room("n1", "1"))
    # 70 % are pods and 25 % a room: two pods are enough.
    assert list(landings(decide(cluster, ("LowNodeUtilization", CPU))).values()) == ["n2", "n2"]


def test_what_a_room_holds_is_taken_on_a_target(decide, app):
    cluster = b.snapshot(b.node("n1"), b.node("n2"), crowd(app, "n1", 9), room("n2", "1"))
    assert decide(cluster, ("LowNodeUtilization", CPU)).moves == (), "n2 is at 25 %, above the threshold"


def test_a_room_is_no_load_by_measurement_either(decide, app, landings):
    objects = (b.node("n1"), b.node("n2"), crowd(app, "n1", 4), room("n1", "2"), room("n2", "1"))
    cluster = with_usage(b.snapshot(*objects), n1=1900, n2=0)
    assert decide(cluster, ACTUAL).moves == ()
    full = with_usage(b.snapshot(*objects[:-1]), n1=2800, n2=0)
    # 70 % are used by four pods, 17.5 % by each: two of them have to go, and the room beside them takes none of it.
    assert list(landings(decide(full, ACTUAL)).values()) == ["n2", "n2"]


@pytest.mark.crossed
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("deviation", [False, True])
def test_however_many_rooms_there_are_what_is_too_full_stays_the_same(seed, deviation):
    cluster = rest_cluster(seed)
    policy = LowNodeUtilization(LowNodeUtilizationArgs(use_deviation_thresholds=deviation))
    bare = policy.badness(PolicyView.of(cluster, SchedulingState(cluster)))
    state = SchedulingState(cluster)
    for number, node in enumerate(state.node_names):
        (holder,) = b.snapshot(room(node, "700m", f"room-{number}")).pods.values()
        state.place(holder, node)
    assert (policy.badness(PolicyView.of(cluster, state)) == bare).all()


def test_who_only_says_it_holds_room_is_load(decide, app):
    """Anybody may write the label; the PriorityClass is for placeholders alone."""
    false = app("x", ["n1"] * 4, lambda spec: spec.cpu("400m").label({names.LABEL_PLACEHOLDER: "x"}))
    cluster = b.snapshot(b.node("n1"), b.node("n2"), crowd(app, "n1", 4), false)
    assert decide(cluster, ("LowNodeUtilization", CPU)).moves


@pytest.mark.parametrize(("arguments", "free_cpu", "expected"), [
    ({}, "1600m", "1 node is above targetThresholds, but no node is at or below thresholds"),
    ({"number_of_nodes": 2}, "400m", "but only 1 of the 2 needed is at or below thresholds"),
    ({}, "400m", ""),
    ({"target_thresholds": {"cpu": 95.0}}, "1600m", ""),
], ids=["no node is free", "too few are", "one is", "none is too full"])  # fmt: skip
def test_why_nothing_is_moved_off_nodes_that_are_too_full(decide, app, arguments, free_cpu, expected):
    full = crowd(app, "n1", 9)
    cluster = b.snapshot(b.node("n1"), b.node("n2"), full, crowd(app, "n2", 1, free_cpu, "other"))
    plan = decide(cluster, ("LowNodeUtilization", {**CPU, **arguments}))
    if expected:
        (warning,) = plan.metadata.warnings
        assert (expected in warning, plan.moves) == (True, ()), warning
    else:
        assert plan.metadata.warnings == ()


def busy(app, *cpus_milli):
    """Nodes of 10 CPUs, each with pods of 500m up to so much."""
    nodes = [b.node(f"n{i}").cpu("10") for i in range(len(cpus_milli))]
    pods = [
        app(f"app{i}-{k}", [f"n{i}"], lambda s: s.cpu("500m"))
        for i, milli in enumerate(cpus_milli)
        for k in range(milli // 500)
    ]
    return b.snapshot(nodes, *pods)


def test_without_targets_the_fullest_nodes_of_a_busy_cluster_are_relieved(decide, app):
    """All nodes together hold 70 percent: relief ends at 80."""
    plan = decide(busy(app, 9500, 6500, 6500, 5500), ("LowNodeUtilization", {}))
    assert [move.source for move in plan.moves] == ["n0"] * 3
    assert "cpu 95% of 80%" in plan.moves[0].message
    assert plan.metadata.warnings[1:] == ()


def test_without_targets_they_are_half_of_a_node_where_less_is_held(decide, app):
    plan = decide(busy(app, 6500, 1000, 1000), ("LowNodeUtilization", {}))
    assert [move.source for move in plan.moves] == ["n0"] * 3
    assert "cpu 65% of 50%" in plan.moves[0].message


def test_targets_that_are_given_stay_in_a_busy_cluster(decide, app):
    plan = decide(
        busy(app, 9500, 6500, 6500, 5500), ("LowNodeUtilization", {"target_thresholds": {"cpu": 50.0}})
    )
    assert plan.moves == ()
