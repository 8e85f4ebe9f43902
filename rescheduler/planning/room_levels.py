"""How many moves room for a pod takes at least, as numbers: what a search need not look at. Pure.

A pod that stands is of level 0 if some node has free resources enough for it now, of level 1 if one where another pod leaves first
has, and so on. On a node where something is missing, the pods that leave cover it; each of them counts one move, and its level more.

Promises: the numbers are lower bounds of what the scheduler's rules ask for, as the cluster stood when they were made; a
plan only takes room, so they stay so. They cost some operations on arrays for each resource, whatever the number of pods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.planning.trial import Trial
from rescheduler.policies.planned_moves import taken_of
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray, IntArray

NEVER: Final = 99
"""Level of pods for which no room is in sight."""
_MOST_KINDS: Final = 4_000
"""With more kinds of pods all of them are taken as of level 0: to ask for each would take longer than it saves."""

Needs = Sequence[tuple[str, int]]
"""What a pod asks a node for, by resource, "pods" included."""


class FreeRoom:
    """What is free on each node while the pods that leave still hold their rooms, in one trial."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._version = -1
        self._by_resource: dict[str, IntArray] = {}
        """Of that version of the trial."""

    def of(self, resource: str) -> IntArray:
        """On every node. Do not change the array."""
        trial = self._trial
        if self._version != trial.version:
            self._version = trial.version
            self._by_resource.clear()
        known = self._by_resource.get(resource)
        if known is None:
            state = trial.state
            known = state.allocatable(resource) - state.requested(resource) - trial.planned.departed(resource)
            self._by_resource[resource] = known
        return known

    def at(self, resource: str, node: int) -> int:
        """On one node."""
        state, leaving = self._trial.state, self._trial.planned.departed(resource)
        return int(state.allocatable(resource)[node] - state.requested(resource)[node] - leaving[node])


class RoomLevels:
    """The pods that may leave, in one moment of a trial."""

    def __init__(
        self,
        trial: Trial,
        replacement: Callable[[Pod], Pod],
        may_leave: Callable[[Pod], bool],
        deepest: int,
    ) -> None:
        """``deepest``: levels beyond it are not told apart."""
        self._trial, self._replacement = trial, replacement
        self.free = FreeRoom(trial)
        self._size = trial.state.nodes.size
        kinds: list[PodClass] = []
        nodes: list[int] = []
        numbers: list[int] = []
        for kind in list(trial.state.cluster.classes):
            leaving = [node for pod, node in zip(kind.pods, kind.nodes, strict=True) if may_leave(pod)]
            if leaving:
                numbers += [len(kinds)] * len(leaving)
                nodes += leaving
                kinds.append(kind)
        self._kinds = kinds
        self._nodes: IntArray = np.array(nodes, dtype=np.int64)
        self._numbers: IntArray = np.array(numbers, dtype=np.int64)
        self._held: dict[str, IntArray] = {}
        self._largest: dict[tuple[str, int], IntArray] = {}
        self._sums: dict[tuple[str, int], IntArray] = {}
        self._levels = np.full(len(kinds), NEVER, dtype=np.int64)
        self._number_of = {kind: number for number, kind in enumerate(kinds)}
        self._level_of: dict[str, int] = {}
        """By uid."""
        self._find_levels(deepest)

    def level(self, pod: Pod) -> int:
        """How many other pods must make room before this one can leave, at least."""
        known = self._level_of.get(pod.uid)
        if known is None:
            number = self._number_of.get(self._trial.state.cluster.kind_of(pod))
            known = self._level_of[pod.uid] = NEVER if number is None else int(self._levels[number])
        return known

    def within(self, needs: Needs, moves: int) -> BoolArray:
        """Nodes on which so many moves may make room enough."""
        found: BoolArray = np.zeros(self._size, dtype=np.bool_)
        missing = [(name, needed - self.free.of(name)) for name, needed in needs]
        for level in range(moves):
            enough: BoolArray = np.ones(self._size, dtype=np.bool_)
            for name, lack in missing:
                enough &= lack <= self._largest_of(name, level) + self._sum_of(name, moves - 1 - level)
            found |= enough
        return found

    def _find_levels(self, deepest: int) -> None:
        if len(self._kinds) > _MOST_KINDS:
            self._levels[:] = 0
            return
        needs = [self._trial.needs(self._replacement(kind.pods[0])) for kind in self._kinds]
        for level in range(deepest + 1):
            found = [
                number
                for number in np.flatnonzero(self._levels == NEVER).tolist()
                if bool(
                    (
                        self._without_moves(needs[number]) if not level else self.within(needs[number], level)
                    ).any()
                )
            ]
            self._levels[found] = level

    def _without_moves(self, needs: Needs) -> BoolArray:
        enough: BoolArray = np.ones(self._size, dtype=np.bool_)
        for name, needed in needs:
            enough &= self.free.of(name) >= needed
        return enough

    def _amounts(self, name: str) -> IntArray:
        known = self._held.get(name)
        if known is None:
            by_kind = np.array([taken_of(kind.held, name) for kind in self._kinds], dtype=np.int64)
            known = self._held[name] = by_kind[self._numbers] if len(self._kinds) else by_kind
        return known

    def _largest_of(self, name: str, level: int) -> IntArray:
        """The most that one pod up to this level holds on each node."""
        known = self._largest.get((name, level))
        if known is None:
            known = self._largest[name, level] = np.zeros(self._size, dtype=np.int64)
            some = self._levels[self._numbers] <= level
            np.maximum.at(known, self._nodes[some], self._amounts(name)[some])
        return known

    def _sum_of(self, name: str, most: int) -> IntArray:
        """The most that so many pods of level 0 hold together on each node."""
        known = self._sums.get((name, most))
        if known is None:
            some = self._levels[self._numbers] == 0
            nodes, amounts = self._nodes[some], self._amounts(name)[some]
            order = np.lexsort((-amounts, nodes))
            nodes, amounts = nodes[order], amounts[order]
            rank = np.arange(len(nodes)) - np.searchsorted(nodes, nodes)
            first = rank < most
            sums = np.bincount(nodes[first], weights=amounts[first], minlength=self._size)
            known = self._sums[name, most] = sums.astype(np.int64)
        return known
