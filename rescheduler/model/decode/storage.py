"""Decodes volumes, claims, storage classes and CSI objects."""

from __future__ import annotations

import msgspec

from rescheduler.model.csi_translation import (
    NOT_MIGRATED,
    CSIVolume,
    aws_volume,
    azure_volume,
    cinder_volume,
    gce_volume,
    migrated_affinity,
    portworx_volume,
)
from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.pod_wire_types import VolumeSourceWire
from rescheduler.model.decode.selectors import node_selector
from rescheduler.model.decode.wire_types import (
    MetaWire,
    NodeSelectorWire,
    ObjectWire,
    ResourceList,
    Wire,
)
from rescheduler.model.records import ObjectKey
from rescheduler.model.resources import units
from rescheduler.model.selectors import LabelSet, NodeSelector, NodeSelectorTerm
from rescheduler.model.storage_records import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class ClaimRefWire(Wire):
    """v1.ObjectReference to a claim."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class CSIVolumeSourceWire(Wire):
    """v1.CSIPersistentVolumeSource."""

    driver: str | None = None
    volume_handle: str | None = None


class VolumeNodeAffinityWire(Wire):
    """v1.VolumeNodeAffinity."""

    required: NodeSelectorWire | None = None


class PersistentVolumeSpecWire(Wire):
    """v1.PersistentVolumeSpec."""

    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    claim_ref: ClaimRefWire | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinityWire | None = None
    csi: CSIVolumeSourceWire | None = None
    gce_persistent_disk: VolumeSourceWire | None = None
    aws_elastic_block_store: VolumeSourceWire | None = None
    azure_disk: VolumeSourceWire | None = None
    cinder: VolumeSourceWire | None = None
    portworx_volume: VolumeSourceWire | None = None


class PhaseWire(Wire):
    """A status of which only the phase matters."""

    phase: str | None = None


class PersistentVolumeWire(ObjectWire):
    """v1.PersistentVolume."""

    spec: PersistentVolumeSpecWire | None = None
    status: PhaseWire | None = None


class CSICountWire(Wire):
    """storage.k8s.io/v1 VolumeNodeResources."""

    count: int | None = None


class CSINodeDriverWire(Wire):
    """storage.k8s.io/v1 CSINodeDriver."""

    name: str | None = None
    allocatable: CSICountWire | None = None
    topology_keys: list[str] | None = None


class CSINodeSpecWire(Wire):
    """storage.k8s.io/v1 CSINodeSpec."""

    drivers: list[CSINodeDriverWire] | None = None


class CSINodeWire(ObjectWire):
    """storage.k8s.io/v1 CSINode."""

    spec: CSINodeSpecWire | None = None


def volume(wire: PersistentVolumeWire, meta: MetaWire, shared: SharedParts) -> PersistentVolume:
    """The record of a PV; the beta annotation of its class wins over the field, as in Kubernetes."""
    spec = wire.spec or PersistentVolumeSpecWire()
    labels = shared.labels(meta.labels)
    claim, csi, size = spec.claim_ref, spec.csi, (spec.capacity or {}).get("storage")
    affinity = node_selector(spec.node_affinity.required if spec.node_affinity else None)
    migrated = NOT_MIGRATED if csi is not None else _in_tree(spec, labels)
    return PersistentVolume(
        name=meta.name or "",
        labels=labels,
        node_affinity=_by_labels(affinity),
        claim=ObjectKey(claim.namespace or "", claim.name or "") if claim else None,
        claim_uid=(claim.uid or "") if claim else "",
        storage_class=(meta.annotations or {}).get(_BETA_CLASS) or spec.storage_class_name or "",
        capacity_bytes=0 if size is None else units(size),
        access_modes=tuple(spec.access_modes or ()),
        volume_mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        phase=(wire.status.phase or "") if wire.status else "",
        driver=migrated.driver if csi is None else csi.driver or "",
        handle=migrated.handle if csi is None else csi.volume_handle or "",
        deleting=meta.deletion_timestamp is not None,
        in_tree=migrated.plugin,
        migrated_affinity=_by_labels(migrated_affinity(migrated.plugin, affinity, labels)),
        untranslatable=migrated.error,
    )


def with_annotations(
    found: PersistentVolumeClaim, meta: MetaWire, shared: SharedParts
) -> PersistentVolumeClaim:
    """With what annotations and owners say. A claim is bound if it has a volume and the annotation, as in kube-scheduler."""
    annotations, owner = (
        meta.annotations or {},
        shared.owners(meta.owner_references, found.namespace).controller,
    )
    return msgspec.structs.replace(
        found,
        bound=bool(found.volume) and _BIND_COMPLETED in annotations,
        storage_class=annotations.get(_BETA_CLASS) or found.storage_class,
        selected_node=annotations.get(_SELECTED_NODE) or "",
        owner_uid=owner.uid if owner else "",
    )


def with_default(found: StorageClass, meta: MetaWire, shared: SharedParts) -> StorageClass:
    """With whether it is the default class."""
    del shared
    annotations = meta.annotations or {}
    default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return msgspec.structs.replace(found, default=default)


def csi_node(wire: CSINodeWire, meta: MetaWire, shared: SharedParts) -> CSINode:
    """The record of a CSINode."""
    del shared
    drivers = (wire.spec.drivers if wire.spec else None) or ()
    return CSINode(
        meta.name or "",
        tuple(
            (d.name or "", d.allocatable.count if d.allocatable else None, tuple(d.topology_keys or ()))
            for d in drivers
        ),
        tuple(filter(None, ((meta.annotations or {}).get(_MIGRATED_PLUGINS) or "").split(","))),
    )


def _by_labels(affinity: NodeSelector | None) -> NodeSelector | None:
    """The affinity of a volume as it is judged: by the labels of a node alone; None if it takes every node.

    kube-scheduler and the kubelet judge it on a node without a name (CheckNodeAffinity of component-helpers), and no
    matchFields are compared with such a node. So a valid term that has only matchFields selects every node.
    """
    if affinity is None or any(t.fields and not t.expressions and not t.invalid for t in affinity.terms):
        return None
    return NodeSelector(tuple(NodeSelectorTerm(t.expressions, invalid=t.invalid) for t in affinity.terms))


def _in_tree(spec: PersistentVolumeSpecWire, labels: LabelSet) -> CSIVolume:
    if spec.gce_persistent_disk is not None:
        return gce_volume(spec.gce_persistent_disk.pd_name or "", labels)
    if spec.aws_elastic_block_store is not None:
        return aws_volume(spec.aws_elastic_block_store.volume_id or "")
    if spec.azure_disk is not None:
        return azure_volume(spec.azure_disk.disk_uri or "", spec.azure_disk.kind)
    if spec.cinder is not None:
        return cinder_volume(spec.cinder.volume_id or "")
    if spec.portworx_volume is not None:
        return portworx_volume(spec.portworx_volume.volume_id or "")
    return NOT_MIGRATED
