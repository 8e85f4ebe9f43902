"""The volumes of a pod, as far as scheduling or protections read them. Types only."""

from __future__ import annotations

import enum

import msgspec


class VolumeKind(enum.StrEnum):
    """The kinds of pod volumes that scheduling or protections read."""

    CLAIM = "persistentVolumeClaim"
    EPHEMERAL = "ephemeral"
    EMPTY_DIR = "emptyDir"
    HOST_PATH = "hostPath"
    INLINE_CSI = "csi"
    GCE = "gcePersistentDisk"
    AWS = "awsElasticBlockStore"
    ISCSI = "iscsi"
    RBD = "rbd"
    AZURE_DISK = "azureDisk"
    CINDER = "cinder"
    PORTWORX = "portworxVolume"


class PodVolume(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A volume of a pod."""

    kind: VolumeKind
    source: str = ""
    """The claim's name for CLAIM, the volume's name for EPHEMERAL (its claim is POD-source), EMPTY_DIR and HOST_PATH, the driver for INLINE_CSI.

    For an in-tree disk what VolumeRestrictions compares: disk name, volume id, iqn, or ``monitors|pool|image`` with
    the monitors joined by commas.
    """
    read_only: bool = False
    driver: str = ""
    """CSI driver of an in-tree volume: attach limits count it there. Empty if it has no CSI identity."""
    handle: str = ""
    """CSI volume handle of an in-tree volume."""
    untranslatable: str = ""
    """Why an in-tree volume of a migrated plugin has no CSI identity."""
