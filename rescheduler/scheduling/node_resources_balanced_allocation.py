"""NodeResourcesBalancedAllocation (rule of 1.36 and later): does the pod make the node more even?

75 is no change, up to 100 more balanced, down to 50 less. Best-effort pods are not scored.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rescheduler.scheduling.classes import Ask
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray, NodeIndices

_HALF = MAX_NODE_SCORE // 2
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


class NodeResourcesBalancedAllocation:
    """Scores the change of balance between resources."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray | None:
        """50..100, not normalised; None for best-effort pods."""
        asked = _asked(ask, cluster)
        if not any(amount for _, amount in asked):
            return None
        answers = cluster.occupancy.answers.of(("balance", asked), lambda some: _change(asked, cluster, some))
        return answers[nodes]


def _asked(ask: Ask, cluster: Cluster) -> tuple[tuple[str, int], ...]:
    requests = ask.kind.spec.requests
    return tuple({name: requests.amount(name) for name, _ in cluster.profile.balanced_resources}.items())


def _change(asked: tuple[tuple[str, int], ...], cluster: Cluster, nodes: NodeIndices) -> IntArray:
    """The points of each node for a pod that asks for these amounts."""
    without: list[FloatArray] = []
    with_pod: list[FloatArray] = []
    counted: list[BoolArray] = []
    for name, amount in asked:
        if amount == 0 and name not in _NATIVE:
            continue
        divisor, has = cluster.nodes.divisor(name)
        used, divisor = cluster.requested(name)[nodes], divisor[nodes]
        without.append(np.minimum(used / divisor, 1.0))
        with_pod.append(np.minimum((used + amount) / divisor, 1.0))
        counted.append(has[nodes])
    change = _HALF + _evenness(with_pod, counted) - _evenness(without, counted)
    points: IntArray = _HALF + (change >> 1)
    return points


def _evenness(fractions: list[FloatArray], counted: list[BoolArray]) -> IntArray:
    """``int((1 - std) * 100)`` over the resources that the node has."""
    if len(fractions) == 2 and all(bool(c.all()) for c in counted):  # noqa: PLR2004 -- cpu and memory
        deviation = np.abs((fractions[0] - fractions[1]) / 2)
        return ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
    present = np.sum(counted, axis=0)
    total = np.zeros(len(fractions[0]))
    for fraction, has in zip(fractions, counted, strict=True):
        total = total + np.where(has, fraction, 0.0)
    mean = total / np.maximum(present, 1)
    squares = np.zeros_like(total)
    for fraction, has in zip(fractions, counted, strict=True):
        squares = squares + np.where(has, (fraction - mean) * (fraction - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(present, 1))
    pair = present == 2  # noqa: PLR2004 -- kube-scheduler has a shorter formula for two resources
    if bool(pair.any()):
        deviation = np.where(pair, _half_difference(fractions, counted), deviation)
    deviation = np.where(present < 2, 0.0, deviation)  # noqa: PLR2004 -- one resource is always even
    return ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)


def _half_difference(fractions: list[FloatArray], counted: list[BoolArray]) -> FloatArray:
    """Half the distance between the two fractions of nodes that have exactly two resources."""
    highest = np.max([np.where(has, f, 0.0) for f, has in zip(fractions, counted, strict=True)], axis=0)
    lowest = np.min([np.where(has, f, 1.0) for f, has in zip(fractions, counted, strict=True)], axis=0)
    half: FloatArray = np.abs((highest - lowest) / 2)
    return half
