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


class _Counts:
    """Pods by domain at one moment. How many domains have each count is kept beside, so that nothing looks at all of them."""

    __slots__ = ("_valid", "by_domain", "come", "domains_with", "least")

    def __init__(self, spread: Spread) -> None:
        self.by_domain = list(spread.counts)
        self.come: dict[int, int] = {}
        """By domain, how many have come there in this stage; those with none are left out."""
        self._valid = frozenset(spread.valid)
        self.domains_with: dict[int, int] = {}
        """By count, how many domains that exist have it; those with none are left out."""
        for domain in self._valid:
            count = self.by_domain[domain]
            self.domains_with[count] = self.domains_with.get(count, 0) + 1
        self.least = min(self.domains_with, default=0)
        """The lowest count of a domain that exists."""

    def add(self, domain: int, number: int) -> None:
        """One more for 1, one fewer for -1."""
        before = self.by_domain[domain]
        after = self.by_domain[domain] = before + number
        if domain not in self._valid:
            return
        with_count = self.domains_with
        with_count[after] = with_count.get(after, 0) + 1
        if with_count[before] > 1:
            with_count[before] -= 1
        else:
            del with_count[before]
            # None is below, and this one is just above.
            if before == self.least:
                self.least = after
        self.least = min(self.least, after)

    def arrive(self, domain: int, number: int) -> None:
        """One more has come for 1, one fewer for -1."""
        come = self.come.get(domain, 0) + number
        if come:
            self.come[domain] = come
        else:
            del self.come[domain]


class StagedSpread:
    """The pods of one spread after each stage, and where pods have come."""

    def __init__(self, spread: Spread) -> None:
        self._domains = spread.domains
        self._max_skew = spread.max_skew
        self._after = (_Counts(spread), _Counts(spread))
        self._takes: dict[tuple[int, int, int], bool] = {}
        """By both domains and stage, what ``takes`` answered since the last move: most nodes share their domain with others."""

    def crowded(self, node: int) -> bool:
        """True if the domain of the node has too many in the end."""
        domain, counts = self._domains[node], self._after[-1]
        return domain >= 0 and counts.by_domain[domain] - counts.least > self._max_skew

    def excess(self) -> int:
        """How many pods all domains have too many in the end."""
        counts = self._after[-1]
        most = counts.least + self._max_skew
        return sum((count - most) * many for count, many in counts.domains_with.items() if count > most)

    def takes(self, source: int, target: int, stage: int) -> bool:
        """True if one may go there in this stage, and no move of any stage is spoiled by that."""
        here, there = self._domains[source], self._domains[target]
        if there < 0:
            return False
        if here == there:
            return not self.crowded(source)
        known = self._takes.get((here, there, stage))
        if known is None:
            self._shift(here, there, stage, 1)
            known = all(self._holds(counts) for counts in self._after[stage - 1 :])
            self._shift(here, there, stage, -1)
            self._takes[here, there, stage] = known
        return known

    def move(self, source: int, target: int, stage: int, sign: int) -> None:
        """One goes from one node to another; ``sign`` -1: that is undone."""
        here, there = self._domains[source], self._domains[target]
        if here != there:
            self._takes.clear()
            self._shift(here, there, stage, sign)

    def _shift(self, here: int, there: int, stage: int, sign: int) -> None:
        if there >= 0:
            self._after[stage - 1].arrive(there, sign)
        for counts in self._after[stage - 1 :]:
            if here >= 0:
                counts.add(here, -sign)
            if there >= 0:
                counts.add(there, sign)

    def _holds(self, counts: _Counts) -> bool:
        most = counts.least + self._max_skew
        return all(counts.by_domain[domain] <= most for domain in counts.come)
