"""The condition ``Gated`` of a Reservation: whether new pods of its owners are held for it. Pure.

A Reservation has it only once its keys found no place in the gate's store. While it is False, its room is held as ever, but a
new pod of its owners goes where the scheduler likes; once there is place, the condition is True.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.model import names
from rescheduler.model.conditions import Condition, condition, with_condition
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.model.times import format_seconds
from rescheduler.reservations.actions import RecordEvent

CONDITION_GATED: Final = "Gated"
REASON_FULL: Final = "GateFull"


def with_gated(conditions: tuple[Condition, ...], ungated: str, now_s: float) -> tuple[Condition, ...]:
    """The conditions with why its pods are not held ("": they are); the same value if nothing changes."""
    old = condition(conditions, CONDITION_GATED)
    if ungated:
        new = Condition(CONDITION_GATED, "False", REASON_FULL, ungated)
    elif old is not None and old.status != "True":
        new = Condition(CONDITION_GATED, "True", "KeysStored")
    else:
        return conditions
    if old is not None and (old.status, old.message) == (new.status, new.message):
        return conditions
    moment = format_seconds(now_s)
    return with_condition(
        conditions, msgspec.structs.replace(new, last_probe_time=moment, last_transition_time=moment)
    )


def gate_events(reservation: Reservation, status: ReservationStatus) -> tuple[RecordEvent, ...]:
    """The Event of one that is left out from now on."""
    before, now = (condition(s.conditions, CONDITION_GATED) for s in (reservation.status, status))
    if now is None or now.status == "True" or (before is not None and before.status == now.status):
        return ()
    return (
        RecordEvent(
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
