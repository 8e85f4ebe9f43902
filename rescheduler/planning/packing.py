"""Which nodes are emptied so far, and where their pods are put: one attempt of the search for nodes to empty together.

A pod goes where pods have gone already, else where nothing is lost, best fit. A node that has received pods is emptied all the
same if all of them fit elsewhere. Where nothing has room for a pod, pods that were put on a node may be taken off it
again to make room, and are put elsewhere in their turn: those that were in the way least often so far, the smallest of
them. No chance is in it, and the number of such attempts is given. Pure, but for what the packing remembers of itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from rescheduler.planning.consolidation_problem import ConsolidationProblem, Emptied, Occupant, Source
from rescheduler.planning.placement_conflicts import PlacementConflicts
from rescheduler.scheduling.framework import FloatArray

LOOKED_AT: Final = 48
"""Nodes on which room for a pod is looked for, those with the most room."""

_OPEN: Final = 100.0
"""More than the free shares of all resources of a node add up to: what is lost by using a node decides before how well a pod fits."""


class Packing:
    """Which nodes are emptied so far, and where their items are."""

    def __init__(self, cluster: ConsolidationProblem, losses: FloatArray, tilt: FloatArray) -> None:
        """``losses``: what is lost if a node receives; ``tilt``: added to what is free on it."""
        self._cluster = cluster
        self._free = cluster.free.copy()
        self._open = cluster.receives.copy()
        self._slack: FloatArray = cluster.shares.sum(axis=0) + tilt
        self._per_unit = cluster.shares / np.maximum(cluster.free, 1)
        self._losses = losses
        self._standing = losses.copy()
        """``losses``, but 0 for nodes that have received."""
        self._received: dict[int, dict[Occupant, None]] = {}
        self._at: dict[Occupant, int] = {}
        self._needs: dict[Occupant, dict[int, int]] = {}
        self._conflicts = PlacementConflicts()
        self.emptied: dict[int, None] = {}
        """Numbers of the sources, in the order in which they were emptied."""
        self._claimed: set[int] = set()
        """What those sources claim."""
        self.moves = 0
        self.placements = 0

    def result(self) -> tuple[Emptied, ...]:
        """What is emptied."""
        sources, at = self._cluster.sources, self._at
        return tuple(Emptied(n, tuple(at[item] for item in sources[n].items)) for n in self.emptied)

    def put(self, one: Emptied) -> None:
        """Empty a source as another pass did; targets that it gave to nodes emptied since are not asked for."""
        source = self._cluster.sources[one.source]
        self._close(one.source)
        for item, node in zip(source.items, one.targets, strict=True):
            self._place(item, node)

    def empty(self, number: int) -> bool:
        """Empty a source if all of its items, and those it has received, fit elsewhere."""
        source = self._cluster.sources[number]
        if not self._affords((number,)):
            return False
        guests = () if self._bears(source) else tuple(self._received.get(source.node, ()))
        for item in guests:
            self._take(item)
        self._close(number)
        if self._place_all((*guests, *source.items) if guests else source.items, ordered=not guests):
            return True
        self._reopen(number)
        for item in guests:
            self._place(item, source.node)
        return False

    def empty_making_room(self, numbers: Sequence[int], attempts: int) -> bool:
        """Empty these sources beside those before them, with so many attempts to make room. After False the packing is of no more use."""
        if not self._affords(numbers):
            return False
        items: list[Occupant] = []
        for number in numbers:
            source = self._cluster.sources[number]
            guests = () if self._bears(source) else tuple(self._received.get(source.node, ()))
            for item in guests:
                self._take(item)
            self._close(number)
            items += (*guests, *source.items)
        return self._place_making_room(sorted(items, key=_largest_first, reverse=True), attempts)

    def _place_making_room(self, waiting: list[Occupant], attempts: int) -> bool:
        """Put all that wait somewhere, the last first. False: not all of them are, and others may have lost their places."""
        failures: dict[Occupant, int] = {}
        """How often nothing had room for an item."""
        while waiting:
            item = waiting.pop()
            node = self._best(item)
            if node < 0:
                failures[item] = failures.get(item, 0) + 1
                node, others = self._least_in_the_way(item, failures)
                if node < 0:
                    others = self._kept_apart(item)
                attempts -= 1
                if attempts < 0 or not others:
                    return False
                for other in others:
                    self._take(other)
                waiting += others
                if node < 0:
                    waiting.append(item)
                    continue
            self._place(item, node)
        return True

    def _kept_apart(self, item: Occupant) -> tuple[Occupant, ...]:
        """Those that were put somewhere and whose conflicts say where the item may not go."""
        minds, spreads = {mark.key for mark in item.minds}, {bound.key for bound in item.spreads}
        return tuple(
            other
            for other, node in self._at.items()
            if any(mark.key in minds for mark in other.bears)
            or any(bound.key in spreads and bound.domains[node] != bound.own for bound in other.spreads)
        )

    def _least_in_the_way(
        self, item: Occupant, failures: Mapping[Occupant, int]
    ) -> tuple[int, tuple[Occupant, ...]]:
        """A node that takes the item once one or two others have left it, the smallest that failed least often; -1: there is none."""
        self.placements += 1
        fits = item.allowed() & self._open
        fits = self._conflicts.restrict(item.minds, item.spreads, fits)
        nodes = [node for node, guests in self._received.items() if guests and fits[node]]
        if len(nodes) > LOOKED_AT:
            nodes = sorted(nodes, key=lambda node: (-self._slack[node], node))[:LOOKED_AT]
        least = math.inf
        best: tuple[int, tuple[Occupant, ...]] = -1, ()
        for node in nodes:
            free = self._free[:, node].tolist()
            lack = [
                (resource, amount - free[resource])
                for resource, amount in item.needs
                if amount > free[resource]
            ]
            small: list[tuple[float, Occupant]] = []
            for guest in self._received[node]:
                cost = (1 + failures.get(guest, 0)) * guest.size
                if cost >= least:
                    continue
                if self._cover(lack, guest):
                    least, best = cost, (node, (guest,))
                else:
                    small.append((cost, guest))
            for (one, guest), (two, other) in combinations(small, 2):
                if one + two < least and self._cover(lack, guest, other):
                    least, best = one + two, (node, (guest, other))
        return best

    def _cover(self, lack: Sequence[tuple[int, int]], *guests: Occupant) -> bool:
        """True if what these leave makes up for what a node has too little of."""
        needs = [self._amounts(guest) for guest in guests]
        return all(sum(one.get(resource, 0) for one in needs) >= amount for resource, amount in lack)

    def _amounts(self, item: Occupant) -> dict[int, int]:
        known = self._needs.get(item)
        if known is None:
            known = self._needs[item] = dict(item.needs)
        return known

    def _bears(self, source: Source) -> bool:
        """True if what has come to its node may stay there once the source is emptied."""
        if source.takes is None:
            return False
        return all(self._free[resource, source.node] >= amount for resource, amount in source.takes)

    def _affords(self, numbers: Sequence[int]) -> bool:
        sources = [self._cluster.sources[number] for number in numbers]
        claims = [claim for source in sources for claim in source.claims]
        if len(set(claims)) < len(claims) or not self._claimed.isdisjoint(claims):
            return False
        most = self._cluster.most_moves
        return most is None or self.moves + sum(len(source.items) for source in sources) <= most

    def _place_all(self, items: Sequence[Occupant], *, ordered: bool) -> bool:
        """Put all of them somewhere, or none. ``ordered``: the largest stand first."""
        placed: list[Occupant] = []
        for item in items if ordered else sorted(items, key=_largest_first):
            node = self._best(item)
            if node < 0:
                for one in reversed(placed):
                    self._take(one)
                return False
            self._place(item, node)
            placed.append(item)
        return True

    def _best(self, item: Occupant) -> int:
        """Where the item is put; -1: no node takes it."""
        self.placements += 1
        fits = item.allowed() & self._open
        for resource, amount in item.needs:
            fits &= self._free[resource] >= amount
        fits = self._conflicts.restrict(item.minds, item.spreads, fits)
        nodes = np.flatnonzero(fits)
        if not len(nodes):
            return -1
        return int(nodes[(self._standing[nodes] * _OPEN + self._slack[nodes]).argmin()])

    def _place(self, item: Occupant, node: int) -> None:
        self._change(item, node, -1)
        self._at[item] = node
        self._received.setdefault(node, {})[item] = None
        self._standing[node] = 0.0
        self._conflicts.join(item.bears, item.spreads, node)

    def _take(self, item: Occupant) -> None:
        node = self._at.pop(item)
        self._change(item, node, 1)
        here = self._received[node]
        del here[item]
        if not here:
            self._standing[node] = self._losses[node]
        self._conflicts.leave(item.bears, item.spreads, node)

    def _change(self, item: Occupant, node: int, sign: int) -> None:
        for resource, amount in item.needs:
            self._free[resource, node] += sign * amount
            self._slack[node] += sign * amount * self._per_unit[resource, node]

    def _close(self, number: int) -> None:
        source = self._cluster.sources[number]
        self.emptied[number] = None
        self._claimed.update(source.claims)
        self.moves += len(source.items)
        self._give(source, -1)

    def _reopen(self, number: int) -> None:
        source = self._cluster.sources[number]
        del self.emptied[number]
        self._claimed.difference_update(source.claims)
        self.moves -= len(source.items)
        self._give(source, 1)

    def _give(self, source: Source, sign: int) -> None:
        """What may come to the node of a source from now on: less for the sign -1, more again for 1."""
        node = source.node
        if source.takes is None:
            self._open[node] = sign > 0 and self._cluster.receives[node]
            return
        for resource, amount in source.takes:
            self._free[resource, node] += sign * amount
            self._slack[node] += sign * amount * self._per_unit[resource, node]


def _largest_first(item: Occupant) -> float:
    return -item.size
