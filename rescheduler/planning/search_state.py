"""Which pods of a problem go where so far: what that leaves of rooms, rules and budgets, and what it is worth.

One state for every search. ``put`` and ``remove`` keep everything current; whether a move is allowed is asked before
(``unbarred``, ``with_room``, ``may_leave``). No chance is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar, cast

import numpy as np

from rescheduler.planning.problem import (
    Amounts,
    Destination,
    MovablePod,
    SearchProblem,
    SearchSolution,
    Source,
    Spread,
)
from rescheduler.planning.staged_rules import Crowd, MarkedDomains, StagedSpread, domain_of
from rescheduler.policies.utilization import fall
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

T = TypeVar("T", bound=Hashable)


class InTheWay(NamedTuple):
    """Who keeps a pod off a node by a rule."""

    groups: Sequence[Sequence[int]]
    """Of each of them one must leave."""
    beyond: BoolArray
    """Nodes where those that leave would still be in the way."""


class NodeFit:
    """How well pods fit on each node: the free shares of its rows, and what is lost by using a node to which nothing goes."""

    __slots__ = ("_losses", "_slack", "_sums", "slack", "sums")

    def __init__(self, slack: FloatArray) -> None:
        self.slack = slack
        """The free shares of all rows of a node added up."""
        self.sums = slack.copy()
        """All added up: the less, the better a pod fits."""
        self._slack, self._sums = _view(self.slack), _view(self.sums)
        self._losses = _view(np.zeros_like(slack))

    def weigh(self, losses: FloatArray, used: BoolArray) -> None:
        """From now on so much is lost. ``used``: nodes to which pods go."""
        self._losses = _view(losses)
        self.sums[:] = np.where(used, 0.0, losses) + self.slack

    def take(self, node: int, slack: float, *, used: bool) -> None:
        """So much of the slack of a node is taken; ``used``: pods go there."""
        left = self._slack[node] = self._slack[node] - slack
        self._sums[node] = (0.0 if used else self._losses[node]) + left


class SearchState:
    """Nobody is moved at first."""

    def __init__(self, problem: SearchProblem) -> None:
        self.problem = problem
        self.pods: Sequence[MovablePod] = problem.pods
        self.needs = table([pod.needs for pod in self.pods], len(problem.free), -np.inf)
        """What each pod needs of each row; what it does not ask for is no matter. Shape (pods, rows)."""
        self._columns: FloatArray = self.needs[:, :, np.newaxis]
        self.left = _left(problem)
        """By stage, what is left once all moves of earlier stages have landed, and those of this one have come. Shape (rows, nodes)."""
        self.lasting: list[FloatArray] = (
            [np.minimum.reduce(self.left[at:]) for at in range(problem.stages)]
            if problem.stages > 1
            else self.left
        )
        """By stage, the least of what is left in it and in all later ones."""
        self._rows = [[_view(row) for row in left] for left in self.left]
        """Views of them, by stage and row."""
        self._backwards = _backwards(self._rows, self.lasting)
        self.open: BoolArray = problem.receives.copy()
        """Nodes that may receive."""
        self._per_unit: FloatArray = 1.0 / np.maximum(problem.whole, 1.0)
        # Where too much stands already, what comes changes nothing of it.
        self._slack_per_unit: list[list[float]] = np.where(problem.free > 0, self._per_unit, 0.0).tolist()
        self.fit = NodeFit((np.clip(problem.free, 0.0, None) * self._per_unit).sum(axis=0))
        self.into: list[dict[int, None]] = [{} for _ in range(problem.free.shape[1])]
        """By node, the pods that go there, in the order in which they came."""
        self.ways: dict[int, Destination] = {}
        """By pod, where it goes."""
        self.emptied: dict[int, None] = {}
        """Numbers of the sources, in the order in which they were emptied."""
        self.claimed: set[int] = set()
        """What those sources claim."""
        self.repaired = self.relieved = self.paid = 0.0
        """What is repaired, by how much the strain of nodes has fallen, what the moves cost."""
        self.price = 0
        """Of what is emptied."""
        self._allowed: list[BoolArray | None] = [None] * len(self.pods)
        self._marks = MarkedDomains(problem.standing, problem.stages)
        self._budgets = list(problem.budgets)
        self._owners: dict[tuple[int, int], Counter[int]] = {}
        """By owner and node: the nodes that its pods come from."""
        self._bearing = _by(self.pods, lambda pod: (mark.key for mark in pod.bears))
        """By key of a mark, the pods that bear it."""
        self._spreading: dict[Spread, list[int]] = _by(self.pods, lambda pod: (*pod.spreads, *pod.counted))
        states = {spread: StagedSpread(spread, problem.stages) for spread in self._spreading}
        self.excess = sum(one.excess() for one in states.values())
        """How many pods all domains have too many before anybody moves."""
        self.spreads = [[states[spread] for spread in pod.spreads] for pod in self.pods]
        self._counting = [
            [*own, *(states[spread] for spread in pod.counted)]
            for own, pod in zip(self.spreads, self.pods, strict=True)
        ]
        self.crowds = _crowds(self.pods)
        """By pod, the replicas of its workload; None: they do not stand in for each other."""
        self._above: list[list[float]] = (
            strain.above.T.tolist() if (strain := problem.strain) is not None else []
        )
        """By node and resource; changes with every move."""
        self._reliefs: list[dict[int, float]] = [{} for _ in self.into]
        """By node, what is known of ``relief`` since the last move of one of its pods."""
        self._part: list[list[float]] = (
            (1.0 / np.maximum(strain.capacity, 1.0)).T.tolist() if strain is not None else []
        )
        self._weights: Sequence[int] = strain.weights if strain is not None else ()

    def moves_for_spread(self, paid: Iterable[int]) -> float:
        """How many moves it takes at least until no domain has too many, besides those of the pods ``paid``. Asked before anybody moves."""
        already = Counter(spread for number in paid for spread in self._counting[number])
        states = {spread for counting in self._counting for spread in counting}
        needed = sum(max(0, spread.least_moves() - already[spread]) for spread in states)
        return needed / max(map(len, self._counting), default=1) if needed else 0.0

    def solution(self) -> SearchSolution:
        """All moves."""
        return SearchSolution(dict(self.ways), tuple(self.emptied))

    def restore(self, solution: SearchSolution) -> None:
        """Go back to this."""
        kept = set(solution.emptied)
        for number in [number for number in self.emptied if number not in kept]:
            self.reopen(number)
        for number in [number for number, way in self.ways.items() if solution.ways.get(number) != way]:
            self.remove(number)
        for number in kept.difference(self.emptied):
            self.close(number)
        self.emptied = dict.fromkeys(solution.emptied)
        for number, way in solution.ways.items():
            if number not in self.ways:
                self.put(number, *way)

    def may_leave(self, number: int) -> bool:
        """True if the budgets of the pod allow it."""
        budgets = self.pods[number].budgets
        return not budgets or all(self._budgets[budget] > 0 for budget in budgets)

    def allowed(self, number: int, stage: int = 1) -> BoolArray:
        """Nodes that the pod may go to as far as room does not say."""
        return self.unbarred(number, self.allowed_alone(number) & self.open, stage)

    def allowed_alone(self, number: int) -> BoolArray:
        """The same whatever other pods do. Not to be changed."""
        known = self._allowed[number]
        if known is None:
            known = self._allowed[number] = self.pods[number].allowed()
        return known

    def unbarred(self, number: int, fits: BoolArray, stage: int = 1) -> BoolArray:
        """Those of ``fits`` (all nodes, may be changed) that other pods do not keep it off, besides by their room."""
        pod = self.pods[number]
        if pod.source >= 0:
            fits[pod.source] = False
        if pod.owner >= 0:
            for node in self._owners.get((pod.owner, pod.source), ()):
                fits[node] = False
        fits = self._marks.restrict(pod.minds, fits, stage)
        for spread in self.spreads[number]:
            fits = spread.restrict(pod.source, fits, stage)
        crowd = self.crowds[number]
        return fits if crowd is None else crowd.restrict(pod.source, fits)

    def with_room(self, number: int, fits: BoolArray, stage: int = 1) -> BoolArray:
        """Those of ``fits`` (all nodes, changed) with room for the pod."""
        fits &= np.logical_and.reduce(self.lasting[stage - 1] >= self._columns[number])
        return fits

    def room_left(self, number: int, nodes: IntArray) -> FloatArray:
        """The least share of any row that each of these nodes would have left beside the pod; below 0: it has no room."""
        beside = self.left[0][:, nodes] - self._columns[number]
        beside *= self._per_unit[:, nodes]
        left: FloatArray = np.minimum.reduce(beside)
        return left

    def room_of(self, nodes: IntArray) -> FloatArray:
        """The least share of any row that each of these nodes has free."""
        room: FloatArray = (self.left[0][:, nodes] * self._per_unit[:, nodes]).min(axis=0)
        return room

    def put(self, number: int, node: int, stage: int = 1) -> None:
        """The pod goes there."""
        self.ways[number] = Destination(node, stage)
        self.into[node][number] = None
        self._change(number, node, stage, 1)
        if (crowd := self.crowds[number]) is not None:
            crowd.move(self.pods[number].source, node)

    def remove(self, number: int) -> Destination:
        """It stays where it was after all; gives where it went."""
        way = self.ways.pop(number)
        del self.into[way.node][number]
        self._change(number, *way, -1)
        if (crowd := self.crowds[number]) is not None:
            crowd.move(way.node, self.pods[number].source)
        return way

    def close(self, number: int) -> None:
        """The source is emptied."""
        source = self.problem.sources[number]
        self.emptied[number] = None
        self.claimed.update(source.claims)
        self.price += source.price
        self._give(source, -1)

    def reopen(self, number: int) -> None:
        """It is not after all."""
        source = self.problem.sources[number]
        del self.emptied[number]
        self.claimed.difference_update(source.claims)
        self.price -= source.price
        self._give(source, 1)

    def bears(self, source: Source) -> bool:
        """True if what has come to its node may stay there once the source is emptied."""
        if source.takes is None:
            return False
        return all(self.left[0][row, source.node] >= amount for row, amount in source.takes)

    def frees(self, number: int) -> bool:
        """True if its leaving lets another one come, which a rule keeps away as long as it is there."""
        pod = self.pods[number]
        return any(self._marks.borne(mark, pod.source) > 1 for mark in pod.bears)

    def repairs(self, number: int) -> float:
        """What its move repairs, as the others stand."""
        way, pod = self.ways[number], self.pods[number]
        found = 0.0 if pod.excess else pod.repairs.get(way.node, 0.0)
        for spread in self.spreads[number]:
            found -= self.problem.fault * spread.excess()
            spread.move(pod.source, *way, -1)
            found += self.problem.fault * spread.excess()
            spread.move(pod.source, *way, 1)
        return found

    def in_the_way(self, number: int, node: int) -> InTheWay | None:
        """Who must leave so that the rules about other pods let the pod come to the node; None: others stay that keep it off."""
        pod, groups, beyond = self.pods[number], list[list[int]](), np.zeros(len(self.into), dtype=np.bool_)
        alone = np.zeros_like(beyond)
        alone[node] = True
        for mark in pod.minds:
            number_there = self._marks.remaining(mark, node)
            if number_there > 0:
                here = self._standing(self._bearing.get(mark.key, ()), mark.domains, node)
                if len(here) < number_there:
                    return None
                groups += [[other] for other in here if [other] not in groups]
                beyond |= mark.domains == mark.domains[node]
        for spread, counts in zip(pod.spreads, self.spreads[number], strict=True):
            if not counts.restrict(pod.source, alone, self.problem.stages)[node]:
                crowd = self._standing(self._spreading[spread], spread.domains, node)
                if not crowd:
                    return None
                if not any(group[0] in crowd for group in groups):
                    groups.append(crowd)
                beyond |= spread.domains == spread.domains[node]
        return InTheWay(groups, beyond)

    def _standing(self, numbers: Iterable[int], domains: IntArray, node: int) -> list[int]:
        """Those that are in the domain of the node and do not leave it; none on a node without the topology key."""
        there = int(domains[node])
        return [
            one
            for one in numbers
            if one not in self.ways and there == domain_of(domains, self.pods[one].source) >= 0
        ]

    def made_way(self, number: int) -> list[int]:
        """Those that leave before it comes because rules keep the pod off its new node as long as they are there."""
        pod, (node, stage) = self.pods[number], self.ways[number]
        domains = [(mark.domains, self._bearing.get(mark.key, ())) for mark in pod.minds]
        domains += [(spread.domains, self._spreading[spread]) for spread in pod.spreads]
        found: dict[int, None] = {}
        for codes, others in domains:
            there = int(codes[node])
            for other in others:
                way = self.ways.get(other)
                if (
                    way is not None
                    and way.stage < stage
                    and there >= 0
                    and there == domain_of(codes, self.pods[other].source) != int(codes[way.node])
                ):
                    found[other] = None
        return list(found)

    def let_in(self, number: int) -> list[int]:
        """Pods that waited, and that rules keep away as long as this one is there."""
        pod = self.pods[number]
        if not (pod.bears or pod.spreads or pod.counted):
            return []
        waited = [one for one in self.ways if self.pods[one].source < 0 and self.pods[one] is not pod]
        return [one for one in waited if number in self.made_way(one)]

    def kept_apart(self, number: int) -> list[int]:
        """Those that go somewhere and whose conflicts say where the pod may not go."""
        pod = self.pods[number]
        found = [
            other for mark in pod.minds for other in self._bearing.get(mark.key, ()) if other in self.ways
        ]
        for spread in pod.spreads:
            found += [
                other
                for other in self._spreading[spread]
                if other in self.ways
                and spread.domains[self.ways[other].node]
                != domain_of(spread.domains, self.pods[other].source)
            ]
        return list(dict.fromkeys(found))

    def relief(self, number: int) -> float:
        """By how much the strain of its node would fall without the pod."""
        pod = self.pods[number]
        reliefs = self._reliefs[pod.source]
        known = reliefs.get(number)
        if known is None:
            known = reliefs[number] = self._fall(pod, self._above[pod.source])
        return known

    def loss(self, number: int) -> float:
        """By how much it would rise again if the pod, which has left, came back."""
        pod = self.pods[number]
        back = [over + amount for over, amount in zip(self._above[pod.source], pod.takes, strict=True)]
        return self._fall(pod, back)

    def _fall(self, pod: MovablePod, above: Sequence[float]) -> float:
        part, total = self._part[pod.source], 0.0
        for resource, amount in enumerate(pod.takes):
            over = above[resource]
            if over > 0.0:
                share = over * part[resource]
                total += self._weights[resource] * fall(min(share, amount * part[resource]), share)
        return total

    def _cross(self, spread: StagedSpread, source: int, node: int, stage: int, sign: int) -> None:
        fault = self.problem.fault
        if fault:
            self.repaired += fault * spread.excess()
        spread.move(source, node, stage, sign)
        if fault:
            self.repaired -= fault * spread.excess()

    def _change(self, number: int, node: int, stage: int, sign: int) -> None:
        pod = self.pods[number]
        self.paid += sign * pod.cost
        if not pod.excess and pod.repairs:
            self.repaired += sign * pod.repairs.get(node, 0.0)
        self._take_room(pod, node, stage, sign)
        for mark in pod.bears:
            self._marks.join(mark, node, sign)
            if stage < len(self.left):
                self._marks.leave(mark, pod.source, stage, sign)
        for spread in self._counting[number]:
            self._cross(spread, pod.source, node, stage, sign)
        if pod.owner >= 0:
            origins = self._owners.setdefault((pod.owner, node), Counter())
            origins[pod.source] += sign
            if not origins[pod.source]:
                del origins[pod.source]
        for budget in pod.budgets:
            self._budgets[budget] -= sign
        if pod.takes:
            self.relieved += self.relief(number) if sign > 0 else -self.loss(number)
            above = self._above[pod.source]
            for resource, amount in enumerate(pod.takes):
                above[resource] -= sign * amount
            self._reliefs[pod.source].clear()

    def _take_room(self, pod: MovablePod, node: int, stage: int, sign: int) -> None:
        self._take(pod.needs, node, stage, sign)
        later = self._rows[stage:]
        for row, amount in pod.holds if later else ():
            for rows in later:
                rows[row][pod.source] += sign * amount
            self._keep_lasting(row, pod.source)

    def _take(self, amounts: Amounts, node: int, stage: int, sign: int) -> None:
        slack, stages, staged = 0.0, self._rows[stage - 1 :], len(self._rows) > 1
        for row, amount in amounts:
            for rows in stages:
                rows[row][node] -= sign * amount
            if staged:
                self._keep_lasting(row, node)
            slack += amount * self._slack_per_unit[row][node]
        self.fit.take(node, sign * slack, used=bool(self.into[node]))

    def _keep_lasting(self, row: int, node: int) -> None:
        """With one stage both are the same array."""
        least = np.inf
        for left, lasting in self._backwards[row]:
            least = lasting[node] = min(least, left[node])

    def _give(self, source: Source, sign: int) -> None:
        """What may come to the node of a source from now on: less for the sign -1, more again for 1."""
        if source.takes is None:
            self.open[source.node] = sign > 0 and self.problem.receives[source.node]
        else:
            self._take(source.takes, source.node, 1, -sign)


def _view(row: FloatArray) -> memoryview[float]:
    """Of the same numbers: numpy takes twice as long for a single one."""
    return cast("memoryview[float]", row.data)


def _backwards(
    rows: Sequence[Sequence[memoryview[float]]], lasting: Sequence[FloatArray]
) -> list[list[tuple[memoryview[float], memoryview[float]]]]:
    """By row, of each stage, the last first, what is left and the least of it."""
    stages = [*zip(rows, lasting, strict=True)]
    return [
        [(left[row], _view(least[row])) for left, least in reversed(stages)] for row in range(len(lasting[0]))
    ]


def _left(problem: SearchProblem) -> list[FloatArray]:
    """By stage, what is left before anybody is moved."""
    left = [problem.free.copy()]
    for _, leaving in zip_longest(range(1, problem.stages), problem.leaving, fillvalue=0.0):
        left.append(left[-1] + leaving)
    return left


def _crowds(pods: Sequence[MovablePod]) -> list[Crowd | None]:
    known = {pod.replicas: Crowd(pod.replicas) for pod in pods if pod.replicas is not None}
    return [known[pod.replicas] if pod.replicas is not None else None for pod in pods]


def table(each: Sequence[Amounts], rows: int, others: float) -> FloatArray:
    """The amounts of each as an array of the shape (each, rows); ``others``: of rows that are not named."""
    found: FloatArray = np.full((len(each), rows), others)
    for number, amounts in enumerate(each):
        for row, amount in amounts:
            found[number, row] = amount
    return found


def _by(pods: Sequence[MovablePod], names: Callable[[MovablePod], Iterable[T]]) -> dict[T, list[int]]:
    """By each of their names, the numbers of the pods that have it."""
    found: dict[T, list[int]] = {}
    for number, pod in enumerate(pods):
        for name in names(pod):
            found.setdefault(name, []).append(number)
    return found
