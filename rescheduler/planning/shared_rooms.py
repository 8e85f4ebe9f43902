"""Owners of Reservations for several pods: what one of them leaves is held again for the next one. Pure.

So a move of such a pod lowers the load of its node by nothing, frees no room for others and empties no node.
"""

from __future__ import annotations

from collections.abc import Mapping

from rescheduler.model.reservation import Reservation, ReservationPhase

_OPEN = (ReservationPhase.PENDING, ReservationPhase.WAITING, ReservationPhase.AVAILABLE)


def owners_of_shared_rooms(reservations: Mapping[str, Reservation]) -> dict[str, str]:
    """By uid of each owner that has its part of such a Reservation now, the name of that."""
    return {
        owner.uid: reservation.name
        for _, reservation in sorted(reservations.items())
        if not reservation.allocate_once and not reservation.deleting and reservation.status.phase in _OPEN
        for owner in reservation.status.current_owners
    }
