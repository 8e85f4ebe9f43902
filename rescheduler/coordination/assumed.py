"""Assumed rooms: rooms that were chosen, and that no pod of the snapshot holds yet. A choice of node counts them. Pure.

They are to this controller what assumed pods are to kube-scheduler. After a node was chosen, the snapshot shows its room
as free for a while: the write is in flight, the cache is behind, or the scheduler has not bound the placeholder yet.
Without the assumed rooms, a second choice in that time could take the same room. A placeholder that the scheduler has
refused holds nothing and is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from rescheduler.migrations.migration_lifecycle import FINISHED as MOVE_FINISHED
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_of_move import room_of_move
from rescheduler.model.room_pod import pod_of_room
from rescheduler.model.snapshot import Snapshot
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.placeholder import pinned_node
from rescheduler.reservations.preallocation import waits_for_room
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.reservations.template import name_of_reservation

Written = Mapping[ObjectKey, str]
"""Key of a Reservation (namespace "") or PodMigration -> node of its last write, which is not in the snapshot yet."""

NOTHING_WRITTEN: Final[Written] = MappingProxyType({})
_PLACEHOLDER_PRIORITY: Final = 1_000_000_000


class AssumedRoom(NamedTuple):
    """A pod that is counted on a node although it is not bound there."""

    asker: str
    """What the room is for: the name of a Reservation, or the uid of a pod that is moved."""
    pod: Pod
    node: str


def hypothetical_pod(reservation: Reservation) -> Pod:
    """The pod that a room is for, before there is one: pending, of a placeholder's priority; there must be a template."""
    return pod_of_room(reservation, _PLACEHOLDER_PRIORITY)


def keeps_its_distance(reservation: Reservation) -> bool:
    """True if its pods matter to the affinity or spread of others, or of each other."""
    if reservation.template is None or reservation.status.phase in FINISHED or not reservation.allocate_once:
        return False
    return bool(reservation.template_labels or reservation.template.pod_anti_affinity)


def assumed_rooms(
    replacements: Replacements, holders: Mapping[str, Pod], written: Written
) -> Iterable[AssumedRoom]:
    """All assumed rooms. ``holders``: the placeholder of each Reservation that has one."""
    snapshot = replacements.snapshot
    for reservation in snapshot.reservations.values():
        node = _of_reservation(reservation, holders.get(reservation.name), written)
        if node and reservation.template is not None and reservation.status.phase not in FINISHED:
            yield AssumedRoom(reservation.name, hypothetical_pod(reservation), node)
    for migration in snapshot.migrations.values():
        node = _of_move(migration, snapshot, written)
        pod = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name)) if node else None
        if pod is not None and migration.pod_uid in ("", pod.uid):
            replacement = replacements.of(pod).pod
            if replacement is not None:
                yield AssumedRoom(pod.uid, replacement, node)


def _of_reservation(reservation: Reservation, holder: Pod | None, written: Written) -> str:
    if holder is None:
        # Preallocated room is not free yet, so there is nothing to assume before its placeholder is nominated.
        return "" if reservation.preallocated else written.get(ObjectKey("", reservation.name), "")
    # Bound and nominated placeholders are in the scheduling state already; a lost one holds nothing.
    counted = holder.node or holder.nominated_node
    lost = holder.deleting or holder.terminal or holder.unschedulable_message
    return "" if counted or lost or waits_for_room(holder) else pinned_node(holder)


def _of_move(migration: PodMigration, snapshot: Snapshot, written: Written) -> str:
    status = migration.status
    if status.phase is MigrationPhase.PENDING:
        node = written.get(migration.key, "")
    else:
        reserves = status.phase is MigrationPhase.RESERVING and status.mode is not MoveMode.START_FIRST
        node = status.node_name if reserves else ""
    if not node:
        return ""
    counted = room_of_move(migration, snapshot.reservations, name_of_reservation(migration))
    return "" if counted is not None else node  # counted for the Reservation, and not twice


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


def intent_shown_s(migration: PodMigration) -> float:
    """When the eviction was requested, as the snapshot shows it."""
    return migration.status.eviction_requested_at_s


def leaving(snapshot: Snapshot, pod: Pod, intent_s: Callable[[PodMigration], float]) -> Iterator[Pod]:
    """Pods of moves whose eviction was requested before that of the move of ``pod``, so that not each waits for the other.

    ``intent_s``: when a move requested it, maybe a moment ago, as another one in the same round; 0.0: it has not.
    """
    requested = [
        ((m.status.eviction_requested_at_s or math.inf, m.key), old)
        for m in snapshot.migrations.values()
        if intent_s(m) and m.status.phase not in MOVE_FINISHED
        if (old := snapshot.pods.get(ObjectKey(m.namespace, m.pod_name))) is not None
        and old.node
        and old.uid == m.pod_uid
    ]
    own = min((rank for rank, old in requested if old.uid == pod.uid), default=None)
    return (old for rank, old in requested if old.uid != pod.uid and (own is None or rank < own))
