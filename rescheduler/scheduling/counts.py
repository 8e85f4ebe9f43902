"""Counts that are kept current with every pod that comes or goes: pods per group, terms per domain.

A ``PodGroup`` counts the pods that some selectors match, per node and per topology domain. A ``TermCount``
counts the pods that carry one (anti-)affinity term, per domain of its topology key. Filters and scores
read them; only ``Cluster`` changes them.
"""

from __future__ import annotations

import enum
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


class PodGroup:
    """Pods of one ``GroupKey``: how many on each node and in each domain of the keys that were asked for."""

    def __init__(self, key: GroupKey, nodes: NodeTable) -> None:
        self.key = key
        self.version = 0
        self.total = 0
        self.per_node: IntArray = np.zeros(nodes.size, dtype=np.int64)
        self._nodes = nodes
        self._domains: dict[str, tuple[list[int], IntArray]] = {}

    def change(self, node: int, delta: int) -> None:
        """``delta`` pods came to (or left) a node."""
        self.per_node[node] += delta
        self.total += delta
        self.version += 1
        for codes, counts in self._domains.values():
            code = codes[node]
            if code >= 0:
                counts[code] += delta

    def in_domains(self, column: Column) -> IntArray:
        """Pods per domain of a topology key, over all nodes that have it; shape (number of domains,)."""
        known = self._domains.get(column.key)
        if known is None:
            known = (column.code_list, domain_sums(column, self.per_node))
            self._domains[column.key] = known
        return known[1]


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
        self.version = 0
        self.total = 0
        self.counts: IntArray = np.zeros(len(column.values), dtype=np.int64)
        self._codes = column.code_list

    def change(self, node: int, delta: int) -> None:
        """``delta`` carriers came to (or left) a node; nodes without the key do not count."""
        code = self._codes[node]
        if code >= 0:
            self.counts[code] += delta
            self.total += delta
            self.version += 1


def domain_sums(column: Column, per_node: IntArray) -> IntArray:
    """Sums of a per-node count over the domains of a column."""
    size = len(column.values)
    if column.complete:
        return np.bincount(column.codes, weights=per_node, minlength=size).astype(np.int64)
    present = column.present
    return np.bincount(column.codes[present], weights=per_node[present], minlength=size).astype(np.int64)
