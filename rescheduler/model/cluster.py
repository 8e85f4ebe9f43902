"""The cache of all objects of a cluster, kept current by lists and watch events; it makes the Snapshots.

Mutable, owned by one thread. Its content depends only on the newest version of each object that it has seen:
late, repeated and out-of-order events change nothing. Nothing hides an object for ever: one that was out of sight, or comes
in a newer version than the one that was deleted, is stored again. References between objects are not resolved here and may point to objects that do not exist; but a
Snapshot shows no controller of another namespace (``owners_elsewhere``), and of a pod what goes with it (``owning_pods``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rescheduler.model.decode import Record
from rescheduler.model.kinds import WORKLOAD_KINDS, Kind
from rescheduler.model.measured import NodeUsage
from rescheduler.model.owning_pods import Dependents, OwnersElsewhere, OwningPods
from rescheduler.model.past_moves import PastMove
from rescheduler.model.records import ObjectKey, Pod, Workload
from rescheduler.model.replacement_rules import DEFAULT_RULES, ReplacementRules
from rescheduler.model.selectors import int64
from rescheduler.model.snapshot import ChangeLog, Snapshot

if TYPE_CHECKING:
    from rescheduler.model.usage import NodeSamples, PodUsage

Key = str | ObjectKey
"""The key of an object: the uid of a workload, NAMESPACE/NAME or NAME of all others."""

_TOMBSTONES: Final = 10_000


class RecordChange(msgspec.Struct, frozen=True, gc=False):
    """One object before and after. None: it did not exist before, or does not exist any more."""

    before: Record | None
    after: Record | None


def key_of(record: Record) -> Key:
    """The key of a record in a ClusterState."""
    if isinstance(record, Workload):
        return record.uid
    key: ObjectKey | None = getattr(record, "key", None)
    return key if key is not None else record.name


class ClusterState:
    """The objects of a cluster by kind and key."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[Key, Record]] = {kind: {} for kind in Kind}
        self._tombstones: dict[Kind, dict[str, str]] = {kind: {} for kind in Kind}
        """Deleted uids, each with the last known version."""
        self._usage: dict[str, NodeUsage] = {}
        self._pod_usage: PodUsage | None = None
        self._node_samples: NodeSamples | None = None
        self._past_moves: Mapping[str, PastMove] = MappingProxyType({})
        self._node_autoscaler = False
        self._copies: dict[Kind, Mapping[Any, Any]] = {}
        self._all_workloads: dict[str, Any] | None = None
        """Of all kinds, as they are."""
        self._workloads: Mapping[Any, Any] | None = None
        self._pods_and_rooms: Mapping[Any, Any] | None = None
        self._pod_log = ChangeLog()
        self._elsewhere = OwnersElsewhere[ObjectKey, Pod]()
        self._workloads_elsewhere = OwnersElsewhere[str, Workload]()
        self._owning = OwningPods()
        self._touched_services: set[Any] | None = None
        self._touched_pods: set[Any] | None = None
        self._touched_workloads: set[Any] | None = None
        """Keys of what changed since the last snapshot; None: all may have."""

    def apply(self, kind: Kind, record: Record) -> RecordChange | None:
        """Store a new or changed object; None if the event is repeated or late, or its object already deleted."""
        objects = self._objects[kind]
        key = key_of(record)
        before = objects.get(key)
        if self._dead(kind, record) or (before is not None and _not_newer(record, before)):
            return None
        objects[key] = record
        self._touch(kind, key)
        return RecordChange(before, record)

    def add(self, kind: Kind, records: Collection[Record]) -> list[Record]:
        """Store objects of a dump; returns those whose key was stored already, in any version."""
        objects, again = self._objects[kind], list[Record]()
        first_read = not self._tombstones[kind]
        for record in records:
            if first_read and objects.setdefault(key_of(record), record) is record:
                continue  # nothing to compare with
            change = self.apply(kind, record)
            if change is None or change.before is not None:
                again.append(record)
        self._touch(kind)
        return again

    def forget_versions(self) -> None:
        """No other version of these pods will come, so that none has to be told from another: they take 64 bytes each."""
        for pod in self._objects[Kind.POD].values():
            msgspec.structs.force_setattr(pod, "resource_version", "")

    def delete(self, kind: Kind, key: Key, uid: str = "", version: str = "") -> RecordChange | None:
        """Delete an object; with ``uid`` only if it has that uid. None if it was not stored."""
        if uid:
            self._add_tombstone(kind, uid, version)
        before = self._objects[kind].get(key)
        if before is None or (uid and _uid(before) not in ("", uid)):
            return None
        if _uid(before) != uid:
            self._add_tombstone(kind, _uid(before), _version(before))
        del self._objects[kind][key]
        self._touch(kind, key)
        return RecordChange(before, None)

    def remove(self, kind: Kind, record: Record) -> RecordChange | None:
        """Delete the object that a DELETED event carries. None if it was not stored."""
        return self.delete(kind, key_of(record), _uid(record), _version(record))

    def lose(self, kind: Kind, record: Record) -> RecordChange | None:
        """Take out an object that is out of sight, though nobody deleted it. None if it was not stored."""
        before = self._objects[kind].pop(key_of(record), None)
        if before is None:
            return None
        self._touch(kind, key_of(record))
        return RecordChange(before, None)

    def set_usage(
        self,
        usage: Iterable[NodeUsage],
        pods: PodUsage | None = None,
        samples: NodeSamples | None = None,
    ) -> None:
        """Replace the measured usage of all nodes, and of all pods where they are measured. ``samples``: of nodes, if it is made of several."""
        self._usage = {item.node: item for item in usage}
        self._pod_usage, self._node_samples = pods, samples

    def set_node_autoscaler(self, *, reports: bool) -> None:
        """Whether a node autoscaler reports that it is at work."""
        self._node_autoscaler = reports

    def set_past_moves(self, moves: Mapping[str, PastMove]) -> None:
        """Replace what is known of past moves; the mapping must not be changed afterwards."""
        self._past_moves = moves

    def get(self, kind: Kind, key: Key) -> Record | None:
        """The object with this key."""
        return self._objects[kind].get(key)

    def all_of(self, kind: Kind) -> list[Record]:
        """All objects of a kind. As ``get`` one look into the dict: another thread gets a state that was true at one moment."""
        return list(self._objects[kind].values())

    def counts(self) -> dict[Kind, int]:
        """Number of objects of each kind."""
        return {kind: len(objects) for kind, objects in self._objects.items()}

    def snapshot(self, now_s: float, rules: ReplacementRules = DEFAULT_RULES) -> Snapshot:
        """All objects now, and which controllers replace their pods. A kind that did not change since the last snapshot shares its mapping with it."""
        self._follow_owners()
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
            resource_quotas=self._copy(Kind.RESOURCE_QUOTA),
            reservations=self._copy(Kind.RESERVATION),
            migrations=self._copy(Kind.POD_MIGRATION),
            windows=self._copy(Kind.RESERVATION_WINDOW),
            head_rooms=self._copy(Kind.HEAD_ROOM),
            usage=MappingProxyType(dict(self._usage)),
            pod_usage=self._pod_usage,
            node_samples=self._node_samples,
            past_moves=self._past_moves,
            node_autoscaler=self._node_autoscaler,
            koordinator=self._copy(Kind.KOORDINATOR_RESERVATION),
            pod_groups=self._copy(Kind.VOLCANO_POD_GROUP),
            coscheduling_groups=self._copy(Kind.COSCHEDULING_POD_GROUP),
            scheduling_groups=self._copy(Kind.POD_GROUP),
            replacement_rules=rules,
            pod_log=self._pod_log.position(pods),
        )

    def _follow_owners(self) -> None:
        """Find out anew, of what changed, whose controller is in another namespace."""
        pods, workloads = self._touched_pods, self._touched_workloads
        if workloads is None or workloads:
            self._all_workloads = None
        if self._all_workloads is None:
            merged: dict[Any, Any] = {}
            for kind in WORKLOAD_KINDS:
                merged.update(self._objects[kind])
            self._all_workloads = merged
        known: Any = self._objects[Kind.POD]
        if self._workloads_elsewhere.follow(self._all_workloads, self._all_workloads, workloads, workloads):
            self._workloads = None
        changed = self._elsewhere.follow(known, self._all_workloads, pods, workloads)
        services: Any = self._objects[Kind.SERVICE]
        changed += self._owning.follow(
            lambda key: self._elsewhere.without.get(key) or known.get(key),
            None if pods is None else {*pods, *changed},
            (
                Dependents(known, pods),
                Dependents(self._all_workloads, workloads),
                Dependents(services, self._touched_services),
            ),
        )
        self._touched_services = set()
        if changed:
            self._copies.pop(Kind.POD, None)
            self._pods_and_rooms = None
        for key in changed:
            self._pod_log.append(key)
        self._touched_pods, self._touched_workloads = set(), set()

    def _copy(self, kind: Kind) -> Mapping[Any, Any]:
        copy = self._copies.get(kind)
        if copy is None:
            objects: dict[Any, Any] = dict(self._objects[kind])
            if kind is Kind.POD:
                objects.update(self._elsewhere.without)
                objects.update(self._owning.shown)
            copy = self._copies[kind] = MappingProxyType(objects)
        return copy

    def _copy_pods(self) -> Mapping[Any, Any]:
        """The pods, and the rooms that Koordinator's Reservations hold, as pods."""
        if not self._objects[Kind.KOORDINATOR_RESERVATION]:
            return self._copy(Kind.POD)
        if self._pods_and_rooms is None:
            held: Any = self._objects[Kind.KOORDINATOR_RESERVATION].values()
            rooms = {record.room.key: record.room for record in held if record.room is not None}
            self._pods_and_rooms = MappingProxyType({**self._copy(Kind.POD), **rooms})
        return self._pods_and_rooms

    def _copy_workloads(self) -> Mapping[Any, Any]:
        if self._workloads is None:
            merged = {**(self._all_workloads or {}), **self._workloads_elsewhere.without}
            self._workloads = MappingProxyType(merged)
        return self._workloads

    def _touch(self, kind: Kind, key: Key | None = None) -> None:
        """Drop the copies that the change of an object makes stale; without ``key`` any number of them changed."""
        self._copies.pop(kind, None)
        if kind is Kind.POD:
            self._touched_pods = _with_key(self._touched_pods, key)
        if kind is Kind.SERVICE:
            self._touched_services = _with_key(self._touched_services, key)
        if kind in (Kind.POD, Kind.KOORDINATOR_RESERVATION):
            self._pods_and_rooms = None
            if isinstance(key, str):
                key = ObjectKey("", key)  # a Koordinator Reservation: the key of its room among the pods
            if key is not None:
                self._pod_log.append(key)
            else:
                self._pod_log.invalidate()
        if kind in WORKLOAD_KINDS:
            self._workloads = None
            self._touched_workloads = _with_key(self._touched_workloads, key)

    def _dead(self, kind: Kind, record: Record) -> bool:
        """True for an object that was deleted in this version or a newer one."""
        died_at = self._tombstones[kind].get(_uid(record))
        return died_at is not None and not _older(died_at, _version(record))

    def _add_tombstone(self, kind: Kind, uid: str, version: str) -> None:
        """Remember a deleted uid, so that a late event does not bring the object back. Bounded."""
        if not uid or "/" in uid:
            return  # the substitute of a missing uid: another object of that name may be created
        tombstones = self._tombstones[kind]
        tombstones[uid] = version
        if len(tombstones) > _TOMBSTONES:
            del tombstones[next(iter(tombstones))]


def _with_key(keys: set[Any] | None, key: Key | None) -> set[Any] | None:
    if keys is None or key is None:
        return None
    keys.add(key)
    return keys


def _uid(record: Record) -> str:
    return getattr(record, "uid", "")


def _not_newer(record: Record, held: Record) -> bool:
    """True for the same object in the same or an older version (versions are comparable since 1.35, KEP-5504)."""
    if record == held:
        return True
    if _uid(record) != _uid(held):
        return False
    return _older(_version(record), _version(held))


def _version(record: Record) -> str:
    return getattr(record, "resource_version", "")


def _older(version: str, than: str) -> bool:
    """True if both are numbers of a length that a server writes, and the first is smaller."""
    first, second = int64(version), int64(than)
    return first is not None and second is not None and first < second
