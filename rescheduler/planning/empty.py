"""Which nodes can be emptied together, with at most so many moves: an operator of ``search``. Pure.

Wanted are the nodes with the highest sum of prices, then the fewest moves. A node is emptied as a whole or not at all (of several
sources on a node, each of which is a part of its pods, one at most of those that claim the same); its pods go to nodes that
stay; the room that they leave is not used.

Nodes are taken in the order of their cost, fewest pods first, and the pods of each are put where pods have gone already,
else where nothing is lost, best fit. A node that has received pods is emptied all the same if all of them fit elsewhere. Parts
are made again in other orders, from the start or from what was found before.
Where nodes, not moves, are short, what counts is the room that is lost: what the pods take, and what the node itself could
have taken. So the first repetition goes by that, and an exchange, which stops emptying one node at most and empties one more in its
place, or one with fewer pods, is chosen by the room that it leaves. The search goes on from the last solution that is worth
as much as the best, whatever moves it takes.

Where nothing has room for a pod, pods that were put there before make way and are put elsewhere in their turn: those that were in the
way least often so far, the smallest of them. No chance is in it, and the number of such attempts is given.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np

from rescheduler.planning.problem import SearchProblem, SearchSolution
from rescheduler.planning.search import HALF, SOME_NODES, SearchOperator
from rescheduler.scheduling.framework import FloatArray

REPETITIONS_PER_PASS: Final = 3
"""On small clusters, where repetitions cost little."""

EXCHANGES: Final = 24
"""Exchanges of nodes from which a repetition takes the one that leaves most room."""
ATTEMPTS: Final = 30
"""How often an exchange takes pods off a node again to make room for another: of those that succeed hardly one needs half of that."""

_NEAR: Final = 1e-6
_OPEN: Final = 100.0
"""More than the free shares of all rows of a node add up to: what is lost by using a node decides before how well a pod fits."""

_DISLIKED: Final = 3 * _OPEN
"""A node that a pod likes less than its own takes it only if no other does."""


class _Kind(enum.Enum):
    """What a repetition is for."""

    AGAIN = enum.auto()
    MORE = enum.auto()
    FEWER_MOVES = enum.auto()


_KINDS: Final = (_Kind.MORE, _Kind.MORE, _Kind.AGAIN, _Kind.MORE, _Kind.FEWER_MOVES, _Kind.MORE)
"""By repetition, in turn."""


class _Exchange(NamedTuple):
    """Sources that are emptied no longer, and those that are in their place."""

    leave: tuple[int, ...]
    come: tuple[int, ...]


class Empty(SearchOperator):
    """Empties nodes in one search state."""

    patience: ClassVar[int] = 8

    def __init__(self, problem: SearchProblem) -> None:
        super().__init__(problem)
        self._sources = sources = problem.sources
        self._pods = np.array([len(s.pods) for s in sources], dtype=np.float64)
        prices = np.array([max(s.price, 1) for s in sources], dtype=np.float64)
        # As shares of the highest, so that the unit of prices makes no difference.
        self._prices = prices / prices.max(initial=1.0)
        self._nodes = np.array([s.node for s in sources], dtype=np.intp)
        free = np.where(problem.receives, np.clip(problem.free, 0, None), 0)
        whole = np.maximum(free.sum(axis=1), 1.0)
        self.sizes = [sum(amount / float(whole[row]) for row, amount in pod.needs) for pod in self.state.pods]
        """How much each pod needs, as a share of what is free altogether."""
        self.needs = [dict(pod.needs) for pod in self.state.pods]
        self.members = [sorted(source.pods, key=self._largest_first) for source in sources]
        """By source, its pods, the largest first."""
        self._lost, scarcity = self._room_lost(free, whole)
        self._losses: list[list[float]] = self._lost.tolist()
        self._largest_loss = (self._lost * scarcity).max(axis=1, initial=0.0)
        self._most = self._highest_price()
        self._fewest_moves = _filled(
            self._pods, np.array([source.price for source in sources], dtype=np.float64)
        )
        """Moves, and the highest sum of prices for so many."""
        self._costs = self._ordered(1.0)
        """By source: in their order nodes are emptied."""

    def _begin(self) -> None:
        self._go_on()

    def _repetitions(self, passes: int) -> int:
        return (passes - 1) * REPETITIONS_PER_PASS

    def _done(self) -> bool:
        state, claimed = self.state, self.state.claimed
        if state.price >= self._most:
            spent, prices = self._fewest_moves
            if len(state.ways) <= math.ceil(np.interp(state.price, prices, spent) - _NEAR):
                return True
        return not any(claimed.isdisjoint(source.claims) for source in self._sources)

    def _highest_price(self) -> int:
        """No solution has a higher one: as if a part of a node could be emptied, and room were in one place."""
        prices = np.array([source.price for source in self._sources], dtype=np.float64)
        most_moves, shares = self.state.problem.most_moves, self._lost
        if most_moves is not None:
            shares = np.column_stack([shares, self._pods / max(most_moves, 1)])
        prices[(shares > 1.0 + _NEAR).any(axis=1)] = 0.0
        unit = math.gcd(*(source.price for source in self._sources)) or 1
        highest = min((np.interp(1.0, *_filled(row, prices)) for row in shares.T), default=prices.sum())
        return int(highest / unit + _NEAR) * unit

    def _worth(self) -> float:
        # In the end moves decide between solutions of one price.
        return self.state.price - len(self.state.ways) / (1.0 + len(self.state.pods))

    def _goes_on(self) -> float:
        return self.state.price

    def _repeat(self, number: int, best: SearchSolution) -> bool:
        state = self.state
        if number == 0:
            self._costs = self._ordered(0.0)
            self._keep(())
            self._go_on()
            return True
        self._costs = self._ordered(HALF, chance=True)
        match _KINDS[number % len(_KINDS)]:
            case _Kind.AGAIN:
                self._keep([source for source in state.emptied if self._rng.random() < HALF])
            case _Kind.MORE:
                if not self._exchange(state.solution(), fewer_moves=False):
                    return False
            case _Kind.FEWER_MOVES:
                if not self._exchange(best, fewer_moves=True):
                    return False
        self._go_on()
        return True

    def best_fit(self, number: int) -> int:
        """Where the pod is put; -1: no node takes it."""
        self.looks += 1
        state = self.state
        (nodes,) = state.with_room(number, state.allowed(number)).nonzero()
        if not len(nodes):
            return -1
        cost = state.fit.sums[nodes]
        liked = state.pods[number].liked
        if liked is not None:
            cost[~liked[nodes]] += _DISLIKED
        return int(nodes[cost.argmin()])

    def _room_lost(self, free: FloatArray, whole: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(sources, rows): what emptying a source takes of all room, for its pods and with its node; (rows): how scarce each is."""
        needs = np.zeros((len(self._sources), len(free)))
        nodes = np.zeros_like(needs)
        for number, source in enumerate(self._sources):
            for pod in source.pods:
                for row, amount in self.state.pods[pod].needs:
                    needs[number, row] += amount
            if source.takes is None:
                nodes[number] = free[:, source.node]
            else:
                for row, amount in source.takes:
                    nodes[number, row] = min(amount, free[row, source.node])
        return (needs + nodes) / whole, np.minimum(needs.sum(axis=0) / whole, 1.0)

    def _keep(self, sources: Iterable[int]) -> None:
        """Stop emptying the others."""
        kept = set(sources)
        for number in [number for number in self.state.emptied if number not in kept]:
            self._leave(number)

    def _leave(self, number: int) -> None:
        """Stop emptying a source."""
        for pod in self._sources[number].pods:
            if pod in self.state.ways:
                self.state.remove(pod)
        self.state.reopen(number)

    def _go_on(self) -> None:
        """Empty what else can be emptied, the cheapest first."""
        for number in np.argsort(self._costs, kind="stable").tolist():
            if number not in self.state.emptied:
                self._empty(number)

    def _empty(self, number: int) -> None:
        """Empty a source if all of its pods, and those that have come to it, fit elsewhere."""
        state, source = self.state, self._sources[number]
        if not self._affords((number,)):
            return
        guests = () if state.bears(source) else tuple(state.into[source.node])
        for pod in guests:
            state.remove(pod)
        state.close(number)
        pods = self.members[number]
        if guests:
            pods = sorted((*guests, *pods), key=self._largest_first)
        placed: list[int] = []
        for pod in pods:
            node = self.best_fit(pod)
            if node < 0:
                break
            state.put(pod, node)
            placed.append(pod)
        else:
            return
        for pod in reversed(placed):
            state.remove(pod)
        state.reopen(number)
        for pod in guests:
            state.put(pod, source.node)

    def _exchange(self, solution: SearchSolution, *, fewer_moves: bool) -> bool:
        """Empty some nodes of more worth in the place of others of a solution. False: not all pods have found a place."""
        state = self.state
        chosen = self._choose(solution, fewer_moves=fewer_moves)
        if chosen is None:
            return False
        state.restore(solution)
        for number in chosen.leave:
            self._leave(number)
        if not self._affords(chosen.come):
            return False
        pods: list[int] = []
        for number in chosen.come:
            source = self._sources[number]
            guests = () if state.bears(source) else tuple(state.into[source.node])
            for pod in guests:
                state.remove(pod)
            state.close(number)
            pods += (*guests, *self.members[number])
        pods.sort(key=self._largest_first, reverse=True)
        return put_making_way(self, pods, ATTEMPTS)

    def _choose(self, solution: SearchSolution, *, fewer_moves: bool) -> _Exchange | None:
        """Of some exchanges by chance the one that leaves most room; None: there is none with enough for all pods."""
        rng, before, lost = self._rng, list(solution.emptied), self._losses
        known = set(before)
        others = [number for number in range(len(self._sources)) if number not in known]
        room: list[float] = (1.0 - self._lost[before].sum(axis=0)).tolist()
        most_moves, moves = self.state.problem.most_moves, len(solution.ways)
        best: _Exchange | None = None
        most = 0.0
        for _ in range(EXCHANGES):
            count = rng.randrange(2) if before else 0
            more = count if fewer_moves else count + 1
            if more > len(others) or not more:
                continue
            exchange = _Exchange(tuple(rng.sample(before, count)), tuple(rng.sample(others, more)))
            price, added = self._difference(exchange)
            if price < 0 or (added >= 0 if fewer_moves else not price):
                continue
            if most_moves is not None and moves + added > most_moves:
                continue
            # A few rows of a few sources: numpy would take longer.
            least = min(
                part
                + sum([lost[n][row] for n in exchange.leave])
                - sum([lost[n][row] for n in exchange.come])
                for row, part in enumerate(room)
            )
            if least >= 0 and (best is None or least > most):
                best, most = exchange, least
        return best

    def _difference(self, exchange: _Exchange) -> tuple[int, int]:
        """By how much the sum of prices, and the moves, become more."""
        price = moves = 0
        for number in exchange.come:
            price, moves = price + self._sources[number].price, moves + len(self.members[number])
        for number in exchange.leave:
            price, moves = price - self._sources[number].price, moves - len(self.members[number])
        return price, moves

    def _affords(self, numbers: Sequence[int]) -> bool:
        sources = [self._sources[number] for number in numbers]
        claims = [claim for source in sources for claim in source.claims]
        if len(set(claims)) < len(claims) or not self.state.claimed.isdisjoint(claims):
            return False
        most = self.state.problem.most_moves
        return most is None or len(self.state.ways) + sum(len(source.pods) for source in sources) <= most

    def _ordered(self, pods: float, *, chance: bool = False) -> FloatArray:
        """Costs of sources, and where their pods are put from now on: nodes that would have to be given up are used from the costly end.

        ``pods``: how much of the cost is the number of pods.
        """
        rng, size = self._rng, len(self.state.open)
        some = self._pods / max(self._pods.sum(), 1.0)
        lost = self._largest_loss / max(self._largest_loss.sum(), 1e-9)
        costs: FloatArray = (pods * some + (1.0 - pods) * lost + 1e-6 * lost) / self._prices
        if chance:
            costs *= np.array([2.0 * rng.random() for _ in range(len(costs))])
        losses = np.zeros(size)
        if len(costs):
            # What is lost if a node that may be emptied receives pods: 1 to 2 times ``_OPEN``.
            cheap = 1.0 - costs / max(float(costs.max()), 1e-12)
            losses[self._nodes] = (1.0 + cheap) * _OPEN
        self.state.fit.weigh(losses, np.array([bool(pods) for pods in self.state.into]))
        return costs

    def _largest_first(self, number: int) -> float:
        return -self.sizes[number]


