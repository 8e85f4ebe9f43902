"""When a Reservation ends by itself (rows K25-K30, K70), and when it may not.

A Reservation whose pod has been evicted does not expire: its replacement is on the way, and the move has
limits of its own. A Pending one expires as any other.
"""

from __future__ import annotations

from rescheduler.model.reservation import Reservation
from rescheduler.reservations.observed import ObservedReservation, ReservationSettings


def end_of(reservation: Reservation, settings: ReservationSettings) -> float | None:
    """Epoch seconds of the end; None = never (ttl 0). ``status.expires`` shows it (row K30)."""
    if reservation.expires_at_s is not None:
        return reservation.expires_at_s
    ttl_s = settings.default_ttl_s if reservation.ttl_s is None else reservation.ttl_s
    return reservation.created_at_s + ttl_s if ttl_s > 0 else None


def expired(observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> bool:
    """True if its time is over and nothing depends on it any more."""
    end_s = end_of(observed.reservation, settings)
    return end_s is not None and now_s >= end_s and not _needed(observed)


def wake_for(observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> float | None:
    """When to look again for the sake of time alone."""
    end_s = end_of(observed.reservation, settings)
    return end_s if end_s is not None and end_s > now_s else None


def _needed(observed: ObservedReservation) -> bool:
    migration = observed.migration
    return migration is not None and not migration.finished and bool(migration.eviction_requested_at_s)
