"""NodeResourcesFit: room for one more pod and for its requests; three ways to score it.

Only what the pod requests is checked, so a pod without requests fits an overfull node. A
resource that devices stand behind is not checked where the node does not offer it itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rescheduler.model.resources import Resources
from rescheduler.scheduling.classes import Ask, Nominated, PodClass
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.dynamic_resources import is_devices, is_extended
from rescheduler.scheduling.framework import (
    BoolArray,
    IntArray,
    NodeIndices,
    Profile,
    Refusal,
)
from rescheduler.scheduling.plugin import FilterPlugin
from rescheduler.scheduling.resource_scores import allocation_score

TOO_MANY_PODS = "Too many pods"


class NodeResourcesFit(FilterPlugin):
    """Judges resources."""

    name: ClassVar[str] = "NodeResourcesFit"

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray:
        """Nodes with room for one more pod and for every requested amount."""
        asked = tuple(
            (resource, amount, is_devices(resource, cluster))
            for resource, amount in _asked(ask.kind, cluster)
        )
        return cluster.occupancy.answers.of(("fit", asked), lambda some: _fit(asked, cluster, some)) > 0

    def refusals(
        self, ask: Ask, cluster: Cluster, node: int, nominated: Sequence[Nominated] = ()
    ) -> tuple[Refusal, ...]:
        """One reason for each amount that does not fit; unresolvable if the node is too small for any."""
        occupancy, nodes = cluster.occupancy, cluster.nodes
        lacking: list[str] = []
        if occupancy.pods[node] + len(nominated) + 1 > nodes.allocatable("pods")[node]:
            lacking.append(TOO_MANY_PODS)
        too_small = False
        for resource, amount in _asked(ask.kind, cluster):
            held = int(cluster.requested(resource)[node])
            if nominated:
                held += sum(dict(one.kind.spec.requests.items()).get(resource, 0) for one in nominated)
            capacity = int(nodes.allocatable(resource)[node])
            if not capacity and is_devices(resource, cluster):
                continue
            if amount > capacity - held:
                lacking.append(f"Insufficient {resource}")
                too_small |= amount > capacity
        return tuple(Refusal(self.name, reason, too_small) for reason in lacking)

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray:
        """By the profile's strategy; not normalised, as in kube-scheduler."""
        return allocation_score(ask, cluster, nodes)


def _fit(asked: tuple[tuple[str, int, bool], ...], cluster: Cluster, nodes: NodeIndices) -> IntArray:
    """1 for nodes with room; ``asked``: resource, amount, and whether nodes without it have it as devices."""
    mask: BoolArray = cluster.occupancy.pods[nodes] < cluster.nodes.allocatable("pods")[nodes]
    for resource, amount, devices in asked:
        capacity = cluster.nodes.allocatable(resource)[nodes]
        fits = capacity - cluster.requested(resource)[nodes] >= amount
        mask &= fits | (capacity == 0) if devices else fits
    return mask.astype(np.int64)


def _asked(kind: PodClass, cluster: Cluster) -> list[tuple[str, int]]:
    return kind.memo.of(NodeResourcesFit, None, lambda: checked_requests(kind.spec.requests, cluster.profile))


def checked_requests(requests: Resources, profile: Profile) -> list[tuple[str, int]]:
    """The requested amounts that a node is checked for: positive and not ignored by the profile."""
    return [
        (resource, amount)
        for resource, amount in requests.items()
        if amount > 0 and resource != "pods" and not _ignored(resource, profile)
    ]


def _ignored(resource: str, profile: Profile) -> bool:
    if not is_extended(resource):
        return False
    group = resource.split("/", 1)[0]
    return resource in profile.ignored_resources or group in profile.ignored_resource_groups
