"""Assumed rooms: rooms that were chosen, and that no pod of the snapshot holds yet. A choice of node counts them. Pure.

They are to this controller what assumed pods are to kube-scheduler. After a node was chosen, the snapshot shows its room
as free for a while: the write is in flight, the cache is behind, or the scheduler has not bound the placeholder yet.
Without the assumed rooms, a second choice in that time could take the same room. A placeholder that the scheduler has
refused holds nothing and is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_pod import hypothetical_pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.placeholder import pinned_node
from rescheduler.reservations.preallocation import waits_for_room
from rescheduler.reservations.reservation_lifecycle import FINISHED

Written = Mapping[ObjectKey, str]
"""Key of a Reservation (namespace "") or PodMigration -> node of its last write, which is not in the snapshot yet."""

NOTHING_WRITTEN: Final[Written] = MappingProxyType({})


class AssumedRoom(NamedTuple):
    """A pod that is counted on a node although it is not bound there."""

    asker: str
    """What the room is for: the name of a Reservation, or the uid of a pod that is moved."""
    pod: Pod
    node: str


def assumed_rooms(snapshot: Snapshot, holders: Mapping[str, Pod], written: Written) -> Iterable[AssumedRoom]:
    """Those of Reservations. ``holders``: the placeholder of each that has one."""
    for reservation in snapshot.reservations.values():
        node = _of_reservation(reservation, holders.get(reservation.name), written)
        if node and reservation.template is not None and reservation.status.phase not in FINISHED:
            yield AssumedRoom(reservation.name, hypothetical_pod(reservation), node)


def _of_reservation(reservation: Reservation, holder: Pod | None, written: Written) -> str:
    if holder is None:
        # Preallocated room is not free yet, so there is nothing to assume before its placeholder is nominated.
        return "" if reservation.preallocated else written.get(ObjectKey("", reservation.name), "")
    # Bound and nominated placeholders are in the scheduling state already; a lost one holds nothing.
    counted = holder.node or holder.nominated_node
    lost = holder.deleting or holder.terminal or holder.unschedulable_message
    return "" if counted or lost or waits_for_room(holder) else pinned_node(holder)


def in_hand_over(snapshot: Snapshot) -> list[tuple[Reservation, Pod]]:
    """The claimants that are not bound, each with its Reservation."""
    result: list[tuple[Reservation, Pod]] = []
    for reservation in snapshot.reservations.values():
        status = reservation.status
        if status.phase in FINISHED or not status.current_owners or not status.node_name:
            continue
        for owner in status.current_owners:
            pod = snapshot.pods.get(ObjectKey(owner.namespace, owner.name))
            if pod is not None and pod.uid == owner.uid and not pod.node:
                result.append((reservation, pod))
    return result
