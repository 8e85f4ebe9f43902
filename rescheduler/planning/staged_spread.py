"""Hard topology spread as counts by domain, after each of two stages of moves: for a search on numbers. Pure.

It promises that every move holds at the end of its stage and of each later one, as ``planned_spread`` asks of a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Spread:
    """A hard topology spread: how many pods are in each domain before any moves."""

    domains: Sequence[int]
    """Domain of each node; below 0: in none."""
    counts: Sequence[int]
    valid: Sequence[int]
    """Domains that exist."""
    max_skew: int


class StagedSpread:
    """The pods of one spread after each stage, and where pods have come."""

    def __init__(self, spread: Spread) -> None:
        self._domains = spread.domains
        self._valid = spread.valid
        self._max_skew = spread.max_skew
        self._after = (list(spread.counts), list(spread.counts))
        self._come = ([0] * len(spread.counts), [0] * len(spread.counts))

    def crowded(self, node: int) -> bool:
        """True if the domain of the node has too many in the end."""
        domain, counts = self._domains[node], self._after[-1]
        return domain >= 0 and counts[domain] - self._least(counts) > self._max_skew

    def excess(self) -> int:
        """How many pods all domains have too many in the end."""
        counts = self._after[-1]
        most = self._least(counts) + self._max_skew
        return sum(max(0, counts[domain] - most) for domain in self._valid)

    def takes(self, source: int, target: int, stage: int) -> bool:
        """True if one may go there in this stage, and no move of any stage is spoiled by that."""
        here, there = self._domains[source], self._domains[target]
        if there < 0:
            return False
        if here == there:
            return not self.crowded(source)
        self.move(source, target, stage, 1)
        found = all(self._holds(number) for number in range(stage - 1, len(self._after)))
        self.move(source, target, stage, -1)
        return found

    def move(self, source: int, target: int, stage: int, sign: int) -> None:
        """One goes from one node to another; ``sign`` -1: that is undone."""
        here, there = self._domains[source], self._domains[target]
        if here == there:
            return
        if there >= 0:
            self._come[stage - 1][there] += sign
        for counts in self._after[stage - 1 :]:
            if here >= 0:
                counts[here] -= sign
            if there >= 0:
                counts[there] += sign

    def _holds(self, number: int) -> bool:
        counts = self._after[number]
        most = self._least(counts) + self._max_skew
        return all(counts[d] <= most for d, come in enumerate(self._come[number]) if come)

    def _least(self, counts: Sequence[int]) -> int:
        return min((counts[domain] for domain in self._valid), default=0)
