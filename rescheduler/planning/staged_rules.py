"""What pods that a search has put somewhere mean for those that it puts next: who may not join whom, which domains count. Pure.

Domains are those of topology keys, as one number for each node. Moves are made in stages: what leaves in one is gone in the
later ones. The conditions are necessary ones, made of required anti-affinity, host ports and hard topology spread;
the scheduler's own rules judge what comes out of the search.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from rescheduler.planning.problem import Mark, Replicas, Spread
from rescheduler.scheduling.framework import BoolArray, IntArray


class MarkedDomains:
    """Which domains pods bear a mark in."""

    def __init__(self, standing: Mapping[tuple[int, int], int], stages: int) -> None:
        """``standing``: by key and domain, how many bear it before any moves."""
        self._stages = range(1, stages + 1)
        self._there: dict[int, dict[int, int]] = {}
        """By key and domain, how many have been there, those that have left included."""
        self._left: dict[tuple[int, int], dict[int, int]] = {}
        """By key and stage, and by domain, how many leave it in that stage."""
        self._open: dict[tuple[int, int], BoolArray] = {}
        """By key and stage, the nodes that others may join."""
        self._members: dict[tuple[int, int], IntArray] = {}
        """By key and domain, the nodes that are in it."""
        for (key, domain), number in standing.items():
            self._there.setdefault(key, {})[domain] = number

    def restrict(self, minds: Iterable[Mark], fits: BoolArray, stage: int) -> BoolArray:
        """Those of ``fits`` (all nodes, not changed) that a pod may join in that stage."""
        for mark in minds:
            if mark.key in self._there:
                fits = fits & self._nodes_open(mark, stage)
        return fits

    def join(self, mark: Mark, node: int, sign: int) -> None:
        """One more bears it there; ``sign`` -1: one fewer."""
        self._change(self._there.setdefault(mark.key, {}), mark, node, sign)

    def leave(self, mark: Mark, node: int, stage: int, sign: int) -> None:
        """One leaves in that stage; ``sign`` -1: that is undone."""
        self._change(self._left.setdefault((mark.key, stage), {}), mark, node, sign)

    def borne(self, mark: Mark, node: int) -> int:
        """How many have borne it in the domain of the node, those that have left included."""
        return self._there.get(mark.key, _NONE).get(domain_of(mark.domains, node), 0)

    def remaining(self, mark: Mark, node: int) -> int:
        """How many bear it in the domain of the node after the last but one stage."""
        domain = domain_of(mark.domains, node)
        left = (self._left.get((mark.key, before), _NONE).get(domain, 0) for before in self._stages[:-1])
        return self.borne(mark, node) - sum(left)

    def _nodes_open(self, mark: Mark, stage: int) -> BoolArray:
        known = self._open.get((mark.key, stage))
        if known is None:
            shut = [domain for domain in self._there[mark.key] if not self._is_open(mark.key, domain, stage)]
            known = self._open[mark.key, stage] = np.isin(mark.domains, shut, invert=True)
        return known

    def _is_open(self, key: int, domain: int, stage: int) -> bool:
        left = sum(self._left.get((key, before), _NONE).get(domain, 0) for before in range(1, stage))
        return self._there.get(key, _NONE).get(domain, 0) <= left

    def _change(self, by_domain: dict[int, int], mark: Mark, node: int, sign: int) -> None:
        domain = domain_of(mark.domains, node)
        if domain < 0:
            return
        before = by_domain.get(domain, 0)
        after = by_domain[domain] = before + sign
        if before and after and len(self._stages) == 1:
            return  # others are there before and after
        for stage in self._stages:
            known = self._open.get((mark.key, stage))
            if known is None:
                continue
            now = after <= 0 if len(self._stages) == 1 else self._is_open(mark.key, domain, stage)
            if known.item(node) != now:
                known[self._nodes_in(mark, domain)] = now

    def _nodes_in(self, mark: Mark, domain: int) -> IntArray:
        """Indices of the nodes of a domain."""
        known = self._members.get((mark.key, domain))
        if known is None:
            known = self._members[mark.key, domain] = np.flatnonzero(mark.domains == domain)
        return known


_NONE: Final[Mapping[int, int]] = {}


def domain_of(domains: IntArray, node: int) -> int:
    """Below 0: in none, as a pod that waits for a node (below 0)."""
    return domains.item(node) if node >= 0 else -1


class _Counts:
    """Pods by domain at one moment. How many domains have each count is kept beside, so that nothing looks at all of them."""

    __slots__ = ("_valid", "by_domain", "come", "domains_with", "least")

    def __init__(self, spread: Spread) -> None:
        self.by_domain: IntArray = np.array(spread.counts, dtype=np.int64)
        self.come: dict[int, int] = {}
        """By domain, how many have come there in this stage; those with none are left out."""
        self._valid = frozenset(spread.valid)
        self.domains_with = dict(Counter(self.by_domain.item(domain) for domain in self._valid))
        """By count, how many domains that exist have it; those with none are left out."""
        self.least = min(self.domains_with, default=0)
        """The lowest count of a domain that exists."""

    def add(self, domain: int, number: int) -> None:
        """One more for 1, one fewer for -1."""
        before = self.by_domain.item(domain)
        after = before + number
        self.by_domain[domain] = after
        if domain not in self._valid:
            return
        some = self.domains_with
        some[after] = some.get(after, 0) + 1
        if some[before] > 1:
            some[before] -= 1
        else:
            del some[before]
            # None is below, and this one is just above.
            if before == self.least:
                self.least = after
        self.least = min(self.least, after)

    def taking(self, max_skew: int, arrives: bool) -> BoolArray:  # noqa: FBT001 -- said by its name
        """Domains that may have one more, so that none to which pods have come has too many. ``arrives``: it comes in this stage."""
        most, count = self.least + max_skew, self.by_domain.item
        takes: BoolArray
        if arrives:
            takes = self.by_domain < most
        else:
            takes = np.ones(len(self.by_domain), dtype=np.bool_)
            for domain in self.come:
                takes[domain] = count(domain) < most
        if any(count(domain) > most for domain in self.come):
            takes[:] = False
        if self.domains_with.get(self.least) == 1:
            # One more where fewest are raises the bar for all.
            lowest = next(domain for domain in self._valid if count(domain) == self.least)
            self.add(lowest, 1)
            come = (*self.come, lowest) if arrives else self.come
            takes[lowest] = all(count(domain) <= self.least + max_skew for domain in come)
            self.add(lowest, -1)
        return takes

    def arrive(self, domain: int, number: int) -> None:
        """One more has come for 1, one fewer for -1."""
        come = self.come.get(domain, 0) + number
        if come:
            self.come[domain] = come
        else:
            del self.come[domain]


class Crowd:
    """The replicas of one workload, once all have gone where they go."""

    def __init__(self, replicas: Replicas) -> None:
        self._all = sum(replicas.counts.values())
        self._zones = replicas.zones
        self._by_node, self._by_zone = Counter[int](), Counter[int]()
        self._most_on_node = self._most_in_zone = self._all + 1
        self._full: dict[int, None] = {}
        """Nodes that take none besides."""
        self._full_zones: dict[int, None] = {}
        self._in_zone: dict[int, BoolArray] = {}
        for node, number in replicas.counts.items():
            self._by_node[node] = number
            self._by_zone[self._zones.item(node)] += number
        if replicas.most and len(self._by_node) > 1:
            self._most_on_node = replicas.most
        if replicas.most and sum(zone >= 0 for zone in self._by_zone) > 1:
            self._most_in_zone = replicas.most
        for node in replicas.counts:
            self.add(node, 0)

    def add(self, node: int, number: int) -> None:
        """So many more are on the node."""
        zone = self._zones.item(node)
        self._by_node[node] += number
        self._by_zone[zone] += number
        _keep(self._full, node, full=self._by_node[node] >= self._most_on_node)
        if zone >= 0:
            _keep(self._full_zones, zone, full=self._by_zone[zone] >= self._most_in_zone)

    def move(self, source: int, target: int) -> None:
        """One goes from one node to another."""
        self.add(source, -1)
        self.add(target, 1)

    def restrict(self, source: int, fits: BoolArray) -> BoolArray:
        """Those of ``fits`` (all nodes, may be changed) that a replica on ``source`` may go to."""
        for node in self._full:
            fits[node] = False
        for zone in self._full_zones:
            if zone != self._zones.item(source):
                if zone not in self._in_zone:
                    self._in_zone[zone] = self._zones == zone
                fits[self._in_zone[zone]] = False
        return fits

    def share(self, node: int) -> float:
        """The part of them that is on the node."""
        return self._by_node[node] / self._all

    def is_crowded(self, node: int, nodes: int) -> bool:
        """True if more are on the node than a part for each of so many ``nodes``, or in its zone than a part for each zone."""
        on, within = self._by_node[node], self._by_zone[self._zones.item(node)]
        return on > math.ceil(self._all / nodes) or within > math.ceil(self._all / len(self._by_zone))

    def at(self, node: int) -> int:
        """How many are on the node, and again how many are in its zone."""
        return self._by_node[node] + self._by_zone[self._zones.item(node)]

    def together(self, nodes: IntArray) -> IntArray:
        """``at`` of each of these nodes."""
        return np.array([self.at(node) for node in nodes.tolist()], dtype=np.int64)


def _keep(places: dict[int, None], place: int, *, full: bool) -> None:
    if full:
        places[place] = None
    else:
        places.pop(place, None)


class StagedSpread:
    """The pods of a spread after each stage of moves.

    Every move holds at the end of its stage and of each later one, as ``PlannedSpread`` asks of a plan.
    """

    def __init__(self, spread: Spread, stages: int) -> None:
        self._domains = spread.domains
        self._inside: BoolArray = spread.domains >= 0
        self._max_skew = spread.max_skew
        self._after = [_Counts(spread) for _ in range(stages)]
        self._takes: dict[tuple[int, int], BoolArray] = {}
        """By the domain that is left and stage: which nodes take one, since the last move."""

    def crowded(self, node: int) -> bool:
        """True if the domain of the node has too many in the end."""
        domain, counts = domain_of(self._domains, node), self._after[-1]
        return bool(domain >= 0 and counts.by_domain[domain] - counts.least > self._max_skew)

    def excess(self) -> int:
        """How many pods all domains have too many in the end."""
        counts = self._after[-1]
        most = counts.least + self._max_skew
        return sum((count - most) * many for count, many in counts.domains_with.items() if count > most)

    def least_moves(self) -> int:
        """How many moves it takes at least until no domain has too many: each takes one out of a domain at most, and brings one."""
        least, fewer = self._after[-1].least, 0
        some = self._after[-1].domains_with.items()
        while True:
            most = least + self._max_skew
            out = sum((number - most) * many for number, many in some if number > most)
            into = sum((least - number) * many for number, many in some if number < least)
            if into >= out:
                return min(into, fewer)
            least, fewer = least + 1, out

    def restrict(self, source: int, fits: BoolArray, stage: int) -> BoolArray:
        """Those of ``fits`` (all nodes, not changed) that a pod which stands on ``source`` may go to in that stage."""
        here = domain_of(self._domains, source)
        known = self._takes.get((here, stage))
        if known is None:
            taking = self._taking(source, here, stage)
            known = self._takes[here, stage] = self._inside & taking[self._domains]
        return fits & known

    def move(self, source: int, target: int, stage: int, sign: int) -> None:
        """One goes from one node to another; ``sign`` -1: that is undone."""
        here, there = domain_of(self._domains, source), domain_of(self._domains, target)
        if here == there:
            return
        self._takes.clear()
        if there >= 0:
            self._after[stage - 1].arrive(there, sign)
        for counts in self._after[stage - 1 :]:
            if here >= 0:
                counts.add(here, -sign)
            if there >= 0:
                counts.add(there, sign)

    def _taking(self, source: int, here: int, stage: int) -> BoolArray:
        """Domains that take one from ``here`` without spoiling a move of any stage."""
        each: list[BoolArray] = []
        for counts in self._after[stage - 1 :]:
            if here >= 0:
                counts.add(here, -1)
            each.append(counts.taking(self._max_skew, not each))
            if here >= 0:
                counts.add(here, 1)
        takes: BoolArray = np.logical_and.reduce(each) if len(each) > 1 else each[0]
        if here >= 0:
            takes[here] = not self.crowded(source)
        return takes
