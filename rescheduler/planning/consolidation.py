"""Which nodes can be emptied together, with at most so many moves: a search on numbers, without a clock.

Given are what each node can still take and the nodes that may be emptied, each with its pods and its price. Wanted are
the nodes to empty: the highest sum of prices first, then the fewest moves. A node is emptied as a whole or not at all (of
several sources on a node, each of which is a part of its pods, one at most of those that claim the same);
its pods go to nodes that stay; the room that they leave is not used (the moves of a plan run at once).

A pass takes the nodes in the order of their cost, fewest pods first, and packs the pods of each (``packing``). A node that has
received pods is emptied all the same if all of them fit elsewhere. Passes are repeated with other orders, from the start or
from what was found before: a fixed number of times, by a seeded generator, so the same input gives the same result.
Where nodes, not moves, are short, what counts is the room that is lost: what the pods take, and what the node itself could
have taken. So the second pass goes by that, and an exchange, which stops emptying a few nodes and empties one more in their place, or
as many with fewer pods, is chosen by the room that it leaves. Passes go on from the last choice that is worth as much as the
best, whatever moves it takes. The first pass has no chance in it, and nothing worse than it is ever given.

The numbers are necessary conditions: whoever uses the result asks the scheduler's own rules about every pod. Pure.
"""

from __future__ import annotations

import enum
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from rescheduler.planning.consolidation_problem import ConsolidationProblem, Emptied
from rescheduler.planning.packing import Packing
from rescheduler.scheduling.framework import FloatArray

PLACEMENTS_PER_PASS: Final = 500
"""A search ends early once it has tried so many placements for each pass it was asked for: on big clusters one pass is thousands."""

ORDERS_PER_PASS: Final = 3
"""On small clusters, where passes cost little, so many are made for each that was asked for besides the first."""

EXCHANGES: Final = 24
"""Exchanges of nodes from which a pass takes the one that leaves most room."""
MOST_EXCHANGED: Final = 3
"""Nodes that an exchange stops emptying at most; one more is emptied for them."""
ATTEMPTS: Final = 100
"""How often an exchange takes pods off a node again to make room for another."""
TRIED_AGAIN: Final = 0.02
"""An exchange that was tried before is taken for one that leaves less room, by so large a share."""

FROM_THE_START: Final = 16
"""Each so-manieth pass keeps nothing of those before."""


class _Kind(enum.Enum):
    """What a pass is for."""

    AGAIN = enum.auto()
    MORE = enum.auto()
    FEWER_MOVES = enum.auto()


