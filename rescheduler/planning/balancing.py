"""Which pods leave overloaded nodes, and where each goes, with at most so many moves: a search on numbers, without a clock.

Given are what each node can still take, how far nodes are above their targets, and the pods that could leave them. Wanted
is the least sum of ``strain``, which is convex: the fullest nodes are relieved first. A move that relieves less than ``least``
is not worth it. The room that pods leave is not used (the moves of a plan run at once).

The first pass takes the pod that relieves most, again and again, and puts it where most room is. Then parts of the
solution are taken back, as if by chance, and filled again in other orders: pods and targets together, so that one large pod
takes the place of two small ones. What is not better by that is undone. The number of repetitions is fixed and the
generator seeded, so the same input gives the same result; nothing worse than the first pass is ever given. Each repetition
looks at a few nodes only, so it takes no longer on a big cluster.

The numbers are necessary conditions: whoever uses the result asks the scheduler's own rules about every pod. Pure.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from rescheduler.planning.placement_conflicts import Bound, Mark, PlacementConflicts
from rescheduler.policies.utilization import fall
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

LEAST: Final = 0.0005
"""What a move must relieve at least, whatever is asked for."""
PRICE: Final = 0.004
"""What a move costs at least when two solutions are compared, as ``BalancingProblem.least`` says otherwise: few large pods go rather
than many small ones, and of equal pods those with the lowest ``Passenger.cost``."""
DEARER: Final = 0.006
"""How much more it costs at the beginning of the repetitions, so that they begin with few large pods."""
REPETITIONS_PER_PASS: Final = 4
PLACEMENTS_PER_PASS: Final = 500
"""A search ends early once it has tried so many placements for each of its passes."""
BLOCK: Final = 16
"""Overloaded nodes, and nodes that receive, that one repetition looks at."""
PART: Final = 128
"""The first pass looks at so many receivers at a time ..."""
PLACEMENTS_PER_ORDER: Final = 64
"""... and orders them by their room again after so many placements."""

_EPSILON: Final = 1e-9
_BY_SIZE: Final = (0.0, 0.5, 1.0, 0.75, 0.25)
"""How much of a pod's worth is relief for the room that it takes, the rest being relief alone; by repetition, in turn."""
_NOISE: Final = (0.05, 0.3, 0.15, 0.6)
_WORSE: Final = 0.01
"""How much worse a repetition may leave the solution at first, to get out of a corner; the best one is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Passenger:
    """A pod that may leave an overloaded node."""

    source: int
    needs: tuple[float, ...]
    """What its target must have free, in the order of the rows of ``BalancingProblem.free``."""
    takes: tuple[float, ...]
    """What it takes away from its node, in the order of the rows of ``BalancingProblem.above``."""
    allowed: Callable[[], BoolArray]
    """Nodes that take it before any pod is moved."""
    cost: float = 1.0
    """What its move costs, as a part of the price of a move."""
    bears: tuple[Mark, ...] = ()
    minds: tuple[Mark, ...] = ()
    spreads: tuple[Bound, ...] = ()
    budgets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancingProblem:
    """What a search is about. Nodes are numbers; of equal pods the first is taken."""

    free: FloatArray
    """What may still come. Shape (rows, nodes)."""
    whole: FloatArray
    """What each node can hold of each row: says how much of it is room. Shape (rows, nodes)."""
    receives: IntArray
    """Nodes that pods may go to."""
    above: FloatArray
    """How much each node holds above its target; below 0: less. Shape (resources, nodes)."""
    capacity: FloatArray
    """What each node can hold. Shape (resources, nodes)."""
    weights: Sequence[int]
    """What a share above the target counts for, by resource."""
    least: float
    """What a move must relieve, as a share of a node: also what it costs when two solutions are compared."""
    pods: Sequence[Passenger]
    budgets: Sequence[int] = ()
    """What is left of each budget."""
    most_moves: int | None = None


class Balanced(NamedTuple):
    """One move: which of ``pods``, to which node, and what it relieves."""

    pod: int
    node: int
    relief: float


def balance(problem: BalancingProblem, passes: int) -> list[Balanced]:
    """The moves, those that relieve most first. ``passes``: how long it is tried; 1: the first pass alone."""
    search = _Search(problem)
    search.fill(range(len(problem.pods)), problem.receives, _Order())
    search.trim(set(search.target))
    rng = random.Random(0)  # noqa: S311 -- chance that is the same every time, no secret
    best, best_worth = dict(search.target), search.worth()
    most = search.placements + passes * PLACEMENTS_PER_PASS
    repetitions = (passes - 1) * REPETITIONS_PER_PASS
    if not search.refused:
        # Everybody found room, so that little can be better.
        repetitions //= REPETITIONS_PER_PASS
    for number in range(repetitions):
        if search.placements >= most or not search.target:
            break
        to_come = 1.0 - number / repetitions
        price = search.price + DEARER * to_come
        before = search.worth(price)
        search.begin()
        search.repeat(number, rng)
        if search.worth() > best_worth + _EPSILON:
            best, best_worth = dict(search.target), search.worth()
        if search.worth(price) < before - _WORSE * to_come * rng.random():
            search.undo()
    return search.report(best)


def strain(above: FloatArray, weights: FloatArray) -> FloatArray:
    """How bad it is that nodes are so far above their targets, as shares of them, as ``utilization.overload`` says. (resources, nodes) -> (nodes)."""
    over = np.maximum(above, 0.0)
    total: FloatArray = weights @ fall(over, over)
    return total


class _Order(NamedTuple):
    """How pods are taken and put."""

    by_size: float = 0.0
    noise: float = 0.0
    tight: bool = False
    """True: where least room is left; otherwise where most is."""
    rng: random.Random | None = None


class _Search:
    """Which pods have gone where so far."""

    def __init__(self, problem: BalancingProblem) -> None:
        self._problem = problem
        pods = problem.pods
        self._free = problem.free.copy()
        self._above: list[list[float]] = problem.above.T.tolist()
        """By node and resource; changes with every move."""
        self._part: list[list[float]] = (1.0 / np.maximum(problem.capacity, 1.0)).T.tolist()
        rows = len(problem.free)
        self._needs = np.array([pod.needs for pod in pods], dtype=np.float64).reshape(len(pods), rows)
        receiving = np.clip(problem.free[:, problem.receives], 0, None).sum(axis=1)
        self._sizes: list[float] = (
            (self._needs / np.maximum(receiving, 1.0)).max(axis=1, initial=0.0).tolist()
        )
        self._room = 1.0 / np.maximum(problem.whole, 1.0)
        self._budgets = list(problem.budgets)
        self._conflicts = PlacementConflicts()
        self._of_node: dict[int, list[int]] = {}
        for number, pod in enumerate(pods):
            self._of_node.setdefault(pod.source, []).append(number)
        self._nodes = sorted(self._of_node)
        self._receivers: list[int] = problem.receives.tolist()
        self._gone: dict[int, dict[int, None]] = {node: {} for node in self._nodes}
        """By source, the pods that have left it, in the order in which they left."""
        self._journal: list[tuple[int, int]] = []
        """(pod, node that it was at, -1: at home), the oldest first."""
        self._least = max(problem.least, LEAST)
        self.price = max(problem.least, PRICE)
        self._lost = self._paid = 0.0
        self.target: dict[int, int] = {}
        self.refused = False
        """True if a pod that relieves found no node."""
        self.placements = 0
        self._parts: list[IntArray] = []
        """Receivers of the first pass, those with most room first."""

    def worth(self, price: float | None = None) -> float:
        """More is better: what is relieved, less what the moves cost."""
        return self._lost - (self.price if price is None else price) * self._paid

    def begin(self) -> None:
        """``undo`` goes back to here."""
        self._journal.clear()

    def undo(self) -> None:
        """Take back everything since ``begin``."""
        steps, self._journal = self._journal, []
        for pod, node in reversed(steps):
            if node < 0:
                self._take(pod)
            else:
                self._place(pod, node)
        self._journal = []

    def report(self, target: dict[int, int]) -> list[Balanced]:
        """The moves of a solution, those that relieve most first. The search is over: it forgets who has left."""
        self._above = self._problem.above.T.tolist()
        found: list[Balanced] = []
        waiting = [(-self._relief(pod), pod) for pod in target]
        heapq.heapify(waiting)
        while waiting:
            known, pod = heapq.heappop(waiting)
            relief = self._relief(pod)
            if relief < -known - _EPSILON:
                heapq.heappush(waiting, (-relief, pod))
                continue
            self._leave(pod)
            found.append(Balanced(pod, target[pod], relief))
        return found

    def repeat(self, number: int, rng: random.Random) -> None:
        """Take back a part of the moves between some nodes, and fill these again in another order."""
        sources = _some(self._nodes, BLOCK, rng)
        receivers = _some(self._receivers, BLOCK, rng)
        to = set(receivers)
        pods = self._problem.pods
        here = [pod for source in sources for pod in self._gone[source] if self.target[pod] in to]
        match number % 3:
            case 0:
                chosen = set(_some(receivers, rng.randint(1, 3), rng))
                gone = [pod for pod in here if self.target[pod] in chosen]
            case 1:
                chosen = set(_some(sources, rng.randint(1, 3), rng))
                gone = [pod for pod in here if pods[pod].source in chosen]
            case _:
                part = rng.choice((0.1, 0.2, 0.4))
                gone = [pod for pod in here if rng.random() < part]
        for pod in gone:
            self._take(pod)
        order = _Order(
            by_size=_BY_SIZE[number % len(_BY_SIZE)],
            noise=_NOISE[number // 2 % len(_NOISE)],
            tight=number % 4 != 0,
            rng=rng,
        )
        self.fill([pod for node in sources for pod in self._of_node[node]], np.array(receivers), order)
        self.trim(pod for source in sources for pod in self._gone[source])

    def fill(self, pods: Iterable[int], receivers: IntArray, order: _Order) -> None:
        """Move pods to the receivers as long as one relieves and there is room."""
        most = self._problem.most_moves
        waiting = self._waiting(pods, receivers, order)
        while waiting and (most is None or len(self.target) < most):
            known, pod, factor = heapq.heappop(waiting)
            relief = self._relief(pod)
            if relief < self._least:
                continue
            score = relief * factor
            # What a pod relieves only falls while others leave its node, so the first that is still worth it is the best.
            if score < -known - _EPSILON:
                heapq.heappush(waiting, (-score, pod, factor))
                continue
            if any(self._budgets[budget] <= 0 for budget in self._problem.pods[pod].budgets):
                continue
            node = self._best(pod, receivers, order)
            if node >= 0:
                self._place(pod, node)
            else:
                self.refused = True

    def trim(self, pods: Iterable[int]) -> None:
        """Leave at home those of these pods without which as much is relieved."""
        for lost, pod in sorted((self._loss(pod), pod) for pod in pods):
            if lost < self._least and self._loss(pod) < self._least:
                self._take(pod)

    def _waiting(
        self, pods: Iterable[int], receivers: IntArray, order: _Order
    ) -> list[tuple[float, int, float]]:
        """Those that relieve and may have room, as a heap of (minus score, pod, factor of its score)."""
        found = [
            (relief, pod)
            for pod in pods
            if pod not in self.target and (relief := self._relief(pod)) >= self._least
        ]
        if order.rng is not None and found:
            # Of a block, and with noise: those that find no room now will find none later, because room only gets less.
            needs = self._needs[[pod for _, pod in found]]
            enough: BoolArray = np.all(
                needs[:, :, np.newaxis] <= self._free[:, receivers][np.newaxis], axis=1
            )
            found = [found[i] for i in np.flatnonzero(np.any(enough, axis=1)).tolist()]
        waiting = []
        for relief, pod in found:
            factor = 1.0
            if order.rng is not None:
                factor += order.noise * (order.rng.random() - 0.5) * 2
                if order.by_size:
                    factor /= max(self._sizes[pod], _EPSILON) ** order.by_size
            waiting.append((-relief * factor, pod, factor))
        heapq.heapify(waiting)
        return waiting

    def _best(self, number: int, receivers: IntArray, order: _Order) -> int:
        """Where the pod is put; -1: no node takes it."""
        self.placements += 1
        pod = self._problem.pods[number]
        allowed = self._conflicts.restrict(pod.minds, pod.spreads, pod.allowed())
        # Where there are many, those with most room are looked at first: the best of them is nearly the best of all.
        for some in self._by_room(receivers) if order.rng is None else (receivers,):
            node = self._best_of(number, some[allowed[some]], order)
            if node >= 0:
                return node
        return -1

    def _best_of(self, number: int, nodes: IntArray, order: _Order) -> int:
        """The same among a few nodes that allow the pod."""
        if not len(nodes):
            return -1
        rest = self._free[:, nodes] - self._needs[number][:, np.newaxis]
        left = np.minimum.reduce(rest * self._room[:, nodes], axis=0)
        fits = left >= 0
        if not fits.any():
            return -1
        scored = np.where(fits, left if order.tight else -left, np.inf)
        if order.rng is not None and order.rng.random() < order.noise:
            scored = np.where(fits, [order.rng.random() for _ in range(len(nodes))], np.inf)
        return int(nodes[scored.argmin()])

    def _by_room(self, receivers: IntArray) -> Sequence[IntArray]:
        """The receivers in parts, those with most room first, as it was a few placements ago."""
        if len(receivers) <= PART:
            return (receivers,)
        if self.placements % PLACEMENTS_PER_ORDER == 0 or not self._parts:
            room = (self._free[:, receivers] * self._room[:, receivers]).min(axis=0)
            ordered = receivers[np.argsort(-room, kind="stable")]
            self._parts = [ordered[at : at + PART] for at in range(0, len(ordered), PART)]
        return self._parts

    def _relief(self, number: int) -> float:
        """By how much the strain of its node would fall without the pod."""
        pod = self._problem.pods[number]
        return self._fall(pod, self._above[pod.source])

    def _loss(self, number: int) -> float:
        """By how much it would rise again if the pod, which has left, came back."""
        pod = self._problem.pods[number]
        back = [over + amount for over, amount in zip(self._above[pod.source], pod.takes, strict=True)]
        return self._fall(pod, back)

    def _fall(self, pod: Passenger, above: Sequence[float]) -> float:
        """By how much the strain of a node that is so far above its targets falls without the pod."""
        part, weights = self._part[pod.source], self._problem.weights
        total = 0.0
        for resource, amount in enumerate(pod.takes):
            over = above[resource]
            if over > 0.0:
                share = over * part[resource]
                less = min(share, amount * part[resource])
                total += weights[resource] * fall(less, share)
        return total

    def _place(self, number: int, node: int) -> None:
        pod = self._problem.pods[number]
        self._lost += self._relief(number)
        self._paid += pod.cost
        self._journal.append((number, -1))
        self.target[number] = node
        self._gone[pod.source][number] = None
        self._free[:, node] -= self._needs[number]
        self._leave(number)
        for budget in pod.budgets:
            self._budgets[budget] -= 1
        self._conflicts.join(pod.bears, pod.spreads, node)

    def _leave(self, number: int) -> None:
        """Its node has less above the targets."""
        pod = self._problem.pods[number]
        above = self._above[pod.source]
        for resource, amount in enumerate(pod.takes):
            above[resource] -= amount

    def _take(self, number: int) -> None:
        pod = self._problem.pods[number]
        self._lost -= self._loss(number)
        self._paid -= pod.cost
        node = self.target.pop(number)
        del self._gone[pod.source][number]
        self._journal.append((number, node))
        self._free[:, node] += self._needs[number]
        above = self._above[pod.source]
        for resource, amount in enumerate(pod.takes):
            above[resource] += amount
        for budget in pod.budgets:
            self._budgets[budget] += 1
        self._conflicts.leave(pod.bears, pod.spreads, node)


def _some(numbers: Sequence[int], most: int, rng: random.Random) -> list[int]:
    return list(numbers) if len(numbers) <= most else sorted(rng.sample(numbers, most))
