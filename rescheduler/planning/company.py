"""What pods that a search has put somewhere mean for those that it puts next: who may not join whom, which domains count. Pure.

Domains are those of topology keys, as one number for each node. The conditions are necessary ones, made of required
anti-affinity, host ports and hard topology spread; the scheduler's own rules judge what comes out of the search.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rescheduler.scheduling.framework import BoolArray, IntArray


class Mark(NamedTuple):
    """What a pod that was put somewhere means for others: they may not join its domain."""

    key: int
    domains: IntArray
    """Domain of each node; below 0: in none."""


class Bound(NamedTuple):
    """A topology spread: once one pod has gone to another domain, the others stay in theirs."""

    key: int
    domains: IntArray
    own: int


class Company:
    """The marks and crossed bounds of everything that is put somewhere so far."""

    def __init__(self) -> None:
        self._marks: dict[int, list[int]] = {}
        self._crossed: dict[int, int] = {}

    def restrict(self, minds: Iterable[Mark], spreads: Iterable[Bound], fits: BoolArray) -> None:
        """Take nodes out of ``fits`` (all nodes) that a pod may not join now."""
        for mark in minds:
            for node in self._marks.get(mark.key, ()):
                domain = mark.domains[node]
                if domain >= 0:
                    fits &= mark.domains != domain
        for bound in spreads:
            if self._crossed.get(bound.key):
                fits &= bound.domains == bound.own

    def join(self, bears: Iterable[Mark], spreads: Iterable[Bound], node: int) -> None:
        """A pod is put on a node."""
        for mark in bears:
            self._marks.setdefault(mark.key, []).append(node)
        for bound in spreads:
            if bound.domains[node] != bound.own:
                self._crossed[bound.key] = self._crossed.get(bound.key, 0) + 1

    def leave(self, bears: Iterable[Mark], spreads: Iterable[Bound], node: int) -> None:
        """Undo ``join``."""
        for mark in bears:
            self._marks[mark.key].remove(node)
        for bound in spreads:
            if bound.domains[node] != bound.own:
                self._crossed[bound.key] -= 1
