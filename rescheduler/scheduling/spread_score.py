"""The score of soft topology spread constraints, in the floating-point order of kube-scheduler."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rescheduler.model.names import HOSTNAME
from rescheduler.scheduling.classes import PodGroup
from rescheduler.scheduling.counts import domain_sums
from rescheduler.scheduling.framework import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray, NodeIndices
from rescheduler.scheduling.nodes import Codes, Column, NodeTable


class SoftConstraint(NamedTuple):
    """A ScheduleAnyway constraint, bound to the counts of the cluster."""

    max_skew: int
    column: Column
    """The label of the topology key."""
    group: PodGroup
    """The pods that it counts."""
    counted: BoolArray
    """Nodes whose pods count."""


def spread_score(
    constraints: tuple[SoftConstraint, ...],
    table: NodeTable,
    nodes: NodeIndices,
    *,
    require_all_keys: bool,
) -> IntArray:
    """Normalised scores of the feasible nodes (0..100); 0 for nodes without the keys if all are required."""
    keyed = _keyed_nodes(constraints, table, require_all_keys=require_all_keys)
    scored = keyed[nodes]
    raw = np.zeros(len(nodes), dtype=np.float64)
    for constraint in constraints:
        raw += _contribution(constraint, nodes, scored, keyed)
    points = _rounded(raw)
    return _normalise(np.where(scored, points, 0), scored)


def _contribution(
    constraint: SoftConstraint, nodes: NodeIndices, scored: BoolArray, keyed: BoolArray
) -> FloatArray:
    column = constraint.column
    # kube-scheduler counts each feasible node for itself by host name, and otherwise sums over domains.
    if column.key == HOSTNAME:
        points = _points(constraint, constraint.group.per_node.dense()[nodes], int(scored.sum()))
        return points if column.complete else np.where(column.present[nodes], points, 0.0)
    seen = np.zeros(len(column.values) + 1, dtype=np.bool_)
    seen[_with_unlabelled(column)[nodes][scored]] = True
    by_domain = _points(constraint, _domain_counts(constraint, keyed), int(seen.sum()))
    # A node without the label has code -1, which finds the last one by itself.
    return np.append(by_domain, 0.0)[column.codes[nodes]]


def _points(constraint: SoftConstraint, counts: IntArray, size: int) -> FloatArray:
    return counts.astype(np.float64) * _weight(size) + float(constraint.max_skew - 1)


def _keyed_nodes(
    constraints: tuple[SoftConstraint, ...], table: NodeTable, *, require_all_keys: bool
) -> BoolArray:
    """Nodes that are scored: all, or those with the keys of all constraints."""
    keyed = table.all
    if require_all_keys:
        for constraint in constraints:
            keyed = keyed & constraint.column.present
    return keyed


def _weight(size: int) -> float:
    return math.log(size + 2)


def _domain_counts(constraint: SoftConstraint, keyed: BoolArray) -> IntArray:
    """Pods in each domain, of the nodes that count."""
    counted, column, group = keyed & constraint.counted, constraint.column, constraint.group
    if bool(counted.all()):
        sums = group.in_domains(column).dense()
    else:
        sums = domain_sums(column, np.where(counted, group.per_node.dense(), 0))
    nameless = column.code_of.get("")
    if nameless is not None and not column.complete:
        sums = sums.copy()
        sums[nameless] += group.per_node.dense()[counted & ~column.present].sum()
    return sums


def _with_unlabelled(column: Column) -> Codes:
    """The domain of every node. kube-scheduler reads a label that is absent as an empty value, so both are one domain."""
    nameless = column.code_of.get("")
    return column.codes if nameless is None else np.where(column.present, column.codes, nameless)


def _rounded(values: FloatArray) -> IntArray:
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
