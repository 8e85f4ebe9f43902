"""The condition ``Gated`` of a Reservation: whether new pods of its owners are held for it. Pure.

A Reservation has it only once its keys found no place in the gate's store. While it is False, its room is held as ever, but a
new pod of its owners goes where the scheduler likes; once there is place, the condition is True.
"""

from __future__ import annotations

from typing import Final

from rescheduler.calls.call import Event
from rescheduler.model import names
from rescheduler.model.conditions import Condition, condition, with_fault
from rescheduler.model.reservation import Reservation, ReservationStatus

CONDITION_GATED: Final = "Gated"
REASON_FULL: Final = "GateFull"


def with_gated(conditions: tuple[Condition, ...], ungated: str, now_s: float) -> tuple[Condition, ...]:
    """The conditions with why its pods are not held ("": they are); the same value if nothing changes."""
    return with_fault(
        conditions, CONDITION_GATED, ungated, reason=REASON_FULL, mended="KeysStored", now_s=now_s
    )


def gate_events(reservation: Reservation, status: ReservationStatus) -> tuple[Event, ...]:
    """The Event of one that is left out from now on."""
    before, now = (condition(s.conditions, CONDITION_GATED) for s in (reservation.status, status))
    if now is None or now.status == "True" or (before is not None and before.status == now.status):
        return ()
    return (
        Event(
            api_version=names.API_VERSION,
            kind="Reservation",
            namespace="",
            name=reservation.name,
            uid=reservation.uid,
            reason=REASON_FULL,
            message=now.message,
            warning=True,
        ),
    )
