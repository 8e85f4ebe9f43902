"""A room whose node is in trouble before any pod has claimed it: which Reservations get room on another node (pure).

A node that is drained, cordoned or NotReady for longer than its grace, and a placeholder that the kubelet or somebody evicted,
take the room. Whoever reserved it asked for room, not for that node: the Reservation is Pending again and is placed anew,
on the same terms as a new one, until its own end. Rows K2, K13. A node that is deleted ends it (row K72), and so does the
loss of a room that a move or a pod counts on: its target cannot be another node any more.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.model.reservation import ReservationStatus
from rescheduler.model.resources import NO_RESOURCES
from rescheduler.model.room_of_move import made_for
from rescheduler.reservations.lifecycle import ReservationEvent, transition
from rescheduler.reservations.observed import ObservedReservation

LOSSES: Final = frozenset({ReservationEvent.NODE_NOT_READY, ReservationEvent.PLACEHOLDER_LOST})
"""Events after which the room may be on another node."""


def goes_elsewhere(observed: ObservedReservation, status: ReservationStatus) -> bool:
    """True if room on any node will do: nobody uses it, no move counts on it, and no node is named."""
    reservation = observed.reservation
    return not (
        status.current_owners
        or observed.migration is not None
        or made_for(reservation)
        or reservation.template_node
        or observed.by_koordinator
    )


def without_node(status: ReservationStatus, why: str, now_s: float) -> ReservationStatus:
    """The status of a Reservation that looks for a node again. Raises TransitionError."""
    told = transition(status, ReservationEvent.NODE_LOST, f"{why}; another node is looked for", now_s)
    return msgspec.structs.replace(
        told, node_name="", allocatable=NO_RESOURCES, allocated=NO_RESOURCES, making_room=None
    )


def placeholder_lost(observed: ObservedReservation) -> bool:
    """True if nothing holds the room any more, and no pod was to take it from its placeholder."""
    placeholder = observed.placeholder
    if placeholder is not None and not placeholder.deleting and not placeholder.terminal:
        return False
    migration = observed.migration
    # In mode Soft the replacement takes the room by preempting the placeholder: after the intent that is no loss.
    yielded = observed.soft and migration is not None and bool(migration.eviction_requested_at_s)
    return not yielded
