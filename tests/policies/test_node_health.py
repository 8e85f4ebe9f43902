"""NodeHealth: which nodes are left, after which time, that they are no targets, and what stops it when the fault is everywhere."""

import dataclasses

import pytest

from harness import builders as b
from rescheduler.model.node_marks import NOTHING_SEEN
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.single_pod import choose_target
from rescheduler.policies.registry import REGISTRY
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState

HOUR_AGO, MINUTE_AGO = "2027-01-15T07:00:00Z", "2027-01-15T07:59:00Z"


def ill(name, since=HOUR_AGO, kind="KernelDeadlock", status="True"):
    return b.node(name).condition("Ready").condition(kind, status, since)


def well(*names):
    return [b.node(name).condition("KernelDeadlock", "False", HOUR_AGO) for name in names]


def seen(cluster: Snapshot, name, **fields):
    marks = NOTHING_SEEN
    for before, after, at_s in fields["changes"]:
        marks = marks.after(before, after, at_s)
    return dataclasses.replace(cluster, node_marks_since={name: marks})


def flapped(cluster, name, *times_s):
    up = cluster.nodes[name]
    down = b.snapshot(b.node(name).not_ready()).nodes[name]
    changes = [(up, down, at_s) for at_s in times_s]
    return seen(cluster, name, changes=changes)


def test_pods_leave_a_node_with_a_lasting_fault_for_a_healthy_one(app, decide, landings):
    fresh = ill("n2", MINUTE_AGO)
    plan = decide(b.snapshot(ill("n1"), fresh, *well("n3", "n4"), app("web", ["n1", "n1"])), "NodeHealth")
    assert landings(plan) == {"web-0": "n3", "web-1": "n4"}
    assert {m.reason for m in plan.moves} == {"UnhealthyNode"}
    assert plan.moves[0].message == "node/n1 has the condition KernelDeadlock=True"


def test_a_fault_that_has_not_lasted_moves_nothing(app, decide):
    cluster = b.snapshot(ill("n1", MINUTE_AGO), *well("n2", "n3"), app("web", ["n1"]))
    assert not decide(cluster, "NodeHealth").moves
    assert decide(cluster, ("NodeHealth", {"after_s": 30.0})).moves


def test_a_time_in_the_future_counts_from_when_the_controller_saw_it(app, decide):
    cluster = b.snapshot(ill("n1", "2030-01-01T00:00:00Z"), *well("n2", "n3"), app("web", ["n1"]))
    node = cluster.nodes["n1"]
    just_now = seen(cluster, "n1", changes=[(None, node, b.NOW_S - 60.0)])
    assert not decide(just_now, "NodeHealth").moves
    long_ago = seen(cluster, "n1", changes=[(None, node, b.NOW_S - 700.0)])
    assert decide(long_ago, "NodeHealth").moves


def test_no_other_policy_moves_pods_to_an_unhealthy_node(app, decide, landings):
    tainted = b.node("n1").taint("old")
    nodes = tainted, ill("n2", MINUTE_AGO), b.node("n3").cpu("1")
    cluster = b.snapshot(*nodes, app("web", ["n1"], lambda s: s.cpu("2")))
    assert landings(decide(cluster, "NodeTaints")) == {"web-0": "n2"}
    assert not decide(cluster, "NodeTaints", "NodeHealth").moves


def test_without_it_the_repair_of_a_rule_takes_an_unhealthy_node_last(app, decide, landings):
    nodes = b.node("n1").taint("old"), ill("n2", MINUTE_AGO), b.node("n3")
    cluster = b.snapshot(*nodes, app("web", ["n1"]), app("other", ["n3"], lambda s: s.cpu("3")))
    assert landings(decide(cluster, "NodeTaints")) == {"web-0": "n3"}


def test_without_it_nodes_are_not_relieved_emptied_or_tidied_up_at_the_cost_of_unhealthy_ones(app, decide):
    nodes = b.node("n1"), ill("n2", MINUTE_AGO)
    full = b.snapshot(*nodes, app("web", ["n1"] * 7, lambda s: s.cpu("500m")))
    assert not decide(full, "LowNodeUtilization").moves
    low = b.snapshot(*nodes, app("web", ["n1"]), app("other", ["n2"], lambda s: s.cpu("2")))
    assert not decide(low, "HighNodeUtilization").moves
    in_pieces = b.snapshot(*nodes, app("web", ["n1"], lambda s: s.cpu("500m")), app("other", ["n2"]))
    assert not decide(in_pieces, "Defragmentation").moves


