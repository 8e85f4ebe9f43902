"""Rooms that are given and held by nobody yet: no second one is sent there, and who lost a race does not wait for long."""

import msgspec
import pytest
from made_placeholders import made_placeholder
from test_rooms_by_the_rules import Taken, holder, room

from harness import builders as b
from rescheduler.controller.effects import Effect
from rescheduler.coordination.expectations import Touched
from rescheduler.coordination.memory import Memory
from rescheduler.coordination.placement import Placement
from rescheduler.model.kinds import Kind
from rescheduler.model.times import format_timestamp
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.placeholder import placeholder_name
from tests import one_round

TWO = [b.node("n1").cpu("1"), b.node("n2").cpu("1")]
FULL = "0/2 nodes are available: 1 Insufficient cpu"


def owner_of(call):
    """The Reservation that a placeholder is made for."""
    return msgspec.json.decode(call.body)["metadata"]["ownerReferences"][0]["name"]


class Writer:
    """Carries out nothing; what was created shows in no snapshot."""

    def __init__(self):
        self.calls = []

    def send(self, action):
        self.calls.append(action)
        if action.does == "create_placeholder":
            return Effect(touched=(Touched(kind=Kind.POD, key=action.key, version="9"),))
        return Effect()

    @property
    def targets(self):
        made = [a for a in self.calls if a.does == "create_placeholder"]
        return {owner_of(a): a.holds_on for a in made}

    @property
    def deleted(self):
        return [a.key.name for a in self.calls if a.does == "delete_placeholder"]


def reconciler():
    placement = Placement(namespace="rescheduler")
    return one_round.reconciler(Writer(), placement=placement, memory=Memory(templates=Taken()))


def pinned(reservation, node, refused=""):
    """Its placeholder, just made and not bound yet."""
    made = made_placeholder(reservation, node).created(format_timestamp(b.NOW_S))
    return made.unschedulable(refused) if refused else made


def test_a_room_that_was_written_and_is_not_in_the_cache_is_taken():
    work = reconciler()
    work.reconcile(b.snapshot(*TWO, room("b")), b.NOW_S)
    assert work.sender.targets == {"b": "n1"}
    work.reconcile(b.snapshot(*TWO, room("b"), room("a"), room("c")), b.NOW_S + 0.1)
    assert work.sender.targets == {"b": "n1", "a": "n2"}


def test_a_write_that_never_shows_is_not_counted_for_ever():
    work = reconciler()
    work.reconcile(b.snapshot(*TWO, room("b")), b.NOW_S)
    work.reconcile(b.snapshot(*TWO, room("a")), b.NOW_S + 0.1)
    assert work.sender.targets["a"] == "n1", "its Reservation is gone"
    work = reconciler()
    work.reconcile(b.snapshot(*TWO, room("b")), b.NOW_S)
    work.reconcile(b.snapshot(*TWO, room("a"), room("b")), b.NOW_S + 6)
    assert work.sender.targets == {"a": "n1", "b": "n2"}


@pytest.mark.parametrize("labels", [{}, {"app": "web"}])
def test_a_placeholder_that_the_scheduler_has_not_looked_at_is_counted_where_it_is_pinned(labels):
    work, first = reconciler(), room("b", labels=labels)
    work.reconcile(b.snapshot(*TWO, first, pinned(first, "n1"), room("a", labels=labels)), b.NOW_S)
    assert work.sender.targets == {"a": "n2"}


def test_one_that_the_scheduler_refused_holds_nothing():
    work, first = reconciler(), room("b", node="n1")
    work.reconcile(b.snapshot(*TWO, first, pinned(first, "n1", FULL), room("a")), b.NOW_S)
    assert work.sender.targets == {"a": "n1"}


def test_who_lost_a_race_moves_on_as_soon_as_our_own_rules_know_it():
    work, mine, other = reconciler(), room("a"), room("b")
    waiting = pinned(mine, "n1", FULL)
    work.reconcile(b.snapshot(*TWO, mine, waiting, other, holder(other, "n1")), b.NOW_S)
    assert work.sender.deleted == [placeholder_name(mine.build())]


def test_who_is_refused_for_a_reason_that_our_rules_do_not_know_waits_before_it_moves_on():
    """Else it would come back at once, and so for ever."""
    better = [b.node("n1").cpu("1"), b.node("n2").cpu("8")]
    work, mine = reconciler(), room("a")
    world = b.snapshot(*better, mine, pinned(mine, "n1", FULL))
    assert work.reconcile(world, b.NOW_S) == b.NOW_S + 30
    assert work.sender.deleted == []
    work.reconcile(world, b.NOW_S + 30)
    assert work.sender.deleted == [placeholder_name(mine.build())]


def test_who_finds_no_other_node_stays():
    work, mine, other = reconciler(), room("a"), room("b")
    waiting = pinned(mine, "n1", FULL)
    work.reconcile(b.snapshot(TWO[0], mine, waiting, other, holder(other, "n1")), b.NOW_S + 60)
    assert work.sender.deleted == []


def test_the_target_of_a_move_is_taken_before_its_reservation_is_there():
    web = b.replicaset("web").cpu("1").replicas(1)
    nodes = [b.node("n0").cpu("1"), *TWO]
    status = {"phase": "Reserving", "nodeName": "n1", "reservationName": "m-room"}
    spec = {"podRef": {"name": "web-0"}}
    move = b.object_of(Kind.POD_MIGRATION, "m", "default", spec=spec, status=status)
    snapshot = b.snapshot(*nodes, web, web.pod("web-0").on("n0"), move)
    placement = Placement(namespace="rescheduler")
    placement.begin(Replacements(snapshot))
    assert placement.for_reservation(room("a").build()).node == "n2"
    assert placement.for_reservation(room("b").build()).node == ""
    placement.begin(Replacements(b.snapshot(*nodes, web, web.pod("web-0").on("n0"))))
    assert placement.for_reservation(room("a").build()).node == "n1"
