"""DynamicResources is left out on purpose: pods with resource claims are refused openly, never guessed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import IntArray, Refusal
from rescheduler.scheduling.plugin import NodeIndices

REASON = "not judged: dynamic resource allocation (spec.resourceClaims) is left out"


class DynamicResources:
    """Refuses what it cannot judge."""

    name: ClassVar[str] = "DynamicResources"

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:  # noqa: ARG002 -- the plugin protocol
        """Refuses a pod with resource claims."""
        return Refusal(self.name, REASON, unresolvable=True) if ask.kind.spec.resource_claims else None

    def mask(self, ask: Ask, cluster: Cluster) -> None:
        """Nothing to say of single nodes."""

    def refusals(
        self,
        ask: Ask,  # noqa: ARG002 -- the plugin protocol
        cluster: Cluster,  # noqa: ARG002 -- the plugin protocol
        node: int,  # noqa: ARG002 -- the plugin protocol
        nominated: Sequence[Nominated] = (),  # noqa: ARG002 -- the plugin protocol
    ) -> tuple[Refusal, ...]:
        """Nothing to say of single nodes."""
        return ()

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray:  # noqa: ARG002 -- the plugin protocol
        """0 for every pod that gets here, as kube-scheduler gives pods without claims."""
        return np.zeros(len(nodes), dtype=np.int64)
