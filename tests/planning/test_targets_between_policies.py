"""A pod that one policy moves does not land where another policy would at once want it moved again."""

import pytest

from harness import builders as b

LOW = ("LowNodeUtilization", {
    "thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 50.0},
})  # fmt: skip


@pytest.fixture
def cluster(app):
    """web-0 must leave n1; it prefers full (48 % used, 58 % with it) to free (nothing used)."""
    return b.snapshot(
        b.node("n1").taint("old"), b.node("full").cpu("4").label(disk="ssd"), b.node("free").cpu("4"),
        app("base", ["full"], lambda s: s.cpu("1920m")),
        app("web", ["n1"], lambda s: s.cpu("400m").prefers_node("disk", "ssd")),
    )  # fmt: skip


def test_the_scheduler_alone_would_prefer_the_fuller_node(cluster, decide, landings):
    assert landings(decide(cluster, "NodeTaints")) == {"web-0": "full"}


def test_a_node_that_would_shed_it_again_comes_last(cluster, decide, landings):
    assert landings(decide(cluster, "NodeTaints", LOW)) == {"web-0": "free"}


def test_where_nothing_else_takes_it_the_violation_is_repaired_all_the_same(app, decide, landings):
    alone = b.snapshot(
        b.node("n1").taint("old"), b.node("full").cpu("4"), b.node("free").cpu("4").taint("special"),
        app("base", ["full"], lambda s: s.cpu("1920m")),
        app("web", ["n1"], lambda s: s.cpu("400m")),
    )  # fmt: skip
    assert landings(decide(alone, "NodeTaints", LOW))["web-0"] == "full"


@pytest.mark.parametrize("swap", [False, True])
def test_tiers_decide_what_is_planned_first_not_the_list(app, decide, swap):
    """The GPU node is used little, and a pod that needs all of its GPUs waits until two others leave."""
    high = ("HighNodeUtilization", {"thresholds": {"cpu": 40.0}, "target_thresholds": {"cpu": 90.0}})
    gpu = {"example.com/gpu": "8"}
    cluster = b.snapshot(
        b.node("gpu").cpu("4").allocatable(gpu), b.node("n2").cpu("4"),
        app("web", ["gpu"] * 2, lambda s: s.cpu("600m")), app("base", ["n2"] * 4, lambda s: s.cpu("500m")),
        b.pod("training").cpu("3500m").requests(gpu).unschedulable(),
    )  # fmt: skip
    policies = ["PendingPods", high]
    plan = decide(cluster, *(reversed(policies) if swap else policies))
    assert [(room.pod.name, room.node) for room in plan.rooms] == [("training", "gpu")]
    assert {move.reason for move in plan.moves} == {"MakesRoom"}