def test_moves_that_people_ask_for_take_a_faulty_node_last(app):
    cluster = b.snapshot(
        b.node("n0"), ill("n1", MINUTE_AGO), b.node("n2").cpu("2"), app("web", ["n0"], lambda s: s.cpu("1"))
    )
    chosen = choose_target(Replacements(cluster), SchedulingState(cluster), next(iter(cluster.pods.values())))
    assert chosen.node == "n2"


@pytest.mark.parametrize(
    ("ago_s", "moves"), [((60, 600, 1800), True), ((600, 1800), False), ((60, 600, 7200), False)]
)
def test_a_node_whose_ready_comes_and_goes_is_left(app, decide, ago_s, moves):
    cluster = b.snapshot(*well("n1", "n2", "n3"), app("web", ["n1"]))
    plan = decide(flapped(cluster, "n1", *(b.NOW_S - ago for ago in reversed(ago_s))), "NodeHealth")
    assert bool(plan.moves) is moves
    if moves:
        assert plan.moves[0].message == "node/n1 stopped being Ready 3 times within 1h0m0s"


def test_where_most_nodes_of_a_zone_are_unhealthy_nothing_leaves_them(app, decide):
    a = [ill("a1").zone("a"), ill("a2").zone("a"), b.node("a3").zone("a")]
    c = [ill("c1").zone("c"), *(b.node(f"c{i}").zone("c") for i in range(2, 8))]
    plan = decide(b.snapshot(*a, *c, app("web", ["a1", "c1"])), "NodeHealth")
    assert [m.pod.name for m in plan.moves] == ["web-1"]
    words = "NodeHealth: 2 of 3 nodes of zone a are unhealthy or not Ready; no pod leaves them, for the fault may be elsewhere"
    assert words in plan.metadata.warnings


def test_where_most_nodes_of_the_cluster_are_unhealthy_nothing_moves(app, decide):
    nodes = [ill("n1"), b.node("n2").not_ready(), b.node("n3").not_ready(), b.node("n4")]
    plan = decide(b.snapshot(*nodes, app("web", ["n1"])), "NodeHealth")
    assert not plan.moves
    assert any("3 of 4 nodes are unhealthy or not Ready" in words for words in plan.metadata.warnings)


def test_a_status_can_be_named(app, decide):
    cluster = b.snapshot(ill("n1", kind="GpuHealthy", status="False"), *well("n2", "n3"), app("web", ["n1"]))
    assert not decide(cluster, "NodeHealth").moves
    assert decide(cluster, ("NodeHealth", {"conditions": ("GpuHealthy=False",)})).moves
    assert not decide(cluster, ("NodeHealth", {"conditions": ("GpuHealthy",)})).moves


@pytest.mark.parametrize(("args", "path", "words"), [
    ({"conditions": ("Ready",)}, ("conditions", 0), "use flaps"),
    ({"conditions": ("KernelDeadlock=true",)}, ("conditions", 0), "TYPE=STATUS"),
    ({"conditions": ("=True",)}, ("conditions", 0), "TYPE=STATUS"),
    ({"conditions": (), "flaps": 0}, ("conditions",), "no node could be unhealthy"),
])  # fmt: skip
def test_wrong_arguments_are_refused(args, path, words):
    found = dict(REGISTRY["NodeHealth"].args(**args).problems())
    assert words in found[path]


def test_a_condition_that_no_node_has_is_told():
    cluster = b.snapshot(*well("n1"))
    nodes = SchedulingState(cluster).cluster.nodes
    args = REGISTRY["NodeHealth"].args
    assert not list(args().unknown_to(nodes))
    assert list(args(conditions=("GpuSick",)).unknown_to(nodes)) == [
        (("conditions", 0), "no node has a condition 'GpuSick'")
    ]
