"""VolumeZone: a bound volume's zone and region labels must agree with the node's.

A node without any zone or region label passes. A volume may name several zones, joined by two
underscores. Claims of ephemeral volumes are not looked at.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import ObjectKey
from rescheduler.model.selectors import Operator, Requirement
from rescheduler.model.storage_records import PersistentVolume, PersistentVolumeClaim
from rescheduler.scheduling.classes import Ask, PodClass
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, Refusal
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.plugin import FilterPlugin
from rescheduler.scheduling.volume_claims import not_found

REASON = "node(s) had no available volume zone"
_STABLE = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_LABELS = (*_STABLE, *_STABLE.values())


class _Places(NamedTuple):
    """Where the pod's volumes are."""

    mask: BoolArray | None
    """Nodes that fit; None if nothing is bound to a place."""
    error: str
    """Why that cannot be said; "" if it can."""


class VolumeZone(FilterPlugin):
    """Judges zones of volumes."""

    name: ClassVar[str] = "VolumeZone"
    reason: ClassVar[str] = REASON

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:
        """Refuses a pod whose claim or volume does not exist, or will never be bound."""
        error = _places(ask.kind, cluster).error
        return Refusal(self.name, error, unresolvable=True) if error else None

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes in the zones of all bound volumes."""
        return _places(ask.kind, cluster).mask


def _places(kind: PodClass, cluster: Cluster) -> _Places:
    if not kind.claims:
        return _Places(None, "")
    return kind.memo.of("places", cluster.volume_epoch, lambda: _locate(kind, cluster))


def _locate(kind: PodClass, cluster: Cluster) -> _Places:
    mask: BoolArray | None = None
    for volume in kind.spec.volumes:
        if volume.kind is not VolumeKind.CLAIM:
            continue
        claim = cluster.snapshot.claims.get(ObjectKey(kind.namespace, volume.source))
        if claim is None:
            return _Places(None, not_found("persistentvolumeclaim", volume.source))
        if not claim.volume:
            error = _unbound(claim, cluster)
            if error:
                return _Places(None, error)
            continue
        found = cluster.snapshot.volumes.get(claim.volume)
        if found is None:
            return _Places(None, not_found("persistentvolume", claim.volume))
        for requirement in _zones(found):
            here = _fits(requirement, cluster.nodes)
            mask = here if mask is None else mask & here
    # A cluster without zones has no zone conflicts: a node without any of these labels fits every volume.
    return _Places(None if mask is None else mask | ~_labelled(cluster.nodes), "")


def _unbound(claim: PersistentVolumeClaim, cluster: Cluster) -> str:
    if not claim.storage_class:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    found = cluster.snapshot.storage_classes.get(claim.storage_class)
    if found is None:
        return not_found("storageclass.storage.k8s.io", claim.storage_class)
    return "" if found.wait_for_first_consumer else "PersistentVolume had no name"


def _zones(volume: PersistentVolume) -> list[Requirement]:
    """One requirement for each label; a label that names an empty place is passed over."""
    found: list[Requirement] = []
    for key in _LABELS:
        value = volume.labels.get(key)
        places = [place.strip() for place in value.split("__")] if value is not None else [""]
        if all(places):
            found.append(Requirement(key, Operator.IN, tuple(places)))
    return found


def _fits(requirement: Requirement, nodes: NodeTable) -> BoolArray:
    """Nodes with such a label; where the old label is missing, the one that replaced it counts."""
    column = nodes.column(requirement.key)
    mask = column.matches(requirement)
    stable = _STABLE.get(requirement.key)
    if stable is None or column.complete:
        return mask
    return mask | (~column.present & nodes.column(stable).matches(requirement))


def _labelled(nodes: NodeTable) -> BoolArray:
    def find() -> BoolArray:
        found = ~nodes.all
        for key in _LABELS:
            found = found | nodes.column(key).present
        return found

    return nodes.memo.of("zone_labelled", None, find)
