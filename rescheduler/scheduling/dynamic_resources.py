"""DynamicResources is left out on purpose: where devices would be allocated, it refuses openly, never guesses.

That is everywhere for pods with resource claims. For an extended resource that a DeviceClass stands behind,
it is where the node does not offer the resource itself; elsewhere NodeResourcesFit judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, IntArray, NodeIndices, Refusal
from rescheduler.scheduling.plugin import FilterPlugin

REASON = "not judged: dynamic resource allocation (spec.resourceClaims) is left out"
CANNOT_FIT = "cannot fit resource"
_DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


class DynamicResources(FilterPlugin):
    """Refuses what it cannot judge."""

    name: ClassVar[str] = "DynamicResources"

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:  # noqa: ARG002 -- the plugin protocol
        """Refuses a pod with resource claims."""
        return Refusal(self.name, REASON, unresolvable=True) if ask.kind.spec.resource_claims else None

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes that offer every extended resource themselves, if devices stand behind one of them."""
        if not _devices(ask, cluster):
            return None
        mask = cluster.nodes.all.copy()
        for node in range(cluster.nodes.size):
            mask[node] = not self.refusals(ask, cluster, node)
        return mask

    def refusals(
        self,
        ask: Ask,
        cluster: Cluster,
        node: int,
        nominated: Sequence[Nominated] = (),  # noqa: ARG002 -- pods do not matter to it
    ) -> tuple[Refusal, ...]:
        """The resource whose devices would be allocated there; before it, one that no node offers."""
        devices = _devices(ask, cluster)
        if not devices:
            return ()
        offered = dict(cluster.nodes.records[node].allocatable.scalars)
        for resource, amount in ask.kind.spec.requests.scalars:
            if amount and may_be_devices(resource) and resource not in devices and resource not in offered:
                return (Refusal(self.name, CANNOT_FIT, unresolvable=True),)
        for resource in devices:
            if not offered.get(resource):
                reason = (
                    f"not judged: allocating devices for {resource} (dynamic resource allocation) is left out"
                )
                return (Refusal(self.name, reason, unresolvable=True),)
        return ()

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray:  # noqa: ARG002 -- the plugin protocol
        """0 for every pod that gets here, as kube-scheduler gives pods for which nothing is allocated."""
        return np.zeros(len(nodes), dtype=np.int64)


def _devices(ask: Ask, cluster: Cluster) -> tuple[str, ...]:
    """The pod's resources that devices stand behind."""
    if not cluster.snapshot.device_classes:
        return ()
    return tuple(
        name for name, amount in ask.kind.spec.requests.scalars if amount and is_devices(name, cluster)
    )


def is_extended(resource: str) -> bool:
    """True for extended resources: a domain that is not kubernetes.io's, as the API defines them."""
    if "/" not in resource or "kubernetes.io/" in resource:
        return False
    return not resource.startswith("requests.")


def may_be_devices(resource: str) -> bool:
    """True for names behind which a DeviceClass can stand."""
    return is_extended(resource) or resource.startswith(_DEVICE_CLASS_PREFIX)


def is_devices(resource: str, cluster: Cluster) -> bool:
    """True if a DeviceClass of the cluster stands behind the resource."""
    if not cluster.snapshot.device_classes or not may_be_devices(resource):
        return False
    return resource in _names_of_devices(cluster.snapshot)


def allocated_devices(snapshot: Snapshot) -> frozenset[str]:
    """Resources that devices stand behind and no node offers itself: wherever pods that request them run, devices were allocated."""
    names = _names_of_devices(snapshot)
    if not names:
        return names
    offered = (
        name for node in snapshot.nodes.values() for name, amount in node.allocatable.scalars if amount
    )
    return names.difference(offered)


def _names_of_devices(snapshot: Snapshot) -> frozenset[str]:
    classes = snapshot.device_classes
    names = (known.extended_resource for known in classes.values() if is_extended(known.extended_resource))
    return frozenset((*names, *(_DEVICE_CLASS_PREFIX + name for name in classes)))
