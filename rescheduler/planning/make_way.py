"""Pods are put somewhere, and where nothing has room for one, pods that were put there before make way and are put elsewhere in their turn.

Those make way that were in the way least often so far, the smallest of them. No chance is in it, and the number of such attempts is
given. Pure, but for the state.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final, Protocol

from rescheduler.planning.search_state import SearchState

LOOKED_AT: Final = 48
"""Nodes on which room for a pod is looked for, those with the most room."""


class PutsPods(Protocol):
    """Who puts them."""

    state: SearchState
    looks: float
    sizes: list[float]
    """Of each pod."""
    needs: list[dict[int, float]]
    """By pod and row."""

    def best_fit(self, number: int) -> int:
        """Where the pod is put; -1: no node takes it."""
        ...


def put_making_way(putting: PutsPods, waiting: list[int], attempts: int) -> bool:
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


def _least_in_the_way(
    putting: PutsPods, number: int, failures: Mapping[int, int]
) -> tuple[int, Sequence[int]]:
    """A node that takes the pod once one or two others have left it, the smallest that failed least often; -1: there is none."""
    putting.looks += 1
    state = putting.state
    fits = state.allowed(number)
    nodes = [node for node in dict.fromkeys(way.node for way in state.ways.values()) if fits[node]]
    if len(nodes) > LOOKED_AT:
        nodes = sorted(nodes, key=lambda node: (-state.slack[node], node))[:LOOKED_AT]
    least = math.inf
    best: tuple[int, Sequence[int]] = -1, ()
    for node in nodes:
        lack = {
            row: float(amount - state.left[0][row, node])
            for row, amount in state.pods[number].needs
            if amount > state.left[0][row, node]
        }
        small: list[tuple[float, int]] = []
        for guest in state.into[node]:
            cost = (1 + failures.get(guest, 0)) * putting.sizes[guest]
            if cost >= least:
                continue
            if _cover(putting, lack, guest):
                least, best = cost, (node, (guest,))
            else:
                small.append((cost, guest))
        for (one, guest), (two, other) in combinations(small, 2):
            if one + two < least and _cover(putting, lack, guest, other):
                least, best = one + two, (node, (guest, other))
    return best


def _cover(putting: PutsPods, lack: Mapping[int, float], *guests: int) -> bool:
    """True if what these leave makes up for what a node has too little of."""
    needs = [putting.needs[guest] for guest in guests]
    return all(sum(one.get(row, 0.0) for one in needs) >= amount for row, amount in lack.items())
