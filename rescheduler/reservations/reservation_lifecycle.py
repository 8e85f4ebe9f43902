"""The life of a Reservation as one table: phase and event give the next phase, or a refusal.

Promises: no other module sets ``status.phase``; what is not in the table is a programming error
(``TransitionError``); a finished Reservation stays as it is (koordinator #499: terminal is terminal).
Rows K31, K42-K50, K57, K70, K72.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from rescheduler.errors import TransitionError
from rescheduler.model import room_pod
from rescheduler.model.own_objects import Condition, told
from rescheduler.model.reservation import ReservationPhase, ReservationStatus


class ReservationEvent(enum.StrEnum):
    """What can happen to a Reservation, as seen in the cluster."""

    INVALID = "Invalid"
    NOT_SUPPORTED = "NotSupported"
    UNSCHEDULABLE = "Unschedulable"
    NOT_SCHEDULED = "NotScheduled"
    BEYOND_QUOTA = "BeyondShare"
    SCHEDULED = "Scheduled"
    BECAME_AVAILABLE = "BecameAvailable"
    NODE_BAD = "NodeBad"
    CLAIMED = "Claimed"
    CLAIM_DROPPED = "ClaimDropped"
    PREALLOCATED = "Preallocated"
    OWNERS_CHANGED = "OwnersChanged"
    OWNER_BOUND = "OwnerBound"
    LANDED_ELSEWHERE = "LandedElsewhere"
    CLAIMANT_LOST = "ClaimantLost"
    GATE_TIMEOUT = "GateTimeout"
    EXPIRED = "Expired"
    NODE_DELETED = "NodeDeleted"
    NODE_NOT_READY = "NodeNotReady"
    PLACEHOLDER_LOST = "PlaceholderLost"
    PLACEHOLDER_CHANGED = "PlaceholderChanged"
    NODE_LOST = "NodeLost"
    HIGHER_PRIORITY_WAITS = "HigherPriorityWaits"
    ABANDONED = "Abandoned"


class ReservationReason(enum.StrEnum):
    """Reasons of the conditions Scheduled and Ready (row K50 and what it lacks)."""

    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = room_pod.UNSCHEDULABLE
    NOT_SCHEDULED = "NotScheduled"
    """No scheduler has looked at the placeholder. Nobody steps aside for it: that would not help."""
    BEYOND_QUOTA = "BeyondShare"
    WAITING_FOR_ROOM = room_pod.WAITING_FOR_ROOM
    AVAILABLE = "Available"
    CLAIMED = "Claimed"
    SUCCEEDED = "Succeeded"
    EXPIRED = "Expired"
    INVALID = "Invalid"
    NOT_SUPPORTED = "NotSupported"
    NODE_DELETED = "NodeDeleted"
    NODE_NOT_READY = "NodeNotReady"
    PLACEHOLDER_LOST = "PlaceholderLost"
    PLACEHOLDER_CHANGED = "PlaceholderChanged"
    """What the API server has stored is not what was asked for: it holds less, or cannot be removed."""
    NODE_LOST = "NodeLost"
    HIGHER_PRIORITY_WAITS = "HigherPriorityWaits"
    LANDED_ELSEWHERE = "LandedElsewhere"
    CLAIMANT_LOST = "ClaimantLost"
    GATE_TIMEOUT = "GateTimeout"
    ABANDONED = "Abandoned"


CONDITION_SCHEDULED: Final = room_pod.SCHEDULED
CONDITION_READY: Final = room_pod.READY
CONDITION_HELD: Final = "HeldCompletely"

FINISHED: Final = frozenset({ReservationPhase.SUCCEEDED, ReservationPhase.FAILED})


class Transition(NamedTuple):
    """Where an event leads, and the reason that the Ready condition carries from then on."""

    phase: ReservationPhase
    reason: ReservationReason


_P = ReservationPhase
_E = ReservationEvent
_R = ReservationReason

TRANSITIONS: Final[Mapping[tuple[ReservationPhase, ReservationEvent], Transition]] = {
    (_P.PENDING, _E.INVALID): Transition(_P.FAILED, _R.INVALID),
    (_P.PENDING, _E.NOT_SUPPORTED): Transition(_P.FAILED, _R.NOT_SUPPORTED),
    (_P.PENDING, _E.UNSCHEDULABLE): Transition(_P.PENDING, _R.UNSCHEDULABLE),
    (_P.PENDING, _E.NOT_SCHEDULED): Transition(_P.PENDING, _R.NOT_SCHEDULED),
    (_P.PENDING, _E.BEYOND_QUOTA): Transition(_P.PENDING, _R.BEYOND_QUOTA),
    (_P.PENDING, _E.SCHEDULED): Transition(_P.WAITING, _R.NODE_NOT_READY),
    (_P.PENDING, _E.PREALLOCATED): Transition(_P.WAITING, _R.WAITING_FOR_ROOM),
    (_P.PENDING, _E.BECAME_AVAILABLE): Transition(_P.AVAILABLE, _R.AVAILABLE),
    (_P.PENDING, _E.NODE_DELETED): Transition(_P.FAILED, _R.NODE_DELETED),
    (_P.PENDING, _E.EXPIRED): Transition(_P.FAILED, _R.EXPIRED),
    (_P.PENDING, _E.PLACEHOLDER_CHANGED): Transition(_P.FAILED, _R.PLACEHOLDER_CHANGED),
    (_P.PENDING, _E.ABANDONED): Transition(_P.FAILED, _R.ABANDONED),
    (_P.WAITING, _E.PREALLOCATED): Transition(_P.WAITING, _R.WAITING_FOR_ROOM),
    (_P.WAITING, _E.NODE_BAD): Transition(_P.WAITING, _R.NODE_NOT_READY),
    (_P.WAITING, _E.CLAIMED): Transition(_P.WAITING, _R.CLAIMED),
    (_P.WAITING, _E.OWNERS_CHANGED): Transition(_P.AVAILABLE, _R.AVAILABLE),
    (_P.WAITING, _E.CLAIMANT_LOST): Transition(_P.FAILED, _R.CLAIMANT_LOST),
    (_P.WAITING, _E.BECAME_AVAILABLE): Transition(_P.AVAILABLE, _R.AVAILABLE),
    (_P.WAITING, _E.NODE_DELETED): Transition(_P.FAILED, _R.NODE_DELETED),
    (_P.WAITING, _E.NODE_NOT_READY): Transition(_P.FAILED, _R.NODE_NOT_READY),
    (_P.WAITING, _E.PLACEHOLDER_LOST): Transition(_P.FAILED, _R.PLACEHOLDER_LOST),
    (_P.WAITING, _E.HIGHER_PRIORITY_WAITS): Transition(_P.FAILED, _R.HIGHER_PRIORITY_WAITS),
    (_P.WAITING, _E.NODE_LOST): Transition(_P.PENDING, _R.NODE_LOST),
    (_P.WAITING, _E.EXPIRED): Transition(_P.FAILED, _R.EXPIRED),
    (_P.WAITING, _E.PLACEHOLDER_CHANGED): Transition(_P.FAILED, _R.PLACEHOLDER_CHANGED),
    (_P.WAITING, _E.ABANDONED): Transition(_P.FAILED, _R.ABANDONED),
    (_P.WAITING, _E.OWNER_BOUND): Transition(_P.SUCCEEDED, _R.SUCCEEDED),
    (_P.WAITING, _E.LANDED_ELSEWHERE): Transition(_P.FAILED, _R.LANDED_ELSEWHERE),
    (_P.AVAILABLE, _E.NODE_BAD): Transition(_P.WAITING, _R.NODE_NOT_READY),
    (_P.AVAILABLE, _E.CLAIMED): Transition(_P.AVAILABLE, _R.CLAIMED),
    (_P.AVAILABLE, _E.PREALLOCATED): Transition(_P.WAITING, _R.WAITING_FOR_ROOM),
    (_P.AVAILABLE, _E.OWNERS_CHANGED): Transition(_P.AVAILABLE, _R.AVAILABLE),
    (_P.AVAILABLE, _E.CLAIM_DROPPED): Transition(_P.AVAILABLE, _R.AVAILABLE),
    (_P.AVAILABLE, _E.OWNER_BOUND): Transition(_P.SUCCEEDED, _R.SUCCEEDED),
    (_P.AVAILABLE, _E.LANDED_ELSEWHERE): Transition(_P.FAILED, _R.LANDED_ELSEWHERE),
    (_P.AVAILABLE, _E.CLAIMANT_LOST): Transition(_P.FAILED, _R.CLAIMANT_LOST),
    (_P.AVAILABLE, _E.HIGHER_PRIORITY_WAITS): Transition(_P.FAILED, _R.HIGHER_PRIORITY_WAITS),
    (_P.AVAILABLE, _E.GATE_TIMEOUT): Transition(_P.FAILED, _R.GATE_TIMEOUT),
    (_P.AVAILABLE, _E.EXPIRED): Transition(_P.FAILED, _R.EXPIRED),
    (_P.AVAILABLE, _E.NODE_NOT_READY): Transition(_P.FAILED, _R.NODE_NOT_READY),
    (_P.AVAILABLE, _E.NODE_DELETED): Transition(_P.FAILED, _R.NODE_DELETED),
    (_P.AVAILABLE, _E.PLACEHOLDER_LOST): Transition(_P.FAILED, _R.PLACEHOLDER_LOST),
    (_P.AVAILABLE, _E.NODE_LOST): Transition(_P.PENDING, _R.NODE_LOST),
    (_P.AVAILABLE, _E.PLACEHOLDER_CHANGED): Transition(_P.FAILED, _R.PLACEHOLDER_CHANGED),
    (_P.AVAILABLE, _E.ABANDONED): Transition(_P.FAILED, _R.ABANDONED),
}


def transition(
    status: ReservationStatus, event: ReservationEvent, message: str, now_s: float
) -> ReservationStatus:
    """The status after ``event``; unchanged (the same value) if nothing in it changes.

    Raises:
        TransitionError: the table has no such step.
    """
    target = TRANSITIONS.get((status.phase, event))
    if target is None:
        raise TransitionError(f"a Reservation that is {status.phase} cannot meet {event}")
    conditions = status.conditions
    for new in _conditions(target, event, message):
        # A phase that is entered has a time of its own, also if the reason stays: what has ended is kept from then on.
        entered = target.phase is not status.phase and new.type == CONDITION_READY
        conditions = told(conditions, new, now_s, again=entered)
    return msgspec.structs.replace(status, phase=target.phase, conditions=conditions)


def partly_held(status: ReservationStatus, message: str, now_s: float) -> ReservationStatus:
    """The status with what a placeholder cannot hold for this template."""
    new = Condition(CONDITION_HELD, "False", "PartlyHeld", message)
    return msgspec.structs.replace(status, conditions=told(status.conditions, new, now_s))


def _conditions(target: Transition, event: ReservationEvent, message: str) -> tuple[Condition, ...]:
    ready = Condition(
        CONDITION_READY, "True" if target.phase is _P.AVAILABLE else "False", target.reason, message
    )
    if event in (_E.UNSCHEDULABLE, _E.NOT_SCHEDULED, _E.BEYOND_QUOTA):
        return (Condition(CONDITION_SCHEDULED, "False", target.reason, message),)
    if event in (_E.SCHEDULED, _E.BECAME_AVAILABLE, _E.PREALLOCATED):
        return (Condition(CONDITION_SCHEDULED, "True", _R.SCHEDULED), ready)
    if event is _E.NODE_LOST:
        return (Condition(CONDITION_SCHEDULED, "False", _R.UNSCHEDULABLE, message), ready)
    return (ready,)