def _filled(costs: FloatArray, prices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """What is spent, and the price that is reached, where what is cheap for its price goes first."""
    some = np.flatnonzero(prices > 0)
    some = some[np.argsort(costs[some] / prices[some], kind="stable")]
    return np.append(0.0, costs[some].cumsum()), np.append(0.0, prices[some].cumsum())


def put_making_way(putting: Empty, waiting: list[int], attempts: int) -> bool:
    """Put all that wait somewhere, the last first. False: not all of them are, and others may have lost their places."""
    state = putting.state
    failures: Counter[int] = Counter()
    """How often nothing had room for a pod."""
    while waiting:
        pod = waiting.pop()
        node = putting.best_fit(pod)
        if node < 0:
            failures[pod] += 1
            node, others = _least_in_the_way(putting, pod, failures)
            if node < 0:
                others = state.kept_apart(pod)
            attempts -= 1
            if attempts < 0 or not others:
                return False
            for other in others:
                state.remove(other)
            waiting += others
            if node < 0:
                waiting.append(pod)
                continue
        state.put(pod, node)
    return True


def _least_in_the_way(putting: Empty, number: int, failures: Mapping[int, int]) -> tuple[int, list[int]]:
    """A node that takes the pod once another one has left it, the smallest that failed least often; -1: there is none."""
    putting.looks += 1
    state = putting.state
    fits = state.allowed(number)
    nodes = [node for node in np.flatnonzero(fits).tolist() if state.into[node]]
    if len(nodes) > SOME_NODES:
        nodes = sorted(nodes, key=lambda node: (-state.fit.slack[node], node))[:SOME_NODES]
    least = math.inf
    best: tuple[int, list[int]] = -1, []
    for node in nodes:
        lack = {
            row: float(amount - state.left[0][row, node])
            for row, amount in state.pods[number].needs
            if amount > state.left[0][row, node]
        }
        for guest in state.into[node]:
            cost = (1 + failures.get(guest, 0)) * putting.sizes[guest]
            needs = putting.needs[guest]
            if cost < least and all(needs.get(row, 0.0) >= amount for row, amount in lack.items()):
                least, best = cost, (node, [guest])
    return best
