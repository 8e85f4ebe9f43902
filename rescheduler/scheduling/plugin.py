"""What a scheduler plugin is here: a filter over all nodes, its reasons for one node, a score.

``mask`` answers for every node at once; ``refusals`` answers for one node in words, and for the pass in
which nominated pods are counted. Both follow the same rule and must never disagree (tests compare them).
``behind`` is a bound for many pods at once, which ``score`` must never go beyond (a test compares them, too).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np

from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import (
    MAX_NODE_SCORE,
    BoolArray,
    FloatArray,
    IntArray,
    NodeIndices,
    Refusal,
)
from rescheduler.scheduling.memo import Memo

ROUNDING: Final = 1.0
"""So much can be lost where a score is cut to a whole number."""


class FilterPlugin(Protocol):
    """PreFilter and Filter of one plugin."""

    name: ClassVar[str]

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:
        """Why PreFilter refuses the pod on every node; None if it does not."""
        ...

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes that pass; None if the plugin has nothing to say about the pod."""
        ...

    def refusals(
        self, ask: Ask, cluster: Cluster, node: int, nominated: Sequence[Nominated] = ()
    ) -> tuple[Refusal, ...]:
        """Why one node is refused, with ``nominated`` pods counted there; empty if it passes."""
        ...


class Behind(NamedTuple):
    """How far the scores that one plugin gives to some nodes may lie below the best that it gives."""

    most: FloatArray
    """0..100 by node; the difference is never greater."""
    certain: BoolArray
    """By node: True if the plugin surely gives points to some feasible node."""


@dataclass(frozen=True, eq=False, slots=True)
class PossibleNodes:
    """Nodes that a pod could be moved to; all others are out of the question."""

    nodes: NodeIndices
    memo: Memo = field(default_factory=Memo)
    """The best of these nodes in one thing or another."""


class ScorePlugin(Protocol):
    """PreScore, Score and NormalizeScore of one plugin."""

    name: ClassVar[str]

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray | None:
        """Normalised scores of the feasible ``nodes``, in their order; None if PreScore skips."""
        ...

    def behind(self, ask: Ask, cluster: Cluster, here: NodeIndices, possible: PossibleNodes) -> Behind | None:
        """For pods of one class on each node of ``here``: how far that node's score may lie below the best of ``possible``.

        Each pod is thought to be taken off its node, as if it were alone in that, and its node to be feasible then. ``possible``
        is not empty. None if the plugin gives no points to any node.
        """
        ...


def normalise(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """kube-scheduler's default normalisation: 0..100 in proportion to the highest score."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = MAX_NODE_SCORE * scores // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled


def behind_the_best(here: IntArray, best: int) -> Behind:
    """Of scores that are not normalised, and no lower with the pod taken off."""
    return Behind(np.maximum(best - here, 0).astype(np.float64), here > 0)


def unknown(here: NodeIndices) -> Behind:
    """The plugin may give everything or nothing."""
    return Behind(np.full(len(here), float(MAX_NODE_SCORE)), np.zeros(len(here), dtype=np.bool_))
