"""Which pods leave overloaded nodes, and where each goes, with at most so many moves: an operator of ``search``. Pure.

Wanted is the least strain, which is convex: the fullest nodes are relieved first. A move that relieves less than ``least``
is not worth it. The first solution takes the pod that relieves most, again and again, and puts it where most room is.
Then moves between some nodes are taken back, and made again in other orders: pods and targets together, so that one large pod
takes the place of two small ones.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from rescheduler.planning.problem import SearchProblem, SearchSolution
from rescheduler.planning.search import SearchOperator
from rescheduler.policies.utilization import fall
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

LEAST: Final = 0.0005
"""What a move must relieve at least, whatever is asked for."""
PRICE: Final = 0.004
"""What a move costs at least when two solutions are compared, as ``least`` says otherwise: few large pods go rather
than many small ones, and of equal pods those with the lowest ``MovablePod.cost``."""
REPETITIONS_PER_PASS: Final = 4
BLOCK: Final = 16
"""Overloaded nodes, and nodes that receive, that one repetition looks at."""
PART: Final = 128
"""The first solution looks at so many receivers at a time ..."""
LOOKS_PER_ORDER: Final = 64
"""... and orders them by their room again after so many looks."""

_EPSILON: Final = 1e-9
_NOISE: Final = (0.05, 0.3, 0.15, 0.6)
"""How much of what decides in a repetition is chance; by repetition, in turn."""


def strain(above: FloatArray, weights: FloatArray) -> FloatArray:
    """How bad it is that nodes are so far above their targets, as shares of them, as ``utilization.overload`` says. (resources, nodes) -> (nodes)."""
    over = np.maximum(above, 0.0)
    total: FloatArray = weights @ fall(over, over)
    return total


class _Order(NamedTuple):
    """How pods are taken and put."""

    noise: float = 0.0
    tight: bool = False
    """True: where least room is left; otherwise where most is."""
    chance: bool = False


class Relieve(SearchOperator):
    """Relieves nodes in one search state."""

    def __init__(self, problem: SearchProblem, least: float) -> None:
        """``least``: what a move must relieve, as a share of a node."""
        super().__init__(problem)
        self._most = problem.most_moves
        self._receivers = np.flatnonzero(problem.receives)
        self._of_node: dict[int, list[int]] = {}
        for number, pod in enumerate(problem.pods):
            self._of_node.setdefault(pod.source, []).append(number)
        self._nodes = sorted(self._of_node)
        self._least = max(least, LEAST)
        self._price = max(least, PRICE)
        self._refused = False
        """True if a pod that relieves found no node."""
        self._somewhere: list[bool | None] = [None] * len(problem.pods)
        """By pod, whether any node would take it if no other pod went anywhere: if none would, none ever will."""
        self._parts: list[IntArray] = []
        """Receivers of the first solution, those with most room first."""

    def _begin(self) -> None:
        self._fill(range(len(self.state.pods)), self._receivers, _Order())

    def _repetitions(self, passes: int) -> int:
        repetitions = (passes - 1) * REPETITIONS_PER_PASS
        # Where everybody found room, little can be better.
        return repetitions if self._refused else repetitions // REPETITIONS_PER_PASS

    def _done(self) -> bool:
        return not self.state.ways

    def _worth(self) -> float:
        return self.state.relieved - self._price * self.state.paid

    def _repeat(self, number: int, best: SearchSolution) -> bool:  # noqa: ARG002 -- it goes on from where it is
        rng, ways, pods = self._rng, self.state.ways, self.state.pods
        sources = _some(self._nodes, BLOCK, rng)
        receivers = _some(self._receivers.tolist(), BLOCK, rng)
        to = set(receivers)
        here = [
            pod for source in sources for pod in self._of_node[source] if pod in ways and ways[pod].node in to
        ]
        match number % 3:
            case 0:
                chosen = set(_some(receivers, rng.randint(1, 3), rng))
                gone = [pod for pod in here if ways[pod].node in chosen]
            case 1:
                chosen = set(_some(sources, rng.randint(1, 3), rng))
                gone = [pod for pod in here if pods[pod].source in chosen]
            case _:
                part = rng.choice((0.1, 0.2, 0.4))
                gone = [pod for pod in here if rng.random() < part]
        for pod in gone:
            self.state.remove(pod)
        order = _Order(noise=_NOISE[number // 2 % len(_NOISE)], tight=number % 4 != 0, chance=True)
        block = [pod for node in sources for pod in self._of_node[node]]
        self._fill(block, np.array(receivers), order)
        return True

    def in_order(self, solution: SearchSolution) -> list[int]:
        """The pods that move, those first that relieve most."""
        self.state.restore(SearchSolution({}))
        found: list[int] = []
        waiting = [(-self.state.relief(pod), pod) for pod in solution.ways]
        heapq.heapify(waiting)
        while waiting:
            known, pod = heapq.heappop(waiting)
            relief = self.state.relief(pod)
            if relief < -known - _EPSILON:
                heapq.heappush(waiting, (-relief, pod))
                continue
            self.state.put(pod, *solution.ways[pod])
            found.append(pod)
        return found

    def _fill(self, pods: Iterable[int], receivers: IntArray, order: _Order) -> None:
        """Move pods to the receivers as long as one relieves and there is room."""
        state = self.state
        waiting = self._waiting(pods, receivers, order)
        while waiting and (self._most is None or len(state.ways) < self._most):
            known, pod, factor = heapq.heappop(waiting)
            relief = state.relief(pod)
            if relief < self._least:
                continue
            score = relief * factor
            # What a pod relieves only falls while others leave its node, so the first that is still worth it is the best.
            if score < -known - _EPSILON:
                heapq.heappush(waiting, (-score, pod, factor))
                continue
            if not state.may_leave(pod):
                continue
            self.looks += 1
            node = self._best(pod, receivers, order)
            if node >= 0:
                state.put(pod, node)
            else:
                self._refused = True

    def _waiting(
        self, pods: Iterable[int], receivers: IntArray, order: _Order
    ) -> list[tuple[float, int, float]]:
        """Those that relieve and may have room, as a heap of (minus score, pod, factor of its score)."""
        state, rng = self.state, self._rng
        found = [
            (relief, pod)
            for pod in pods
            if pod not in state.ways and (relief := state.relief(pod)) >= self._least
        ]
        if order.chance and found:
            # Those that find no room now will find none later, because room only gets less.
            needs = state.needs[[pod for _, pod in found]]
            enough: BoolArray = np.logical_and.reduce(
                needs[:, :, np.newaxis] <= state.left[0][:, receivers], axis=1
            )
            found = [found[i] for i in np.flatnonzero(np.logical_or.reduce(enough, axis=1)).tolist()]
        waiting = []
        for relief, pod in found:
            factor = 1.0
            if order.chance:
                factor += order.noise * (rng.random() - 0.5) * 2
            waiting.append((-relief * factor, pod, factor))
        heapq.heapify(waiting)
        return waiting

    def _best(self, number: int, receivers: IntArray, order: _Order) -> int:
        """Where the pod is put; -1: no node takes it."""
        state = self.state
        # Where there are many, those with most room are looked at first: the best of them is nearly the best of all.
        parts = (receivers,) if order.chance else self._by_room(receivers)
        if not self._may_go_somewhere(number):
            return -1
        for some in parts:
            left = state.room_left(number, some)
            # What refuses most is asked first, and what others that move refuse last.
            if np.count_nonzero((left >= 0) & state.allowed_alone(number)[some]):
                allowed = state.allowed(number)[some]
                node = self._best_of(some[allowed], left[allowed], order)
                if node >= 0:
                    return node
        return -1

    def _may_go_somewhere(self, number: int) -> bool:
        known = self._somewhere[number]
        if known is None:
            state, needs = self.state, self.state.needs[number]
            roomy = np.logical_and.reduce(state.problem.free >= needs[:, np.newaxis])
            known = bool(np.count_nonzero(roomy & state.allowed_alone(number) & state.problem.receives))
            self._somewhere[number] = known
        return known

    def _best_of(self, nodes: IntArray, left: FloatArray, order: _Order) -> int:
        """The same among a few nodes that allow the pod. ``left``: what each has left beside it; below 0: it has no room."""
        fits = left >= 0
        if not np.count_nonzero(fits):
            return -1
        scored = np.where(fits, left if order.tight else -left, np.inf)
        if order.chance and self._rng.random() < order.noise:
            scored = np.where(fits, [self._rng.random() for _ in range(len(nodes))], np.inf)
        return int(nodes[scored.argmin()])

    def _by_room(self, receivers: IntArray) -> Sequence[IntArray]:
        """The receivers in parts, those with most room first, as it was a few looks ago."""
        if len(receivers) <= PART:
            return (receivers,)
        if self.looks % LOOKS_PER_ORDER == 0 or not self._parts:
            ordered = receivers[np.argsort(-self.state.room_of(receivers), kind="stable")]
            self._parts = [ordered[at : at + PART] for at in range(0, len(ordered), PART)]
        return self._parts


def _some(numbers: Sequence[int], most: int, rng: random.Random) -> list[int]:
    return list(numbers) if len(numbers) <= most else sorted(rng.sample(numbers, most))
