"""Records of storage: volumes, claims, classes, drivers and attachments, as the scheduler judges them. Immutable."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import field

from rescheduler.model.forms import Bytes, Says, TopologyTerm
from rescheduler.model.records import Namespaced, ObjectKey
from rescheduler.model.selectors import NO_LABELS, LabelSelector, LabelSet, NodeSelector


class PersistentVolume(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PersistentVolume."""

    name: str
    labels: LabelSet = NO_LABELS
    node_affinity: NodeSelector | None = None
    """Without matchFields, which are not compared for volumes."""
    claim: ObjectKey | None = None
    claim_uid: str = ""
    storage_class: str = ""
    capacity_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    phase: str = ""
    driver: str = ""
    """CSI driver of a CSI volume, and of an in-tree volume that has a CSI identity."""
    handle: str = ""
    """CSI volume handle, likewise."""
    deleting: bool = False
    in_tree: str = ""
    """In-tree plugin if it is one that was migrated to CSI; empty for all other volumes."""
    migrated_affinity: NodeSelector | None = None
    """Node affinity that counts on nodes where ``in_tree`` is migrated, in place of ``node_affinity``."""
    untranslatable: str = ""
    """Why the in-tree volume has no CSI identity; VolumeBinding fails with it on nodes where it is migrated."""


class PersistentVolumeClaim(Namespaced, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim."""

    uid: str = ""
    volume: str = field(default="", name="spec.volumeName")
    bound: bool = False
    """The claim has a volume and the annotation pv.kubernetes.io/bind-completed."""
    storage_class: str | None = field(default=None, name="spec.storageClassName")
    """None: not given, so that the default class may apply."""
    access_modes: tuple[str, ...] = field(default=(), name="spec.accessModes")
    request_bytes: Bytes = field(default=0, name="spec.resources.requests.storage")
    selector: LabelSelector | None = field(default=None, name="spec.selector")
    volume_mode: str = field(default="Filesystem", name="spec.volumeMode")
    attributes_class: str = field(default="", name="spec.volumeAttributesClassName")
    selected_node: str = ""
    phase: str = field(default="", name="status.phase")
    deleting: bool = False
    owner_uid: str = ""


class StorageClass(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A StorageClass."""

    name: str
    provisioner: str = field(default="", name=".provisioner")
    wait_for_first_consumer: Annotated[bool, Says("WaitForFirstConsumer")] = field(
        default=False, name=".volumeBindingMode"
    )
    allowed_topologies: tuple[TopologyTerm, ...] = field(default=(), name=".allowedTopologies")
    """ORed terms of ``In`` requirements."""
    default: bool = False


class CSINode(msgspec.Struct, frozen=True, gc=False):
    """The CSI drivers and migrated plugins of a node."""

    name: str
    drivers: tuple[tuple[str, int | None, tuple[str, ...]], ...] = ()
    """(driver, allocatable volumes or None for no limit, topology keys)."""
    migrated_plugins: tuple[str, ...] = ()


class CSIDriver(msgspec.Struct, frozen=True, gc=False):
    """Flags of a CSIDriver that scheduling reads."""

    name: str
    storage_capacity: bool = field(default=False, name="spec.storageCapacity")
    prevent_scheduling_if_missing: bool = field(default=False, name="spec.preventPodSchedulingIfMissing")


class CSIStorageCapacity(Namespaced, frozen=True, gc=False, kw_only=True):
    """Free storage of a class in a topology segment."""

    storage_class: str = field(name=".storageClassName")
    topology: LabelSelector | None = field(default=None, name=".nodeTopology")
    capacity_bytes: Bytes | None = field(default=None, name=".capacity")
    """None: unknown."""
    maximum_bytes: Bytes | None = field(default=None, name=".maximumVolumeSize")
    """Largest size of one volume; None: unknown."""


class VolumeAttachment(msgspec.Struct, frozen=True, gc=False):
    """A volume that is, or is being, attached to a node."""

    name: str
    node: str = field(name="spec.nodeName")
    attacher: str = field(name="spec.attacher")
    volume: str = field(default="", name="spec.source.persistentVolumeName")
    """Name of the PV; empty for an inline volume."""
