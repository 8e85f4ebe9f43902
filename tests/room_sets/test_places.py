"""Future idle, and the nodes that are chosen by it."""

import pytest

from harness.builders import node, object_of, pod
from rescheduler.model.cluster import ClusterState
from rescheduler.model.kinds import Kind
from rescheduler.model.names import MAXIMUM_RUNTIME
from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import ReservationWindow, WindowStatus
from rescheduler.room_sets.node_forecast import Seen, forecast
from rescheduler.room_sets.node_use import NodeUse
from rescheduler.room_sets.places import Place, chosen, hopeful
from rescheduler.room_sets.releases import declared_end_s
from rescheduler.room_sets.windows import recipe_of, running

NOW_S = 1_790_000_000.0
START_S = 1_790_035_200.0
"""The next 00:00 UTC."""
STARTED = "2026-09-21T13:00:00Z"


def window(**more):
    spec = {"cron": "0 0 * * *", "duration_s": 3600.0, "pods": 4, "start_reserve_ago_s": 43200.0, **more}
    spec.setdefault("resources", Resources(cpu_milli=8000))
    return ReservationWindow(name="w", uid="w", status=WindowStatus(), **spec)


def snapshot(*builders):
    state = ClusterState()
    for built in builders:
        state.apply(built[0], built[1].build())
    return state.snapshot(NOW_S)


def n(name, cpu="8", **more):
    made = node(name).cpu(cpu).memory("32Gi")
    for key, value in more.items():
        made = made.label(**{key: value})
    return Kind.NODE, made


def p(name, on, cpu="2", *, runs="", deadline=None):
    made = pod(name).on(on).cpu(cpu).set("status.startTime", STARTED).set("status.phase", "Running")
    made = made.set("metadata.creationTimestamp", STARTED)
    if runs:
        made = made.annotate(**{MAXIMUM_RUNTIME: runs})
    if deadline is not None:
        made = made.set("spec.activeDeadlineSeconds", deadline)
    return Kind.POD, made


def of(kind, built):
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": True}
    return built[0], built[1].set("metadata.ownerReferences", [owner])


def outlooks(found, window_):
    recipe = recipe_of(window_, running(window_, NOW_S)[0])
    seen = Seen(found, NodeUse.of(found), lambda _uid: (), NOW_S)
    return forecast(seen, window_, recipe.room)


def places(found, window_, rooms):
    return chosen({o.node: o.rooms for o in outlooks(found, window_)}, rooms)


def test_the_nodes_that_will_have_most_rooms_come_first_and_are_filled():
    assert chosen({"a": 1, "b": 4, "c": 3, "d": 4}, 9) == [Place("b", 4), Place("d", 4), Place("c", 1)]
    assert chosen({"a": 1, "b": 0}, 5) == [Place("a", 1)]
    found = snapshot(n("full", "64"), p("x", "full", "63"), n("half", "8"), p("y", "half", "4"))
    assert places(found, window(), 4) == [Place("half", 2)], "allocatable alone says nothing"


def test_what_ends_in_time_counts_as_idle_and_what_overran_does_not():
    found = snapshot(
        n("ends"), p("a", "ends", "8", runs="10h"),
        n("late"), p("b", "late", "8", runs="12h"),
        n("overran"), p("c", "overran", "8", runs="30m"),
        n("silent"), p("d", "silent", "8"),
    )  # fmt: skip
    assert places(found, window(), 8) == [Place("ends", 4)]


def test_a_room_needs_every_resource():
    found = snapshot(n("thin", "64"), n("round", "8"))
    sum_ = Resources(cpu_milli=8000, memory_bytes=4 * 16 * 2**30)
    assert places(found, window(resources=sum_), 4) == [Place("round", 2), Place("thin", 2)]


def test_only_nodes_that_let_the_pods_in_are_counted():
    found = snapshot(n("other"), n("mine", pool="night"), (Kind.NODE, node("shut").cpu("8").taint("k")))
    assert places(found, window(node_selector=(("pool", "night"),)), 4) == [Place("mine", 4)]
    assert {place.node for place in places(found, window(), 8)} == {"mine", "other"}


