"""The state of a cluster, kept current by lists and watch events, and the Snapshots taken of it.

Mutable, owned by one thread. It promises that what it holds depends only on the newest version of each
object that it has seen: late, repeated and out-of-order events change nothing. A list is authoritative:
it replaces whatever was held of its kind. References may dangle; nothing is resolved here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from rescheduler.model.changes import ChangeLog
from rescheduler.model.decode import Record
from rescheduler.model.kinds import Kind
from rescheduler.model.records import NodeUsage, ObjectKey, Workload
from rescheduler.model.snapshot import Snapshot

Key = str | ObjectKey
"""What an object is known by: uid for workloads, NAMESPACE/NAME or NAME for all others."""

_TOMBSTONES: Final = 10_000
_WORKLOAD_KINDS: Final = (
    Kind.REPLICA_SET,
    Kind.REPLICATION_CONTROLLER,
    Kind.DEPLOYMENT,
    Kind.STATEFUL_SET,
    Kind.DAEMON_SET,
    Kind.JOB,
)


class Change(msgspec.Struct, frozen=True, gc=False):
    """One object before and after; None where it did not, or does no longer, exist."""

    before: Record | None
    after: Record | None


def key_of(record: Record) -> Key:
    """What a record is known by in a ClusterState."""
    if isinstance(record, Workload):
        return record.uid
    key: ObjectKey | None = getattr(record, "key", None)
    return key if key is not None else record.name


class ClusterState:
    """Everything known of a cluster, by kind."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[Key, Record]] = {kind: {} for kind in Kind}
        self._tombstones: dict[Kind, dict[str, None]] = {kind: {} for kind in Kind}
        self._usage: dict[str, NodeUsage] = {}
        self._copies: dict[Kind, Mapping[Any, Any]] = {}
        self._workloads: Mapping[Any, Any] | None = None
        self._pods_and_rooms: Mapping[Any, Any] | None = None
        self._pod_log = ChangeLog()

    def apply(self, kind: Kind, record: Record) -> Change | None:
        """Take a new or changed object; None if it says nothing new (repeated, late, or already deleted)."""
        objects = self._objects[kind]
        key = key_of(record)
        before = objects.get(key)
        if _uid(record) in self._tombstones[kind] or (before is not None and _not_newer(record, before)):
            return None
        objects[key] = record
        self._touch(kind, key)
        return Change(before, record)

    def add(self, kind: Kind, records: Iterable[Record]) -> list[Record]:
        """Take objects that are read for the first time; gives those that were known already, in any version."""
        objects, buried = self._objects[kind], self._tombstones[kind]
        again: list[Record] = []
        for record in records:
            key = key_of(record)
            if key not in objects and not buried:
                objects[key] = record
                continue
            change = self.apply(kind, record)
            if change is None or change.before is not None:
                again.append(record)
        self._touch(kind)
        return again

    def delete(self, kind: Kind, key: Key, uid: str = "") -> Change | None:
        """Forget an object; with ``uid`` only if it is that very one. None if it was not held."""
        if uid:
            self._bury(kind, uid)
        before = self._objects[kind].get(key)
        if before is None or (uid and _uid(before) not in ("", uid)):
            return None
        self._bury(kind, _uid(before))
        del self._objects[kind][key]
        self._touch(kind, key)
        return Change(before, None)

    def remove(self, kind: Kind, record: Record) -> Change | None:
        """Forget the very object that a DELETED event carries. None if it was not held."""
        return self.delete(kind, key_of(record), _uid(record))

    def replace(self, kind: Kind, records: Iterable[Record]) -> tuple[Change, ...]:
        """Take a whole list of ``kind``; gives what differs from what was held."""
        old = self._objects[kind]
        new = {key_of(record): record for record in records}
        changes = [
            Change(old.get(key), record)
            for key, record in new.items()
            if (before := old.get(key)) is None or before != record
        ]
        changes.extend(Change(record, None) for key, record in old.items() if key not in new)
        self._objects[kind] = new
        self._tombstones[kind].clear()
        self._touch(kind)
        return tuple(changes)

    def set_usage(self, usage: Iterable[NodeUsage]) -> None:
        """Take the measured usage of all nodes."""
        self._usage = {item.node: item for item in usage}

    def get(self, kind: Kind, key: Key) -> Record | None:
        """The object known by ``key``."""
        return self._objects[kind].get(key)

    def counts(self) -> dict[Kind, int]:
        """Number of objects of each kind."""
        return {kind: len(objects) for kind, objects in self._objects.items()}

    def snapshot(self, now_s: float) -> Snapshot:
        """Everything known now. Kinds that did not change since the last snapshot share their mapping."""
        pods = self._copy_pods()
        return Snapshot(
            taken_at_s=now_s,
            nodes=self._copy(Kind.NODE),
            pods=pods,
            namespaces=self._copy(Kind.NAMESPACE),
            workloads=self._copy_workloads(),
            budgets=self._copy(Kind.POD_DISRUPTION_BUDGET),
            priority_classes=self._copy(Kind.PRIORITY_CLASS),
            volumes=self._copy(Kind.PERSISTENT_VOLUME),
            claims=self._copy(Kind.PERSISTENT_VOLUME_CLAIM),
            storage_classes=self._copy(Kind.STORAGE_CLASS),
            csi_nodes=self._copy(Kind.CSI_NODE),
            csi_drivers=self._copy(Kind.CSI_DRIVER),
            csi_capacities=self._copy(Kind.CSI_STORAGE_CAPACITY),
            attachments=self._copy(Kind.VOLUME_ATTACHMENT),
            device_classes=self._copy(Kind.DEVICE_CLASS),
            services=self._copy(Kind.SERVICE),
            reservations=self._copy(Kind.RESERVATION),
            migrations=self._copy(Kind.POD_MIGRATION),
            usage=MappingProxyType(dict(self._usage)),
            koordinator=self._copy(Kind.KOORDINATOR_RESERVATION),
            pod_mark=self._pod_log.mark(pods),
        )

    def _copy(self, kind: Kind) -> Mapping[Any, Any]:
        copy = self._copies.get(kind)
        if copy is None:
            copy = self._copies[kind] = MappingProxyType(self._objects[kind].copy())
        return copy

    def _copy_pods(self) -> Mapping[Any, Any]:
        """The pods, and the rooms that Koordinator's Reservations hold."""
        if not self._objects[Kind.KOORDINATOR_RESERVATION]:
            return self._copy(Kind.POD)
        if self._pods_and_rooms is None:
            held: Any = self._objects[Kind.KOORDINATOR_RESERVATION].values()
            rooms = {record.room.key: record.room for record in held if record.room is not None}
            self._pods_and_rooms = MappingProxyType({**self._objects[Kind.POD], **rooms})
        return self._pods_and_rooms

    def _copy_workloads(self) -> Mapping[Any, Any]:
        if self._workloads is None:
            merged: dict[Key, Record] = {}
            for kind in _WORKLOAD_KINDS:
                merged.update(self._objects[kind])
            self._workloads = MappingProxyType(merged)
        return self._workloads

    def _touch(self, kind: Kind, key: Key | None = None) -> None:
        """An object of the kind changed; without ``key`` any number of them."""
        self._copies.pop(kind, None)
        if kind in (Kind.POD, Kind.KOORDINATOR_RESERVATION):
            self._pods_and_rooms = None
            if isinstance(key, str):
                key = ObjectKey("", key)  # the room that it holds
            if key is not None:
                self._pod_log.note(key)
            else:
                self._pod_log.forget()
        if kind in _WORKLOAD_KINDS:
            self._workloads = None

    def _bury(self, kind: Kind, uid: str) -> None:
        """Remember a deleted uid, so that a late event does not bring the object back. Bounded."""
        if not uid or "/" in uid:
            return  # a substitute of a missing uid: an object of that name may come again
        tombstones = self._tombstones[kind]
        tombstones[uid] = None
        if len(tombstones) > _TOMBSTONES:
            del tombstones[next(iter(tombstones))]


def _uid(record: Record) -> str:
    return getattr(record, "uid", "")


def _not_newer(record: Record, held: Record) -> bool:
    """True for the same object in the same or an older version (comparable since 1.35, KEP-5504)."""
    if record == held:
        return True
    if _uid(record) != _uid(held):
        return False
    new, old = getattr(record, "resource_version", ""), getattr(held, "resource_version", "")
    return new.isdecimal() and old.isdecimal() and int(new) < int(old)