_KINDS: Final = (_Kind.AGAIN, _Kind.MORE, _Kind.FEWER_MOVES, _Kind.MORE)
"""By pass, in turn."""
_PODS: Final = (1.0, 0.0, 0.5, 0.75, 0.25)
"""How much of a node's cost is its number of pods, the rest being the room that is lost; by pass, in turn."""
_NOISE: Final = (0.0, 0.1, 0.3, 0.6)
_TILT: Final = (0.0, 0.3, 1.0)
_KEPT: Final = (0.9, 0.75, 0.5)


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
        kind = _KINDS[number % len(_KINDS)]
        if number == 1:
            found = search.run(_Order(pods=0.0), ())
        elif kind is _Kind.AGAIN:
            kept = _KEPT[number // len(_KINDS) % len(_KEPT)] if number % FROM_THE_START else 0.0
            found = search.run(order, _some(current.emptied, kept, rng), rng)
        elif kind is _Kind.FEWER_MOVES:
            found = search.exchange(order, best, rng, fewer_moves=True)
        else:
            found = search.exchange(order, current, rng)
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
    """True if nothing is left that could be emptied besides."""


class _Exchange(NamedTuple):
    """Sources that are emptied no longer, and those that are in their place."""

    leave: tuple[int, ...]
    come: tuple[int, ...]


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
        prices = np.array([max(s.price, 1) for s in sources], dtype=np.float64)
        # As shares of the highest, so that the unit of prices makes no difference.
        self._prices = prices / prices.max(initial=1.0)
        self._nodes = np.array([s.node for s in sources], dtype=np.intp)
        self._lost, scarcity = self._room_lost()
        self._largest_loss = (self._lost * scarcity).max(axis=1, initial=0.0)
        self._tried: Counter[_Exchange] = Counter()

    def _room_lost(self) -> tuple[FloatArray, FloatArray]:
        """(sources, resources): what emptying a source takes of all room, for its items and with its node; (resources): how scarce each is."""
        cluster = self.cluster
        free = np.where(cluster.receives, np.clip(cluster.free, 0, None), 0).astype(np.float64)
        needs = np.zeros((len(cluster.sources), len(free)))
        nodes = np.zeros_like(needs)
        for number, source in enumerate(cluster.sources):
            for item in source.items:
                for resource, amount in item.needs:
                    needs[number, resource] += amount
            if source.takes is None:
                nodes[number] = free[:, source.node]
            else:
                for resource, amount in source.takes:
                    nodes[number, resource] = amount
        whole = np.maximum(free.sum(axis=1), 1.0)
        return (needs + nodes) / whole, np.minimum(needs.sum(axis=0) / whole, 1.0)

    def run(self, order: _Order, kept: Iterable[Emptied], rng: random.Random | None = None) -> _Found:
        """One pass, which begins with what is kept of another one."""
        cost = self._costs(order, rng)
        packing = self._packing(cost, order, rng)
        for one in kept:
            packing.put(one)
        return self._go_on(packing, cost)

    def _go_on(self, packing: Packing, cost: FloatArray) -> _Found:
        """Empty what else can be emptied, the cheapest first."""
        before = packing.placements
        for number in np.argsort(cost, kind="stable").tolist():
            if number not in packing.emptied:
                packing.empty(number)
        self.placements += packing.placements - before
        emptied = packing.result()
        sources = self.cluster.sources
        claimed = {claim for one in emptied for claim in sources[one.source].claims}
        worth = sum(sources[e.source].price for e in emptied), -packing.moves
        return _Found(worth, emptied, complete=not any(claimed.isdisjoint(one.claims) for one in sources))

    def exchange(
        self, order: _Order, found: _Found, rng: random.Random, *, fewer_moves: bool = False
    ) -> _Found:
        """One pass that begins with what another one emptied, but some nodes of more worth in the place of others; all or nothing."""
        chosen = self._choose(found, rng, fewer_moves=fewer_moves)
        if chosen is None:
            return _NOTHING
        packing = self._packing(self._costs(order, rng), order, rng)
        for one in found.emptied:
            if one.source not in chosen.leave:
                packing.put(one)
        packed = packing.empty_making_room(chosen.come, ATTEMPTS)
        self.placements += packing.placements
        return self._go_on(packing, self._costs(order, rng)) if packed else _NOTHING

    def _choose(self, found: _Found, rng: random.Random, *, fewer_moves: bool) -> _Exchange | None:
        """Of some exchanges by chance the one that leaves most room; None: there is none with enough for all pods."""
        before = [one.source for one in found.emptied]
        known = set(before)
        others = [number for number in range(len(self.cluster.sources)) if number not in known]
        room = 1.0 - self._lost[before].sum(axis=0)
        moves = -found.worth[1]
        best: _Exchange | None = None
        most = 0.0
        for _ in range(EXCHANGES):
            count = rng.randrange(min(MOST_EXCHANGED, len(before)) + 1)
            more = count if fewer_moves else count + 1
            if more > len(others) or not more:
                continue
            exchange = _Exchange(tuple(rng.sample(before, count)), tuple(rng.sample(others, more)))
            price, added = self._difference(exchange)
            if price < 0 or (added >= 0 if fewer_moves else not price):
                continue
            if self.cluster.most_moves is not None and moves + added > self.cluster.most_moves:
                continue
            after = (
                room
                + self._lost[list(exchange.leave)].sum(axis=0)
                - self._lost[list(exchange.come)].sum(axis=0)
            )
            left = float(after.min()) - TRIED_AGAIN * self._tried[exchange]
            if after.min() >= 0 and (best is None or left > most):
                best, most = exchange, left
        if best is not None:
            self._tried[best] += 1
        return best

    def _difference(self, exchange: _Exchange) -> tuple[int, int]:
        """By how much the sum of prices, and the moves, become more."""
        sources = self.cluster.sources
        price = sum(sources[n].price for n in exchange.come) - sum(sources[n].price for n in exchange.leave)
        moves = sum(len(sources[n].items) for n in exchange.come) - sum(
            len(sources[n].items) for n in exchange.leave
        )
        return price, moves

    def _costs(self, order: _Order, rng: random.Random | None) -> FloatArray:
        """What emptying each source costs for its price: pods, and room."""
        pods = self._pods / max(self._pods.sum(), 1.0)
        lost = self._largest_loss / max(self._largest_loss.sum(), 1e-9)
        cost: FloatArray = (order.pods * pods + (1.0 - order.pods) * lost + 1e-6 * lost) / self._prices
        if rng is not None and order.noise:
            cost *= np.array([1.0 + order.noise * (rng.random() - 0.5) * 2 for _ in range(len(cost))])
        return cost

    def _packing(self, cost: FloatArray, order: _Order, rng: random.Random | None) -> Packing:
        """One without any node emptied."""
        size = len(self.cluster.receives)
        tilt = np.zeros(size)
        if rng is not None and order.tilt > 0:
            tilt = np.array([order.tilt * rng.random() for _ in range(size)])
        return Packing(self.cluster, self._losses(cost, order), tilt)

    def _losses(self, cost: FloatArray, order: _Order) -> FloatArray:
        """By node: 0, or for a node that may be emptied what is lost if it receives pods, 1 to 2."""
        losses = np.zeros(len(self.cluster.receives))
        if len(cost):
            cheap = 1.0 - cost / max(float(cost.max()), 1e-12)
            losses[self._nodes] = 1.0 + (cheap if order.heavy_last else 0.0)
        return losses
