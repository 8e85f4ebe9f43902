"""The Event of a Reservation that enters another phase (pure)."""

from __future__ import annotations

from rescheduler.calls.call import Event
from rescheduler.model import names
from rescheduler.model.conditions import condition
from rescheduler.model.reservation import Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.room_of_move import made_for
from rescheduler.reservations.lifecycle import CONDITION_READY


def is_told(reservation: Reservation, phase: ReservationPhase) -> bool:
    """False for the room of a move whose PodMigration tells the same."""
    return phase is ReservationPhase.FAILED or not made_for(reservation)


def phase_event(reservation: Reservation, status: ReservationStatus) -> Event:
    """``status``: the new one. Reason and message are those of its condition Ready."""
    ready = condition(status.conditions, CONDITION_READY)
    return Event(
        api_version=names.API_VERSION,
        kind="Reservation",
        namespace="",
        name=reservation.name,
        uid=reservation.uid,
        reason=(ready.reason if ready else "") or status.phase,
        message=(ready.message if ready else "") or f"the Reservation is {status.phase}",
        warning=status.phase is ReservationPhase.FAILED,
    )
