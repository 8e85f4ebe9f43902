"""CSI driver and volume handle of in-tree volumes (csi-translation-lib 1.37).

Attach limits count volumes by driver and handle, and a bound volume is placed by its CSI topology on nodes where
the plugin is migrated. Only the five plugins whose migration is always on are here. Errors have the text of that
library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from rescheduler.model.selectors import (
    NO_LABELS,
    LabelSet,
    NodeSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)

AWS: Final = "kubernetes.io/aws-ebs"
GCE: Final = "kubernetes.io/gce-pd"
AZURE: Final = "kubernetes.io/azure-disk"
CINDER: Final = "kubernetes.io/cinder"
PORTWORX: Final = "kubernetes.io/portworx-volume"

DRIVERS: Final = {
    AWS: "ebs.csi.aws.com",
    GCE: "pd.csi.storage.gke.io",
    AZURE: "disk.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
}
"""In-tree plugin (also the provisioner of its classes) -> CSI driver."""

_TOPOLOGY: Final = {
    AWS: "topology.ebs.csi.aws.com/zone",
    GCE: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_SEPARATOR: Final = "__"
_UNSPECIFIED: Final = "UNSPECIFIED"
_ZONE_PARTS: Final = 3
_AWS_VOLUME: Final = re.compile(r"vol-[^/]*")


class CSIVolume(NamedTuple):
    """The CSI identity of an in-tree volume. ``error``: why it has none."""

    plugin: str = ""
    handle: str = ""
    error: str = ""

    @property
    def driver(self) -> str:
        """The CSI driver; empty if the volume has no CSI identity."""
        return "" if self.error else DRIVERS.get(self.plugin, "")


NOT_MIGRATED = CSIVolume()


def aws_volume(volume_id: str) -> CSIVolume:
    """An EBS volume: "vol-1" or "aws://zone/vol-1"."""
    if not volume_id.startswith("aws://"):
        return CSIVolume(AWS, volume_id)
    try:
        found = unquote(urlsplit(volume_id).path).strip("/")
    except ValueError:
        found = ""
    if _AWS_VOLUME.fullmatch(found):
        return CSIVolume(AWS, found)
    error = f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
    return CSIVolume(AWS, error=error)


def gce_volume(disk: str, labels: LabelSet = NO_LABELS) -> CSIVolume:
    """A persistent disk. The zones are read from the labels of its PV; an inline volume has no labels."""
    zones = next((value for key in (_BETA_ZONE, _ZONE) if (value := labels.get(key))), "")
    places = zones.split(_SEPARATOR)
    if len(places) == 1:
        return CSIVolume(GCE, _gce_handle(f"zones/{places[0] or _UNSPECIFIED}", disk))
    for zone in places:
        if zone.count("-") != _ZONE_PARTS - 1:
            error = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            return CSIVolume(GCE, error=f"failed to get region from zones: {error}")
    regions = sorted({zone.rpartition("-")[0] for zone in places})
    if len(regions) != 1:
        shown = " ".join(f"{region}:{{}}" for region in regions)
        error = (
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{shown}]"
        )
        return CSIVolume(GCE, error=error)
    return CSIVolume(GCE, _gce_handle(f"regions/{regions[0]}", disk))


def azure_volume(disk_uri: str, kind: str | None) -> CSIVolume:
    """An Azure disk. Only managed disks are migrated; ``kind`` None means managed."""
    if kind is None or kind.lower() == "managed":
        return CSIVolume(AZURE, disk_uri)
    return CSIVolume(AZURE, error=f"kind({kind}) is not supported in csi migration")


def cinder_volume(volume_id: str) -> CSIVolume:
    """An OpenStack volume."""
    return CSIVolume(CINDER, volume_id)


def portworx_volume(volume_id: str) -> CSIVolume:
    """A Portworx volume."""
    return CSIVolume(PORTWORX, volume_id)


def migrated_affinity(plugin: str, affinity: NodeSelector | None, labels: LabelSet) -> NodeSelector | None:
    """The node affinity of a PV of an in-tree plugin in the topology keys of its CSI driver.

    The zone key of its node affinity is renamed; without one, the zones of its label are added to every term.
    """
    topology = _TOPOLOGY.get(plugin)
    if topology is None:
        return affinity
    zone, region = _keys_of(affinity, labels)
    if _has_values(affinity, zone):
        affinity = _renamed(affinity, zone, topology)
    else:
        zones = {part.strip() for part in (labels.get(zone) or "").split(_SEPARATOR)} - {""}
        if zones:
            affinity = _narrowed(affinity, Requirement(topology, Operator.IN, tuple(sorted(zones))))
    if region == _BETA_REGION and _has_values(affinity, _BETA_REGION):
        affinity = _renamed(affinity, _BETA_REGION, _REGION)
    return affinity


def _gce_handle(place: str, disk: str) -> str:
    return f"projects/{_UNSPECIFIED}/{place}/disks/{disk}"


def _keys_of(affinity: NodeSelector | None, labels: LabelSet) -> tuple[str, str]:
    """The keys of zone and region that the volume uses, old or new."""
    used = {requirement.key for requirement in _requirements(affinity)}
    for place in (used, labels):
        if _ZONE in place:
            return _ZONE, _REGION
        if _BETA_ZONE in place:
            return _BETA_ZONE, _BETA_REGION
    return _ZONE, _REGION


def _requirements(affinity: NodeSelector | None) -> Iterable[Requirement]:
    terms = affinity.terms if affinity is not None else ()
    return (requirement for term in terms for requirement in term.expressions)


def _has_values(affinity: NodeSelector | None, key: str) -> bool:
    return any(requirement.key == key and requirement.values for requirement in _requirements(affinity))


def _renamed(affinity: NodeSelector | None, old: str, new: str) -> NodeSelector | None:
    if affinity is None:
        return None
    return NodeSelector(
        tuple(
            NodeSelectorTerm(
                tuple(
                    Requirement(new, one.operator, one.values) if one.key == old else one
                    for one in term.expressions
                ),
                term.fields,
                term.invalid,
            )
            for term in affinity.terms
        )
    )


def _narrowed(affinity: NodeSelector | None, requirement: Requirement) -> NodeSelector:
    terms = affinity.terms if affinity is not None else ()
    return NodeSelector(
        tuple(
            NodeSelectorTerm((*term.expressions, requirement), term.fields, term.invalid)
            for term in terms or (NodeSelectorTerm(),)
        )
    )
