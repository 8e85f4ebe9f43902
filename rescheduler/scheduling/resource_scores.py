"""How much room a node keeps: the arithmetic that NodeResourcesFit scores by, on integers as in Go."""

from __future__ import annotations

import numpy as np

from rescheduler.scheduling.classes import Ask
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import (
    MAX_NODE_SCORE,
    IntArray,
    NodeIndices,
    ScoringStrategy,
    ShapePoint,
)

_SCORE_UNIT = MAX_NODE_SCORE // 10
_EXACT_BELOW = 2**46
"""Amounts below it times 100 are whole in floating point, where division is several times faster."""
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})


def allocation_score(ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray:
    """Score of each node by the profile's scoring strategy (0..100)."""
    asked = scored_amounts(ask, cluster)
    answers = cluster.occupancy.answers.of(
        ("allocation", asked), lambda some: _allocation_score(asked, cluster, some)
    )
    return answers[nodes]


def _allocation_score(amounts: tuple[int, ...], cluster: Cluster, nodes: NodeIndices) -> IntArray:
    profile = cluster.profile
    strategy = profile.fit_strategy
    total, weights = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(nodes), dtype=np.int64)
    for (resource, weight), asked in zip(profile.fit_resources, amounts, strict=True):
        if asked == 0 and resource not in _NATIVE:
            continue
        capacity, counted = cluster.nodes.divisor(resource)
        capacity, counted = capacity[nodes], counted[nodes]
        points = _points(strategy, scored_use(cluster, resource)[nodes] + asked, capacity, profile.fit_shape)
        if strategy is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO:
            counted = counted & (points > 0)
        total += points * (weight * counted)
        weights += weight * counted
    divisor = np.maximum(weights, 1)
    if strategy is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO:
        return np.floor(total / divisor + 0.5).astype(np.int64)
    return (total / divisor).astype(np.int64)


def scored_amounts(ask: Ask, cluster: Cluster) -> tuple[int, ...]:
    """What the pod adds of each resource that NodeResourcesFit scores."""
    return tuple(asked_amount(ask, resource) for resource, _ in cluster.profile.fit_resources)


def asked_amount(ask: Ask, resource: str) -> int:
    """What the pod adds for scores: requests, with defaults for containers without CPU or memory."""
    spec = ask.kind.spec
    if spec.fit_score is not None:
        return spec.fit_score.amount(resource)
    match resource:
        case "cpu":
            return spec.score_cpu_milli
        case "memory":
            return spec.score_memory_bytes
        case _:
            return spec.requests.amount(resource)


def scored_use(cluster: Cluster, resource: str) -> IntArray:
    """What pods on each node count for in scores."""
    match resource:
        case "cpu":
            return cluster.occupancy.score_cpu
        case "memory":
            return cluster.occupancy.score_memory
        case _:
            return cluster.requested(resource)


def broken_line(shape: tuple[ShapePoint, ...], utilization: IntArray) -> IntArray:
    """The line through the shape's points (scores scaled to 100), truncated towards zero as Go does."""
    points = [(point.utilization, point.score * _SCORE_UNIT) for point in shape]
    result = np.full_like(utilization, points[-1][1])
    for i in range(len(points) - 1, 0, -1):
        (x0, y0), (x1, y1) = points[i - 1], points[i]
        rise = (y1 - y0) * (utilization - x0)
        step = np.sign(rise) * (np.abs(rise) // (x1 - x0))
        result = np.where(utilization <= x1, y0 + step, result)
    return np.where(utilization <= points[0][0], points[0][1], result)


def _points(
    strategy: ScoringStrategy, wanted: IntArray, capacity: IntArray, shape: tuple[ShapePoint, ...]
) -> IntArray:
    match strategy:
        case ScoringStrategy.LEAST_ALLOCATED:
            return _percent(np.maximum(capacity - wanted, 0), capacity)
        case ScoringStrategy.MOST_ALLOCATED:
            return _percent(np.minimum(wanted, capacity), capacity)
        case ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO:
            utilization = np.where(wanted > capacity, 100, _percent(wanted, capacity))
            return broken_line(shape, utilization)


def _percent(part: IntArray, whole: IntArray) -> IntArray:
    """``part * 100 // whole`` for numbers that are not negative, exactly as on integers."""
    if len(whole) and max(int(part.max()), int(whole.max())) < _EXACT_BELOW:
        return (part * MAX_NODE_SCORE / whole).astype(np.int64)
    return part * MAX_NODE_SCORE // whole
