"""Reservations of rooms that others make for a pending pod, and the moves that make them: by what the controller has written (pure).

Admission lets only the controller write the annotations of such a Reservation, and mark a PodMigration as planned.
"""

from __future__ import annotations

from collections.abc import Mapping

from rescheduler.model.migration import PodMigration
from rescheduler.model.names import (
    ANNOTATION_MAKES_ROOM,
    ANNOTATION_PENDING_POD,
    ANNOTATION_PENDING_POD_MOVES,
)
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation


def made_for_pod(reservation: Reservation) -> ObjectKey | None:
    """The pending pod whose room others make; None: it is another Reservation."""
    namespace, slash, name = (reservation.annotations.get(ANNOTATION_PENDING_POD) or "").partition("/")
    return ObjectKey(namespace, name) if slash else None


def moves_of_room(reservation: Reservation) -> int:
    """How many pods are moved for it."""
    text = reservation.annotations.get(ANNOTATION_PENDING_POD_MOVES) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 3 else 0  # noqa: PLR2004 - no more than 99


def room_of(migration: PodMigration) -> str:
    """The Reservation that the pod steps aside for; "" if it does for none."""
    return "" if migration.requested else migration.annotations.get(ANNOTATION_MAKES_ROOM) or ""


def waiting_pod(reservation: Reservation, pods: Mapping[ObjectKey, Pod]) -> Pod | None:
    """The pod that the room is made for, while it is the one that the Reservation is owned by and has no node."""
    key = made_for_pod(reservation)
    pod = pods.get(key) if key is not None else None
    owner = reservation.owners[0].object if reservation.owners else None
    if pod is None or pod.node or pod.deleting or owner is None or owner.uid != pod.uid:
        return None
    return pod
