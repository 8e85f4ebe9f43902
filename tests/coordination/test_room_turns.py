"""A round visits the Reservations that hold something, and a bounded number of the others; nobody waits for those of another."""

import msgspec
import pytest

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.memory import Memory
from rescheduler.coordination.round_objects import Chooser
from rescheduler.coordination.turns import AT_ONCE
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model import names
from rescheduler.model.migration import MigrationPhase, MigrationStatus
from rescheduler.model.records import ObjectKey, OwnerRef, PodSpec
from rescheduler.model.reservation import (
    ControllerRef,
    ObjectRef,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.limits import Limits
from rescheduler.reservations.reservation_machine import ReservationStep
from tests import records
from tests.records import pod_record

CROWD = 20 * AT_ONCE


def room(name, *, namespace="tenant", phase=ReservationPhase.PENDING, move="", owners=(), **fields):
    owner = ReservationOwner(controller=ControllerRef(namespace=namespace, kind="ReplicaSet", name="r"))
    marks = {names.ANNOTATION_MIGRATION: move, names.ANNOTATION_MIGRATION_UID: "m"} if move else {}
    named = {"uid": f"uid-{name}", "owners": (owner,), "annotations": marks, "current_owners": owners}
    return records.room(name, phase, **named, **fields)


def pod(name, controller=""):
    ref = OwnerRef("v1", "Reservation", controller, controller) if controller else None
    return pod_record(namespace="rescheduler", name=name, uid=name, spec=PodSpec(), controller=ref)


class Rounds:
    def __init__(self, *rooms, moves=(), pods=()):
        self.memory, self.under_way = Memory(), set()
        self.rooms = {r.name: r for r in rooms}
        self.moves, self.pods = {m.key: m for m in moves}, {p.key: p for p in pods}

    def next(self, now_s=0.0):
        snapshot = Snapshot(taken_at_s=now_s, reservations=self.rooms, migrations=self.moves, pods=self.pods)
        return Chooser(memory=self.memory, under_way=self.under_way).of(
            RoundIndex.of(snapshot),
            lambda _: False,
            migrations=MigrationSettings(),
            limits=Limits(),
            now_s=now_s,
        )

    def names(self, now_s=0.0):
        return set(self.next(now_s).index.view.reservations)


def crowd(count=CROWD, **fields):
    return [room(f"idle-{n}", **fields) for n in range(count)]


OWNER = ObjectRef("tenant", "p", "p")


@pytest.mark.parametrize("held", [
    room("held", phase=ReservationPhase.AVAILABLE),
    room("held", phase=ReservationPhase.WAITING),
    room("held", phase=ReservationPhase.FAILED, owners=(OWNER,)),
    room("held", phase=ReservationPhase.SUCCEEDED, owners=(OWNER,), move="tenant/live"),
    room("held", owners=(OWNER,)),
    room("held", deleting=True),
    room("held", move="tenant/m"),
], ids=["available", "waiting", "failed with a claimant", "read by its move", "claimed", "being deleted", "of a move"])  # fmt: skip
def test_what_holds_something_is_in_each_round(held):
    live = records.move("live", namespace="tenant", uid="m", pod_name="p")
    rounds = Rounds(*crowd(), held, moves=[live])
    for second in range(5):
        assert "held" in rounds.names(float(second))


def wrote(rounds, name, owner):
    status = ReservationStatus(current_owners=(owner,))
    rounds.memory.expectations.statuses[ObjectKey("", name)] = (status,)


@pytest.mark.parametrize("count", [1, CROWD])
def test_what_has_ended_well_is_in_no_round_until_it_is_to_be_deleted(count):
    rounds = Rounds(*crowd(count, phase=ReservationPhase.SUCCEEDED, owners=(OWNER,)))
    wrote(rounds, "idle-0", OWNER)  # what this process wrote last
    for second in range(count // AT_ONCE + 1):
        for name in rounds.names(float(second)):
            ended = rounds.rooms[name]
            rounds.memory.rooms.stepped(ended, ReservationStep(status=ended.status, wake_at_s=900.0), 0.0)
    assert not rounds.names(899.0)
    assert rounds.next(899.0).wake_at_s[0] == 900.0
    assert rounds.names(900.0)


def test_what_a_pod_or_a_write_holds_is_in_each_round():
    rounds = Rounds(*crowd(), *map(room, ("pod", "sent", "chosen", "claimed")), pods=[pod("p", "uid-pod")])
    rounds.under_way.add(ObjectKey("", "sent"))
    rounds.memory.expectations.nodes[ObjectKey("", "chosen")] = "n1"
    wrote(rounds, "claimed", ObjectRef("default", "p", "p"))
    for second in range(5):
        assert {"pod", "sent", "chosen", "claimed"} <= rounds.names(float(second))


@pytest.mark.parametrize("fields", [
    {},
    {"phase": ReservationPhase.FAILED},
    {"phase": ReservationPhase.AVAILABLE, "status_unreadable": True},
], ids=["that wait", "that ended", "that cannot be read"])  # fmt: skip
def test_of_a_crowd_only_some_are_in_a_round_and_each_has_its_turn(fields):
    rounds, seen = Rounds(*crowd(**fields)), set()
    for second in range(CROWD // AT_ONCE):
        now = rounds.names(float(second))
        assert len(now) == AT_ONCE
        seen |= now
    assert len(seen) == CROWD
    assert rounds.next(99.0).wake_at_s[0] is not None


def test_nobody_waits_for_the_crowd_of_another_namespace():
    rounds = Rounds(*crowd(), room("mine", namespace="shop"))
    for second in range(5):
        assert "mine" in rounds.names(float(second))


def test_a_step_that_crashes_goes_behind_the_others():
    rounds = Rounds(*crowd(AT_ONCE + 1))
    first = rounds.names(0.0)
    for name in first:
        rounds.memory.crashed(ObjectKey("", name), "no", 0.0)
    assert rounds.names(0.1) == set(rounds.rooms) - first


def test_both_sides_of_a_link_are_in_view():
    ended = records.move("m", MigrationPhase.FAILED, namespace="tenant", pod_name="p")
    taken = msgspec.structs.replace(
        ended,
        name="into",
        reservation_ref="people",
        status=MigrationStatus(phase=MigrationPhase.FAILED, reservation_uid="uid-people"),
    )
    rounds = Rounds(
        room("own", move="tenant/m"), room("people", phase=ReservationPhase.AVAILABLE), moves=[ended, taken]
    )
    assert set(rounds.next().index.view.migrations) >= {ended.key, taken.key}


def test_a_move_that_nobody_can_read_counts_and_takes_a_step_in_its_turn_only():
    blind = [
        records.move(f"blind-{number}", MigrationPhase.EVICTING, namespace="tenant", status_unreadable=True)
        for number in range(CROWD)
    ]
    found = Rounds(moves=blind).next()
    assert len(found.index.view.migrations) == CROWD
    assert len(found.moves) == AT_ONCE
