"""Replicas of one workload kept apart while nodes are emptied: the last step of that search. Pure.

``empty`` packs pods closely to learn which nodes can be emptied together. Once that is known, a pod goes to a node with fewer replicas
of its workload that has room and is not to be emptied later, or changes places with another one that moves anyway, if no more of that
one's replicas share a node and a zone then. The same nodes are emptied by moves of the same pods. Policy WorkloadSpread says whose
replicas count.
"""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np

from rescheduler.planning.empty import Empty
from rescheduler.planning.problem import SearchSolution
from rescheduler.planning.search import SOME_NODES, SOME_PODS
from rescheduler.scheduling.framework import BoolArray

LOOKS_PER_PASS: Final = 64
"""So often it is looked for a node for a pod at most, for each pass of the search. Those go first of which most replicas are together."""
_ROUNDS: Final = 2


def kept_apart(operator: Empty, found: SearchSolution, passes: int) -> SearchSolution:
    """``found`` by ``operator``, with fewer replicas of a workload together."""
    operator.state.restore(found)
    apart = _Apart(operator)
    most = operator.looks + LOOKS_PER_PASS * passes
    for number in _ROUNDS * sorted(found.ways, key=apart.least_apart_first):
        if operator.looks >= most:
            break
        apart.change_places(number)
    return operator.state.solution()


class _Apart:
    """The moves of a solution, which change."""

    def __init__(self, operator: Empty) -> None:
        self._operator = operator
        self._state = state = operator.state
        self._crowds = state.crowds
        self._receives: BoolArray = np.array([bool(pods) for pods in state.into], dtype=np.bool_)
        """Nodes to which pods go."""
        self._stays = self._nodes_that_stay()
        """Nodes with room that another plan will not empty, either."""
        self._receiving = int((self._receives | self._stays).sum())

    def _nodes_that_stay(self) -> BoolArray:
        problem = self._state.problem
        found = self._state.open.copy()
        others = [source for at, source in enumerate(problem.sources) if at not in self._state.emptied]
        if any(source.takes is not None for source in problem.sources):
            found[:] = False  # what is free there is room for something else
        elif problem.most_moves is not None:
            rest = problem.most_moves - len(self._state.ways)
            # Those for which only moves are short are emptied by the next plan.
            found[[source.node for source in others if len(source.pods) > rest]] = False
        return found

    def least_apart_first(self, number: int) -> tuple[float, float, int]:
        """The order in which pods are looked at."""
        crowd = self._crowds[number]
        share = crowd.share(self._state.ways[number].node) if crowd is not None else 0.0
        return -share, -self._operator.sizes[number], number

    def change_places(self, number: int) -> None:
        """If there are too many of its replicas, it goes to the node with the fewest that has room.

        Or it and another pod take each other's place, where then there are fewer of either: one on a node with the fewest
        replicas of its workload, and nearest in size there.
        """
        mine, here = self._crowds[number], self._state.ways[number].node
        if mine is None or not mine.is_crowded(here, self._receiving):
            return
        self._take_off(number)
        allowed = self._allowed(number, here)
        roomy = np.flatnonzero(self._state.with_room(number, allowed & self._stays))
        if len(roomy):
            together = mine.together(roomy)
            first = int(np.lexsort((roomy, self._state.fit.slack[roomy], together))[0])
            if together[first] < mine.at(here):
                self._put(number, int(roomy[first]))
                return
        nodes = np.flatnonzero(allowed & self._receives)
        together = mine.together(nodes)
        order = np.argsort(together, kind="stable")[:SOME_NODES]
        for node in nodes[order[together[order] < mine.at(here)]].tolist():
            if any(self._changed(number, here, other, node) for other in self._partners(number, node)):
                return
        self._put(number, here)

    def _partners(self, number: int, node: int) -> list[int]:
        """Of the pods that go to the node those nearest in size."""
        size, sizes = self._operator.sizes[number], self._operator.sizes
        return heapq.nsmallest(
            SOME_PODS, self._state.into[node], key=lambda one: (abs(sizes[one] - size), one)
        )

    def _changed(self, number: int, here: int, other: int, there: int) -> bool:
        """True if the one that was taken off goes ``there``, and the other one comes ``here`` for it."""
        crowd = self._crowds[other]
        self._take_off(other)
        closer = crowd is not None and crowd.at(here) > crowd.at(there)
        if not closer and self._takes(there, number, here):
            self._put(number, there)
            if self._takes(here, other, there):
                self._put(other, here)
                return True
            self._take_off(number)
        self._put(other, there)
        return False

    def _takes(self, node: int, number: int, before: int) -> bool:
        fits = self._state.with_room(number, self._allowed(number, before))
        return bool(fits[node])

    def _allowed(self, number: int, before: int) -> BoolArray:
        """Nodes that it may go to, and that it likes no less than the one before."""
        self._operator.looks += 1
        allowed, liked = self._state.allowed(number), self._state.pods[number].liked
        return allowed & liked if liked is not None and liked[before] else allowed

    def _take_off(self, number: int) -> None:
        """Meanwhile it is nowhere."""
        self._state.remove(number)
        if (crowd := self._crowds[number]) is not None:
            crowd.add(self._state.pods[number].source, -1)

    def _put(self, number: int, node: int) -> None:
        if (crowd := self._crowds[number]) is not None:
            crowd.add(self._state.pods[number].source, 1)
        self._state.put(number, node)
