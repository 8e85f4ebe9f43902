"""VolumeRestrictions: disks that only one pod of a node may write, and claims that only one pod may use.

A ReadWriteOncePod claim that any pod on a node uses refuses every node, so the old pod blocks its
replacement until it is gone. If nothing conflicts yet, the plugin is skipped, nominated pods included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from rescheduler.model.pod_volumes import PodVolume, VolumeKind
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.storage_records import PersistentVolumeClaim
from rescheduler.scheduling.classes import Ask, Nominated, PodClass
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, Refusal
from rescheduler.scheduling.plugin import FilterPlugin
from rescheduler.scheduling.volume_claims import not_found

ACCESS_MODE: Final = "ReadWriteOncePod"
DISK = "node(s) had no available disk"
READ_WRITE_ONCE_POD = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
_DISKS = frozenset({VolumeKind.GCE, VolumeKind.AWS, VolumeKind.ISCSI, VolumeKind.RBD})


class VolumeRestrictions(FilterPlugin):
    """Judges disks and ReadWriteOncePod claims."""

    name: ClassVar[str] = "VolumeRestrictions"

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:
        """Refuses a pod whose claim does not exist."""
        for key in _claims(ask.kind):
            if key not in cluster.snapshot.claims:
                return Refusal(self.name, not_found("persistentvolumeclaim", key.name), unresolvable=True)
        return None

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """All nodes or none for claims; nodes without a conflicting disk for disks."""
        if any(cluster.claim_in_use(key) for key in _exclusive(ask.kind, cluster)):
            return np.zeros(cluster.nodes.size, dtype=np.bool_)
        if not ask.kind.disks:
            return None
        mask = cluster.nodes.all.copy()
        for node, users in cluster.occupancy.disk_users.items():
            mask[node] = not _conflict(ask.kind, users)
        return mask

    def refusals(
        self, ask: Ask, cluster: Cluster, node: int, nominated: Sequence[Nominated] = ()
    ) -> tuple[Refusal, ...]:
        """Disks first; both go away with the pod that uses them."""
        if not ask.kind.claims and not ask.kind.disks:
            return ()
        exclusive = _exclusive(ask.kind, cluster)
        in_use = any(cluster.claim_in_use(key) for key in exclusive)
        if not ask.kind.disks and not in_use:
            return ()
        users = [*cluster.occupancy.disk_users.get(node, ()), *(one.kind for one in nominated)]
        if _conflict(ask.kind, users):
            return (Refusal(self.name, DISK),)
        names = {key.name for key in exclusive}
        if in_use or any(key.name in names for one in nominated for key in _claims(one.kind)):
            return (Refusal(self.name, READ_WRITE_ONCE_POD),)
        return ()


def exclusive_claims(
    pod: Pod | PodClass, claims: Mapping[ObjectKey, PersistentVolumeClaim]
) -> list[ObjectKey]:
    """Those of the pod's claims that only one pod may use at a time, wherever it runs."""
    return [
        key
        for key in _claims(pod)
        if (claim := claims.get(key)) is not None and ACCESS_MODE in claim.access_modes
    ]


def _claims(pod: Pod | PodClass) -> list[ObjectKey]:
    return [ObjectKey(pod.namespace, v.source) for v in pod.spec.volumes if v.kind is VolumeKind.CLAIM]


def _exclusive(kind: PodClass, cluster: Cluster) -> list[ObjectKey]:
    return exclusive_claims(kind, cluster.snapshot.claims) if kind.claims else []


def _conflict(kind: PodClass, users: Iterable[PodClass]) -> bool:
    wanted = [volume for volume in kind.spec.volumes if volume.kind in _DISKS]
    return any(
        _clash(volume, other)
        for user in users
        for other in user.spec.volumes
        for volume in wanted
        if volume.kind is other.kind
    )


def _clash(volume: PodVolume, other: PodVolume) -> bool:
    if volume.kind is VolumeKind.AWS:
        return volume.source == other.source
    if volume.read_only and other.read_only:
        return False
    if volume.kind is not VolumeKind.RBD:
        return volume.source == other.source
    monitors, _, image = volume.source.partition("|")
    others, _, other_image = other.source.partition("|")
    return image == other_image and not set(monitors.split(",")).isdisjoint(others.split(","))
