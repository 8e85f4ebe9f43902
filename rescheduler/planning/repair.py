"""Which badly placed pods go where in a few stages of moves, and who steps aside for them: an operator of ``search``. Pure.

Moves of one stage run at once, so they use no room that others leave; those of later stages use what earlier ones have
left. Wanted is the most repairs with the fewest moves, in two stages if that is possible. One repair after the other is made: where there
is room, or where the fewest pods have to step aside; those for whom there is no room may have others step aside in their turn. Then
parts of that are taken back and made again in another order, so that one large pod leaves the room of several small ones, and
a room goes to those who can go nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.bounds import MOST_EARLIER_MOVES
from rescheduler.planning.problem import SearchProblem, SearchSolution
from rescheduler.planning.search import HALF, SOME_PODS, SearchOperator
from rescheduler.planning.search_state import InTheWay, table
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

WAITS: Final = -1
"""The node of a pod that waits for one."""
PRICE: Final = 0.1
"""What a move costs when two solutions are compared, in repairs."""
REPETITIONS_PER_PASS: Final = 2
NODES_PER_LOOK: Final = 50
"""Among so many nodes more a look counts for one more, so that a search takes no longer on a big cluster."""
MOST_ASIDE: Final = 6
"""Pods that step aside for one repair."""
_NODES: Final = (8, 3, 3)
"""Nodes on which room is made, that are tried for a badly placed pod, for one that steps aside for it, and so on."""
_NEAR: Final = 1e-6
_PART: Final = 0.4
"""Of all moves, those that are taken back at once."""


class _Way(NamedTuple):
    """How room could be made for a pod."""

    pods_needed: float
    """How many would have to step aside, with noise."""
    node: int
    most: int
    """So many may step aside at most."""
    pods: Sequence[tuple[int, float]]
    """Those that could, with the share of what is missing that each leaves."""
    rules: InTheWay | None
    """Those that must, whatever room they leave."""


class Repair(SearchOperator):
    """Repairs in one search state."""

    def __init__(self, problem: SearchProblem, most_looks: float = math.inf) -> None:
        """``most_looks``: after so many nobody steps aside any more."""
        super().__init__(problem)
        size = problem.free.shape[1]
        self._look = 1.0 + size / NODES_PER_LOOK
        self._pods = problem.pods
        self._needs = self.state.needs
        self._holds = table([pod.holds for pod in self._pods], len(problem.free), 0.0)
        self._at: list[list[int]] = [[] for _ in range(size)]
        for number, pod in enumerate(self._pods):
            if pod.source >= 0:
                self._at[pod.source].append(number)
        self._sources: IntArray = np.array([pod.source for pod in self._pods], dtype=np.int64)
        self._costs: FloatArray = np.array([pod.cost for pod in self._pods])
        self._size: list[float] = (
            (self._needs / np.maximum(self._needs.max(axis=0, initial=1), 1))
            .max(axis=1, initial=0.0)
            .tolist()
        )
        self.wanting = [number for number, pod in enumerate(self._pods) if pod.repairs]
        self._wished = {
            number: np.array(sorted(self._pods[number].repairs), dtype=np.int64) for number in self.wanting
        }
        self._most = self._worth_at_most()
        self._large = False
        """True: large pods are asked first to step aside, otherwise those of the right size."""
        self._waits = max(1, problem.stages - 1) if problem.leaving else 1
        """Up to this stage pods step aside."""
        self._most_looks = most_looks
        self._asking: list[int] = []
        """Those for whom others step aside at the moment."""

    def _worth_at_most(self) -> float:
        """No solution is worth more. What pods in domains with too many cost cannot be told by pod, as any of a domain may go."""
        state, fault = self.state, self.state.problem.fault
        own = [number for number in self.wanting if not self._pods[number].excess]
        each = (max(self._pods[pod].repairs.values()) - PRICE * self._pods[pod].cost for pod in own)
        costs = min((pod.cost for pod in self._pods if pod.source != WAITS), default=0.0)
        # Whoever repairs all of them pays for their moves, and whoever does not misses one.
        spread = fault * state.excess - min(fault, PRICE * costs * state.moves_for_spread(own))
        return spread + sum(max(0.0, worth) for worth in each)

    def _begin(self) -> None:
        self._fill(self.wanting)

    def _repetitions(self, passes: int) -> int:
        return passes * REPETITIONS_PER_PASS

    def _done(self) -> bool:
        return self._worth() > self._most - _NEAR

    def _worth(self) -> float:
        return self.state.repaired - PRICE * self.state.paid

    def _repeat(self, number: int, best: SearchSolution) -> bool:  # noqa: ARG002 -- it goes on from where it is
        rng, ways = self._rng, self.state.ways
        self._large = rng.random() < HALF
        missing = [pod for pod in self.wanting if pod not in ways]
        first: list[int] = []
        match number % 4:
            case 0 | 1 if missing:
                pod = rng.choice(missing)
                first = [pod]
                nodes = self._wished[pod].tolist()
                self._clear(rng.sample(nodes, min(len(nodes), rng.randint(1, 3))))
            case 2:
                for pod in [pod for pod in ways if rng.random() < _PART]:
                    self._take(pod)
            case _:
                sources = {self._pods[pod].source for pod in ways} - {WAITS}
                busy = sorted({way.node for way in ways.values()} | sources)
                if busy:
                    self._clear(rng.sample(busy, min(len(busy), rng.randint(1, 3))))
        self._trim()
        self._fill(self.wanting, first)
        self._trim()
        return True

    def in_order(self, solution: SearchSolution) -> list[tuple[int, bool]]:
        """The pods that move, and whether that repairs: those of the first stage first, and none to a node that was counted on before for a later stage.

        The state stands as the solution says.
        """
        ways = solution.ways
        repairs = {
            pod: way.node in self._pods[pod].repairs and self.state.repairs(pod) > 0
            for pod, way in ways.items()
        }
        # Those that step aside stand in the order in which others asked them to.
        aside = [pod for pod in ways if ways[pod].stage == 1 and not repairs[pod]]
        ordered = [*(pod for pod in sorted(ways) if ways[pod].stage == 1 and repairs[pod]), *aside]
        for stage in range(2, len(self.state.left) + 1):
            later: dict[int, list[int]] = {}
            for pod in sorted(ways):
                if ways[pod].stage == stage:
                    later.setdefault(ways[pod].node, []).append(pod)
            while later:
                # Pods that step aside for somebody arrive before those of later stages come to the same node.
                entered = {ways[pod].node for pod in aside if self._pods[pod].source in later}
                node = next((node for node in later if node not in entered), next(iter(later)))
                ordered += later.pop(node)
        return [(pod, repairs[pod]) for pod in ordered]

    def _fill(self, wanting: Iterable[int], first: Sequence[int] = ()) -> None:
        """Repair as many as find room, or for whom room is made."""
        rng, ways = self._rng, self.state.ways
        waiting = [pod for pod in wanting if pod not in ways and pod not in first]
        # Those with few nodes first, of these the large ones; with noise.
        waiting.sort(key=lambda pod: len(self._wished[pod]) * (1 + rng.random()) - self._size[pod])
        order = [*first, *waiting]
        for _ in range(2):
            for pod in order:
                if pod not in ways:
                    self._settle(pod)
        for pod in order:
            if pod not in ways and not self._settle(pod):
                self._settle_making_room(pod)

    def _trim(self) -> None:
        """Take back what nobody needs: pods that stepped aside, where there is room without that."""
        state = self.state
        idle = [pod for pod in state.ways if state.repairs(pod) <= 0]
        idle.sort(key=lambda pod: self._size[pod])
        for pod in idle:
            here = self._pods[pod].source
            stays = all(_covers(left[:, here], self._holds[pod]) for left in state.left[1:])
            if stays and not state.frees(pod) and not state.let_in(pod):
                state.remove(pod)

    def _take(self, pod: int) -> None:
        """Undo its move, and those that rely on it."""
        state = self.state
        if pod not in state.ways:
            return
        for one in state.let_in(pod):
            self._take(one)
        stage = state.remove(pod).stage
        source = self._pods[pod].source
        if source == WAITS:
            return
        later = state.left[stage:]
        while any(np.count_nonzero(left[:, source] < 0) for left in later) and state.into[source]:
            here = list(state.into[source])
            after = [one for one in here if state.ways[one].stage > stage]
            self._take(self._rng.choice(after or here))

    def _clear(self, nodes: Iterable[int]) -> None:
        """Undo the moves to and from these nodes."""
        state = self.state
        for node in nodes:
            for pod in [*state.into[node], *(pod for pod in self._at[node] if pod in state.ways)]:
                self._take(pod)

    def _settle(self, number: int) -> bool:
        """Repair one where there is room."""
        self.looks += self._look
        state, pod = self.state, self._pods[number]
        if not self._may_be_repaired(number):
            return False
        wished, before = self._mask(self._wished[number]), None
        for stage in range(1, self.state.problem.stages + 1):
            fits = state.with_room(number, wished.copy(), stage)
            # Moves wait for pods that leave their target: for those that other pods mind, but not for the sake of spread.
            waits = fits.copy() if before is None or (pod.minds and not pod.spreads) else fits & ~before
            some = (
                np.flatnonzero(state.unbarred(number, waits, stage)).tolist()
                if np.count_nonzero(waits)
                else []
            )
            if some:
                most = max(pod.repairs[node] for node in some)
                self._put(number, [node for node in some if pod.repairs[node] == most], stage)
                return True
            before = fits
        return False

    def _settle_making_room(self, number: int) -> bool:
        """Repair one for which others step aside."""
        ways, most = self.state.ways, self.state.problem.most_aside
        if not self._may_be_repaired(number):
            return False
        if self._pods[number].source == WAITS and self._take_place(number):
            return True
        for depth in range(1, min(self.state.problem.stages, len(_NODES) + 1)):
            before = len(ways)
            if self._let_in(number, self._wished[number], depth):
                if most is None or len(ways) - before - 1 <= most:
                    return True
                self._undo(before)
        return False

    def _take_place(self, number: int) -> bool:
        """Put a pod where one other that leaves is enough, and has room elsewhere."""
        self.looks += self._look
        state, nodes = self.state, self._wished[number]
        missing = np.full_like(state.left[0], np.inf)
        missing[:, nodes] = self._needs[number][:, np.newaxis] - state.left[-1][:, nodes]
        lacks = missing[:, self._sources].T
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: FloatArray = np.where(lacks > 0, self._holds / lacks, np.inf).min(axis=1)
        enough = np.flatnonzero((shares >= 1.0) & np.isfinite(shares))
        if not len(enough):
            return False
        needs, room = self._needs[enough], state.lasting[0]
        room = room[:, np.all(room >= needs.min(axis=0)[:, np.newaxis], axis=0)]
        enough = enough[np.all(needs[:, :, np.newaxis] <= room, axis=1).any(axis=1)]
        noise = np.array([self._rng.random() for _ in enough])
        order = shares[enough] * self._costs[enough] * (1 + noise)
        for pod in enough[np.argsort(order, kind="stable")][:SOME_PODS].tolist():
            before = len(state.ways)
            if self._step_aside(pod, 1) and self._arrive(number, self._pods[pod].source):
                return True
            self._undo(before)
        return False

    def _undo(self, number: int) -> None:
        """Take back all but the first so many moves."""
        ways = self.state.ways
        while len(ways) > number:
            self.state.remove(next(reversed(ways)))

    def _let_in(self, number: int, nodes: IntArray, depth: int) -> bool:
        """Put a pod on one of the nodes, where others make room; ``depth`` 1: those go where there is room."""
        if self.looks >= self._most_looks:
            return False
        state, level = self.state, len(self._asking)
        rest = state.left[-1][:, nodes] - self._needs[number][:, np.newaxis]
        unbarred = state.unbarred(number, self._mask(nodes), self.state.problem.stages)
        lacking = np.logical_or.reduce(rest < 0)
        if self._pods[number].source == WAITS:
            lacking |= ~unbarred[nodes]
        full = np.flatnonzero(lacking).tolist()
        tried = full if len(full) <= _NODES[level] else self._rng.sample(full, _NODES[level])
        self._asking.append(number)
        ways = [
            way
            for i in tried
            if (way := self._way(number, int(nodes[i]), -rest[:, i], depth, barred=not unbarred[nodes[i]]))
            is not None
        ]
        made = False
        for way in sorted(ways, key=lambda way: way.pods_needed):
            before = len(state.ways)
            made = self._make_room(number, way, depth) and self._arrive(number, way.node)
            if made:
                break
            self._undo(before)
        self._asking.pop()
        return made

    def _arrive(self, number: int, node: int) -> bool:
        """Put a pod on the node in the first stage in which it may come."""
        for stage in range(2, self.state.problem.stages + 1):
            fits = self.state.with_room(number, self._mask(node), stage)
            if fits[node] and self.state.unbarred(number, fits, stage)[node]:
                self.state.put(number, node, stage)
                return True
        return False

    def _mask(self, nodes: IntArray | int) -> BoolArray:
        mask = np.zeros(len(self._at), dtype=np.bool_)
        mask[nodes] = True
        return mask

    def _may_be_repaired(self, number: int) -> bool:
        pod, state = self._pods[number], self.state
        crowded = not pod.excess or any(spread.crowded(pod.source) for spread in state.spreads[number])
        return crowded and state.may_leave(number)

    def _way(self, number: int, node: int, missing: FloatArray, depth: int, *, barred: bool) -> _Way | None:
        """Who could make room on a node where so much is missing; None: that is not enough."""
        self.looks += self._look
        state, rules = self.state, None
        must: list[int] = []
        if barred:
            rules = state.in_the_way(number, node) if self._pods[number].source == WAITS else None
            if rules is None or not rules.groups or len(rules.groups) > MOST_ASIDE:
                return None
            must = [group[0] for group in rules.groups if len(group) == 1]
            missing = missing - self._holds[[pod for pod in must if self._pods[pod].source == node]].sum(
                axis=0
            )
        rows = missing > 0
        if not np.count_nonzero(rows):
            return _Way(len(must) + 1.5 * self._rng.random(), node, MOST_ASIDE, (), rules)
        here = [
            pod
            for pod in self._at[node]
            if pod not in state.ways and pod not in self._asking and pod not in must
        ]
        if not here:
            return None
        share: FloatArray = np.minimum.reduce(self._holds[here][:, rows] / missing[rows], axis=1)
        most = min(MOST_ASIDE, MOST_EARLIER_MOVES - sum(pod in state.ways for pod in self._at[node]))
        # Who may go somewhere is asked only where all of them would leave enough.
        if _enough(share, most) is None:
            return None
        can = self._with_places(here, node, depth)
        enough = _enough(share[can], most)
        if enough is None:
            return None
        return _Way(
            len(must) + enough + 1.5 * self._rng.random(),
            node,
            most - len(must),
            [(here[i], float(share[i])) for i in can],
            rules,
        )

    def _with_places(self, pods: Sequence[int], node: int, depth: int) -> list[int]:
        """The places in ``pods`` of those that may go somewhere else than to the node."""
        state = self.state
        fits: BoolArray = np.ones((len(pods), len(self._at)), dtype=np.bool_)
        # Where others step aside in their turn, they may go where there is no room yet.
        if depth == 1:
            fits = np.logical_and.reduce(
                self._needs[pods][:, :, np.newaxis] <= state.lasting[self._waits - 1], axis=1
            )
        fits[:, node] = False
        some = np.flatnonzero(np.logical_or.reduce(fits, axis=1))
        if not len(some):
            return []
        allowed = np.array([state.allowed_alone(pods[i]) for i in some.tolist()])
        found: list[int] = some[np.logical_or.reduce(fits[some] & allowed, axis=1)].tolist()
        return found

    def _make_room(self, number: int, way: _Way, depth: int) -> bool:
        """Pods step aside until there is room for this one; False: there is no way, and some may have stepped aside."""
        rng, state = self._rng, self.state
        if way.rules is not None and not self._obey(way.rules, depth):
            return False
        if way.rules is not None and _covers(state.left[-1][:, way.node], self._needs[number]):
            return True
        power = -0.5 if self._large else 1.0
        singles = [
            (share**power * self._pods[pod].cost * (1 + rng.random()), pod)
            for pod, share in way.pods
            if share >= 1.0
        ]
        for _, pod in sorted(singles)[:SOME_PODS]:
            if self._step_aside(pod, depth):
                return True
        some = [(-share * (1 + rng.random()), pod) for pod, share in way.pods if share < 1.0]
        gone = 0
        for _, pod in sorted(some)[: 2 * MOST_ASIDE]:
            if self._step_aside(pod, depth):
                gone += 1
                if _covers(state.left[-1][:, way.node], self._needs[number]):
                    return True
            if gone == way.most:
                break
        return False

    def _obey(self, rules: InTheWay, depth: int) -> bool:
        """Those step aside that rules keep away; False: not all of them can."""
        for group in rules.groups:
            tried = self._rng.sample(group, min(len(group), SOME_PODS))
            if not any(self._step_aside(pod, depth, rules.beyond) for pod in tried):
                return False
        return True

    def _step_aside(self, number: int, depth: int, beyond: BoolArray | None = None) -> bool:
        """It goes to none of the nodes ``beyond``."""
        self.looks += self._look
        state, pod = self.state, self._pods[number]
        if number in state.ways or number in self._asking or not state.may_leave(number):
            return False
        allowed = state.allowed_alone(number) & ~beyond if beyond is not None else state.allowed_alone(number)
        # In a later stage than the first it waits for moves that are planned already.
        for stage in range(1, self._waits + 1):
            fits = state.with_room(number, allowed.copy(), stage)
            nodes: list[int] = (
                np.flatnonzero(state.unbarred(number, fits, stage)).tolist() if np.count_nonzero(fits) else []
            )
            if nodes:
                own = [node for node in nodes if node in pod.repairs] if pod.repairs else []
                self._put(number, own or nodes, stage)
                return True
        return depth > 1 and self._let_in(number, np.flatnonzero(allowed), depth - 1)

    def _put(self, number: int, nodes: Sequence[int], stage: int) -> None:
        """On one of the nodes: where least room is left, or any."""
        if len(nodes) == 1 or self._rng.random() >= HALF:
            node = self._rng.choice(nodes)
        else:
            need, some = np.maximum(self._needs[number], 0.0), np.array(nodes, dtype=np.int64)
            rest = (self.state.left[0][:, some] - need[:, np.newaxis]) / np.maximum(need, 1)[:, np.newaxis]
            node = int(some[np.argmin(np.minimum.reduce(rest))])
        self.state.put(number, node, stage)


def _covers(left: FloatArray, needs: FloatArray) -> bool:
    return not np.count_nonzero(left < needs)


def _enough(shares: FloatArray, most: int) -> int | None:
    """After how many of these, at most so many and the largest first, nothing is missing any more, less one; None: it is too little."""
    largest = sorted(shares.tolist(), reverse=True)[: max(most, 0)]
    return next((number for number, sum_ in enumerate(accumulate(largest)) if sum_ >= 1.0), None)
