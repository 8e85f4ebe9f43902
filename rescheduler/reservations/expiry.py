"""When a Reservation ends by itself, and what is said then (rows K25-K30, K70; pure).

One whose pod has been evicted does not end: its replacement is on the way, and the move has limits of its own.
"""

from __future__ import annotations

from rescheduler.model.own_objects import condition
from rescheduler.model.reservation import Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.room_of_move import made_for
from rescheduler.model.times import earliest
from rescheduler.reservations.assignment import fits
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.placeholder import placeholder_name
from rescheduler.reservations.reservation_lifecycle import CONDITION_SCHEDULED
from rescheduler.reservations.settings import ReservationSettings


def end_of(reservation: Reservation, settings: ReservationSettings) -> float | None:
    """Epoch seconds of the end; None = never (ttl 0). ``status.expires`` shows it (row K30)."""
    return earliest(_named_end(reservation, settings), _last_end(reservation, settings))


def _named_end(reservation: Reservation, settings: ReservationSettings) -> float | None:
    if reservation.expires_at_s is not None:
        return reservation.expires_at_s
    ttl_s = settings.default_ttl_s if reservation.ttl_s is None else reservation.ttl_s
    return reservation.created_at_s + ttl_s if ttl_s > 0 else None


def _last_end(reservation: Reservation, settings: ReservationSettings) -> float | None:
    return reservation.created_at_s + settings.max_lifetime_s if settings.max_lifetime_s > 0 else None


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
    return migration is not None and not migration.finished and bool(migration.status.eviction_requested_at_s)


def expiry_words(observed: ObservedReservation, status: ReservationStatus) -> str:
    """Why it ended, for people."""
    scheduled = condition(status.conditions, CONDITION_SCHEDULED)
    if scheduled is not None and scheduled.status == "False":
        return f"expired before it could be scheduled: {scheduled.message}"
    if any(not pod.terminal for pod in observed.owners):
        return f"expired; the pods that use it stay, and the rest of the room on node/{status.node_name} is released"
    # What an owner left may be held again; the first placeholder went with the first split.
    template, held = observed.reservation.template, status.phase is ReservationPhase.AVAILABLE
    first = placeholder_name(observed.reservation)
    split = bool(observed.placeholders) and all(pod.name != first for pod in observed.placeholders)
    if held and (split or (template is not None and not fits(template.requests, status.allocatable))):
        return "expired after pods had used parts of it; the rest is released"
    return "expired before a pod used it"


def abandoned(observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> str:
    """Why the move that it was made for needs it no more; "": it does, or it was made for none."""
    reservation, migration = observed.reservation, observed.migration
    made = made_for(reservation)
    if not made:
        return ""
    if migration is None:
        # The two kinds have separate watches: the cache may show the Reservation before its PodMigration.
        if now_s < reservation.created_at_s + settings.orphan_grace_s and not observed.namespace_ends:
            return ""
        return f"PodMigration {made} does not exist any more"
    if migration.finished:
        return f"PodMigration {migration.key} has ended"
    return ""
