"""The immutable Snapshot that one decision is a function of, and the ClusterState that events keep current.

A snapshot is a shallow copy: it shares the records, so taking one of 150,000 pods costs milliseconds,
and two snapshots are compared by the identity of their records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rescheduler.model.changes import Mark, changed_keys
from rescheduler.model.koordinator import KoordinatorReservation
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    DisruptionBudget,
    Namespace,
    Node,
    NodeUsage,
    ObjectKey,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PriorityClass,
    Service,
    StorageClass,
    VolumeAttachment,
    Workload,
)
from rescheduler.model.reservation import Reservation

_NOTHING: MappingProxyType[Any, Any] = MappingProxyType({})


def _nothing() -> Mapping[Any, Any]:
    return _NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything known of a cluster at one moment. Mappings must not be changed by anyone."""

    taken_at_s: float
    nodes: Mapping[str, Node] = field(default_factory=_nothing)
    pods: Mapping[ObjectKey, Pod] = field(default_factory=_nothing)
    namespaces: Mapping[str, Namespace] = field(default_factory=_nothing)
    workloads: Mapping[str, Workload] = field(default_factory=_nothing)
    """By uid."""
    budgets: Mapping[ObjectKey, DisruptionBudget] = field(default_factory=_nothing)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=_nothing)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=_nothing)
    claims: Mapping[ObjectKey, PersistentVolumeClaim] = field(default_factory=_nothing)
    storage_classes: Mapping[str, StorageClass] = field(default_factory=_nothing)
    csi_nodes: Mapping[str, CSINode] = field(default_factory=_nothing)
    csi_drivers: Mapping[str, CSIDriver] = field(default_factory=_nothing)
    csi_capacities: Mapping[ObjectKey, CSIStorageCapacity] = field(default_factory=_nothing)
    attachments: Mapping[str, VolumeAttachment] = field(default_factory=_nothing)
    device_classes: Mapping[str, DeviceClass] = field(default_factory=_nothing)
    services: Mapping[ObjectKey, Service] = field(default_factory=_nothing)
    reservations: Mapping[str, Reservation] = field(default_factory=_nothing)
    migrations: Mapping[ObjectKey, PodMigration] = field(default_factory=_nothing)
    usage: Mapping[str, NodeUsage] = field(default_factory=_nothing)
    """Measured usage by node; empty where nothing measures."""
    koordinator: Mapping[str, KoordinatorReservation] = field(default_factory=_nothing)
    """Koordinator's Reservations; the room that they hold is among ``pods``, without a namespace."""
    pod_mark: Mark | None = field(default=None, compare=False, repr=False)
    """Where the log of changed pods stood; None in a snapshot that was put together by hand."""

    def pods_changed_since(self, old: Snapshot) -> Iterable[ObjectKey] | None:
        """Keys of all pods that may differ from ``old``; None: not known, compare everything."""
        return changed_keys(old.pods, old.pod_mark, self.pods, self.pod_mark)
