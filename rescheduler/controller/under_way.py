"""Rooms that nobody stands in yet and that are given all the same: whoever chooses a node counts them there. Pure.

Between the choice of a node and the pod that holds it there is a while in which the snapshot shows that room as free:
the write is on its way, the cache is behind, the scheduler has not looked yet. Two that choose in that while would
choose the same room. A placeholder that the scheduler has refused holds nothing, and is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.replacement import replacement_of
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.placeholder import pinned_node
from rescheduler.reservations.promised import waits_for_room
from rescheduler.reservations.stand_in import imagined
from rescheduler.reservations.template import name_of_reservation

Written = Mapping[ObjectKey, str]
"""Reservation ("" and its name) or PodMigration -> node of what was written last and is not in the snapshot yet."""

NOTHING_WRITTEN: Final[Written] = MappingProxyType({})


class UnderWay(NamedTuple):
    """``asker``: name of the Reservation or uid of the pod that the room is for. ``pod`` is to be counted on ``node``."""

    asker: str
    pod: Pod
    node: str


def rooms_under_way(snapshot: Snapshot, holders: Mapping[str, Pod], written: Written) -> Iterable[UnderWay]:
    """``holders``: the placeholder of each Reservation that has one."""
    for reservation in snapshot.reservations.values():
        node = _of_reservation(reservation, holders.get(reservation.name), written)
        if node and reservation.template is not None and reservation.status.phase not in FINISHED:
            yield UnderWay(reservation.name, imagined(reservation), node)
    for migration in snapshot.migrations.values():
        pod = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
        node = _of_move(migration, snapshot, written)
        if node and pod is not None and migration.pod_uid in ("", pod.uid):
            yield UnderWay(pod.uid, replacement_of(pod, snapshot), node)


def _of_reservation(reservation: Reservation, holder: Pod | None, written: Written) -> str:
    if holder is None:
        promised = reservation.pre_allocation  # its room is not free: it keeps it by its nomination alone
        return "" if promised else written.get(ObjectKey("", reservation.name), "")
    counted = holder.node or holder.nominated_node
    lost = holder.deleting or holder.terminal or holder.unschedulable_message
    return "" if counted or lost or waits_for_room(holder) else pinned_node(holder)


def _of_move(migration: PodMigration, snapshot: Snapshot, written: Written) -> str:
    status = migration.status
    if name_of_reservation(migration) in snapshot.reservations:
        return ""
    if status.phase is MigrationPhase.PENDING:
        return written.get(migration.key, "")
    reserves = status.phase is MigrationPhase.RESERVING and status.mode is not MoveMode.START_FIRST
    return status.node_name if reserves else ""
