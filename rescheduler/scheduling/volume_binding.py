"""VolumeBinding: bound volumes must reach the node; unbound claims need a volume or a provisioner there.

Scores the bindings that it would make: the loosest fit wins, as with kube-scheduler's default shape.
Between volumes of equal size kube-scheduler's choice is not defined; here the first by name is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rescheduler.model.selectors import NodeSelector
from rescheduler.model.storage_records import PersistentVolume
from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, IntArray, NodeIndices, Refusal
from rescheduler.scheduling.plugin import FilterPlugin
from rescheduler.scheduling.resource_scores import broken_line
from rescheduler.scheduling.volume_claims import PodClaims, pod_claims
from rescheduler.scheduling.volume_matching import Binding, Provisioning, bind_on, provisioned_on

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class VolumeBinding(FilterPlugin):
    """Judges claims."""

    name: ClassVar[str] = "VolumeBinding"

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:
        """Refuses missing, lost or deleted claims, and unbound ones that do not wait for a pod."""
        if not ask.kind.claims:
            return None
        error = pod_claims(ask, cluster).error
        return Refusal(self.name, error, unresolvable=True) if error else None

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes that reach all volumes, or can get them."""
        if not ask.kind.claims:
            return None
        return ask.kind.memo.of("volume_mask", cluster.volume_epoch, lambda: self._mask(ask, cluster))

    def refusals(
        self,
        ask: Ask,
        cluster: Cluster,
        node: int,
        nominated: Sequence[Nominated] = (),  # noqa: ARG002 -- pods do not matter to it
    ) -> tuple[Refusal, ...]:
        """Up to two reasons: of the bound and of the unbound claims."""
        if not ask.kind.claims:
            return ()
        claims = pod_claims(ask, cluster)
        error = _untranslatable(claims, cluster, node) or _unreadable(claims, cluster, node)
        if error:
            return (Refusal(self.name, f'running "{self.name}" filter plugin: {error}'),)
        reasons = [_bound_conflict(claims, cluster, node), _unbound_conflict(claims, cluster, node)]
        order = (NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING)
        found = sorted((reason for reason in reasons if reason), key=order.index)
        return tuple(Refusal(self.name, reason, unresolvable=True) for reason in found)

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray:
        """0..100 by how much room the chosen volumes leave; 0 where nothing would be bound."""
        points = np.zeros(len(nodes), dtype=np.int64)
        if not ask.kind.claims:
            return points
        claims = pod_claims(ask, cluster)
        if not claims.delayed:
            return points
        for place, node in enumerate(nodes):
            points[place] = _points(claims, cluster, int(node))
        return points

    @staticmethod
    def _mask(ask: Ask, cluster: Cluster) -> BoolArray:
        claims = pod_claims(ask, cluster)
        mask = cluster.nodes.all.copy()
        for claim in claims.bound:
            volume = cluster.snapshot.volumes.get(claim.volume)
            if volume is None:
                return np.zeros(cluster.nodes.size, dtype=np.bool_)
            mask &= _reachable(volume, cluster)
        if claims.delayed:
            for node in np.flatnonzero(mask):
                mask[node] = not _unbound_conflict(claims, cluster, int(node))
        return mask


def _bound_conflict(claims: PodClaims, cluster: Cluster, node: int) -> str:
    for claim in claims.bound:
        volume = cluster.snapshot.volumes.get(claim.volume)
        if volume is None:
            return VOLUME_MISSING
        if not _reachable(volume, cluster)[node]:
            return NODE_CONFLICT
    return ""


def _reachable(volume: PersistentVolume, cluster: Cluster) -> BoolArray:
    """Nodes that reach a bound volume: in its CSI topology where they say that its plugin is migrated."""
    mask = _selected(volume.node_affinity, cluster)
    if not volume.in_tree or (volume.migrated_affinity == volume.node_affinity and not volume.untranslatable):
        return mask
    migrated = _migrated_nodes(volume.in_tree, cluster)
    there = ~cluster.nodes.all if volume.untranslatable else _selected(volume.migrated_affinity, cluster)
    return np.where(migrated, there, mask)


