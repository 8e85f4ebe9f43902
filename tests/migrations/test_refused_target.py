"""What a move ends as whose room was not held in time: laid to its target only where the target is to blame."""

import msgspec
import pytest
from test_migration_machine import NOW, PHASE, look, migration, reservation

from rescheduler.model.own_objects import Condition
from rescheduler.model.reservation import ReservationPhase

LATE = NOW - 400.0
REFUSED = "0/3 nodes are available: 1 node(s) didn't match the extender's rules"


def pending(reason, message):
    found = reservation(ReservationPhase.PENDING)
    said = (Condition("Scheduled", "False", reason, message),)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=said))


@pytest.mark.parametrize(("reason", "message", "ends_as"), [
    ("Unschedulable", REFUSED, "TargetRefused"),
    ("Unschedulable", "the node refused the placeholder rescheduler/x", "TargetRefused"),
    ("Unschedulable", "422 Invalid: denied by a policy", "TargetRefused"),
    ("Unschedulable", "403 Forbidden: denied by a webhook", "TargetRefused"),
    ("Unschedulable", "403 Forbidden: exceeded quota: rooms", "Timeout"),
    ("Unschedulable", "403 Forbidden: no PriorityClass with name rescheduler-placeholder was found", "Timeout"),
    ("Unschedulable", '403 Forbidden: User "x" cannot create resource "pods"', "Timeout"),
    ("Unschedulable", "500 InternalError: failed calling webhook", "Timeout"),
    ("Unschedulable", "429 TooManyRequests: try later", "Timeout"),
    ("NotScheduled", "is that scheduler running?", "Timeout"),
    ("BeyondShare", "its namespace has used its quota", "Timeout"),
])  # fmt: skip
def test_how_a_move_ends_that_waited_for_its_room(reason, message, ends_as):
    waits = migration(PHASE.RESERVING, created_at_s=LATE)
    ended = look(waits, reservation=pending(reason, message))
    assert (ended.status.phase, ended.status.reason) == (PHASE.FAILED, ends_as)
    assert ended.status.node_name == "n2"


@pytest.mark.parametrize("fields", [{"paused": True}, {"reservation_ref": "r"}])
def test_a_move_that_is_paused_or_takes_a_room_of_others_blames_nobody(fields):
    waits = migration(PHASE.RESERVING, created_at_s=LATE, **fields)
    ended = look(waits, reservation=pending("Unschedulable", REFUSED))
    assert (ended.status.phase, ended.status.reason) == (PHASE.FAILED, "Timeout")


@pytest.mark.parametrize(("reason", "fields", "ends_as"), [
    ("PlaceholderLost", {}, "TargetRefused"),
    ("PlaceholderLost", {"reservation_ref": "r"}, "ReservationFailed"),
    ("PlaceholderChanged", {}, "ReservationFailed"),
])  # fmt: skip
def test_a_room_that_its_node_did_not_keep(reason, fields, ends_as):
    failed = reservation(ReservationPhase.FAILED)
    said = (Condition("Ready", "False", reason, "words"),)
    failed = msgspec.structs.replace(failed, status=msgspec.structs.replace(failed.status, conditions=said))
    ended = look(migration(PHASE.RESERVING, **fields), reservation=failed)
    assert (ended.status.phase, ended.status.reason) == (PHASE.FAILED, ends_as)


def test_what_the_api_server_says_of_the_placeholder_is_told_once():
    said = "422 Invalid: denied by a policy"
    waits = look(migration(PHASE.RESERVING), reservation=pending("Unschedulable", said), refused=said)
    assert waits.status.message == f"Reservation {reservation().name}: {said}"
    other = look(migration(PHASE.RESERVING), reservation=pending("Unschedulable", said), refused="403 Frozen")
    assert other.status.message.endswith(f"{said}; the API server refuses: 403 Frozen")