def test_rooms_that_are_ordered_count_before_they_have_a_placeholder():
    template = {
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "6"}}}]}
    }
    ordered = object_of(Kind.RESERVATION, "r", spec={"template": template, "owners": []})
    assert places(snapshot(n("n"), (Kind.RESERVATION, ordered)), window(), 4) == [Place("n", 1)]


@pytest.mark.parametrize(
    ("runs", "mine", "seconds"), [("2h", "", 7200), ("9h", "3h", 10_800), ("soon", "", None), ("", "", None)]
)
def test_a_pod_group_declares_for_its_pods(runs, mine, seconds):
    notes = {MAXIMUM_RUNTIME: runs} if runs else {}
    group = object_of(Kind.VOLCANO_POD_GROUP, "g", "default").set("metadata.annotations", notes)
    of_it = p("a", "n", runs=mine)[1].annotate(**{"scheduling.k8s.io/group-name": "g"})
    found = snapshot(n("n"), (Kind.VOLCANO_POD_GROUP, group), (Kind.POD, of_it), p("b", "n"))
    one, other = found.pods.values()
    assert declared_end_s(one, found) == (None if seconds is None else one.started_at_s + seconds)
    assert declared_end_s(other, found) is None
    idle = NodeUse.of(found).idle(found.nodes["n"], ("cpu",), by_s=START_S, now_s=NOW_S)
    assert idle.then["cpu"] == idle.now["cpu"] + (2000 if seconds else 0)


def test_where_not_enough_is_declared_the_likeliest_nodes_come_first():
    found = snapshot(
        n("half"), p("a", "half", "6", runs="10h"), p("b", "half", "1"), p("c", "half", "1"),
        n("silent"), p("d", "silent", "4"), p("e", "silent", "4"),
        n("less"), p("f", "less", "7"), of("DaemonSet", p("g", "less", "1")),
        n("later"), p("i", "later", "8", runs="20h"),
        n("web"), of("ReplicaSet", p("h", "web", "8")),
    )  # fmt: skip
    wide = window(resources=Resources(cpu_milli=32_000))
    assert places(found, wide, 4) == []
    assert hopeful(outlooks(found, wide)) == ["half", "silent", "later"], (
        "pods of a ReplicaSet do not end by themselves"
    )


def test_what_is_known_of_nodes_follows_each_change_of_a_pod():
    state = ClusterState()
    for built in (n("a"), n("b"), p("x", "a", "3", runs="10h")):
        state.apply(built[0], built[1].build())
    use = NodeUse.of(state.snapshot(NOW_S))
    for change in (
        p("y", "b", "2"),
        p("x", "b", "4"),
        (Kind.POD, p("y", "b", "2")[1].set("status.phase", "Succeeded")),
    ):
        state.apply(change[0], change[1].build())
        use.follow(state.snapshot(NOW_S))
        fresh, nodes = NodeUse.of(state.snapshot(NOW_S)), state.snapshot(NOW_S).nodes.values()
        assert [use.idle(node, ("cpu",), by_s=START_S, now_s=NOW_S) for node in nodes] == [
            fresh.idle(node, ("cpu",), by_s=START_S, now_s=NOW_S) for node in nodes
        ]


@pytest.mark.parametrize(
    ("runs", "deadline", "seconds"),
    [
        ("500s", None, 500), ("1h30m", 900, 900), ("", 60, 60), ("", None, None),
        ("soon", None, None), ("-5s", 70, 70), ("9" * 200, None, None),
    ],
)  # fmt: skip
def test_the_earliest_declared_end_counts(runs, deadline, seconds):
    found = snapshot(p("a", "n", runs=runs, deadline=deadline))
    (one,) = found.pods.values()
    end_s = declared_end_s(one, found)
    assert end_s == (None if seconds is None else one.started_at_s + seconds)
