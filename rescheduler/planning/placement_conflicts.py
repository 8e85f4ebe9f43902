"""What pods that a search has put somewhere mean for those that it puts next: who may not join whom, which domains count. Pure.

Domains are those of topology keys, as one number for each node. The conditions are necessary ones, made of required
anti-affinity, host ports and hard topology spread; the scheduler's own rules judge what comes out of the search.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

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


class PlacementConflicts:
    """The marks and crossed bounds of everything that is put somewhere so far."""

    def __init__(self) -> None:
        self._joined: dict[tuple[int, int], int] = {}
        """By key of a mark and domain: how many pods mean it there."""
        self._shut: dict[int, BoolArray] = {}
        """By key of a mark: the nodes that others may not join."""
        self._crossed: dict[int, int] = {}

    def restrict(self, minds: Iterable[Mark], spreads: Iterable[Bound], fits: BoolArray) -> BoolArray:
        """Those of ``fits`` (all nodes, not changed) that a pod may join now."""
        for mark in minds:
            shut = self._shut.get(mark.key)
            if shut is not None:
                fits = fits & ~shut
        for bound in spreads:
            if self._crossed.get(bound.key):
                fits = fits & (bound.domains == bound.own)
        return fits

    def join(self, bears: Iterable[Mark], spreads: Iterable[Bound], node: int) -> None:
        """A pod is put on a node."""
        for mark in bears:
            self._mean(mark, node, 1)
        for bound in spreads:
            if bound.domains[node] != bound.own:
                self._crossed[bound.key] = self._crossed.get(bound.key, 0) + 1

    def leave(self, bears: Iterable[Mark], spreads: Iterable[Bound], node: int) -> None:
        """Undo ``join``."""
        for mark in bears:
            self._mean(mark, node, -1)
        for bound in spreads:
            if bound.domains[node] != bound.own:
                self._crossed[bound.key] -= 1

    def _mean(self, mark: Mark, node: int, change: int) -> None:
        """One pod more, or one less, means the mark in the domain of the node."""
        domain = int(mark.domains[node])
        if domain < 0:
            return
        number = self._joined[mark.key, domain] = self._joined.get((mark.key, domain), 0) + change
        if number == max(change, 0):  # the first one, or none any more
            shut = self._shut.get(mark.key)
            if shut is None:
                shut = self._shut[mark.key] = np.zeros(len(mark.domains), dtype=np.bool_)
            shut[mark.domains == domain] = number > 0
