"""Which badly placed pods go where in two stages of moves, and who steps aside for them: a search on numbers, without a clock.

Given are what each node can still take, the badly placed pods with what a move to each node repairs, and the pods that could
step aside. Moves of the first stage run at once, so they use no room that others leave; those of the second stage use what the
first has left. Wanted is the most repairs with the fewest moves.

One repair after the other is made: where there is room, or where the fewest pods have to step aside. Then parts of that are taken
back, as if by chance, and made again in another order, so that one large pod leaves the room of several small ones, and a room
goes to those who can go nowhere else (a large neighbourhood search, Shaw 1998). What is worse by more than a little is undone; the
best is kept. The number of repetitions is fixed and the generator seeded, so the same input gives the same result.

The numbers are necessary conditions: whoever uses the result asks the scheduler's own rules about every pod. Pure.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.bounds import MOST_EARLIER_MOVES
from rescheduler.planning.placement_conflicts import Mark
from rescheduler.planning.staged_spread import Spread, StagedSpread
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

PRICE: Final = 0.1
"""What a move costs when two solutions are compared, in repairs."""
REPETITIONS_PER_PASS: Final = 2
LOOKS_PER_PASS: Final = 256
"""A search ends early once it has looked so often for a node, for each of its passes ..."""
NODES_PER_LOOK: Final = 100
"""... among so many nodes with those below; among more each look counts for more, so that it takes no longer on a big cluster."""
_LEAST_NODES: Final = 64
MOST_ASIDE: Final = 6
"""Pods that step aside for one repair."""
_NODES: Final = 8
"""Nodes on which room is made, that are tried for one pod."""
_SINGLES: Final = 5
"""Pods that would be enough by themselves, that are tried on one node."""
_WORSE: Final = 0.1
"""How much worse a repetition may leave the solution at first, to get out of a corner."""
_LARGE: Final = 0.5
"""How often large pods are asked first to step aside, otherwise those of the right size."""
_PATIENT: Final = 0.7
"""How often all are looked at that need nobody to step aside, before anybody does."""
_TIGHT: Final = (0.5, 0.9, 0.2)
"""How often a pod goes where least room is left, otherwise anywhere; by repetition, in turn."""


@dataclass(frozen=True, slots=True, eq=False)
class MovablePod:
    """A pod that may be moved."""

    source: int
    needs: tuple[int, ...]
    """What its target must have free, in the order of the rows of ``RepairProblem.free``."""
    holds: tuple[int, ...]
    """What it leaves."""
    places: Callable[[], BoolArray]
    """Nodes that it may step aside to, as far as rules are concerned that no other pod changes."""
    repairs: Mapping[int, float] = field(default_factory=dict)
    """By node, how much a move there repairs; empty: it is not badly placed."""
    owner: int = -1
    """Pods of one owner do not change places."""
    bears: tuple[Mark, ...] = ()
    minds: tuple[Mark, ...] = ()
    spreads: tuple[Spread, ...] = ()
    excess: bool = False
    """It is badly placed only as long as a domain of its ``spreads`` has too many."""
    budgets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairProblem:
    """What a search is about. Nodes are numbers."""

    free: IntArray
    """What may still come. Shape (rows, nodes)."""
    pods: Sequence[MovablePod]
    standing: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """By key of a mark and domain, how many pods that stand bear it, moved or not."""
    budgets: Sequence[int] = ()
    """What is left of each budget."""


class Repair(NamedTuple):
    """One move: which of ``pods``, to which node, in which stage."""

    pod: int
    node: int
    stage: int
    repairs: bool
    """False: it steps aside for others."""


def repairs(problem: RepairProblem, passes: int) -> list[Repair]:
    """The moves, those of the first stage first. ``passes``: how long it is tried."""
    rng = random.Random(0)  # noqa: S311 -- chance that is the same every time, no secret
    search = _Search(problem, rng)
    search.fill(search.wanting)
    best, best_worth = search.solution(), search.worth()
    repetitions, most = passes * REPETITIONS_PER_PASS, search.looks + passes * LOOKS_PER_PASS
    for number in range(repetitions):
        if search.looks >= most:
            break
        before, before_worth = search.solution(), search.worth()
        search.repeat(number)
        worth = search.worth()
        if worth > best_worth:
            best, best_worth = search.solution(), worth
        to_come = 1.0 - number / repetitions
        if worth < before_worth - _WORSE * to_come * rng.random() ** 2:
            search.restore(before)
    search.restore(best)
    return search.report()


class _Way(NamedTuple):
    """How room could be made for a pod."""

    pods_needed: float
    """How many would have to step aside, with noise."""
    node: int
    most: int
    """So many may step aside at most."""
    pods: Sequence[tuple[int, float]]
    """Those that could, with the share of what is missing that each leaves."""


_Solution = dict[int, tuple[int, int]]
"""By pod, its node and stage."""


class _Search:
    """Who goes where so far."""

    def __init__(self, problem: RepairProblem, rng: random.Random) -> None:
        self._pods = problem.pods
        self._rng = rng
        self._now: IntArray = problem.free.copy()
        """What moves of the first stage may take."""
        self._later: IntArray = problem.free.copy()
        """What is left once all of the first stage have landed, and those of the second have come."""
        shape = len(self._pods), len(problem.free)
        self._needs = np.array([pod.needs for pod in self._pods], dtype=np.int64).reshape(shape)
        self._holds = np.array([pod.holds for pod in self._pods], dtype=np.int64).reshape(shape)
        self._at: list[list[int]] = [[] for _ in range(problem.free.shape[1])]
        for number, pod in enumerate(self._pods):
            self._at[pod.source].append(number)
        self._into: list[dict[int, None]] = [{} for _ in self._at]
        """By node, the pods that go there."""
        self._size: list[float] = (
            (self._needs / np.maximum(self._needs.max(axis=0, initial=1), 1))
            .max(axis=1, initial=0.0)
            .tolist()
        )
        self.wanting = [number for number, pod in enumerate(self._pods) if pod.repairs]
        self._wished = {
            number: np.array(sorted(self._pods[number].repairs), dtype=np.int64) for number in self.wanting
        }
        self._demand: FloatArray = np.zeros(len(self._at))
        for nodes in self._wished.values():
            self._demand[nodes] += 1.0 / len(nodes)
        self._to: _Solution = {}
        self._places_known: list[BoolArray | None] = [None] * len(self._pods)
        self._worth = 0.0
        self.looks = 0.0
        """How often it was looked for a node, or for pods that make room on one."""
        self._look = (_LEAST_NODES + problem.free.shape[1]) / NODES_PER_LOOK
        self._tight = _TIGHT[0]
        self._large = False
        self._marks = Counter(problem.standing)
        self._marks_left: Counter[tuple[int, int]] = Counter()
        self._ways: Counter[tuple[int, int, int]] = Counter()
        self._budgets = list(problem.budgets)
        known: dict[Spread, StagedSpread] = {}
        self._spreads = [
            [known.setdefault(spread, StagedSpread(spread)) for spread in pod.spreads] for pod in self._pods
        ]

    def solution(self) -> _Solution:
        """All moves."""
        return dict(self._to)

    def worth(self) -> float:
        """More is better: what is repaired, less what the moves cost."""
        return self._worth - PRICE * len(self._to)

    def report(self) -> list[Repair]:
        """The moves, in an order in which none goes to a node that was counted on before for a later stage."""
        found = [
            Repair(pod, node, stage, node in self._pods[pod].repairs and self._worth_of(pod) > 0)
            for pod, (node, stage) in sorted(self._to.items())
        ]
        first = [one for one in found if one.stage == 1]
        later: dict[int, list[Repair]] = {}
        for one in found:
            if one.stage > 1:
                later.setdefault(one.node, []).append(one)
        ordered: list[Repair] = []
        while later:
            # Pods that step aside for somebody arrive before those of the second stage come to the same node.
            entered = {one.node for one in first if not one.repairs and self._pods[one.pod].source in later}
            node = next((node for node in later if node not in entered), next(iter(later)))
            ordered += later.pop(node)
        return [*first, *ordered]

    def restore(self, solution: _Solution) -> None:
        """Go back to this."""
        for pod in [pod for pod, way in self._to.items() if solution.get(pod) != way]:
            self._remove(pod)
        for pod, (node, stage) in solution.items():
            if pod not in self._to:
                self._put(pod, node, stage)

    def repeat(self, number: int) -> None:
        """Take back a part, and make it again in another order."""
        rng = self._rng
        self._tight = _TIGHT[number % len(_TIGHT)]
        self._large = rng.random() < _LARGE
        missing = [pod for pod in self.wanting if pod not in self._to]
        first: list[int] = []
        match number % 4:
            case 0 | 1 if missing:
                pod = rng.choice(missing)
                first = [pod]
                nodes = self._wished[pod].tolist()
                self._clear(rng.sample(nodes, min(len(nodes), rng.randint(1, 3))))
            case 2:
                part = rng.choice((0.1, 0.2, 0.4))
                for pod in [pod for pod in self._to if rng.random() < part]:
                    self.take(pod)
            case _:
                busy = sorted(
                    {node for node, _ in self._to.values()} | {self._pods[pod].source for pod in self._to}
                )
                if busy:
                    self._clear(rng.sample(busy, min(len(busy), rng.randint(1, 3))))
        self.trim()
        self.fill(self.wanting, first)
        self.trim()

    def fill(self, wanting: Iterable[int], first: Sequence[int] = ()) -> None:
        """Repair as many as find room, or for whom room is made."""
        rng, sizes = self._rng, self._size
        waiting = [pod for pod in wanting if pod not in self._to and pod not in first]
        noise = rng.choice((0.2, 1.0, 3.0))
        # Those with few nodes first, of these the large ones; with noise.
        waiting.sort(key=lambda pod: len(self._wished[pod]) * (1 + noise * rng.random()) - sizes[pod])
        order = [*first, *waiting]
        if rng.random() < _PATIENT:
            for _ in range(2):
                for pod in order:
                    if pod not in self._to:
                        self._settle(pod, aside=False)
        for pod in order:
            if pod not in self._to:
                self._settle(pod)

    def trim(self) -> None:
        """Take back what nobody needs: pods that stepped aside, where there is room without that."""
        idle = [pod for pod in self._to if self._worth_of(pod) <= 0]
        idle.sort(key=lambda pod: self._size[pod])
        for pod in idle:
            if (self._later[:, self._pods[pod].source] >= self._holds[pod]).all() and not self._frees(pod):
                self._remove(pod)

    def take(self, pod: int) -> None:
        """Undo its move, and those that rely on it."""
        if pod not in self._to:
            return
        _, stage = self._to[pod]
        self._remove(pod)
        source = self._pods[pod].source
        while stage == 1 and (self._later[:, source] < 0).any() and self._into[source]:
            here = list(self._into[source])
            later = [one for one in here if self._to[one][1] > 1]
            self.take(self._rng.choice(later or here))

    def _clear(self, nodes: Iterable[int]) -> None:
        """Undo the moves to and from these nodes."""
        for node in nodes:
            for pod in [*self._into[node], *(pod for pod in self._at[node] if pod in self._to)]:
                self.take(pod)

    def _worth_of(self, number: int) -> float:
        """What its move repairs, as the others stand."""
        (node, stage), pod = self._to[number], self._pods[number]
        found = 0.0 if pod.excess else pod.repairs.get(node, 0.0)
        for spread in self._spreads[number]:
            found -= spread.excess()
            spread.move(pod.source, node, stage, -1)
            found += spread.excess()
            spread.move(pod.source, node, stage, 1)
        return found

    def _settle(self, number: int, *, aside: bool = True) -> bool:
        """Repair one; ``aside``: others may step aside for it."""
        self.looks += self._look
        pod = self._pods[number]
        if not self._may_leave(pod) or (
            pod.excess and not any(spread.crowded(pod.source) for spread in self._spreads[number])
        ):
            return False
        nodes = self._wished[number]
        need = self._needs[number][:, np.newaxis]
        rest = self._later[:, nodes] - need
        later = (rest >= 0).all(axis=0)
        if later.any():
            now = later & (self._now[:, nodes] >= need).all(axis=0)
            # Moves wait for pods that leave their target: for those that other pods mind, but not for the sake of spread.
            waits = later if pod.minds and not pod.spreads else later & ~now
            for fits, stage in ((now, 1), (waits, 2)):
                some = [node for node in nodes[fits].tolist() if self._meets(number, node, stage)]
                if some:
                    most = max(pod.repairs[node] for node in some)
                    some = [node for node in some if pod.repairs[node] == most]
                    self._put(number, self._pick(number, some), stage)
                    return True
        if not aside:
            return False
        full = np.flatnonzero(~later).tolist()
        tried = full if len(full) <= _NODES else self._rng.sample(full, _NODES)
        ways = [way for i in tried if (way := self._way(number, int(nodes[i]), -rest[:, i])) is not None]
        for way in sorted(ways, key=lambda way: way.pods_needed):
            if self._make_room(number, way):
                self._put(number, way.node, 2)
                return True
        return False

    def _way(self, number: int, node: int, missing: IntArray) -> _Way | None:
        """Who could make room on a node where so much is missing; None: that is not enough."""
        self.looks += self._look
        here = [pod for pod in self._at[node] if pod not in self._to and pod != number]
        if not here or not self._meets(number, node, 2):
            return None
        rows = missing > 0
        share: FloatArray = (self._holds[here][:, rows] / missing[rows]).min(axis=1)
        room = np.minimum(self._now, self._later)
        fits: BoolArray = np.all(self._needs[here][:, :, np.newaxis] <= room, axis=1)
        fits[:, node] = False
        can = [
            i
            for i in np.flatnonzero(np.any(fits, axis=1)).tolist()
            if (fits[i] & self._places(here[i])).any()
        ]
        most = min(MOST_ASIDE, MOST_EARLIER_MOVES - sum(pod in self._to for pod in self._at[node]))
        enough = np.flatnonzero(np.sort(share[can])[::-1][: max(most, 0)].cumsum() >= 1.0)
        if not len(enough):
            return None
        return _Way(
            int(enough[0]) + 1.5 * self._rng.random(), node, most, [(here[i], float(share[i])) for i in can]
        )

    def _make_room(self, number: int, way: _Way) -> bool:
        """Pods step aside until there is room for this one; False: there is no way."""
        need, rng, node = self._needs[number], self._rng, way.node
        power = -0.5 if self._large else 1.0
        singles = [(share**power * (1 + rng.random()), pod) for pod, share in way.pods if share >= 1.0]
        for _, pod in sorted(singles)[:_SINGLES]:
            if self._step_aside(pod):
                return True
        some = [(-share * (1 + rng.random()), pod) for pod, share in way.pods if share < 1.0]
        gone: list[int] = []
        for _, pod in sorted(some)[: 2 * MOST_ASIDE]:
            if self._step_aside(pod):
                gone.append(pod)
                if (self._later[:, node] >= need).all():
                    self._spare(gone, need, node)
                    return True
            if len(gone) == way.most:
                break
        for pod in gone:
            self._remove(pod)
        return False

    def _spare(self, gone: Sequence[int], need: IntArray, node: int) -> None:
        """Some of these may stay after all."""
        for pod in sorted(gone, key=lambda pod: self._size[pod]):
            if self._worth_of(pod) <= 0 and (self._later[:, node] - self._holds[pod] >= need).all():
                self._remove(pod)

    def _step_aside(self, number: int) -> bool:
        self.looks += self._look
        pod = self._pods[number]
        if not self._may_leave(pod):
            return False
        need = self._needs[number][:, np.newaxis]
        fits = ((self._now >= need) & (self._later >= need)).all(axis=0)
        fits &= self._places(number)
        nodes: list[int] = [node for node in np.flatnonzero(fits).tolist() if self._meets(number, node, 1)]
        if not nodes:
            return False
        own = [node for node in nodes if node in pod.repairs] if pod.repairs else []
        self._put(number, self._pick(number, own or nodes), 1)
        return True

    def _places(self, number: int) -> BoolArray:
        known = self._places_known[number]
        if known is None:
            known = self._places_known[number] = self._pods[number].places()
        return known

    def _pick(self, number: int, nodes: Sequence[int]) -> int:
        """One of the nodes: where least room is left and few want to go, or any."""
        if len(nodes) == 1 or self._rng.random() >= self._tight:
            return self._rng.choice(nodes)
        need = self._needs[number]
        some = np.array(nodes, dtype=np.int64)
        rest = (self._now[:, some] - need[:, np.newaxis]) / np.maximum(need, 1)[:, np.newaxis]
        return int(some[np.argmin(rest.min(axis=0) + 2.0 * self._demand[some])])

    def _may_leave(self, pod: MovablePod) -> bool:
        return all(self._budgets[budget] > 0 for budget in pod.budgets)

    def _meets(self, number: int, node: int, stage: int) -> bool:
        """True if nothing about other pods keeps it off the node, besides room."""
        pod = self._pods[number]
        if node == pod.source or self._ways[pod.owner, node, pod.source]:
            return False
        for mark in pod.minds:
            key = mark.key, int(mark.domains[node])
            there = self._marks[key] - (self._marks_left[key] if stage > 1 else 0)
            if key[1] >= 0 and there > 0:
                return False
        return all(spread.takes(pod.source, node, stage) for spread in self._spreads[number])

    def _frees(self, number: int) -> bool:
        """True if its leaving lets another one come, for which there is no room beside it by a rule."""
        pod = self._pods[number]
        return any(
            self._marks[mark.key, int(mark.domains[pod.source])] > 1
            for mark in pod.bears
            if mark.domains[pod.source] >= 0
        )

    def _put(self, number: int, node: int, stage: int) -> None:
        self._change(number, node, stage, 1)
        self._to[number] = node, stage
        self._into[node][number] = None

    def _remove(self, number: int) -> None:
        node, stage = self._to.pop(number)
        del self._into[node][number]
        self._change(number, node, stage, -1)

    def _change(self, number: int, node: int, stage: int, sign: int) -> None:
        pod, need = self._pods[number], self._needs[number]
        if not pod.excess:
            self._worth += sign * pod.repairs.get(node, 0.0)
        self._later[:, node] -= sign * need
        if stage == 1:
            self._now[:, node] -= sign * need
            self._later[:, pod.source] += sign * self._holds[number]
        for mark in pod.bears:
            self._mark(self._marks, mark, node, sign)
            if stage == 1:
                self._mark(self._marks_left, mark, pod.source, sign)
        for spread in self._spreads[number]:
            self._worth += spread.excess()
            spread.move(pod.source, node, stage, sign)
            self._worth -= spread.excess()
        if pod.owner >= 0:
            self._ways[pod.owner, pod.source, node] += sign
        for budget in pod.budgets:
            self._budgets[budget] -= sign

    @staticmethod
    def _mark(marks: Counter[tuple[int, int]], mark: Mark, node: int, sign: int) -> None:
        domain = int(mark.domains[node])
        if domain >= 0:
            marks[mark.key, domain] += sign
