"""The outcome of one look at a claimed Reservation: a value that the steps of a hand-over share."""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.calls.call import AnyCall
from rescheduler.reservations.lifecycle import ReservationEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """What has happened, and what is done next."""

    event: ReservationEvent
    """For the table of transitions (``lifecycle``)."""
    message: str
    calls: tuple[AnyCall, ...] = ()
    wake_at_s: float | None = None
