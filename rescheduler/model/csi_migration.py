"""Which CSI driver and volume handle an old in-tree volume has today (csi-translation-lib 1.37).

Attach limits count volumes by these. Only what kube-scheduler counts is here: the five plugins whose
migration is always on.
"""

from __future__ import annotations

from typing import NamedTuple

from rescheduler.model.selectors import NO_LABELS, LabelSet

_UNSPECIFIED = "UNSPECIFIED"
_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_ZONE_PARTS = 3


class CSIVolume(NamedTuple):
    """Driver and handle; both empty: not counted."""

    driver: str = ""
    handle: str = ""


NOT_COUNTED = CSIVolume()


def aws_volume(volume_id: str) -> CSIVolume:
    """An EBS volume: "vol-1" or "aws://zone/vol-1"."""
    if volume_id.startswith("aws://"):
        volume_id = volume_id.removeprefix("aws://").partition("/")[2].strip("/")
        if not volume_id.startswith("vol-") or "/" in volume_id:
            return NOT_COUNTED
    return CSIVolume("ebs.csi.aws.com", volume_id)


def gce_volume(disk: str, labels: LabelSet = NO_LABELS) -> CSIVolume:
    """A persistent disk; ``labels`` of its PV say the zone or zones, an inline one has none."""
    zones = next((value for key in _ZONE_LABELS if (value := labels.get(key))), "")
    places = zones.split("__")
    if len(places) == 1:
        place = f"zones/{places[0] or _UNSPECIFIED}"
    else:
        regions = {zone.rpartition("-")[0] for zone in places if zone.count("-") == _ZONE_PARTS - 1}
        if len(regions) != 1:
            return NOT_COUNTED
        place = f"regions/{regions.pop()}"
    return CSIVolume("pd.csi.storage.gke.io", f"projects/{_UNSPECIFIED}/{place}/disks/{disk}")


def azure_volume(disk_uri: str, kind: str) -> CSIVolume:
    """An Azure disk; only managed ones are migrated."""
    return CSIVolume("disk.csi.azure.com", disk_uri) if kind.lower() == "managed" else NOT_COUNTED


def cinder_volume(volume_id: str) -> CSIVolume:
    """An OpenStack volume."""
    return CSIVolume("cinder.csi.openstack.org", volume_id)


def portworx_volume(volume_id: str) -> CSIVolume:
    """A Portworx volume."""
    return CSIVolume("pxd.portworx.com", volume_id)
