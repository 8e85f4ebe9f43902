"""The most nodes emptied with so many moves, as integer programs on counts of pods by kind and node. Pure.

One stage of moves; hard spread is not judged. Thresholds are percent, as HighNodeUtilization has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.optima.integer_program import IntegerProgram, Solution
from rescheduler.optima.placement import CountedCluster
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray

MOST_SIZES: Final = 512
"""Sizes of pods of which rooms are counted, about."""
_EPSILON: Final = 1e-9


@dataclass(frozen=True)
class Consolidation:
    """Which nodes may be emptied and which receive, how full these may become, and how many moves there are."""

    candidates: BoolArray
    receives: BoolArray
    limit: IntArray
    """(nodes, resources)"""
    max_moves: int | None
    prices: FloatArray
    """(nodes): what it is worth to empty each; 1 for all where nodes are counted."""

    @classmethod
    def of(
        cls,
        placement: CountedCluster,
        low: Mapping[str, float],
        high: Mapping[str, float],
        max_moves: int | None,
        *,
        among: BoolArray | None = None,
        prices: FloatArray | None = None,
    ) -> Consolidation:
        """Thresholds in percent, as HighNodeUtilization has them; ``among``: the nodes that take part."""
        size = len(placement.nodes)
        part = np.ones(size, dtype=np.bool_) if among is None else among
        return cls(
            candidates=part & (placement.start.sum(axis=0) > 0) & ~placement.kept & below(placement, low),
            receives=part & placement.occupied,
            limit=filled_to(placement, high),
            max_moves=max_moves,
            prices=np.ones(size) if prices is None else prices,
        )


def below(placement: CountedCluster, low: Mapping[str, float]) -> BoolArray:
    """Nodes that start at or below all of these thresholds, in percent."""
    load = placement.load(placement.start)
    found = np.ones(len(placement.nodes), dtype=np.bool_)
    for resource, percent in low.items():
        at = placement.resources.index(resource)
        found &= load[:, at] / placement.capacity[:, at] <= percent / 100 + _EPSILON
    return found


def filled_to(placement: CountedCluster, high: Mapping[str, float]) -> IntArray:
    """(nodes, resources): what nodes may hold, with thresholds in percent."""
    limit = placement.capacity.copy()
    for resource, percent in high.items():
        at = placement.resources.index(resource)
        limit[:, at] = np.floor(placement.capacity[:, at] * (percent / 100 + _EPSILON) + 1e-6).astype(
            np.int64
        )
    return limit


def most_emptied(placement: CountedCluster, asked: Consolidation, seconds: float) -> Solution:
    """The objective is minus the highest sum of prices of nodes that can be emptied; all pods of a node move or none."""
    program, emptied, pods = emptying(placement, asked, cost_of_price=-1.0)
    if asked.max_moves is not None:
        program.row({emptied[n]: pods[n] for n in emptied}, most=asked.max_moves)
    return program.solve(seconds)


def most_emptied_by_sizes(placement: CountedCluster, asked: Consolidation, seconds: float) -> Solution:
    """The same with less of what is true: a bound that is found for thousands of nodes, too.

    Pods may be cut in pieces that go to any node that takes one like them; but for each size that is asked for, no more pods of that
    size come than there are rooms of it on the nodes that stay. A pod that is twice as large counts twice.
    """
    program = IntegerProgram()
    pods = placement.start.sum(axis=0)
    candidates = np.flatnonzero(asked.candidates).tolist()
    emptied = {n: program.column(1.0, cost=-float(asked.prices[n])) for n in candidates}
    if asked.max_moves is not None:
        program.row({column: float(pods[n]) for n, column in emptied.items()}, most=asked.max_moves)
    room = np.where(asked.receives[:, None], np.maximum(asked.limit - placement.load(placement.start), 0), 0)
    sizes = _sizes(placement)
    times = np.stack([_times(placement.requests, size) for size in sizes])
    takes = (times > 0).astype(np.float32) @ placement.allowed.astype(np.float32) > 0
    kinds, nodes = np.nonzero(placement.start)
    for size, counted, here in zip(sizes, times, takes, strict=True):
        rooms = np.where(here, _times(room, size), 0)
        needed = np.bincount(nodes, placement.start[kinds, nodes] * counted[kinds], len(placement.nodes))
        terms = {column: float(needed[n] + rooms[n]) for n, column in emptied.items()}
        program.row(terms, most=float(rooms.sum()))
    return program.solve(seconds, gap=0.0)


def _sizes(placement: CountedCluster) -> list[IntArray]:
    """What pods ask for, of all resources together and of each by itself; of many sizes some."""
    units = np.eye(len(placement.resources), dtype=np.int64)
    alone = [amount * unit for r, unit in enumerate(units) for amount in np.unique(placement.requests[:, r])]
    together = np.unique(placement.requests * (np.array(placement.resources) != "pods"), axis=0)
    found = [size for size in (*alone, *together) if size.any()]
    return [*units, *found[:: 1 + len(found) // MOST_SIZES]]


def _times(amounts: IntArray, size: IntArray) -> IntArray:
    """How often the size is in each row of amounts as a whole."""
    named = np.flatnonzero(size)
    found: IntArray = (amounts[:, named] // size[named]).min(axis=1)
    return found


def most_emptied_by_count(placement: CountedCluster, asked: Consolidation) -> float:
    """The same if there were room for every pod and the last node could be emptied in part: the most price for each pod first."""
    pods = placement.start.sum(axis=0)[asked.candidates].astype(np.float64)
    prices = asked.prices[asked.candidates]
    if asked.max_moves is None:
        return float(prices.sum())
    order = np.argsort(-prices / pods, kind="stable")
    before = pods[order].cumsum() - pods[order]
    parts = np.clip((asked.max_moves - before) / pods[order], 0.0, 1.0)
    return float((parts * prices[order]).sum())


def most_arriving(placement: CountedCluster, asked: Consolidation) -> IntArray:
    """(kinds, nodes): how many pods of a kind may come to a node at most, if no other comes."""
    room = np.maximum(asked.limit - placement.load(placement.start), 0)
    most = np.repeat(placement.start.sum(axis=1)[:, None], len(placement.nodes), axis=1)
    for r in range(len(placement.resources)):
        needed = placement.requests[:, r]
        fit = room[:, r][None, :] // np.maximum(needed, 1)[:, None]
        most = np.where(needed[:, None] > 0, np.minimum(most, fit), most)
    apart = np.array([bool(kind.apart) for kind in placement.kinds], dtype=np.bool_)[:, None]
    most = np.where(apart, np.minimum(most, 1), most)
    closed = ~placement.allowed | ~asked.receives[None, :] | (apart & (placement.start > 0))
    found: IntArray = np.where(closed, 0, most)
    return found


def emptying(
    placement: CountedCluster, asked: Consolidation, *, cost_of_price: float = 0.0, cost_of_move: float = 0.0
) -> tuple[IntegerProgram, dict[int, int], dict[int, float]]:
    """The program, its columns of the nodes to be emptied, and how many pods these hold."""
    program = IntegerProgram()
    start = placement.start
    pods = {n: float(start[:, n].sum()) for n in np.flatnonzero(asked.candidates).tolist()}
    costs = {n: cost_of_price * float(asked.prices[n]) + cost_of_move * pods[n] for n in pods}
    emptied = {n: program.column(1.0, cost=cost) for n, cost in costs.items()}
    most = most_arriving(placement, asked)
    arriving: dict[tuple[int, int], int] = {}
    for k in range(len(placement.kinds)):
        balance = {emptied[n]: -float(start[k, n]) for n in np.flatnonzero(start[k]).tolist() if n in emptied}
        for n in np.flatnonzero(most[k]).tolist():
            limit = float(most[k, n])
            arriving[k, n] = program.column(limit)
            balance[arriving[k, n]] = 1.0
            if n in emptied:
                # Room says so, too; but without this the bound is weak, and pods that ask for nothing would still come.
                program.row({arriving[k, n]: 1.0, emptied[n]: limit}, most=limit)
        program.row(balance, least=0.0, most=0.0)
    _rooms(program, placement, asked, emptied, arriving)
    return program, emptied, pods


def _rooms(
    program: IntegerProgram,
    placement: CountedCluster,
    asked: Consolidation,
    emptied: Mapping[int, int],
    arriving: Mapping[tuple[int, int], int],
) -> None:
    """What comes fits beside all that stands at the start; nothing comes to a node that is emptied."""
    load, totals = placement.load(placement.start), placement.start.sum(axis=1)
    at_node: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for (k, n), column in arriving.items():
        at_node[n][k] = column
    for n, coming in at_node.items():
        for r in range(len(placement.resources)):
            room = max(float(asked.limit[n, r] - load[n, r]), 0.0)
            terms = {column: float(placement.requests[k, r]) for k, column in coming.items()}
            if sum(float(totals[k] * placement.requests[k, r]) for k in coming) <= room:
                continue
            if n in emptied:
                terms[emptied[n]] = room
            program.row(terms, most=room)
