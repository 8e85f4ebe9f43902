"""DynamicResources is left out on purpose: where devices would be allocated, it refuses openly, never guesses.

That is everywhere for pods with resource claims. For an extended resource that a DeviceClass stands behind,
it is where the node does not offer the resource itself; elsewhere NodeResourcesFit judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.extended_resources import is_devices, may_be_devices
from rescheduler.scheduling.framework import BoolArray, IntArray, Refusal
from rescheduler.scheduling.plugin import NodeIndices

REASON = "not judged: dynamic resource allocation (spec.resourceClaims) is left out"
CANNOT_FIT = "cannot fit resource"


class DynamicResources:
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
        """The resource whose devices would be allocated there; before it, one that nobody offers."""
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
