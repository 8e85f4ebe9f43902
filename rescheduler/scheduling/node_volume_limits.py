"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach, and whether it has the driver.

Volumes of unbound claims count under a handle of their own. VolumeAttachments without a pod are not
known here and do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rescheduler.model.records import CSINode, PersistentVolumeClaim
from rescheduler.scheduling.classes import Ask, Nominated, PodClass
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, Refusal
from rescheduler.scheduling.volume_claims import claim_volumes, foreign_claim

EXCEEDED = "node(s) exceed max volume count"
_MIGRATED = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
_NOT_MIGRATED = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
Volumes = frozenset[tuple[str, str]]
"""(driver, handle)."""


class NodeVolumeLimits:
    """Judges attach limits."""

    name: ClassVar[str] = "NodeVolumeLimits"

    def everywhere(self, ask: Ask, cluster: Cluster) -> None:
        """Never refuses everywhere."""

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes that can attach the pod's volumes."""
        wanted = attached(ask.kind, cluster)
        if not wanted:
            return None
        mask = cluster.nodes.all.copy()
        for node, name in enumerate(cluster.nodes.names):
            csi_node = cluster.snapshot.csi_nodes.get(name)
            if csi_node is not None or self._guarded(wanted, cluster):
                mask[node] = not self.refusals(ask, cluster, node)
        return mask

    def refusals(
        self, ask: Ask, cluster: Cluster, node: int, nominated: Sequence[Nominated] = ()
    ) -> tuple[Refusal, ...]:
        """A missing driver is reported before a full node; both may change.

        A pod on the node whose ephemeral volume has the claim of another pod is an error of
        kube-scheduler, which then takes no pod with volumes there.
        """
        wanted = attached(ask.kind, cluster)
        if not wanted:
            return ()
        csi_node = cluster.snapshot.csi_nodes.get(cluster.nodes.names[node])
        installed = {name for name, _, _ in csi_node.drivers} if csi_node else set()
        for driver in sorted({driver for driver, _ in wanted} - installed):
            if _must_be_installed(driver, cluster):
                return (Refusal(self.name, f"{driver} CSI driver is not installed on the node"),)
        limits = _limits(csi_node)
        if not limits:
            return ()
        present: set[tuple[str, str]] = set()
        users = [*cluster.occupancy.claim_users.get(node, ()), *(one.kind for one in nominated)]
        for kind in users:
            error = foreign_claim(kind, cluster)
            if error:
                return (Refusal(self.name, f'running "{self.name}" filter plugin: {error}'),)
            present |= attached(kind, cluster)
        total = present | wanted
        for driver in {driver for driver, _ in wanted - present}:
            if driver in limits and sum(d == driver for d, _ in total) > limits[driver]:
                return (Refusal(self.name, EXCEEDED),)
        return ()

    @staticmethod
    def _guarded(wanted: Volumes, cluster: Cluster) -> bool:
        return any(_must_be_installed(driver, cluster) for driver, _ in wanted)


def attached(kind: PodClass, cluster: Cluster) -> Volumes:
    """What a pod of the class attaches to its node."""
    if not kind.attaches:
        return frozenset()
    memo: tuple[int, Volumes] | None = kind.memo.get("attached")
    if memo is None or memo[0] != cluster.volume_epoch:
        memo = (cluster.volume_epoch, _attached(kind, cluster))
        kind.memo["attached"] = memo
    return memo[1]


def _attached(kind: PodClass, cluster: Cluster) -> Volumes:
    found = {(v.driver, v.handle) for v in kind.spec.volumes if v.driver and v.handle}
    for _, key in claim_volumes(kind):
        claim = cluster.snapshot.claims.get(key)
        if claim is not None:
            found.add(_volume_of(claim, cluster))
    found.discard(("", ""))
    return frozenset(found)


def _volume_of(claim: PersistentVolumeClaim, cluster: Cluster) -> tuple[str, str]:
    volume = cluster.snapshot.volumes.get(claim.volume) if claim.volume else None
    if volume is not None:
        return (volume.driver, volume.handle) if volume.driver and volume.handle else ("", "")
    found = cluster.snapshot.storage_classes.get(claim.storage_class or "")
    if found is None or not found.provisioner or found.provisioner in _NOT_MIGRATED:
        return "", ""
    return _MIGRATED.get(found.provisioner, found.provisioner), f"unbound {claim.key}"


def _limits(csi_node: CSINode | None) -> dict[str, int]:
    if csi_node is None:
        return {}
    return {name: count for name, count, _ in csi_node.drivers if count is not None}


def _must_be_installed(driver: str, cluster: Cluster) -> bool:
    record = cluster.snapshot.csi_drivers.get(driver)
    return record is not None and record.prevent_scheduling_if_missing
