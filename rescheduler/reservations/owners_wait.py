"""The condition ``OwnersWait`` of a Reservation: which pending pod of its owners cannot use it, and why. Pure.

A Reservation has it only once such a pod was seen. It holds its capacity all the same: another owner may fit.
"""

from __future__ import annotations

from typing import Final

from rescheduler.calls.call import Event
from rescheduler.model import names
from rescheduler.model.conditions import Condition, condition, told
from rescheduler.model.readability import with_readable
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.reservations.gate_condition import gate_events, with_gated
from rescheduler.reservations.observed import ObservedReservation

CONDITION_OWNERS_WAIT: Final = "OwnersWait"
REASON_KEPT_OUT: Final = "OwnerKeptOut"
REASON_NONE_WAITS: Final = "NoOwnerWaits"


def with_owners_wait(conditions: tuple[Condition, ...], kept_out: str, now_s: float) -> tuple[Condition, ...]:
    """The conditions with the pod that cannot use it ("": there is none); the same value if nothing changes."""
    old = condition(conditions, CONDITION_OWNERS_WAIT)
    if kept_out:
        return told(conditions, Condition(CONDITION_OWNERS_WAIT, "True", REASON_KEPT_OUT, kept_out), now_s)
    if old is None or old.status == "False":
        return conditions
    return told(conditions, Condition(CONDITION_OWNERS_WAIT, "False", REASON_NONE_WAITS), now_s)


def standing_conditions(observed: ObservedReservation, now_s: float) -> tuple[Condition, ...]:
    """The conditions of a Reservation that can be read, with what holds in every phase: Gated and OwnersWait."""
    found = with_readable(observed.reservation.status.conditions, "", now_s)
    return with_owners_wait(with_gated(found, observed.ungated, now_s), observed.owners_wait, now_s)


def standing_events(reservation: Reservation, status: ReservationStatus) -> tuple[Event, ...]:
    """The Events of these conditions."""
    return (*gate_events(reservation, status), *owners_wait_events(reservation, status))


def who_waits(status: ReservationStatus) -> str:
    """The message of the condition while it is True; "": no owner is kept out."""
    found = condition(status.conditions, CONDITION_OWNERS_WAIT)
    return found.message if found is not None and found.status == "True" else ""


def owners_wait_events(reservation: Reservation, status: ReservationStatus) -> tuple[Event, ...]:
    """The Event of a pod that is kept out from now on."""
    message = who_waits(status)
    if not message or message == who_waits(reservation.status):
        return ()
    return (
        Event(
            api_version=names.API_VERSION,
            kind="Reservation",
            namespace="",
            name=reservation.name,
            uid=reservation.uid,
            reason=REASON_KEPT_OUT,
            message=message,
            warning=True,
        ),
    )
