"""Why a placeholder is not bound: what its scheduler says, or why it says nothing (pure).

A Pending Reservation always has a reason that a person can act on, also where no scheduler has looked at its placeholder.
"""

from __future__ import annotations

from typing import NamedTuple

from rescheduler.model.foreign_gates import foreign_gates
from rescheduler.model.names import GATE_ROOM
from rescheduler.model.records import Pod
from rescheduler.reservations.lifecycle import ReservationEvent


class Unbound(NamedTuple):
    """What a Reservation is told of its placeholder."""

    event: ReservationEvent
    message: str


def held_by_others(holder: Pod) -> str:
    """For people, if another program has put a scheduling gate on the placeholder; "" if none has."""
    gates = [gate for gate in foreign_gates(holder.spec.gates) if gate != GATE_ROOM]
    if not gates:
        return ""
    return (
        f"another program keeps its placeholder {holder.key} from being scheduled by the scheduling gate {', '.join(gates)}: "
        f"it must leave out namespace {holder.namespace}"
    )


def why_unbound(holder: Pod, silent_from_s: float, now_s: float) -> Unbound | None:
    """None: its scheduler has been given no time to answer yet, which is until ``silent_from_s``."""
    if gated := held_by_others(holder):
        return Unbound(ReservationEvent.NOT_SCHEDULED, gated)
    if holder.unschedulable_message:
        return Unbound(ReservationEvent.UNSCHEDULABLE, holder.unschedulable_message)
    if now_s < silent_from_s:
        return None
    scheduler = holder.spec.scheduler_name
    silent = (
        f"{scheduler} has neither bound nor refused its placeholder {holder.key} since it was created: "
        "is that scheduler running?"
    )
    return Unbound(ReservationEvent.NOT_SCHEDULED, silent)
