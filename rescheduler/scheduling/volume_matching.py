"""Which volume an unbound claim would get on a node, and whether one can be made there."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from rescheduler.model.storage_records import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from rescheduler.scheduling.cluster import Cluster

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_AVAILABLE = "Available"


class Binding(NamedTuple):
    """A claim and the volume that it would be bound to."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


class Matched(NamedTuple):
    """Claims that find a volume on a node, and those that do not."""

    bindings: list[Binding]
    unbound: list[PersistentVolumeClaim]


class Provisioning(enum.Enum):
    """Whether volumes can be made for a node."""

    POSSIBLE = enum.auto()
    NO_PROVISIONER = enum.auto()
    NO_SPACE = enum.auto()


class Provisioned(NamedTuple):
    """The verdict, and the capacities that it rests on."""

    verdict: Provisioning
    capacities: list[tuple[PersistentVolumeClaim, CSIStorageCapacity]]


def bind_on(claims: Sequence[PersistentVolumeClaim], cluster: Cluster, node: int) -> Matched:
    """The smallest volumes that fit, smallest claim first; a volume is given once."""
    matched = Matched([], [])
    chosen: set[str] = set()
    for claim in sorted(claims, key=lambda c: c.request_bytes):
        volume = _volume_for(claim, chosen, cluster, node)
        if volume is None:
            matched.unbound.append(claim)
        else:
            chosen.add(volume.name)
            matched.bindings.append(Binding(claim, volume))
    return matched


def provisioned_on(claims: Sequence[PersistentVolumeClaim], cluster: Cluster, node: int) -> Provisioned:
    """Whether every claim's class can make a volume that the node reaches, with enough room."""
    capacities: list[tuple[PersistentVolumeClaim, CSIStorageCapacity]] = []
    for claim in claims:
        found = cluster.snapshot.storage_classes.get(claim.storage_class or "")
        if found is None or found.provisioner in ("", _NO_PROVISIONER) or not _reaches(found, cluster, node):
            return Provisioned(Provisioning.NO_PROVISIONER, [])
        driver = cluster.snapshot.csi_drivers.get(found.provisioner)
        if not claim.request_bytes or driver is None or not driver.storage_capacity:
            continue
        capacity = _room(found, claim, cluster, node)
        if capacity is None:
            return Provisioned(Provisioning.NO_SPACE, [])
        capacities.append((claim, capacity))
    return Provisioned(Provisioning.POSSIBLE, capacities)


def _volume_for(
    claim: PersistentVolumeClaim, chosen: set[str], cluster: Cluster, node: int
) -> PersistentVolume | None:
    best: PersistentVolume | None = None
    for volume in cluster.volumes_of_class(claim.storage_class or ""):
        if volume.name in chosen or volume.deleting or volume.volume_mode != claim.volume_mode:
            continue
        if volume.capacity_bytes < claim.request_bytes or volume.attributes_class != claim.attributes_class:
            continue
        # A volume that was bound in advance is the claim's for good, here or nowhere; others take what is free.
        if volume.claim is not None:
            if _is_for(volume, claim):
                return volume if _near(volume, cluster, node) else None
            continue
        # The smallest that is large enough; volumes come by name, so that equals are taken in that order.
        if best is not None and best.capacity_bytes <= volume.capacity_bytes:
            continue
        if _matches(volume, claim) and _near(volume, cluster, node):
            best = volume
    return best


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return volume.claim == claim.key and volume.claim_uid in ("", claim.uid)


def _matches(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.phase == _AVAILABLE
        and (claim.selector is None or claim.selector.matches(volume.labels))
        and set(claim.access_modes) <= set(volume.access_modes)
    )


def _near(volume: PersistentVolume, cluster: Cluster, node: int) -> bool:
    affinity = volume.node_affinity
    return affinity is None or bool(cluster.nodes.selector_mask(affinity)[node])


def _reaches(storage_class: StorageClass, cluster: Cluster, node: int) -> bool:
    terms = storage_class.allowed_topologies
    return not terms or any(bool(cluster.nodes.term_mask(term)[node]) for term in terms)


def _room(
    storage_class: StorageClass, claim: PersistentVolumeClaim, cluster: Cluster, node: int
) -> CSIStorageCapacity | None:
    for capacity in cluster.snapshot.csi_capacities.values():
        if capacity.storage_class != storage_class.name or capacity.topology is None:
            continue
        limit = capacity.capacity_bytes if capacity.maximum_bytes is None else capacity.maximum_bytes
        if limit is None or limit < claim.request_bytes:
            continue
        if cluster.nodes.label_selector_mask(capacity.topology)[node]:
            return capacity
    return None
