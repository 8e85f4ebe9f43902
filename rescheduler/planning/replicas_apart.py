"""Replicas of one workload kept apart while nodes are emptied: the last step of that search. Pure.

``empty`` packs pods closely to learn which nodes can be emptied together. Once that is known, a pod changes places with another one
that moves anyway, if then fewer replicas of its workload share a node and a zone, and no more of the other one's do. The same nodes
are emptied by moves of the same pods, and what is free stays where it is. Policy WorkloadSpread says whose replicas count.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from rescheduler.planning.empty import Empty
from rescheduler.planning.problem import SearchSolution
from rescheduler.planning.search import SOME_NODES, SOME_PODS
from rescheduler.scheduling.framework import BoolArray, IntArray

LOOKS_PER_PASS: Final = 64
"""So often it is looked for a node for a pod at most, for each pass of the search. Those go first of which most replicas are together."""
_ROUNDS: Final = 2


def kept_apart(
    operator: Empty, found: SearchSolution, crowds: Sequence[Crowd | None], passes: int
) -> SearchSolution:
    """``found`` by ``operator``, with fewer replicas of a workload together. ``crowds``: by pod, where its replicas are now."""
    operator.state.restore(found)
    apart = _Apart(operator, crowds)
    most = operator.looks + LOOKS_PER_PASS * passes
    for number in _ROUNDS * sorted(found.ways, key=apart.least_apart_first):
        if operator.looks >= most:
            break
        apart.change_places(number)
    return operator.state.solution()


class _Apart:
    """The moves of a solution, which change, and where they leave the replicas of each workload."""

    def __init__(self, operator: Empty, crowds: Sequence[Crowd | None]) -> None:
        self._operator = operator
        self._state = state = operator.state
        self._crowds = crowds
        for number, way in state.ways.items():
            if (crowd := crowds[number]) is not None:
                crowd.add(state.pods[number].source, -1)
                crowd.add(way.node, 1)
        self._receives: BoolArray = np.array([bool(pods) for pods in state.into], dtype=np.bool_)
        """Nodes to which pods go."""
        self._receiving = int(self._receives.sum())

    def least_apart_first(self, number: int) -> tuple[float, float, int]:
        """The order in which pods are looked at."""
        crowd = self._crowds[number]
        share = crowd.share(self._state.ways[number].node) if crowd is not None else 0.0
        return -share, -self._operator.sizes[number], number

    def change_places(self, number: int) -> None:
        """If there are too many of its replicas, it and another pod take each other's place, where then there are fewer of either.

        The other one is on one of the nodes with the fewest replicas of its workload, and nearest in size there.
        """
        mine, here = self._crowds[number], self._state.ways[number].node
        if mine is None or not mine.is_crowded(here, self._receiving):
            return
        self._take_off(number)
        nodes = np.flatnonzero(self._allowed(number, here) & self._receives)
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
        node = self._state.remove(number).node
        if (crowd := self._crowds[number]) is not None:
            crowd.add(node, -1)

    def _put(self, number: int, node: int) -> None:
        self._state.put(number, node)
        if (crowd := self._crowds[number]) is not None:
            crowd.add(node, 1)


class Crowd:
    """Where the replicas of one workload are."""

    def __init__(self, replicas: Mapping[int, int], zones: IntArray) -> None:
        self._all = sum(replicas.values())
        self._zones = zones
        self._by_node, self._by_zone = Counter[int](), Counter[int]()
        for node, number in replicas.items():
            self.add(node, number)

    def add(self, node: int, number: int) -> None:
        """So many more are on the node."""
        self._by_node[node] += number
        self._by_zone[int(self._zones[node])] += number

    def share(self, node: int) -> float:
        """The part of them that is on the node."""
        return self._by_node[node] / self._all

    def is_crowded(self, node: int, nodes: int) -> bool:
        """True if more are on the node than a part for each of so many ``nodes``, or in its zone than a part for each zone."""
        on, within = self._by_node[node], self._by_zone[int(self._zones[node])]
        return on > math.ceil(self._all / nodes) or within > math.ceil(self._all / len(self._by_zone))

    def at(self, node: int) -> int:
        """How many are on the node, and again how many are in its zone."""
        return self._by_node[node] + self._by_zone[int(self._zones[node])]

    def together(self, nodes: IntArray) -> IntArray:
        """``at`` of each of these nodes."""
        return np.array([self.at(node) for node in nodes.tolist()], dtype=np.int64)
