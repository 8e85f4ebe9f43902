"""The life of a Reservation as one table: an event leads from some phases to the next one, and is refused in all others.

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
    """Where an event leads."""

    met_in: tuple[ReservationPhase, ...]
    """The phases in which it can happen."""
    phase: ReservationPhase | None
    """None: it stays in its phase."""
    reason: ReservationReason
    """That the Ready condition carries from then on."""


_P = ReservationPhase
_E = ReservationEvent
_R = ReservationReason
_NEW = (_P.PENDING,)
_HELD = (_P.WAITING, _P.AVAILABLE)
_LIVE = (*_NEW, *_HELD)

TRANSITIONS: Final[Mapping[ReservationEvent, Transition]] = {
    _E.INVALID: Transition(_NEW, _P.FAILED, _R.INVALID),
    _E.NOT_SUPPORTED: Transition(_NEW, _P.FAILED, _R.NOT_SUPPORTED),
    _E.UNSCHEDULABLE: Transition(_NEW, None, _R.UNSCHEDULABLE),
    _E.NOT_SCHEDULED: Transition(_NEW, None, _R.NOT_SCHEDULED),
    _E.BEYOND_QUOTA: Transition(_NEW, None, _R.BEYOND_QUOTA),
    _E.SCHEDULED: Transition(_NEW, _P.WAITING, _R.NODE_NOT_READY),
    _E.BECAME_AVAILABLE: Transition((_P.PENDING, _P.WAITING), _P.AVAILABLE, _R.AVAILABLE),
    _E.NODE_BAD: Transition(_HELD, _P.WAITING, _R.NODE_NOT_READY),
    _E.CLAIMED: Transition(_HELD, None, _R.CLAIMED),
    _E.CLAIM_DROPPED: Transition((_P.AVAILABLE,), None, _R.AVAILABLE),
    _E.PREALLOCATED: Transition(_LIVE, _P.WAITING, _R.WAITING_FOR_ROOM),
    _E.OWNERS_CHANGED: Transition(_HELD, _P.AVAILABLE, _R.AVAILABLE),
    _E.OWNER_BOUND: Transition(_HELD, _P.SUCCEEDED, _R.SUCCEEDED),
    _E.LANDED_ELSEWHERE: Transition(_HELD, _P.FAILED, _R.LANDED_ELSEWHERE),
    _E.CLAIMANT_LOST: Transition(_HELD, _P.FAILED, _R.CLAIMANT_LOST),
    _E.GATE_TIMEOUT: Transition((_P.AVAILABLE,), _P.FAILED, _R.GATE_TIMEOUT),
    _E.EXPIRED: Transition(_LIVE, _P.FAILED, _R.EXPIRED),
    _E.NODE_DELETED: Transition(_LIVE, _P.FAILED, _R.NODE_DELETED),
    _E.NODE_NOT_READY: Transition(_HELD, _P.FAILED, _R.NODE_NOT_READY),
    _E.PLACEHOLDER_LOST: Transition(_HELD, _P.FAILED, _R.PLACEHOLDER_LOST),
    _E.PLACEHOLDER_CHANGED: Transition(_LIVE, _P.FAILED, _R.PLACEHOLDER_CHANGED),
    _E.NODE_LOST: Transition(_HELD, _P.PENDING, _R.NODE_LOST),
    _E.HIGHER_PRIORITY_WAITS: Transition(_HELD, _P.FAILED, _R.HIGHER_PRIORITY_WAITS),
    _E.ABANDONED: Transition(_LIVE, _P.FAILED, _R.ABANDONED),
}


def transition(
    status: ReservationStatus, event: ReservationEvent, message: str, now_s: float
) -> ReservationStatus:
    """The status after ``event``; unchanged (the same value) if nothing in it changes.

    Raises:
        TransitionError: the table has no such step.
    """
    met_in, phase, reason = TRANSITIONS[event]
    if status.phase not in met_in:
        raise TransitionError(f"a Reservation that is {status.phase} cannot meet {event}")
    conditions, phase = status.conditions, phase or status.phase
    for new in _conditions(phase, event, reason, message):
        # A phase that is entered has a time of its own, also if the reason stays: what has ended is kept from then on.
        entered = phase is not status.phase and new.type == CONDITION_READY
        conditions = told(conditions, new, now_s, again=entered)
    return msgspec.structs.replace(status, phase=phase, conditions=conditions)


def partly_held(status: ReservationStatus, message: str, now_s: float) -> ReservationStatus:
    """The status with what a placeholder cannot hold for this template."""
    new = Condition(CONDITION_HELD, "False", "PartlyHeld", message)
    return msgspec.structs.replace(status, conditions=told(status.conditions, new, now_s))


def _conditions(
    phase: ReservationPhase, event: ReservationEvent, reason: ReservationReason, message: str
) -> tuple[Condition, ...]:
    ready = Condition(CONDITION_READY, "True" if phase is _P.AVAILABLE else "False", reason, message)
    if event in (_E.UNSCHEDULABLE, _E.NOT_SCHEDULED, _E.BEYOND_QUOTA):
        return (Condition(CONDITION_SCHEDULED, "False", reason, message),)
    if event in (_E.SCHEDULED, _E.BECAME_AVAILABLE, _E.PREALLOCATED):
        return (Condition(CONDITION_SCHEDULED, "True", _R.SCHEDULED), ready)
    if event is _E.NODE_LOST:
        return (Condition(CONDITION_SCHEDULED, "False", _R.UNSCHEDULABLE, message), ready)
    return (ready,)
