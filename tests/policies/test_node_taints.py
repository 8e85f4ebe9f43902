"""NodeTaints: which pods leave tainted nodes, and where to."""

import pytest

from harness import builders as b
from rescheduler.policies.node_taints import NodeTaintsArgs


def test_pod_without_toleration_lands_on_the_untainted_node(decide, app, landings):
    cluster = b.snapshot(
        b.node("n1").taint("gpu", "true"), b.node("n2").taint("gpu", "true"), b.node("n3"), app("web", ["n1"])
    )
    assert landings(decide(cluster, "NodeTaints")) == {"web-0": "n3"}


def test_what_a_node_is_compared_with_is_never_the_node_itself(decide, app):
    alone = b.snapshot(b.node("n1").taint("gpu"), app("web", ["n1"]))
    (skipped,) = decide(alone, "NodeTaints").skipped
    assert skipped.message == "no other node would be better for NodeTaints than node/n1"
    alike = b.snapshot(b.node("n1").taint("gpu"), b.node("n2").taint("gpu"), app("web", ["n1"]))
    (skipped,) = decide(alike, "NodeTaints").skipped
    assert skipped.message == "no other node would be better for NodeTaints than node/n1"


def test_no_execute_weighs_more_than_no_schedule(decide, app):
    cluster = b.snapshot(
        b.node("n1").taint("a"),
        b.node("n2").taint("b", effect="NoExecute"),
        b.node("n3"),
        app("one", ["n1"]),
        app("two", ["n2"]),
    )
    plan = decide(cluster, "NodeTaints")
    assert [(m.pod.name, m.reason, m.gain) for m in plan.moves] == [
        ("two-0", "UntoleratedNoExecute", 0.96),
        ("one-0", "UntoleratedNoSchedule", 0.8),
    ]


def test_cordoned_node_is_left_to_its_drain_unless_named(decide, app, landings):
    cluster = b.snapshot(b.node("n1").cordoned(), b.node("n2"), app("web", ["n1"]))
    assert decide(cluster, "NodeTaints").moves == ()
    named = ("NodeTaints", {"included_taints": ("node.kubernetes.io/unschedulable",)})
    assert landings(decide(cluster, named)) == {"web-0": "n2"}


def test_taints_cannot_be_both_included_and_excluded():
    args = NodeTaintsArgs(included_taints=("a",), excluded_taints=("b",))
    assert [where for where, _ in args.problems()] == [("includedTaints",)]


def test_daemon_set_pod_is_never_wanted(decide):
    owner = b.daemonset("agent")
    cluster = b.snapshot(b.node("n1").taint("gpu"), b.node("n2"), owner, owner.pod("agent-1").on("n1"))
    plan = decide(cluster, "NodeTaints")
    assert (plan.moves, plan.skipped) == ((), ())


def test_pod_without_controller_is_reported_as_protected(decide):
    cluster = b.snapshot(b.node("n1").taint("gpu"), b.node("n2"), b.pod("bare").on("n1"))
    (skipped,) = decide(cluster, "NodeTaints").skipped
    assert (skipped.reason, skipped.blocked_by) == ("Protected", "no controller")


@pytest.mark.parametrize(("threshold", "moved"), [(None, {"low-0", "high-0"}), (1000, {"low-0"}), (0, set())])
def test_pods_from_a_priority_on_are_not_proposed(app, decide, landings, threshold, moved):
    high = app("high", ["n1"], lambda s: s.priority(1000))
    cluster = b.snapshot(b.node("n1").taint("old"), b.node("n2"), app("low", ["n1"]), high)
    plan = decide(cluster, ("NodeTaints", {"priority_threshold": threshold}))
    assert set(landings(plan)) == moved
    assert plan.before.policies[0].badly_placed == len(moved)
