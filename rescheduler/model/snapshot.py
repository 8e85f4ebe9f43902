"""The immutable Snapshot: the input of every decision.

``ClusterState`` makes it as a shallow copy: the records are shared, so a snapshot of 150,000 pods costs
milliseconds, and two snapshots are compared by the identity of their records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from rescheduler.model.change_log import LogPosition, changed_keys
from rescheduler.model.migration import PodMigration
from rescheduler.model.node_marks_since import NodeMarksSince
from rescheduler.model.past_moves import PastMove
from rescheduler.model.pod_group import PodGroupRecord
from rescheduler.model.records import (
    DeviceClass,
    DisruptionBudget,
    Namespace,
    Node,
    NodeUsage,
    ObjectKey,
    OwnerRef,
    Pod,
    PriorityClass,
    Service,
    Workload,
)
from rescheduler.model.replacement_rules import DEFAULT_RULES, AdmittedPod, ReplacementRules, TemplateKey
from rescheduler.model.reservation import KoordinatorReservation, Reservation
from rescheduler.model.resource_quota import ResourceQuota
from rescheduler.model.room_sets import HeadRoom, ReservationWindow
from rescheduler.model.storage_records import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

_EMPTY: MappingProxyType[Any, Any] = MappingProxyType({})


def _empty() -> Mapping[Any, Any]:
    return _EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The objects of a cluster at one moment. The mappings must never be changed."""

    taken_at_s: float
    nodes: Mapping[str, Node] = field(default_factory=_empty)
    pods: Mapping[ObjectKey, Pod] = field(default_factory=_empty)
    namespaces: Mapping[str, Namespace] = field(default_factory=_empty)
    workloads: Mapping[str, Workload] = field(default_factory=_empty)
    """By uid."""
    budgets: Mapping[ObjectKey, DisruptionBudget] = field(default_factory=_empty)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=_empty)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=_empty)
    claims: Mapping[ObjectKey, PersistentVolumeClaim] = field(default_factory=_empty)
    storage_classes: Mapping[str, StorageClass] = field(default_factory=_empty)
    csi_nodes: Mapping[str, CSINode] = field(default_factory=_empty)
    csi_drivers: Mapping[str, CSIDriver] = field(default_factory=_empty)
    csi_capacities: Mapping[ObjectKey, CSIStorageCapacity] = field(default_factory=_empty)
    attachments: Mapping[str, VolumeAttachment] = field(default_factory=_empty)
    device_classes: Mapping[str, DeviceClass] = field(default_factory=_empty)
    services: Mapping[ObjectKey, Service] = field(default_factory=_empty)
    resource_quotas: Mapping[ObjectKey, ResourceQuota] = field(default_factory=_empty)
    reservations: Mapping[str, Reservation] = field(default_factory=_empty)
    migrations: Mapping[ObjectKey, PodMigration] = field(default_factory=_empty)
    windows: Mapping[str, ReservationWindow] = field(default_factory=_empty)
    head_rooms: Mapping[str, HeadRoom] = field(default_factory=_empty)
    node_marks_since: Mapping[str, NodeMarksSince] = field(default_factory=_empty)
    """Since when taints and labels of a node are known to be as they are; empty where nobody watched."""
    usage: Mapping[str, NodeUsage] = field(default_factory=_empty)
    """Measured usage by node name; empty without metrics.k8s.io."""
    node_autoscaler: bool = False
    """cluster-autoscaler or Karpenter reports that it is at work."""
    past_moves: Mapping[str, PastMove] = field(default_factory=_empty)
    """What ConfigMap ``move-history`` keeps of moves, by uid of their PodMigration."""
    koordinator: Mapping[str, KoordinatorReservation] = field(default_factory=_empty)
    """Koordinator's Reservations. ``pods`` contains the room that each holds, as a pod without a namespace."""
    pod_groups: Mapping[ObjectKey, PodGroupRecord] = field(default_factory=_empty)
    """Volcano's."""
    coscheduling_groups: Mapping[ObjectKey, PodGroupRecord] = field(default_factory=_empty)
    """Those of scheduler-plugins."""
    replacement_rules: ReplacementRules = DEFAULT_RULES
    """Which custom controllers replace their pods."""
    admitted: Mapping[TemplateKey, AdmittedPod] = field(default_factory=_empty)
    """Fresh dry-run creations, by the template that they were made from."""
    pod_log: LogPosition | None = field(default=None, compare=False, repr=False)
    """Position in the log of changed pods; None in a snapshot that was built by hand."""

    def top_workload(self, pod: Pod) -> Workload | None:
        """The workload of a pod as people see it: its topmost known controller (the Deployment, not the ReplicaSet)."""
        return self.top_of(pod.controller)

    def top_of(self, owner: OwnerRef | None) -> Workload | None:
        """The topmost known controller from ``owner`` on."""
        found: Workload | None = None
        seen: set[str] = set()  # owners that own each other must not make it turn for ever
        while owner is not None and owner.uid not in seen:
            seen.add(owner.uid)
            above = self.workloads.get(owner.uid)
            if above is None:
                break
            found = above
            owner = above.controller
        return found

    def workload_uid(self, pod: Pod) -> str:
        """Uid of ``top_workload``; the direct owner's where nothing is known of it; empty without an owner."""
        found = self.top_workload(pod)
        if found is not None:
            return found.uid
        return pod.controller.uid if pod.controller is not None else ""

    def pods_changed_since(self, old: Snapshot) -> Iterable[ObjectKey] | None:
        """Keys of all pods that may differ from ``old``; None: unknown, the caller compares all pods."""
        return changed_keys(old.pods, old.pod_log, self.pods, self.pod_log)
