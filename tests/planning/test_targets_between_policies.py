"""A pod that one policy moves does not land where another policy would at once want it moved again."""

from __future__ import annotations

import pytest

from rescheduler.testing import builders as b

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
