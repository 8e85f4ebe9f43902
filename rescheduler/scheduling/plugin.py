"""What a scheduler plugin is here: a filter over all nodes, its reasons for one node, a score.

``mask`` answers for every node at once; ``refusals`` answers for one node in words, and for the pass in
which nominated pods are counted. Both follow the same rule and must never disagree (tests compare them).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np

from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import (
    MAX_NODE_SCORE,
    BoolArray,
    IntArray,
    NodeIndices,
    Refusal,
)


class FilterPlugin:
    """PreFilter and Filter of one plugin. What a plugin does not say of itself: it refuses no pod everywhere, and a node for one reason."""

    name: ClassVar[str]
    reason: ClassVar[str] = ""
    """Of every node that its mask leaves out, whatever pods leave it."""

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:  # noqa: ARG002 -- for those that refuse so
        """Why PreFilter refuses the pod on every node; None if it does not."""
        return None

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:  # noqa: ARG002 -- for those that judge nodes
        """Nodes that pass; None if the plugin has nothing to say about the pod."""
        return None

    def refusals(
        self,
        ask: Ask,
        cluster: Cluster,
        node: int,
        nominated: Sequence[Nominated] = (),  # noqa: ARG002 -- for those to which pods matter
    ) -> tuple[Refusal, ...]:
        """Why one node is refused, with ``nominated`` pods counted there; empty if it passes."""
        mask = self.mask(ask, cluster)
        return () if mask is None or mask[node] else (Refusal(self.name, self.reason, unresolvable=True),)


class ScorePlugin(Protocol):
    """PreScore, Score and NormalizeScore of one plugin."""

    name: ClassVar[str]

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray | None:
        """Normalised scores of the feasible ``nodes``, in their order; None if PreScore skips."""
        ...


def normalise(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """kube-scheduler's default normalisation: 0..100 in proportion to the highest score."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = MAX_NODE_SCORE * scores // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled
