"""Which rooms may be given together, where pods must be even, keep apart or go together."""

import pytest

from harness import builders as b
from rescheduler.coordination.landing_order import Flight, landable, minds_others
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.scheduling.state import SchedulingState

NODES = [b.node(f"{zone}{i}").zone(zone).label({HOSTNAME: f"{zone}{i}"}) for zone in "abc" for i in (1, 2)]


def even(skew=1):
    constraint = {
        "maxSkew": skew,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return lambda name: web(name).set("spec.topologySpreadConstraints", [constraint])


def web(name):
    return b.pod(name).label(app="web").cpu("1")


def related(kind, key):
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    return lambda name: web(name).set(
        f"spec.affinity.{kind}", {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    )


def given(make, *rooms, on_their_way=(), landed=()):
    """The nodes of ``rooms`` that may be given."""
    snapshot = b.snapshot(NODES, [make(f"there-{i}").on(node) for i, node in enumerate(landed)])
    flights = [Flight(node, make(f"flight-{i}").build(), node) for i, node in enumerate(on_their_way)]
    asked = [Flight(node, make(f"new-{i}").build(), node) for i, node in enumerate(rooms)]
    return landable(SchedulingState(snapshot), snapshot.nodes, asked, flights)


@pytest.mark.parametrize(("landed", "on_their_way", "may"), [
    ((), (), {"a1", "b1", "c1"}),
    (("a1",), (), {"b1", "c1"}),
    (("a1",), ("b1",), {"c1"}),
    (("a1", "b1"), ("c1",), {"c1"}),
    (("a1", "b1", "c1"), (), {"a1", "b1", "c1"}),
    (("a1", "b1", "c1"), ("b2",), {"a1", "c1"}),
])  # fmt: skip
def test_one_in_each_zone_that_is_not_ahead_whoever_lands_first(landed, on_their_way, may):
    assert given(even(), "a1", "a2", "b1", "b2", "c1", "c2", landed=landed, on_their_way=on_their_way) == may


def test_a_larger_skew_lets_more_go_at_once():
    assert given(even(2), "a1", "a2", "b1", "b2", landed=("c1",)) == {"a1", "a2", "b1", "b2"}
    assert given(even(3), "a1", "a2", on_their_way=("a1", "a2")) == {"a1"}


def test_those_that_keep_apart_go_at_once_but_not_to_one_place():
    apart = related("podAntiAffinity", ZONE)
    assert given(apart, "a1", "a2", "b1", "c1", on_their_way=("c2",)) == {"a1", "b1"}
    assert given(apart, "a1", "b1", landed=("b2",)) == {"a1"}


def test_those_that_go_together_wait_for_the_first_only_elsewhere():
    together = related("podAffinity", ZONE)
    assert given(together, "a1", "a2") == {"a1", "a2"}
    assert given(together, "a1", "b1", on_their_way=("a2",)) == {"a1"}


def test_amounts_taints_and_cordons_are_no_business_of_this():
    full = [b.pod("big").cpu("4").on("a1")]
    shut = [node.cordoned() if node.build().name == "a1" else node for node in NODES]
    snapshot = b.snapshot(shut, full)
    room = Flight("r", even()("new").build(), "a1")
    assert landable(SchedulingState(snapshot), snapshot.nodes, [room], []) == {"r"}


def test_nobody_is_sent_to_a_node_that_is_gone():
    assert given(even(), "gone", "a1", on_their_way=("gone", "b1")) == {"a1"}


def test_who_minds_nobody_needs_no_order():
    assert not minds_others(web("w").build())
    assert minds_others(even()("w").build())
    assert minds_others(related("podAffinity", ZONE)("w").build())
    soft = even()("w").manifest()["spec"]["topologySpreadConstraints"][0] | {
        "whenUnsatisfiable": "ScheduleAnyway"
    }
    assert not minds_others(web("w").set("spec.topologySpreadConstraints", [soft]).build())
