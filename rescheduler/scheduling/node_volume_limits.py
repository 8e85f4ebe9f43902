"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach, and whether it has the driver.

Volumes of unbound claims count under a handle of their own. VolumeAttachments count besides the volumes of
the node's pods, so a volume that is still attached counts twice for a pod that would come back to it.
In-tree volumes count as CSI volumes only where the node has a CSINode.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from rescheduler.model.csi_translation import DRIVERS
from rescheduler.model.storage_records import CSINode, PersistentVolumeClaim
from rescheduler.scheduling.classes import Ask, Nominated, PodClass
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, Refusal
from rescheduler.scheduling.plugin import FilterPlugin
from rescheduler.scheduling.volume_claims import claim_key, foreign, not_found

EXCEEDED = "node(s) exceed max volume count"
_NAME = "NodeVolumeLimits"
_NOT_MIGRATED = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
Volumes = frozenset[tuple[str, str]]
"""(driver, handle)."""
_NOTHING: Volumes = frozenset()


class Attached(NamedTuple):
    """What a pod attaches to its node."""

    volumes: Volumes = _NOTHING
    """(driver, handle) of each volume."""
    refusal: Refusal | None = None
    """Why that cannot be said."""


class NodeVolumeLimits(FilterPlugin):
    """Judges attach limits."""

    name: ClassVar[str] = _NAME

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes that can attach the pod's volumes. Nodes to which nothing is attached are alike."""
        if not ask.kind.attaches:
            return None
        mask = cluster.nodes.all.copy()
        csi_nodes, users = cluster.snapshot.csi_nodes, cluster.occupancy.claim_users
        lingering = _attachments(cluster)
        bare: dict[tuple[object, ...] | None, bool] = {}
        for node, name in enumerate(cluster.nodes.names):
            csi_node = csi_nodes.get(name)
            if csi_node is not None and (users.get(node) or name in lingering):
                mask[node] = not self.refusals(ask, cluster, node)
                continue
            drivers = None if csi_node is None else csi_node.drivers
            if drivers not in bare:
                bare[drivers] = not self.refusals(ask, cluster, node)
            mask[node] = bare[drivers]
        return mask

    def refusals(
        self, ask: Ask, cluster: Cluster, node: int, nominated: Sequence[Nominated] = ()
    ) -> tuple[Refusal, ...]:
        """A missing driver is reported before a full node; both may change.

        A pod on the node whose volumes cannot be told (the claim of its ephemeral volume belongs to another
        pod, an in-tree volume has no CSI identity) is an error of kube-scheduler, which then takes no pod
        with volumes there.
        """
        if not ask.kind.attaches:
            return ()
        name = cluster.nodes.names[node]
        csi_node = cluster.snapshot.csi_nodes.get(name)
        # Only a node with a CSINode can say that it takes in-tree volumes by CSI; elsewhere they have no limit.
        wanted = attached(ask.kind, cluster, migrated=csi_node is not None, asked=True)
        refusal = wanted.refusal or _missing_driver(wanted.volumes, csi_node, cluster)
        if refusal is not None:
            return (refusal,)
        limits = _limits(csi_node)
        if not limits or not wanted.volumes:
            return ()
        # A volume that several pods share is attached once, so volumes are counted and not pods.
        present: set[tuple[str, str]] = set()
        for kind in (*cluster.occupancy.claim_users.get(node, ()), *(one.kind for one in nominated)):
            held = attached(kind, cluster, migrated=True, asked=False)
            if held.refusal is not None:
                return (held.refusal,)
            present |= held.volumes
        # Volumes that are still attached though no pod uses them any more take a place, too.
        counted = Counter(driver for driver, _ in present | _attachments(cluster).get(name, _NOTHING))
        for driver, count in Counter(driver for driver, _ in wanted.volumes - present).items():
            if driver in limits and counted[driver] + count > limits[driver]:
                return (Refusal(_NAME, EXCEEDED),)
        return ()


def attached(kind: PodClass, cluster: Cluster, *, migrated: bool, asked: bool) -> Attached:
    """What a pod of the class attaches to its node.

    ``migrated``: in-tree volumes count. ``asked``: it is the pod that is judged, so its claims must exist.
    """
    return kind.memo.of(
        ("attached", migrated, asked),
        cluster.volume_epoch,
        lambda: _attached(kind, cluster, migrated=migrated, asked=asked),
    )


def _attached(kind: PodClass, cluster: Cluster, *, migrated: bool, asked: bool) -> Attached:
    found: set[tuple[str, str]] = set()
    for volume in kind.spec.volumes:
        key = claim_key(kind, volume)
        if key is None:
            if migrated and volume.untranslatable:
                return _error(volume.untranslatable)
            if migrated and volume.driver:
                found.add((volume.driver, volume.handle))
            continue
        claim = cluster.snapshot.claims.get(key)
        if claim is None:
            # kube-scheduler needs the claims of the pod that it places, and passes over missing ones of the others.
            if asked:
                missing = not_found("persistentvolumeclaim", key.name)
                return Attached(refusal=Refusal(_NAME, f"looking up PVC {key}: {missing}", unresolvable=True))
            continue
        other = foreign(kind, volume, claim)
        if other:
            return _error(other)
        driver, handle = _volume_of(claim, cluster, migrated=migrated)
        if driver and handle:
            found.add((driver, handle))
    return Attached(frozenset(found))


def _error(reason: str) -> Attached:
    return Attached(refusal=Refusal(_NAME, f'running "{_NAME}" filter plugin: {reason}'))


def _volume_of(claim: PersistentVolumeClaim, cluster: Cluster, *, migrated: bool) -> tuple[str, str]:
    volume = cluster.snapshot.volumes.get(claim.volume) if claim.volume else None
    if volume is not None:
        return ("", "") if volume.in_tree and not migrated else (volume.driver, volume.handle)
    found = cluster.snapshot.storage_classes.get(claim.storage_class or "")
    if found is None or found.provisioner in _NOT_MIGRATED:
        return "", ""
    driver = DRIVERS.get(found.provisioner)
    if driver is not None and not migrated:
        return "", ""
    return driver or found.provisioner, f"unbound {claim.key}"


def _attachments(cluster: Cluster) -> Mapping[str, Volumes]:
    """The CSI volumes that are attached to each node, used or not."""
    return cluster.nodes.memo.of("attachments", cluster.volume_epoch, lambda: _attachments_by_node(cluster))


def _attachments_by_node(cluster: Cluster) -> Mapping[str, Volumes]:
    found: dict[str, set[tuple[str, str]]] = {}
    for attachment in cluster.snapshot.attachments.values():
        volume = cluster.snapshot.volumes.get(attachment.volume)
        if attachment.attacher and volume is not None and volume.driver and not volume.in_tree:
            found.setdefault(attachment.node, set()).add((attachment.attacher, volume.handle))
    return {node: frozenset(volumes) for node, volumes in found.items()}


def _limits(csi_node: CSINode | None) -> dict[str, int]:
    if csi_node is None:
        return {}
    return {name: count for name, count, _ in csi_node.drivers if count is not None}


def _missing_driver(wanted: Volumes, csi_node: CSINode | None, cluster: Cluster) -> Refusal | None:
    installed = {name for name, _, _ in csi_node.drivers} if csi_node else set()
    for driver in sorted({driver for driver, _ in wanted} - installed):
        record = cluster.snapshot.csi_drivers.get(driver)
        if record is not None and record.prevent_scheduling_if_missing:
            return Refusal(_NAME, f"{driver} CSI driver is not installed on the node")
    return None
