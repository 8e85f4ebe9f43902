"""The pod that a room is for, before there is one: what our own rules judge and count in its place. Pure."""

from __future__ import annotations

from typing import Final

from rescheduler.model.records import Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_pod import pod_of_room
from rescheduler.reservations.lifecycle import FINISHED

_PLACEHOLDER_PRIORITY: Final = 1_000_000_000


def hypothetical_pod(reservation: Reservation) -> Pod:
    """A pending pod of the template, of a placeholder's priority; there must be a template."""
    return pod_of_room(reservation, _PLACEHOLDER_PRIORITY)


def keeps_its_distance(reservation: Reservation) -> bool:
    """True if its pods matter to the affinity or spread of others, or of each other."""
    if reservation.template is None or reservation.status.phase in FINISHED or not reservation.allocate_once:
        return False
    return bool(reservation.template_labels or reservation.template.pod_anti_affinity)
