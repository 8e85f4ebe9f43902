"""PreScore: a pod whose preferences cannot be parsed is not bound, although filters find nodes for it.

kube-scheduler fails when it prepares the scores. (It does not prepare them if only one node is left. That
is not relied on here: the pod is refused.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, Refusal
from rescheduler.scheduling.node_affinity import NodeAffinity
from rescheduler.scheduling.plugin import FilterPlugin
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread, malformed


class PreScore(FilterPlugin):
    """Judges whether the pod can be scored."""

    name: ClassVar[str] = "PreScore"

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """No node if the pod cannot be scored."""
        return np.zeros(cluster.nodes.size, dtype=np.bool_) if _error(ask, cluster) else None

    def refusals(
        self,
        ask: Ask,
        cluster: Cluster,
        node: int,  # noqa: ARG002 -- the plugin protocol
        nominated: Sequence[Nominated] = (),
    ) -> tuple[Refusal, ...]:
        """The error of the first plugin that fails; none in the pass with nominated pods, which is the filters'."""
        error = "" if nominated else _error(ask, cluster)
        return (Refusal(self.name, error, unresolvable=True),) if error else ()


def _error(ask: Ask, cluster: Cluster) -> str:
    weights = dict(cluster.profile.weights)
    if NodeAffinity.name in weights:
        for preferred in ask.kind.spec.node_affinity_preferred:
            if preferred.weight and preferred.term.invalid:
                return f'running PreScore plugin "{NodeAffinity.name}": {preferred.term.invalid}'
    if PodTopologySpread.name in weights:
        error = malformed(ask.kind, hard=False)
        if error:
            name, what = PodTopologySpread.name, "obtaining pod's soft topology spread constraints"
            return f'running PreScore plugin "{name}": calculating preScoreState: {what}: {error}'
    return ""
