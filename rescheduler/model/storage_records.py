"""Records of storage: volumes, claims, classes, drivers and attachments, as the scheduler judges them. Immutable."""

from __future__ import annotations

import msgspec

from rescheduler.model.records import Namespaced, ObjectKey
from rescheduler.model.selectors import NO_LABELS, LabelSelector, LabelSet, NodeSelector, NodeSelectorTerm


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
    volume: str = ""
    bound: bool = False
    """The claim has a volume and the annotation pv.kubernetes.io/bind-completed."""
    storage_class: str | None = None
    """None: not given, so that the default class may apply."""
    access_modes: tuple[str, ...] = ()
    request_bytes: int = 0
    selector: LabelSelector | None = None
    volume_mode: str = "Filesystem"
    attributes_class: str = ""
    selected_node: str = ""
    phase: str = ""
    deleting: bool = False
    owner_uid: str = ""


class StorageClass(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A StorageClass."""

    name: str
    provisioner: str = ""
    wait_for_first_consumer: bool = False
    allowed_topologies: tuple[NodeSelectorTerm, ...] = ()
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
    storage_capacity: bool = False
    prevent_scheduling_if_missing: bool = False


class CSIStorageCapacity(Namespaced, frozen=True, gc=False, kw_only=True):
    """Free storage of a class in a topology segment."""

    storage_class: str
    topology: LabelSelector | None = None
    capacity_bytes: int | None = None
    """None: unknown."""
    maximum_bytes: int | None = None
    """Largest size of one volume; None: unknown."""


class VolumeAttachment(msgspec.Struct, frozen=True, gc=False):
    """A volume that is, or is being, attached to a node."""

    name: str
    node: str
    attacher: str
    volume: str = ""
    """Name of the PV; empty for an inline volume."""