def _selected(affinity: NodeSelector | None, cluster: Cluster) -> BoolArray:
    return cluster.nodes.all if affinity is None else cluster.nodes.selector_mask(affinity)


def _migrated_nodes(plugin: str, cluster: Cluster) -> BoolArray:
    def find() -> BoolArray:
        return np.asarray(
            [_is_migrated(plugin, name, cluster) for name in cluster.nodes.names], dtype=np.bool_
        )

    return cluster.nodes.memo.of(("migrated", plugin), cluster.volume_epoch, find)


def _is_migrated(plugin: str, node: str, cluster: Cluster) -> bool:
    csi_node = cluster.snapshot.csi_nodes.get(node)
    return csi_node is not None and plugin in csi_node.migrated_plugins


def _untranslatable(claims: PodClaims, cluster: Cluster, node: int) -> str:
    """Why kube-scheduler fails to judge the node: the first bound volume in question is an error there."""
    for claim in claims.bound:
        volume = cluster.snapshot.volumes.get(claim.volume)
        if volume is None:
            return ""
        if volume.untranslatable and _migrated_nodes(volume.in_tree, cluster)[node]:
            return f"could not translate pv: {volume.untranslatable}"
        if not _reachable(volume, cluster)[node]:
            return ""
    return ""


def _unreadable(claims: PodClaims, cluster: Cluster, node: int) -> str:
    """Why kube-scheduler fails to look for volumes: a claim's selector cannot be parsed."""
    name = cluster.nodes.names[node]
    if any(claim.selected_node and claim.selected_node != name for claim in claims.delayed):
        return ""
    for claim in claims.delayed:
        if not claim.selected_node and claim.selector is not None and claim.selector.invalid:
            return f"error creating internal label selector for claim: {claim.key}: {claim.selector.invalid}"
    return ""


def _unbound_conflict(claims: PodClaims, cluster: Cluster, node: int) -> str:
    name = cluster.nodes.names[node]
    if any(claim.selected_node and claim.selected_node != name for claim in claims.delayed):
        return BIND_CONFLICT
    if _unreadable(claims, cluster, node):
        return BIND_CONFLICT
    matched = bind_on([c for c in claims.delayed if not c.selected_node], cluster, node)
    to_provision = [c for c in claims.delayed if c.selected_node] + matched.unbound
    return {
        Provisioning.POSSIBLE: "",
        Provisioning.NO_PROVISIONER: BIND_CONFLICT,
        Provisioning.NO_SPACE: NOT_ENOUGH_SPACE,
    }[provisioned_on(to_provision, cluster, node).verdict]


def _points(claims: PodClaims, cluster: Cluster, node: int) -> int:
    matched = bind_on([c for c in claims.delayed if not c.selected_node], cluster, node)
    sums: dict[str, tuple[int, int]] = {}
    if matched.bindings:
        for binding in matched.bindings:
            _add(sums, binding)
    else:
        to_provision = [c for c in claims.delayed if c.selected_node] + matched.unbound
        for claim, capacity in provisioned_on(to_provision, cluster, node).capacities:
            name = claim.storage_class or ""
            sums[name] = (sums.get(name, (0, 0))[0] + claim.request_bytes, capacity.capacity_bytes or 0)
    if not sums:
        return 0
    use = [
        100 if not capacity or asked > capacity else asked * 100 // capacity
        for asked, capacity in sums.values()
    ]
    points = broken_line(cluster.profile.volume_shape, np.asarray(use, dtype=np.int64))
    return int(np.floor(points.sum() / len(use) + 0.5))


def _add(sums: dict[str, tuple[int, int]], binding: Binding) -> None:
    asked, capacity = sums.get(binding.volume.storage_class, (0, 0))
    sums[binding.volume.storage_class] = (
        asked + binding.claim.request_bytes,
        capacity + binding.volume.capacity_bytes,
    )
