"""Moves into a Reservation that people made, and Reservations that are not for the move: nothing is evicted for them."""

import msgspec
import pytest
import test_migration_machine as machine
from test_migration_machine import NOW, PHASE, SETTINGS, migration

from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model import names
from rescheduler.model.migration import MoveMode
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import ReservationPhase
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet
from rescheduler.replacements.replacement import Replacement
from tests import records

POD = msgspec.structs.replace(machine.pod(), spec=PodSpec(requests=Resources(cpu_milli=1_000)))
STRANGERS = "Reservation r was not made for this move by the controller"


def move(phase=PHASE.PENDING, *, ref="r", **fields):
    return migration(phase, reservation_ref=ref, target_node="", **fields)


def room(cpu_milli=1_000, **fields):
    template = PodSpec(requests=Resources(cpu_milli=cpu_milli))
    named = {"resource_version": "9", "node_name": "n2"}
    return records.room("r", ReservationPhase.AVAILABLE, template=template, **named, **fields)


def look(migration, settings=SETTINGS, **fields):
    return machine.look(migration, settings=settings, pod=POD, replacement=Replacement(pod=POD), **fields)


def sent(outcome):
    return {action.does for action in outcome.calls}


def test_a_move_takes_the_very_room_that_it_names():
    outcome = look(move(), reservation=room())
    assert outcome.status.phase is PHASE.RESERVING
    assert outcome.status.reservation_uid == "r"
    assert "create_reservation" not in sent(outcome)


@pytest.mark.parametrize(("fields", "words"), [
    ({"reservation": room(10)}, "too small"),
    ({"reservation": room(), "owner_of_reservation": False}, "not for pods of this controller"),
    ({"reservation": room(annotations=LabelSet({names.ANNOTATION_MODE: "Soft"}))}, "is of mode Soft"),
    ({"reservation": room(allocate_once=False)}, "for several pods"),
    ({"reservation_refused": "Reservation r was made for move bank/x"}, "was made for move bank/x"),
], ids=["too small", "other owners", "soft", "several pods", "of another move"])  # fmt: skip
def test_an_unfit_room_ends_the_move_before_anything_is_disturbed(fields, words):
    outcome = look(move(), **fields)
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, "ReservationUnfit")
    assert words in outcome.status.message
    assert not sent(outcome) & {"evict", "create_reservation", "delete_reservation"}


def test_a_soft_move_may_go_into_a_soft_room():
    soft = room(annotations=LabelSet({names.ANNOTATION_MODE: "Soft"}))
    outcome = look(move(mode=MoveMode.SOFT), MigrationSettings(mode=MoveMode.SOFT), reservation=soft)
    assert outcome.status.phase is PHASE.RESERVING


@pytest.mark.parametrize("phase", [PHASE.PENDING, PHASE.RESERVING, PHASE.EVICTING])
def test_a_name_that_a_stranger_took_is_never_used_and_never_deleted(phase):
    migration, actions = move(phase, ref=""), set()
    for _ in range(3):
        outcome = look(migration, reservation_refused=STRANGERS, room_held=False)
        actions |= sent(outcome)
        migration = msgspec.structs.replace(migration, status=outcome.status)
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, "ReservationUnfit")
    assert STRANGERS in outcome.status.message
    assert not actions & {"evict", "create_reservation", "delete_reservation"}


@pytest.mark.parametrize("requested", [0.0, NOW - 1])
def test_of_two_moves_into_one_room_the_later_one_ends_and_leaves_the_room_alone(requested):
    later = move(
        PHASE.EVICTING,
        reservation_name="",
        node_name="",
        reservation_uid="r",
        eviction_requested_at_s=requested,
    )
    outcome = look(later, reservation=room(), another="move shop/first into the same Reservation")
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.FAILED, "AnotherMove")
    assert outcome.status.message == "move shop/first into the same Reservation goes first"
    assert not sent(outcome) & {"evict", "delete_reservation"}


def test_a_move_that_has_not_begun_waits_for_the_one_in_the_room():
    outcome = look(move(), reservation=room(), another="move shop/first into the same Reservation")
    assert (outcome.status.phase, outcome.status.reason) == (PHASE.PENDING, "AnotherMove")
