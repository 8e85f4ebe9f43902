"""The score of soft topology spread constraints, in the floating-point order of kube-scheduler."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rescheduler.model.names import HOSTNAME
from rescheduler.scheduling.counts import PodGroup, domain_sums
from rescheduler.scheduling.framework import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray
from rescheduler.scheduling.nodes import Column, NodeTable
from rescheduler.scheduling.plugin import NodeIndices


class SoftConstraint(NamedTuple):
    """A ScheduleAnyway constraint, bound to the counts of the cluster. ``counted``: nodes whose pods count."""

    max_skew: int
    column: Column
    group: PodGroup
    counted: BoolArray


def spread_score(
    constraints: tuple[SoftConstraint, ...],
    table: NodeTable,
    nodes: NodeIndices,
    *,
    require_all_keys: bool,
) -> IntArray:
    """Normalised scores of the feasible nodes (0..100); 0 for nodes without the keys if all are required."""
    keyed = table.all
    if require_all_keys:
        for constraint in constraints:
            keyed = keyed & constraint.column.present
    scored = keyed[nodes]
    raw = np.zeros(len(nodes), dtype=np.float64)
    for constraint in constraints:
        raw += _contribution(constraint, nodes, scored, keyed)
    points = _round(raw)
    return _normalise(np.where(scored, points, 0), scored)


def _contribution(
    constraint: SoftConstraint, nodes: NodeIndices, scored: BoolArray, keyed: BoolArray
) -> FloatArray:
    column = constraint.column
    codes = column.codes[nodes]
    if column.key == HOSTNAME:
        size = int(scored.sum())
        counts = constraint.group.per_node.dense()[nodes]
    else:
        size = len(np.unique(codes[scored]))
        counts = column.spread(_domain_counts(constraint, keyed))[nodes]
    weight = math.log(size + 2)
    points = counts.astype(np.float64) * weight + float(constraint.max_skew - 1)
    return np.where(codes >= 0, points, 0.0)


def _domain_counts(constraint: SoftConstraint, keyed: BoolArray) -> IntArray:
    counted = keyed & constraint.counted
    if bool(counted.all()):
        return constraint.group.in_domains(constraint.column).dense()
    return domain_sums(constraint.column, np.where(counted, constraint.group.per_node.dense(), 0))


def _round(values: FloatArray) -> IntArray:
    """Halves away from zero, as Go's math.Round; values are not negative."""
    whole = np.floor(values)
    return (whole + (values - whole >= 0.5)).astype(np.int64)  # noqa: PLR2004 -- a half


def _normalise(points: IntArray, scored: BoolArray) -> IntArray:
    counted = points[scored]
    if not len(counted):
        return np.zeros_like(points)
    lowest, highest = int(counted.min()), max(int(counted.max()), 0)
    if highest == 0:
        return np.where(scored, MAX_NODE_SCORE, 0)
    return np.where(scored, MAX_NODE_SCORE * (highest + lowest - points) // highest, 0)
