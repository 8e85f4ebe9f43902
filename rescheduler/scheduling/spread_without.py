"""The scores of soft spread constraints for many pods of one class, each of which is taken off its node alone.

A pod that leaves changes the counts of its own domains and of no others. So feasible nodes fall into few kinds, within which
all nodes get the same points whichever of the pods it is; one node of each kind tells them. The points are those of
``spread_score``, in its order of floating-point operations (tests compare them). It reads the counts of a cluster without trial
moves; the pods stand. Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.model.names import HOSTNAME
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray, NodeIndices
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.spread_score import (
    SoftConstraint,
    domain_counts,
    keyed_nodes,
    rounded,
    with_unlabelled,
)

_MANY_KINDS: Final = 1 << 15
"""Numbers of kinds stay small, so that sorting by them is cheap."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """One constraint and what it counts."""

    constraint: SoftConstraint
    member: bool
    """The pods themselves are counted."""
    counts: IntArray
    """By node for host names, otherwise by domain."""
    seen: BoolArray
    """Domains of the feasible nodes, and a last one for nodes in none; by host name not looked at."""

    @property
    def by_node(self) -> bool:
        return self.constraint.column.key == HOSTNAME

    def before(self, nodes: NodeIndices) -> IntArray:
        """Pods in the domain of each node, all standing."""
        if self.by_node:
            return self.counts[nodes]
        return np.append(self.counts, 0)[self.constraint.column.codes[nodes]]

    def leaves(self, here: NodeIndices, keyed: BoolArray) -> IntArray:
        """The domain that has one pod less, by the node that the pod leaves; -1: none."""
        column = self.constraint.column
        if not self.member:
            return np.full(len(here), -1, dtype=np.int64)
        counted = (keyed & self.constraint.counted)[here]
        return np.where(counted, with_unlabelled(column)[here], -1)


class SpreadWithout:
    """For the soft constraints of one class of pods, and the nodes that are feasible for all of them but each one's own."""

    def __init__(
        self,
        constraints: tuple[SoftConstraint, ...],
        standing: tuple[PodClass, NodeIndices],
        table: NodeTable,
        nodes: NodeIndices,
        *,
        require_all_keys: bool,
    ) -> None:
        """``standing``: the class of the pods, and where those stand that are asked about; ``nodes``: the feasible ones."""
        kind, self._where = standing
        self._keyed = keyed_nodes(constraints, table, require_all_keys=require_all_keys)
        self._feasible = np.zeros(table.size, dtype=np.bool_)
        self._feasible[nodes] = True
        self._number = int(self._keyed[nodes].sum())
        self._bound = [self._bind(constraint, kind, nodes) for constraint in constraints]

    def _bind(self, constraint: SoftConstraint, kind: PodClass, nodes: NodeIndices) -> _Bound:
        member, column = constraint.group in kind.groups, constraint.column
        if column.key == HOSTNAME:
            return _Bound(constraint, member, constraint.group.per_node.dense(), self._keyed)
        seen = np.zeros(len(column.values) + 1, dtype=np.bool_)
        seen[with_unlabelled(column)[nodes[self._keyed[nodes]]]] = True
        return _Bound(constraint, member, domain_counts(constraint, self._keyed), seen)

    def kinds(self, nodes: NodeIndices) -> IntArray:
        """A number for each of the feasible nodes; nodes with one number get the same points, whichever pod is taken off."""
        found = np.zeros(len(nodes), dtype=np.int64)
        number = 1
        for bound in self._bound:
            column = bound.constraint.column
            if bound.by_node:
                kinds = np.where(column.present, bound.counts, -1)[nodes] + 1
                several = int(kinds.max(initial=0)) + 1
            else:
                by_domain, several = self._kinds_of_domains(bound)
                kinds = by_domain[column.codes[nodes]]
            found = found * several + kinds
            number *= several
            if number > _MANY_KINDS:
                found = np.unique(found, return_inverse=True)[1].reshape(-1)
                number = int(found.max(initial=0)) + 1
        return np.where(self._keyed[nodes], found + 1, 0)

    def _kinds_of_domains(self, bound: _Bound) -> tuple[IntArray, int]:
        """By domain (the last one for nodes in none), and how many: each where the pods stand is its own, others go by their pods."""
        own = np.unique(with_unlabelled(bound.constraint.column)[self._where])
        own = own[own >= 0]
        different, kinds = np.unique(bound.counts, return_inverse=True)
        kinds = kinds.reshape(-1).astype(np.int64)
        kinds[own] = len(different) + np.arange(len(own))
        several = len(different) + len(own)
        return np.append(kinds, several), several + 1

    def points(self, here: NodeIndices, others: NodeIndices) -> IntArray:
        """By pod and node, if the pod on ``here`` is taken off: the ``others``, and last the pod's own node.

        ``others``: at least one of each kind beside ``here``. What stands for the own node among them means nothing.
        """
        mine = np.arange(len(here)), np.full(len(here), len(others))
        raw = np.zeros((len(here), len(others) + 1))
        scored = np.empty(raw.shape, dtype=np.bool_)
        scored[:, :-1] = self._keyed[others] & (others != here[:, None])
        scored[mine] = self._keyed[here]
        for bound in self._bound:
            column, whole = bound.constraint.column, float(bound.constraint.max_skew - 1)
            counts = np.empty(raw.shape)
            counts[:, :-1] = bound.before(others)
            counts[mine] = bound.before(here)
            if bound.by_node:
                counts[mine] -= bound.member
            else:
                gone = bound.leaves(here, self._keyed)
                counts[:, :-1] -= (column.codes[others] == gone[:, None]) & (gone >= 0)[:, None]
                counts[mine] -= (column.codes[here] == gone) & (gone >= 0)
            added = counts * self._weights(bound, here)[:, None] + whole
            if not column.complete:
                added[:, :-1] *= column.present[others]
                added[mine] *= column.present[here]
            raw += added
        return _normalised(rounded(raw), scored)

    def _weights(self, bound: _Bound, here: NodeIndices) -> FloatArray:
        """By pod: what kube-scheduler weighs with by how many nodes, or domains, are scored."""
        if bound.by_node:
            sizes = self._number + (self._keyed[here] & ~self._feasible[here])
        else:
            own = with_unlabelled(bound.constraint.column)[here]
            sizes = int(bound.seen.sum()) + (self._keyed[here] & ~bound.seen[own])
        return np.array([math.log(size + 2) for size in sizes.tolist()])


def _normalised(points: IntArray, scored: BoolArray) -> IntArray:
    """Row by row as ``spread_score`` does it."""
    far = int(np.abs(points).max(initial=0)) + 1
    lowest = np.where(scored, points, far).min(axis=1, keepdims=True)
    highest = np.maximum(np.where(scored, points, -far).max(axis=1, keepdims=True), 0)
    shares = MAX_NODE_SCORE * (highest + lowest - points) // np.maximum(highest, 1)
    return np.where(scored, np.where(highest == 0, MAX_NODE_SCORE, shares), 0)
