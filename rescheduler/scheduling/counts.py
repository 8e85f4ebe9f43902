"""Counts that are kept current with every pod that comes or goes: pods per group, terms per domain.

A ``PodGroup`` counts the pods that some selectors match, per node and per topology domain. A ``TermCount``
counts the pods that carry one (anti-)affinity term, per domain of its topology key. Filters and scores
read them; only ``Cluster`` changes them.

Most counts are about the few pods of one application, so they are kept sparse: thousands of them over
thousands of nodes would otherwise fill hundreds of megabytes with zeros.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rescheduler.scheduling.framework import IntArray
from rescheduler.scheduling.matching import Matcher
from rescheduler.scheduling.nodes import Column, NodeTable


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Pods that all matchers match. ``living``: terminating pods do not count (topology spread)."""

    matchers: tuple[Matcher, ...]
    living: bool


_FULL = 8
"""A count with entries in more than one of so many places is kept as an array."""


class Counts:
    """Numbers by index, nearly all 0. ``dense`` must not be changed by readers."""

    __slots__ = ("_array", "_size", "values")

    def __init__(self, size: int) -> None:
        self._size = size
        self._array: IntArray | None = None
        self.values: dict[int, int] = {}

    def change(self, index: int, delta: int) -> None:
        """Add to one number."""
        left = self.values.get(index, 0) + delta
        if left:
            self.values[index] = left
        else:
            del self.values[index]
        if self._array is not None:
            self._array[index] += delta

    def at(self, index: int) -> int:
        """One number."""
        return self.values.get(index, 0)

    def dense(self) -> IntArray:
        """All numbers."""
        if self._array is not None:
            return self._array
        array: IntArray = np.zeros(self._size, dtype=np.int64)
        if self.values:
            array[list(self.values)] = list(self.values.values())
        if len(self.values) * _FULL > self._size:
            self._array = array
        return array


class PodGroup:
    """Pods of one ``GroupKey``: how many on each node and in each domain of the keys that were asked for."""

    def __init__(self, key: GroupKey, nodes: NodeTable) -> None:
        self.key = key
        self.per_node = Counts(nodes.size)
        self._domains: dict[str, tuple[list[int], Counts]] = {}

    def change(self, node: int, delta: int) -> None:
        """``delta`` pods came to (or left) a node."""
        self.per_node.change(node, delta)
        for codes, counts in self._domains.values():
            code = codes[node]
            if code >= 0:
                counts.change(code, delta)

    def in_domains(self, column: Column) -> Counts:
        """Pods per domain of a topology key, over all nodes that have it."""
        known = self._domains.get(column.key)
        if known is None:
            known = self._domains[column.key] = (column.code_list, self._summed(column))
        return known[1]

    def _summed(self, column: Column) -> Counts:
        sums, codes = Counts(len(column.values)), column.code_list
        for node, count in self.per_node.values.items():
            if codes[node] >= 0:
                sums.change(codes[node], count)
        return sums


class TermKind(enum.Enum):
    """What an existing pod's term means for a pod that comes."""

    REQUIRED_ANTI = "required anti-affinity"
    REQUIRED = "required affinity"
    PREFERRED = "preferred affinity"
    PREFERRED_ANTI = "preferred anti-affinity"


@dataclass(frozen=True, slots=True)
class TermKey:
    """One term as carried by pods. ``weight``: of preferred terms, else 1."""

    kind: TermKind
    matcher: Matcher
    topology_key: str
    weight: int = 1


class TermCount:
    """How many pods in each domain carry one term."""

    def __init__(self, key: TermKey, column: Column) -> None:
        self.key = key
        self.column = column
        self.counts = Counts(len(column.values))
        self._codes = column.code_list

    def add_many(self, per_node: Mapping[int, int]) -> None:
        """So many carriers came to these nodes."""
        codes, change = self._codes, self.counts.change
        for node, number in per_node.items():
            if codes[node] >= 0:
                change(codes[node], number)

    def change(self, node: int, delta: int) -> None:
        """``delta`` carriers came to (or left) a node; nodes without the key do not count."""
        code = self._codes[node]
        if code >= 0:
            self.counts.change(code, delta)


def domain_sums(column: Column, per_node: IntArray) -> IntArray:
    """Sums of a per-node count over the domains of a column."""
    size = len(column.values)
    if column.complete:
        return np.bincount(column.codes, weights=per_node, minlength=size).astype(np.int64)
    present = column.present
    return np.bincount(column.codes[present], weights=per_node[present], minlength=size).astype(np.int64)
