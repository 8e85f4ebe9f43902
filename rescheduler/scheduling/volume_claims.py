"""The claims of a pod, resolved: found, bound, waiting for a first consumer, or not usable at all.

Shared by the volume plugins. A pod that names a claim which does not exist is refused with the words of
kube-scheduler's listers.
"""

from __future__ import annotations

from typing import NamedTuple

from rescheduler.model.pod_volumes import PodVolume, VolumeKind
from rescheduler.model.records import ObjectKey
from rescheduler.model.storage_records import PersistentVolumeClaim
from rescheduler.scheduling.classes import Ask, PodClass
from rescheduler.scheduling.cluster import Cluster

_LOST = "Lost"


class PodClaims(NamedTuple):
    """Claims of a pod in the order of its volumes."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    """Claims that wait for a first consumer."""
    error: str = ""
    """Why the pod cannot be scheduled anywhere."""


def claim_key(kind: PodClass, volume: PodVolume) -> ObjectKey | None:
    """The claim that a volume stands on; None if it needs none."""
    if volume.kind is VolumeKind.CLAIM:
        return ObjectKey(kind.namespace, volume.source)
    if volume.kind is VolumeKind.EPHEMERAL:
        return ObjectKey(kind.namespace, f"{kind.key.pod_name}-{volume.source}")
    return None


def pod_claims(ask: Ask, cluster: Cluster) -> PodClaims:
    """The pod's claims as VolumeBinding sees them."""
    return ask.kind.memo.of("claims", cluster.volume_epoch, lambda: _resolve(ask.kind, cluster))


def foreign(kind: PodClass, volume: PodVolume, claim: PersistentVolumeClaim) -> str:
    """What is wrong if an ephemeral volume of the pod has the claim of another pod; "" if nothing is."""
    if volume.kind is not VolumeKind.EPHEMERAL or claim.owner_uid == kind.key.pod_uid:
        return ""
    return f"PVC {claim.key} was not created for pod {kind.namespace}/{kind.key.pod_name} (pod is not owner)"


def not_found(kind: str, name: str) -> str:
    """What a lister says of a missing object."""
    return f'{kind} "{name}" not found'


def is_delayed(claim: PersistentVolumeClaim, cluster: Cluster) -> bool:
    """True if the claim's class waits for a first consumer."""
    found = cluster.snapshot.storage_classes.get(claim.storage_class or "")
    return found is not None and found.wait_for_first_consumer


def _resolve(kind: PodClass, cluster: Cluster) -> PodClaims:
    found: list[PersistentVolumeClaim] = []
    for volume in kind.spec.volumes:
        key = claim_key(kind, volume)
        if key is None:
            continue
        claim = cluster.snapshot.claims.get(key)
        error = _unusable(kind, volume, key, claim)
        if error or claim is None:
            return PodClaims(error=error)
        found.append(claim)
    bound = tuple(claim for claim in found if claim.bound)
    unbound = [claim for claim in found if not claim.bound]
    if any(claim.volume or not is_delayed(claim, cluster) for claim in unbound):
        return PodClaims(error="pod has unbound immediate PersistentVolumeClaims")
    return PodClaims(bound, tuple(unbound))


def _unusable(kind: PodClass, volume: PodVolume, key: ObjectKey, claim: PersistentVolumeClaim | None) -> str:
    ephemeral = volume.kind is VolumeKind.EPHEMERAL
    if claim is None:
        if ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{key.name}"'
        return not_found("persistentvolumeclaim", key.name)
    if claim.phase == _LOST:
        return f'persistentvolumeclaim "{key.name}" bound to non-existent persistentvolume "{claim.volume}"'
    if claim.deleting:
        return f'persistentvolumeclaim "{key.name}" is being deleted'
    return foreign(kind, volume, claim)
