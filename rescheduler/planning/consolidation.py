"""Which nodes can be emptied together, with at most so many moves: a search on numbers, without a clock.

Given are what each node can still take and the nodes that may be emptied, each with its pods and its price. Wanted are
the nodes to empty: the highest sum of prices first, then the fewest moves. A node is emptied as a whole or not at all (of
several sources on a node, each of which is a part of its pods, one at most);
its pods go to nodes that stay; the room that they leave is not used (the moves of a plan run at once).

A pass takes the nodes in the order of their cost, fewest pods first, and puts the pods of each where pods have gone
already, else where nothing is lost, best fit. A node that has received pods is emptied all the same if all of them fit
elsewhere. Passes are repeated, from the start or from what was found before, with other orders: a fixed number of
times, by a seeded generator, so the same input gives the same result. They go on from the last choice that is worth as much as
the best, whatever moves it takes. The first pass has no chance in it, and nothing
worse than it is ever given.

The numbers are necessary conditions: whoever uses the result asks the scheduler's own rules about every pod. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from rescheduler.planning.company import Bound, Company, Mark
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

PLACEMENTS_PER_PASS: Final = 500
"""A search ends early once it has tried so many placements for each pass it was asked for: on big clusters one pass is thousands."""

ORDERS_PER_PASS: Final = 3
"""On small clusters, where passes cost little, so many are made for each that was asked for besides the first."""

EXCHANGES: Final = 4
"""Exchanges that a pass tries until one fits."""

_OPEN: Final = 100.0
"""More than the free shares of all resources of a node add up to: what is lost by using a node decides before how well a pod fits."""
_PODS: Final = (1.0, 0.0, 0.5, 0.75, 0.25)
"""How much of a node's cost is its number of pods, the rest being what they need; by pass, in turn."""
_NOISE: Final = (0.0, 0.1, 0.3, 0.6)
_TILT: Final = (0.0, 0.3, 1.0)
_KEPT: Final = (0.9, 0.75, 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class Occupant:
    """A pod that would have to go."""

    needs: tuple[tuple[int, int], ...]
    """(resource, amount) of what its replacement asks for, none of them 0."""
    size: float
    """How much it needs, as a share of what is free altogether."""
    allowed: Callable[[], BoolArray]
    """Nodes that take the replacement before any pod is moved."""
    bears: tuple[Mark, ...] = ()
    minds: tuple[Mark, ...] = ()
    """It does not join the domain of an item that bears such a mark."""
    spreads: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A node that may be emptied."""

    node: int
    items: tuple[Occupant, ...]
    """The largest first."""
    price: int
    budgets: tuple[tuple[int, int], ...] = ()
    """(index of a budget, how many moves take one of it)."""
    takes: tuple[tuple[int, int], ...] | None = None
    """(resource, amount) of what may come to its node that may come no longer once it is emptied; None: nothing may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationProblem:
    """What a search is about. Nodes are numbers; equal nodes are taken in their order."""

    free: IntArray
    """What may still come. Shape (resources, nodes)."""
    shares: FloatArray
    """``free`` as a share of what each node can hold. Shape (resources, nodes)."""
    receives: BoolArray
    """Nodes that pods may go to."""
    sources: tuple[Source, ...]
    budgets: tuple[int, ...] = ()
    """What is left of each budget."""
    most_moves: int | None = None


class Emptied(NamedTuple):
    """One node that the search empties: which of ``sources``, and where its items go, in their order."""

    source: int
    targets: tuple[int, ...]


def consolidate(cluster: ConsolidationProblem, passes: int) -> list[Emptied]:
    """The nodes to empty, in an order in which each fits after those before it. ``passes``: how often it is tried."""
    search = _Search(cluster)
    best = current = search.run(_Order(pods=1.0), ())
    rng = random.Random(0)  # noqa: S311 -- chance that is the same every time, no secret
    most = search.placements + passes * PLACEMENTS_PER_PASS
    for number in range(1, 1 + (passes - 1) * ORDERS_PER_PASS):
        if search.placements >= most or best.complete:
            break
        order = _Order(
            pods=_PODS[number % len(_PODS)],
            noise=_NOISE[number // 2 % len(_NOISE)],
            heavy_last=number % 3 != 0,
            tilt=_TILT[number // 4 % len(_TILT)],
        )
        if number % 2:
            found = search.exchange(order, current.emptied, rng)
        else:
            kept = _some(current.emptied, _KEPT[number // 2 % len(_KEPT)], rng) if number % 8 else ()
            found = search.run(order, kept, rng)
        if found.worth[0] >= current.worth[0]:
            current = found
        if found.worth > best.worth:
            best = found
    return list(best.emptied)


class _Order(NamedTuple):
    """How a pass orders the nodes."""

    pods: float
    noise: float = 0.0
    heavy_last: bool = True
    """Nodes that would have to be given up are used from the costly end; otherwise as pods fit best."""
    tilt: float = 0.0
    """Up to which part of a node chance makes it look emptier, so that another one is the best fit."""


class _Found(NamedTuple):
    worth: tuple[int, int]
    """Sum of prices, then minus the moves: more is better."""
    emptied: tuple[Emptied, ...]
    complete: bool
    """True if every node that may be emptied is."""


_NOTHING: Final = _Found((0, 0), (), complete=False)


def _some(emptied: Sequence[Emptied], part: float, rng: random.Random) -> tuple[Emptied, ...]:
    return tuple(one for one in emptied if rng.random() < part)


class _Search:
    """What passes share."""

    def __init__(self, cluster: ConsolidationProblem) -> None:
        self.cluster = cluster
        self.placements = 0
        """Placements tried so far."""
        sources = cluster.sources
        self._pods = np.array([len(s.items) for s in sources], dtype=np.float64)
        self._sizes = np.array([sum(item.size for item in s.items) for s in sources], dtype=np.float64)
        prices = np.array([max(s.price, 1) for s in sources], dtype=np.float64)
        # As shares of the highest, so that the unit of prices makes no difference.
        self._prices = prices / prices.max(initial=1.0)
        self._nodes = np.array([s.node for s in sources], dtype=np.intp)

    def run(self, order: _Order, kept: Iterable[Emptied], rng: random.Random | None = None) -> _Found:
        """One pass, which begins with what is kept of another one."""
        cost = self._costs(order, rng)
        packing = self._packing(cost, order, rng)
        for one in kept:
            packing.put(one)
        return self._go_on(packing, cost)

    def _go_on(self, packing: _Packing, cost: FloatArray) -> _Found:
        """Empty what else can be emptied, the cheapest first."""
        before = packing.placements
        for number in np.argsort(cost, kind="stable").tolist():
            if number not in packing.emptied:
                packing.empty(number)
        self.placements += packing.placements - before
        emptied = packing.result()
        sources = self.cluster.sources
        nodes = {source.node for source in sources}
        worth = sum(sources[e.source].price for e in emptied), -packing.moves
        return _Found(worth, emptied, complete=len(emptied) == len(nodes))

    def exchange(self, order: _Order, emptied: Sequence[Emptied], rng: random.Random) -> _Found:
        """One pass that begins with most of what another one emptied and some of what it did not, packed together."""
        before = sorted(one.source for one in emptied)
        known = set(before)
        others = [n for n in range(len(self.cluster.sources)) if n not in known]
        for _ in range(EXCHANGES):
            gone = rng.randrange(min(3, len(before) + 1))
            left_out = set(rng.sample(before, gone))
            stay = [number for number in before if number not in left_out]
            come = rng.sample(others, min(gone + 1, len(others)))
            packing = self._packing(self._costs(order, rng), order, rng)
            packed = packing.empty_all([*stay, *come])
            self.placements += packing.placements
            if packed:
                return self._go_on(packing, self._costs(order, rng))
        return _NOTHING

    def _costs(self, order: _Order, rng: random.Random | None) -> FloatArray:
        """What emptying each source costs for its price: pods, and what they need."""
        pods = self._pods / max(self._pods.sum(), 1.0)
        sizes = self._sizes / max(self._sizes.sum(), 1e-9)
        cost: FloatArray = (order.pods * pods + (1.0 - order.pods) * sizes + 1e-6 * sizes) / self._prices
        if rng is not None and order.noise:
            cost *= np.array([1.0 + order.noise * (rng.random() - 0.5) * 2 for _ in range(len(cost))])
        return cost

    def _packing(self, cost: FloatArray, order: _Order, rng: random.Random | None) -> _Packing:
        """One without any node emptied."""
        size = len(self.cluster.receives)
        tilt = np.zeros(size)
        if rng is not None and order.tilt > 0:
            tilt = np.array([order.tilt * rng.random() for _ in range(size)])
        return _Packing(self.cluster, self._losses(cost, order), tilt)

    def _losses(self, cost: FloatArray, order: _Order) -> FloatArray:
        """By node: 0, or for a node that may be emptied what is lost if it receives pods, 1 to 2."""
        losses = np.zeros(len(self.cluster.receives))
        if len(cost):
            cheap = 1.0 - cost / max(float(cost.max()), 1e-12)
            losses[self._nodes] = 1.0 + (cheap if order.heavy_last else 0.0)
        return losses


class _Packing:
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
        self._company = Company()
        self._budgets = list(cluster.budgets)
        self.emptied: dict[int, None] = {}
        """Numbers of the sources, in the order in which they were emptied."""
        self._closed: set[int] = set()
        """Nodes of those sources."""
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

    def empty_all(self, numbers: Sequence[int]) -> bool:
        """Empty these sources together, before any other: the largest items of all of them first."""
        if not self._affords(numbers):
            return False
        for number in numbers:
            self._close(number)
        items = [item for number in numbers for item in self._cluster.sources[number].items]
        if self._place_all(items, ordered=False):
            return True
        for number in reversed(numbers):
            self._reopen(number)
        return False

    def _bears(self, source: Source) -> bool:
        """True if what has come to its node may stay there once the source is emptied."""
        if source.takes is None:
            return False
        return all(self._free[resource, source.node] >= amount for resource, amount in source.takes)

    def _affords(self, numbers: Sequence[int]) -> bool:
        sources = [self._cluster.sources[number] for number in numbers]
        nodes = {source.node for source in sources}
        if len(nodes) < len(sources) or not nodes.isdisjoint(self._closed):
            return False
        most = self._cluster.most_moves
        if most is not None and self.moves + sum(len(source.items) for source in sources) > most:
            return False
        left = list(self._budgets)
        for source in sources:
            for budget, number in source.budgets:
                left[budget] -= number
                if left[budget] < 0:
                    return False
        return True

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
        self._company.restrict(item.minds, item.spreads, fits)
        nodes = np.flatnonzero(fits)
        if not len(nodes):
            return -1
        return int(nodes[(self._standing[nodes] * _OPEN + self._slack[nodes]).argmin()])

    def _place(self, item: Occupant, node: int) -> None:
        self._change(item, node, -1)
        self._at[item] = node
        self._received.setdefault(node, {})[item] = None
        self._standing[node] = 0.0
        self._company.join(item.bears, item.spreads, node)

    def _take(self, item: Occupant) -> None:
        node = self._at.pop(item)
        self._change(item, node, 1)
        here = self._received[node]
        del here[item]
        if not here:
            self._standing[node] = self._losses[node]
        self._company.leave(item.bears, item.spreads, node)

    def _change(self, item: Occupant, node: int, sign: int) -> None:
        for resource, amount in item.needs:
            self._free[resource, node] += sign * amount
            self._slack[node] += sign * amount * self._per_unit[resource, node]

    def _close(self, number: int) -> None:
        source = self._cluster.sources[number]
        self.emptied[number] = None
        self._closed.add(source.node)
        self.moves += len(source.items)
        for budget, taken in source.budgets:
            self._budgets[budget] -= taken
        self._give(source, -1)

    def _reopen(self, number: int) -> None:
        source = self._cluster.sources[number]
        del self.emptied[number]
        self._closed.discard(source.node)
        self.moves -= len(source.items)
        for budget, taken in source.budgets:
            self._budgets[budget] += taken
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
