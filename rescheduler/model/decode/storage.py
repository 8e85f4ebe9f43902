"""Decodes volumes, claims, storage classes and CSI objects."""

from __future__ import annotations

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
from rescheduler.model.decode.selectors import label_selector, node_selector
from rescheduler.model.decode.wire_types import (
    LabelSelectorWire,
    MetaWire,
    NodeSelectorWire,
    ObjectWire,
    ResourceList,
    ResourcesWire,
    Wire,
)
from rescheduler.model.records import ObjectKey
from rescheduler.model.resources import Amount, units
from rescheduler.model.selectors import LabelSet, NodeSelector, NodeSelectorTerm, Operator, Requirement
from rescheduler.model.storage_records import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
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


class PersistentVolumeClaimSpecWire(Wire):
    """v1.PersistentVolumeClaimSpec."""

    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: ResourcesWire | None = None
    selector: LabelSelectorWire | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimWire(ObjectWire):
    """v1.PersistentVolumeClaim."""

    spec: PersistentVolumeClaimSpecWire | None = None
    status: PhaseWire | None = None


class TopologyRequirementWire(Wire):
    """v1.TopologySelectorLabelRequirement."""

    key: str | None = None
    values: list[str] | None = None


class TopologyTermWire(Wire):
    """v1.TopologySelectorTerm."""

    match_label_expressions: list[TopologyRequirementWire] | None = None


class StorageClassWire(ObjectWire):
    """storage.k8s.io/v1 StorageClass."""

    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTermWire] | None = None


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


class CSIDriverSpecWire(Wire):
    """storage.k8s.io/v1 CSIDriverSpec."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriverWire(ObjectWire):
    """storage.k8s.io/v1 CSIDriver."""

    spec: CSIDriverSpecWire | None = None


class CSICapacityWire(ObjectWire):
    """storage.k8s.io/v1 CSIStorageCapacity."""

    node_topology: LabelSelectorWire | None = None
    storage_class_name: str | None = None
    capacity: Amount | None = None
    maximum_volume_size: Amount | None = None


class AttachmentSourceWire(Wire):
    """storage.k8s.io/v1 VolumeAttachmentSource."""

    persistent_volume_name: str | None = None


class AttachmentSpecWire(Wire):
    """storage.k8s.io/v1 VolumeAttachmentSpec."""

    attacher: str | None = None
    node_name: str | None = None
    source: AttachmentSourceWire | None = None


class AttachmentWire(ObjectWire):
    """storage.k8s.io/v1 VolumeAttachment."""

    spec: AttachmentSpecWire | None = None


def volume(wire: PersistentVolumeWire, meta: MetaWire, shared: SharedParts) -> PersistentVolume:
    """The record of a PV; the beta annotation of its class wins over the field, as in Kubernetes."""
    spec = wire.spec or PersistentVolumeSpecWire()
    labels = shared.labels(meta.labels)
    claim, csi = spec.claim_ref, spec.csi
    affinity = node_selector(spec.node_affinity.required if spec.node_affinity else None)
    migrated = NOT_MIGRATED if csi is not None else _in_tree(spec, labels)
    return PersistentVolume(
        name=meta.name or "",
        labels=labels,
        node_affinity=_by_labels(affinity),
        claim=ObjectKey(claim.namespace or "", claim.name or "") if claim else None,
        claim_uid=(claim.uid or "") if claim else "",
        storage_class=(meta.annotations or {}).get(_BETA_CLASS) or spec.storage_class_name or "",
        capacity_bytes=_storage(spec.capacity),
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


def claim(wire: PersistentVolumeClaimWire, meta: MetaWire, shared: SharedParts) -> PersistentVolumeClaim:
    """The record of a PVC. A claim is bound if it has a volume and the annotation, as in kube-scheduler."""
    spec, annotations = wire.spec or PersistentVolumeClaimSpecWire(), meta.annotations or {}
    namespace = meta.namespace or "default"
    owner = shared.owners(meta.owner_references, namespace).controller
    return PersistentVolumeClaim(
        namespace=namespace,
        name=meta.name or "",
        uid=meta.uid or "",
        volume=spec.volume_name or "",
        bound=bool(spec.volume_name) and _BIND_COMPLETED in annotations,
        storage_class=annotations.get(_BETA_CLASS) or spec.storage_class_name,
        access_modes=tuple(spec.access_modes or ()),
        request_bytes=_storage(spec.resources.requests if spec.resources else None),
        selector=label_selector(spec.selector),
        volume_mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        selected_node=annotations.get(_SELECTED_NODE) or "",
        phase=(wire.status.phase or "") if wire.status else "",
        deleting=meta.deletion_timestamp is not None,
        owner_uid=owner.uid if owner else "",
    )


def storage_class(wire: StorageClassWire, meta: MetaWire, shared: SharedParts) -> StorageClass:
    """The record of a StorageClass."""
    del shared
    annotations = meta.annotations or {}
    return StorageClass(
        name=meta.name or "",
        provisioner=wire.provisioner or "",
        wait_for_first_consumer=wire.volume_binding_mode == "WaitForFirstConsumer",
        allowed_topologies=tuple(_topology_term(term) for term in wire.allowed_topologies or ()),
        default=any(annotations.get(key) == "true" for key in _DEFAULT_CLASS),
    )


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


def attachment(wire: AttachmentWire, meta: MetaWire, shared: SharedParts) -> VolumeAttachment:
    """The record of a VolumeAttachment."""
    del shared
    spec = wire.spec or AttachmentSpecWire()
    source = spec.source.persistent_volume_name if spec.source else None
    return VolumeAttachment(meta.name or "", spec.node_name or "", spec.attacher or "", source or "")


def csi_driver(wire: CSIDriverWire, meta: MetaWire, shared: SharedParts) -> CSIDriver:
    """The record of a CSIDriver."""
    del shared
    spec = wire.spec or CSIDriverSpecWire()
    return CSIDriver(
        meta.name or "", bool(spec.storage_capacity), bool(spec.prevent_pod_scheduling_if_missing)
    )


def csi_capacity(wire: CSICapacityWire, meta: MetaWire, shared: SharedParts) -> CSIStorageCapacity:
    """The record of a CSIStorageCapacity."""
    del shared
    return CSIStorageCapacity(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        storage_class=wire.storage_class_name or "",
        topology=label_selector(wire.node_topology),
        capacity_bytes=None if wire.capacity is None else units(wire.capacity),
        maximum_bytes=None if wire.maximum_volume_size is None else units(wire.maximum_volume_size),
    )


def _by_labels(affinity: NodeSelector | None) -> NodeSelector | None:
    """The affinity of a volume as it is judged: by the labels of a node alone; None if it takes every node.

    kube-scheduler and the kubelet judge it on a node without a name (CheckNodeAffinity of component-helpers), and no
    matchFields are compared with such a node. So a valid term that has only matchFields selects every node.
    """
    if affinity is None or any(t.fields and not t.expressions and not t.invalid for t in affinity.terms):
        return None
    return NodeSelector(tuple(NodeSelectorTerm(t.expressions, invalid=t.invalid) for t in affinity.terms))


def _storage(amounts: ResourceList | None) -> int:
    amount = (amounts or {}).get("storage")
    return 0 if amount is None else units(amount)


def _topology_term(wire: TopologyTermWire) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        tuple(
            Requirement(item.key or "", Operator.IN, tuple(sorted(item.values or ())))
            for item in wire.match_label_expressions or ()
        )
    )


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
