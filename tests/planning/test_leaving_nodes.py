"""No pod is sent to a node that cluster-autoscaler or Karpenter is about to delete, however empty it is."""

import pytest

from harness import builders as b
from rescheduler.model.names import LEAVING_TAINTS
from rescheduler.planning.single_pod import UNFIT, choose_room, choose_target
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState

EVEN = ("LowNodeUtilization", {"thresholds": {"cpu": 20.0}, "target_thresholds": {"cpu": 50.0}})


@pytest.fixture(params=sorted(LEAVING_TAINTS))
def leaving(request):
    """An empty node that an autoscaler is about to delete, as it marks it: new pods may still be bound there."""
    return b.node("leaving").taint(request.param, effect="PreferNoSchedule")


def record(cluster, name):
    return next(p for p in cluster.pods.values() if p.name == name)


def full(app):
    return app("web", ["n1"] * 6, lambda s: s.cpu("600m"))


def test_a_node_that_leaves_gets_nothing_by_balance(decide, app, landings, leaving):
    assert not decide(b.snapshot(b.node("n1"), leaving, full(app)), EVEN).moves
    with_another = decide(b.snapshot(b.node("n1"), leaving, b.node("n2"), full(app)), EVEN)
    assert set(landings(with_another).values()) == {"n2"}


def test_nor_by_a_violation_or_where_room_is_made_and_the_reason_says_so(decide, app, leaving):
    old = b.node("n1").taint("old")
    made = decide(b.snapshot(old, leaving, app("web", ["n1"])), "NodeTaints")
    assert not made.moves
    (skipped,) = made.skipped
    assert "1 node that would take it" in skipped.message
    assert "about to be deleted" in skipped.message
    tight = b.snapshot(
        old, leaving.cpu("4"), b.node("n3").cpu("2").label(x="y"),
        app("web", ["n1"], lambda s: s.cpu("2").node_selector({"x": "y"})), app("o", ["n3"], lambda s: s.cpu("1")),
    )  # fmt: skip
    assert not decide(tight, "NodeTaints").moves


def test_nor_for_a_person_who_names_no_node_but_a_room_may_stand_there(app, leaving):
    cluster = b.snapshot(b.node("n1"), leaving, app("web", ["n1"]))
    choice = choose_target(Replacements(cluster), SchedulingState(cluster), record(cluster, "web-0"))
    assert (choice.node, choice.message) == ("", UNFIT)
    waiting = b.snapshot(leaving, b.pod("waiting"))
    assert choose_room(SchedulingState(waiting), record(waiting, "waiting")).node == "leaving"


def test_a_node_that_leaves_is_emptied_as_before(decide, app, landings, leaving):
    cluster = b.snapshot(
        leaving, b.node("n2"), app("web", ["leaving"]), app("api", ["n2"], lambda s: s.cpu("2"))
    )
    made = decide(cluster, ("HighNodeUtilization", {"thresholds": {"cpu": 60.0}}))
    assert landings(made) == {"web-0": "n2"}


def test_that_one_of_several_alike_finds_no_node_does_not_count_for_those_that_may_go_to_its_node(
    decide, app, landings, leaving
):
    cluster = b.snapshot(b.node("n1"), leaving, app("web", ["n1", "leaving"], lambda s: s.cpu("500m")))
    made = decide(cluster, ("HighNodeUtilization", {"thresholds": {"cpu": 60.0}}))
    assert landings(made) == {"web-1": "n1"}
