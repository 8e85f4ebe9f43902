"""What is told of a Reservation: its conditions that hold in every phase, and its Events. Pure.

A Reservation has ``Gated`` only once its keys found no place in the gate's store. While it is False, its room is held as ever, but a
new pod of its owners goes where the scheduler likes; once there is place, the condition is True. It has ``OwnersWait`` only once a
pending pod of its owners was seen that cannot use it. It holds its capacity all the same: another owner may fit.
"""

from __future__ import annotations

from typing import Final

from rescheduler.calls.call import Event
from rescheduler.model import names
from rescheduler.model.own_objects import (
    OWNERS_WAIT,
    Condition,
    condition,
    told,
    who_waits,
    with_fault,
    with_readable,
)
from rescheduler.model.reservation import Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.room_of_move import made_for
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.reservation_lifecycle import CONDITION_READY

CONDITION_GATED: Final = "Gated"
_GATE_FULL: Final = "GateFull"
_KEPT_OUT: Final = "OwnerKeptOut"


def reservation_event(reservation: Reservation, reason: str, message: str, *, warning: bool = True) -> Event:
    """An Event of the Reservation."""
    name, uid = reservation.name, reservation.uid
    return Event(names.API_VERSION, "Reservation", "", name, uid, reason, message, warning)


def is_told(reservation: Reservation, phase: ReservationPhase) -> bool:
    """False for the room of a move whose PodMigration tells the same."""
    return phase is ReservationPhase.FAILED or not made_for(reservation)


def phase_event(reservation: Reservation, status: ReservationStatus) -> Event:
    """That it enters the phase of ``status``. Reason and message are those of its condition Ready."""
    ready = condition(status.conditions, CONDITION_READY)
    reason = (ready.reason if ready else "") or status.phase
    message = (ready.message if ready else "") or f"the Reservation is {status.phase}"
    return reservation_event(reservation, reason, message, warning=status.phase is ReservationPhase.FAILED)


def standing_conditions(observed: ObservedReservation, now_s: float) -> tuple[Condition, ...]:
    """The conditions of a Reservation that can be read, with what holds in every phase: Gated and OwnersWait."""
    found = with_readable(observed.reservation.status.conditions, "", now_s)
    return _with_owners_wait(with_gated(found, observed.ungated, now_s), observed.owners_wait, now_s)


def standing_events(reservation: Reservation, status: ReservationStatus) -> tuple[Event, ...]:
    """The Events of what has come to hold: it is left out of the gate, a pod is kept out."""
    message, before = who_waits(status.conditions), who_waits(reservation.status.conditions)
    kept_out = (reservation_event(reservation, _KEPT_OUT, message),) if message not in ("", before) else ()
    return (*gate_events(reservation, status), *kept_out)


def with_gated(conditions: tuple[Condition, ...], ungated: str, now_s: float) -> tuple[Condition, ...]:
    """The conditions with why its pods are not held ("": they are); the same value if nothing changes."""
    mended = "KeysStored"
    return with_fault(conditions, CONDITION_GATED, ungated, reason=_GATE_FULL, mended=mended, now_s=now_s)


def gate_events(reservation: Reservation, status: ReservationStatus) -> tuple[Event, ...]:
    """The Event of one that is left out from now on."""
    before, now = (condition(s.conditions, CONDITION_GATED) for s in (reservation.status, status))
    if now is None or now.status == "True" or (before is not None and before.status == now.status):
        return ()
    return (reservation_event(reservation, _GATE_FULL, now.message),)


def _with_owners_wait(
    conditions: tuple[Condition, ...], kept_out: str, now_s: float
) -> tuple[Condition, ...]:
    """The conditions with the pod that cannot use it ("": there is none); the same value if nothing changes."""
    old = condition(conditions, OWNERS_WAIT)
    if kept_out:
        return told(conditions, Condition(OWNERS_WAIT, "True", _KEPT_OUT, kept_out), now_s)
    if old is None or old.status == "False":
        return conditions
    return told(conditions, Condition(OWNERS_WAIT, "False", "NoOwnerWaits"), now_s)
