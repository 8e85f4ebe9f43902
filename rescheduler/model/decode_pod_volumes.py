"""Volumes of a pod spec from the wire: those that scheduling or protections look at."""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.model.csi_migration import (
    CSIVolume,
    aws_volume,
    azure_volume,
    cinder_volume,
    gce_volume,
    portworx_volume,
)
from rescheduler.model.records import PodVolume, VolumeKind
from rescheduler.model.wire_pod import VolumeWire


def pod_volumes(wires: Iterable[VolumeWire] | None) -> tuple[PodVolume, ...]:
    """Volumes in their order; kinds that nothing looks at (configMap, projected, ...) are left out."""
    return tuple(volume for wire in wires or () if (volume := _volume(wire)) is not None)


def _volume(wire: VolumeWire) -> PodVolume | None:
    if wire.persistent_volume_claim is not None:
        claim = wire.persistent_volume_claim
        return PodVolume(VolumeKind.CLAIM, claim.claim_name or "", bool(claim.read_only))
    if wire.ephemeral is not None:
        return PodVolume(VolumeKind.EPHEMERAL, wire.name or "")
    if wire.empty_dir is not None:
        return PodVolume(VolumeKind.EMPTY_DIR)
    if wire.host_path is not None:
        return PodVolume(VolumeKind.HOST_PATH)
    if wire.csi is not None:
        return PodVolume(VolumeKind.INLINE_CSI, wire.csi.driver or "", bool(wire.csi.read_only))
    return _network_disk(wire) or _cloud_disk(wire)


def _network_disk(wire: VolumeWire) -> PodVolume | None:
    if wire.iscsi is not None:
        return PodVolume(VolumeKind.ISCSI, wire.iscsi.iqn or "", bool(wire.iscsi.read_only))
    if wire.rbd is not None:
        source = f"{','.join(wire.rbd.monitors or ())}|{wire.rbd.pool or 'rbd'}|{wire.rbd.image or ''}"
        return PodVolume(VolumeKind.RBD, source, bool(wire.rbd.read_only))
    return None


def _cloud_disk(wire: VolumeWire) -> PodVolume | None:
    if (gce := wire.gce_persistent_disk) is not None:
        name = gce.pd_name or ""
        return _migrated(wire, VolumeKind.GCE, name, gce_volume(name), read_only=gce.read_only)
    if (aws := wire.aws_elastic_block_store) is not None:
        identity = aws.volume_id or ""
        return _migrated(wire, VolumeKind.AWS, identity, aws_volume(identity), read_only=aws.read_only)
    if (azure := wire.azure_disk) is not None:
        uri = azure.disk_uri or ""
        migrated = azure_volume(uri, azure.kind)
        return _migrated(wire, VolumeKind.AZURE_DISK, uri, migrated, read_only=azure.read_only)
    if (cinder := wire.cinder) is not None:
        identity = cinder.volume_id or ""
        disk = cinder_volume(identity)
        return _migrated(wire, VolumeKind.CINDER, identity, disk, read_only=cinder.read_only)
    if (portworx := wire.portworx_volume) is not None:
        identity = portworx.volume_id or ""
        disk = portworx_volume(identity)
        return _migrated(wire, VolumeKind.PORTWORX, identity, disk, read_only=portworx.read_only)
    return None


def _migrated(
    wire: VolumeWire, kind: VolumeKind, source: str, csi: CSIVolume, *, read_only: bool | None
) -> PodVolume:
    error = f"converting volume({wire.name or ''}) from inline to csi: {csi.error}" if csi.error else ""
    return PodVolume(kind, source, bool(read_only), csi.driver, csi.handle, error)
