"""The moves that a plan holds so far, and what they bring to each node and take from it.

The what-if state has their replacements in place and their old pods gone. What it no longer tells is which room
those old pods still hold, and how the cluster was before the plan: that is told here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.scheduling.amounts import held_amount
from rescheduler.scheduling.framework import IntArray


class PlannedMove(NamedTuple):
    """One planned move, or one that is under way: the old pod still holds its room on ``source``."""

    pod: Pod
    replacement: Pod
    """As it stands on ``target`` in the what-if state."""
    source: int
    """Index of the node that the old pod leaves."""
    target: int
    """Index of the node that the replacement goes to."""
    stage: int = 1
    """Of the plan: 1 begins at once, a later one after moves of the stages before it."""
    unadopted: Pod | None = None
    """In mode StartFirst: what stands on ``target`` with other labels before the ReplicaSet adopts it."""


def others(moves: Iterable[PlannedMove], landed: Sequence[PlannedMove]) -> list[PlannedMove]:
    """The moves that have not landed."""
    gone = {move.pod.uid for move in landed}
    return [move for move in moves if move.pod.uid not in gone]


def cover(pods: Iterable[Pod], missing: Iterable[tuple[str, int]]) -> bool:
    """True if these pods hold as much together of each resource as is missing."""
    leaving = tuple(pods)
    return all(sum(held_amount(pod, name) for pod in leaving) >= amount for name, amount in missing)


class PlannedMoves:
    """All of them, the oldest first; the last one can be taken back."""

    def __init__(self, size: int) -> None:
        """``size``: how many nodes there are."""
        self.moves: list[PlannedMove] = []
        self.expected: IntArray = np.zeros(size, dtype=np.int64)
        """Pending pods that are taken as bound to each node, where the scheduler would put them now: nothing holds them there."""
        self._size = size
        self._arrived: dict[tuple[str, bool], IntArray] = {}
        self._departed: dict[tuple[str, bool], IntArray] = {}
        """By resource, and whether kube-scheduler's defaults count (``scheduling.amounts``)."""
        self._stages: dict[str, int] = {}
        """By uid of the pod that moves."""
        self._ways: dict[tuple[str, int], list[int]] = {}
        """(uid of a controller, node that its pods go to) -> the nodes that they leave for it."""

    def add(self, move: PlannedMove) -> None:
        """Plan one more."""
        self.moves.append(move)
        self._stages[move.pod.uid] = move.stage
        self._carry(move, 1)
        if move.pod.controller is not None:
            self._ways.setdefault((move.pod.controller.uid, move.target), []).append(move.source)

    def pop(self) -> PlannedMove:
        """Take the last one back."""
        last = self.moves.pop()
        self._stages.pop(last.pod.uid, None)
        self._carry(last, -1)
        if last.pod.controller is not None:
            self._ways[last.pod.controller.uid, last.target].pop()
        return last

    @contextmanager
    def without(self, landed: Sequence[PlannedMove]) -> Iterator[None]:
        """Meanwhile these moves are done: they are none of ``moves``, and their old pods hold nothing."""
        moves, self.moves = self.moves, others(self.moves, landed)
        for move in landed:
            self._stages.pop(move.pod.uid, None)
            self._carry(move, -1)
        try:
            yield
        finally:
            self.moves = moves
            for move in landed:
                self._stages[move.pod.uid] = move.stage
                self._carry(move, 1)

    def stage_of(self, uid: str) -> int:
        """The stage of the move of a pod; 0: it is not planned."""
        return self._stages.get(uid, 0)

    def left_for(self, node: int, pod: Pod) -> list[int]:
        """Nodes that pods of the same controller leave for this one in any stage: a pod that went back would only swap with them."""
        return [] if pod.controller is None else self._ways.get((pod.controller.uid, node), [])

    def arrived(self, resource: str, *, defaults: bool = False) -> IntArray:
        """What the moves bring to each node. Do not change the array. ``defaults``: see ``scheduling.amounts``."""
        found = self._arrived.get((resource, defaults))
        if found is None:
            found = self._arrived[resource, defaults] = np.zeros(self._size, dtype=np.int64)
            for move in self.moves:
                found[move.target] += held_amount(move.replacement, resource, defaults=defaults)
        return found

    def departed(self, resource: str, *, defaults: bool = False) -> IntArray:
        """What the moves take from each node. Do not change the array."""
        found = self._departed.get((resource, defaults))
        if found is None:
            found = self._departed[resource, defaults] = np.zeros(self._size, dtype=np.int64)
            for move in self.moves:
                found[move.source] += held_amount(move.pod, resource, defaults=defaults)
        return found

    def _carry(self, move: PlannedMove, step: int) -> None:
        for (resource, defaults), total in self._arrived.items():
            total[move.target] += step * held_amount(move.replacement, resource, defaults=defaults)
        for (resource, defaults), total in self._departed.items():
            total[move.source] += step * held_amount(move.pod, resource, defaults=defaults)
