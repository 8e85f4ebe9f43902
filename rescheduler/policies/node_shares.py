"""What kube-scheduler's scores of resources ask of nodes: a cost of each node by the shares that are requested there.

- NodeResourcesFit: twice the area under what the strategy takes off the score while the node fills: with LeastAllocated the
  square of the share, so that the same pod costs more on a fuller node;
- NodeResourcesBalancedAllocation: half the deviation of the shares, of which the score is the difference.

In whole millionths (``objective.ONE``), rounded per node, so that what a move changes is exact. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE
from rescheduler.scheduling.amounts import held_amount, incoming_amount
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import MAX_NODE_SCORE, FloatArray, IntArray, Profile, ScoringStrategy
from rescheduler.scheduling.resource_scores import broken_line, scored_use

_STEPS: Final = 10_000
"""Shares of a node are told apart by hundredths of a percent."""
_ALL: Final = slice(None)


def unit(profile: Profile, plugin: str) -> int:
    """Millionths of a pod that the whole range of a plugin's score counts for: its weight among all that score."""
    total = sum(weight for _, weight in profile.weights)
    return ONE * dict(profile.weights).get(plugin, 0) // max(total, 1)


def cost_of_nodes(view: PolicyView) -> IntArray:
    """Of every node as it is. Do not change the array."""
    cluster = view.cluster
    return view.memo.of(cost_of_nodes, cluster.version, lambda: _cost(lambda _, **__: 0, 0, _ALL, cluster))


def change_on_nodes(pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
    """What the sum changes by if the pod leaves its node and the replacement stands on each other node."""
    cluster, now = view.cluster, cost_of_nodes(view)
    here = view.state.node_index[pod.node]
    leaves, comes = partial(held_amount, pod), partial(incoming_amount, replacement.spec)
    gone = _cost(leaves, -1, slice(here, here + 1), cluster) - now[here]
    change: IntArray = _cost(comes, 1, _ALL, cluster) - now + gone
    return change


def _cost(amount: Callable[..., int], sign: int, nodes: slice, cluster: Cluster) -> IntArray:
    """Of these nodes with so much more (or less) on each. ``amount``: of a resource, with ``defaults`` or without (``amounts``)."""
    profile = cluster.profile
    curve = cluster.memo.of(_curve, None, lambda: _curve(profile))
    filled, weights = _nothing(cluster, nodes), _nothing(cluster, nodes)
    for resource, weight in profile.fit_resources:
        capacity, counted = cluster.nodes.divisor(resource)
        used = scored_use(cluster, resource)[nodes] + sign * amount(resource, defaults=True)
        step = np.rint(np.clip(used / capacity[nodes], 0.0, 1.0) * _STEPS).astype(np.intp)
        filled += np.where(counted[nodes], weight * curve[step], 0.0)
        weights += weight * counted[nodes]
    fit = np.rint(unit(profile, "NodeResourcesFit") * filled / np.maximum(weights, 1.0)).astype(np.int64)
    shares: list[FloatArray] = []
    present: list[FloatArray] = []
    for resource, _ in profile.balanced_resources:
        capacity, counted = cluster.nodes.divisor(resource)
        used = cluster.requested(resource)[nodes] + sign * amount(resource, defaults=False)
        shares.append(np.where(counted[nodes], np.minimum(used / capacity[nodes], 1.0), 0.0))
        present.append(counted[nodes].astype(np.float64))
    uneven = (
        unit(profile, "NodeResourcesBalancedAllocation")
        * _deviation(shares, present, _nothing(cluster, nodes))
        / 2
    )
    even: IntArray = fit + np.rint(uneven).astype(np.int64)
    return even


def _deviation(shares: list[FloatArray], present: list[FloatArray], zero: FloatArray) -> FloatArray:
    """Standard deviation over the resources that each node has."""
    # Added up one by one, so that the sum of one node is the same alone and among others.
    number = np.maximum(sum(present, zero), 1.0)
    mean = sum(shares, zero) / number
    parts = [has * (share - mean) * (share - mean) for share, has in zip(shares, present, strict=True)]
    deviation: FloatArray = np.sqrt(sum(parts, zero) / number)
    return deviation


def _curve(profile: Profile) -> FloatArray:
    """By step of a resource's share: twice the area under what is taken off the score up to there."""
    percent = np.arange(MAX_NODE_SCORE + 1, dtype=np.int64)
    match profile.fit_strategy:
        case ScoringStrategy.LEAST_ALLOCATED:
            lacking = percent
        case ScoringStrategy.MOST_ALLOCATED:
            lacking = MAX_NODE_SCORE - percent
        case ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO:
            lacking = MAX_NODE_SCORE - broken_line(profile.fit_shape, percent)
    steps = np.arange(_STEPS + 1) * MAX_NODE_SCORE / _STEPS
    height = np.interp(steps, percent, lacking) / MAX_NODE_SCORE
    area: FloatArray = np.concatenate(([0.0], np.cumsum(height[1:] + height[:-1]) / _STEPS))
    return area


def _nothing(cluster: Cluster, nodes: slice) -> FloatArray:
    return np.zeros(len(cluster.nodes.all[nodes]))
