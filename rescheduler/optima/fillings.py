"""The most nodes emptied and the least excess with so many moves, as integer programs on counts of pods by kind and node. Pure.

One stage of moves, with the rules of ``rescheduler.optima.repairs``. Thresholds are percent, as HighNodeUtilization and LowNodeUtilization have them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.optima.integer_program import IntegerProgram, Solution
from rescheduler.optima.placement import CountedCluster, resource_of
from rescheduler.optima.repairs import LinearExpression, Terms, negative, spread_rows, strain_above
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
    any_order: bool = False
    """Hard spread is not judged (``repairs``)."""

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
        any_order: bool = False,
    ) -> Consolidation:
        """Thresholds in percent, as HighNodeUtilization has them; ``among``: the nodes that take part."""
        size = len(placement.nodes)
        part = np.ones(size, dtype=np.bool_) if among is None else among
        return cls(
            candidates=part & (placement.start.sum(axis=0) > 0) & ~placement.kept & _below(placement, low),
            receives=part & placement.occupied,
            limit=filled_to(placement, high),
            max_moves=max_moves,
            prices=np.ones(size) if prices is None else prices,
            any_order=any_order,
        )


def _below(placement: CountedCluster, low: Mapping[str, float]) -> BoolArray:
    """Nodes that start at or below all of these thresholds, in percent."""
    load = placement.load(placement.start)
    below = np.ones(len(placement.nodes), dtype=np.bool_)
    for resource, percent in low.items():
        at = placement.resources.index(resource)
        below &= load[:, at] / placement.capacity[:, at] <= percent / 100 + _EPSILON
    return below


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
    program, emptied, pods = _emptying(placement, asked, cost_of_price=-1.0)
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


def fewest_emptying_moves(
    placement: CountedCluster, asked: Consolidation, nodes: int, seconds: float
) -> Solution:
    """Fewest moves that empty so many nodes."""
    program, emptied, _ = _emptying(placement, asked, cost_of_move=1.0)
    program.row(dict.fromkeys(emptied.values(), 1.0), least=nodes)
    return program.solve(seconds)


def cheapest_emptying(
    placement: CountedCluster, asked: Consolidation, nodes: int, seconds: float
) -> Solution:
    """Least sum of ``prices``, which are what it costs to empty each node, for which so many nodes are emptied."""
    program, emptied, _ = _emptying(placement, asked, cost_of_price=1.0)
    program.row(dict.fromkeys(emptied.values(), 1.0), least=nodes)
    return program.solve(seconds)


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


def _emptying(
    placement: CountedCluster, asked: Consolidation, *, cost_of_price: float = 0.0, cost_of_move: float = 0.0
) -> tuple[IntegerProgram, dict[int, int], dict[int, float]]:
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
    if not asked.any_order:
        spread_rows(program, placement, _after(placement, emptied, arriving), arriving)
    return program, emptied, pods


def _after(
    placement: CountedCluster, emptied: Mapping[int, int], arriving: Mapping[tuple[int, int], int]
) -> list[list[LinearExpression]]:
    """Pods of each kind on each node in the end."""
    found: list[list[LinearExpression]] = []
    for k, row in enumerate(placement.start.tolist()):
        after = [LinearExpression(float(count), {}) for count in row]
        for n, count in enumerate(row):
            if n in emptied and count:
                after[n] = after[n].plus({emptied[n]: -float(count)})
            if (k, n) in arriving:
                after[n] = after[n].plus({arriving[k, n]: 1.0})
        found.append(after)
    return found


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


def _most_that_fit(placement: CountedCluster, room: IntArray, kind: int) -> int:
    """Pods of a kind that fit into the room of a node, and that there are."""
    asked, most = placement.requests[kind], int(placement.start[kind].sum())
    fit = min([most, *(int(room[r] // asked[r]) for r in np.flatnonzero(asked).tolist())])
    return max(0, min(fit, 1) if placement.kinds[kind].apart else fit)


@dataclass(frozen=True)
class Relief:
    """Target thresholds in percent, who may receive, and how many moves there are."""

    high: dict[str, float]
    free: BoolArray
    limit: IntArray
    max_moves: int | None
    any_order: bool = False
    """Hard spread is not judged (``repairs``)."""

    @classmethod
    def of(
        cls,
        placement: CountedCluster,
        low: dict[str, float],
        high: dict[str, float],
        max_moves: int | None,
        *,
        any_order: bool = False,
    ) -> Relief:
        """Thresholds as LowNodeUtilization has them."""
        return cls(high, _below(placement, low), filled_to(placement, high), max_moves, any_order)


def least_excess(placement: CountedCluster, asked: Relief, seconds: float) -> Solution:
    """Least sum over nodes and resources of how bad the share above the target threshold is (``CountedCluster.excess``)."""
    program, moves, excess, _ = _relieving(placement, asked)
    if asked.max_moves is not None:
        program.row(dict.fromkeys(moves, 1.0), most=asked.max_moves)
    total = program.column(cost=1.0, integer=False)
    program.row({total: 1.0, **negative(dict.fromkeys(excess, 1.0))}, least=0.0)
    return program.solve(seconds, gap=1e-3)


def coolest(placement: CountedCluster, asked: Relief, seconds: float) -> Solution:
    """Least that any node is above its target threshold, in the resource where that is most."""
    program, moves, _, above = _relieving(placement, asked)
    if asked.max_moves is not None:
        program.row(dict.fromkeys(moves, 1.0), most=asked.max_moves)
    most = program.column(cost=1.0, integer=False)
    for value in above:
        program.row({most: 1.0, **negative(value.terms)}, least=value.constant)
    return program.solve(seconds, gap=1e-3)


def fewest_relieving_moves(placement: CountedCluster, asked: Relief, left: float, seconds: float) -> Solution:
    """Fewest moves that leave no more than so much excess."""
    program, moves, excess, _ = _relieving(placement, asked)
    total = program.column(cost=1.0)
    program.row({total: 1.0, **negative(dict.fromkeys(moves, 1.0))}, least=0.0)
    program.row(dict.fromkeys(excess, 1.0), most=left + 1e-6)
    return program.solve(seconds)


def _relieving(
    placement: CountedCluster, asked: Relief
) -> tuple[IntegerProgram, list[int], list[int], list[LinearExpression]]:
    """The program, its columns that count moves, those that are the excess of a node and a resource, and how far these are above."""
    program = IntegerProgram()
    start, load = placement.start, placement.load(placement.start)
    named = [placement.resources.index(r) for r in asked.high]
    share = {placement.resources.index(r): percent / 100 for r, percent in asked.high.items()}
    over = [n for n in range(len(placement.nodes))
            if any(load[n, r] / placement.capacity[n, r] > share[r] + _EPSILON for r in named)]  # fmt: skip
    leaving: dict[tuple[int, int], int] = {}
    arriving: dict[tuple[int, int], int] = {}
    after: list[list[LinearExpression]] = []
    for k, kind in enumerate(placement.kinds):
        balance: Terms = {}
        row = [LinearExpression(float(count), {}) for count in start[k].tolist()]
        for n in over:
            if start[k, n]:
                leaving[k, n] = program.column(float(start[k, n]))
                balance[leaving[k, n]] = -1.0
                row[n] = row[n].plus({leaving[k, n]: -1.0})
        for n in np.flatnonzero(asked.free & placement.allowed[k]).tolist():
            most = _most_that_fit(placement, asked.limit[n] - load[n], k)
            if most and not (kind.apart and start[k, n]) and balance:
                arriving[k, n] = program.column(float(most))
                balance[arriving[k, n]] = 1.0
                row[n] = row[n].plus({arriving[k, n]: 1.0})
        program.row(balance, least=0.0, most=0.0)
        after.append(row)
    for n in np.flatnonzero(asked.free).tolist():
        for r in range(len(placement.resources)):
            terms = {c: float(placement.requests[k, r]) for (k, at), c in arriving.items() if at == n}
            program.row(terms, most=max(float(asked.limit[n, r] - load[n, r]), 0.0))
    excess, above = [], []
    for n in over:
        for r in named:
            size = float(placement.capacity[n, r])
            gone = {c: -float(placement.requests[k, r]) / size for (k, at), c in leaving.items() if at == n}
            value = LinearExpression(float(load[n, r]) / size, gone)
            above.append(LinearExpression(value.constant - share[r], gone))
            excess.append(strain_above(program, value, share[r], resource_of(placement.resources[r])))
    spread_rows(program, placement, after, {} if asked.any_order else arriving)
    return program, list(arriving.values()), excess, above
