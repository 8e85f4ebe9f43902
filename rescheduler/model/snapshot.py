"""The immutable Snapshot: the input of every decision.

``ClusterState`` makes it as a shallow copy: the records are shared, so a snapshot of 150,000 pods costs
milliseconds, and two snapshots are compared by the identity of their records. Which pods changed between two snapshots of one
ClusterState its ChangeLog says: no change is missed, and where it cannot tell, the caller compares all pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from rescheduler.model.measured import NodeUsage
from rescheduler.model.migration import PodMigration
from rescheduler.model.node_marks import NodeMarksSince
from rescheduler.model.past_moves import PastMove
from rescheduler.model.pod_group import PodGroupRecord
from rescheduler.model.records import (
    DeviceClass,
    DisruptionBudget,
    Namespace,
    Node,
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

if TYPE_CHECKING:
    from rescheduler.model.usage import NodeSamples, PodUsage

MOST_ABOVE: Final = 8
"""Controllers above each other that count. Kubernetes' own are two; anybody may chain thousands, or let two own each other."""
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
    pod_usage: PodUsage | None = field(default=None, compare=False)
    """Measured usage of pods; None: nobody measures them, or no policy asks."""
    node_samples: NodeSamples | None = field(default=None, compare=False)
    """What ``usage`` was made of; None: of one sample."""
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
    scheduling_groups: Mapping[ObjectKey, PodGroupRecord] = field(default_factory=_empty)
    """Those of Kubernetes, which pods name in ``spec.schedulingGroup``."""
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
        for each in self.controllers_from(owner):
            found = self.workloads.get(each.uid, found)
        return found

    def controllers_from(self, owner: OwnerRef | None) -> Iterator[OwnerRef]:
        """``owner``, and the controllers above it, as far as they are known; at most MOST_ABOVE."""
        for _ in range(MOST_ABOVE):
            if owner is None:
                return
            yield owner
            above = self.workloads.get(owner.uid)
            owner = above.controller if above is not None else None

    def workload_uid(self, pod: Pod) -> str:
        """Uid of ``top_workload``; the direct owner's where nothing is known of it; empty without an owner."""
        found = self.top_workload(pod)
        if found is not None:
            return found.uid
        return pod.controller.uid if pod.controller is not None else ""

    def pods_changed_since(self, old: Snapshot) -> Iterable[ObjectKey] | None:
        """Keys of all pods that may differ from ``old``; None: unknown, the caller compares all pods."""
        return changed_keys(old.pods, old.pod_log, self.pods, self.pod_log)


KEPT: Final = 20_000
"""The log keeps at least so many changes; from an older position the caller has to compare all pods."""


class ChangeLog:
    """Keys of changed pods in the order of their changes. For one thread."""

    __slots__ = ("_first", "_keys")

    def __init__(self) -> None:
        self._keys: list[ObjectKey] = []
        self._first = 0

    def append(self, key: ObjectKey) -> None:
        """Record that the pod of that key was added, changed or deleted."""
        self._keys.append(key)
        if len(self._keys) > 2 * KEPT:
            del self._keys[:KEPT]
            self._first += KEPT

    def invalidate(self) -> None:
        """Any number of pods may have changed: drop the log, so that no older position can be compared."""
        self._first += len(self._keys) + 1
        self._keys.clear()

    def position(self, pods: Mapping[ObjectKey, Any]) -> LogPosition:
        """The end of the log, for a snapshot whose pods are ``pods``."""
        return LogPosition(log=self, position=self._first + len(self._keys), pods=pods)

    def between(self, start: int, end: int) -> Iterable[ObjectKey] | None:
        """Keys recorded from position ``start`` to ``end``, each once; None if ``start`` was dropped."""
        if not self._first <= start <= end:
            return None
        return dict.fromkeys(self._keys[start - self._first : end - self._first])


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """The state of a log when a snapshot was taken."""

    log: ChangeLog
    position: int
    pods: Mapping[ObjectKey, Any]
    """The pods of that snapshot: the position is valid for this mapping (by identity) only."""


def changed_keys(
    old: Mapping[ObjectKey, Any],
    old_position: LogPosition | None,
    new: Mapping[ObjectKey, Any],
    new_position: LogPosition | None,
) -> Iterable[ObjectKey] | None:
    """Keys of all pods that may differ between ``old`` and ``new``; None: unknown, the caller compares all pods."""
    if old is new:
        return ()
    if old_position is None or new_position is None or old_position.log is not new_position.log:
        return None
    if old_position.pods is not old or new_position.pods is not new:
        return None  # the pods of a snapshot were replaced by hand: the log does not describe them
    return new_position.log.between(old_position.position, new_position.position)
