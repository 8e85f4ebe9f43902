"""Exact models that plans are measured against, besides those of ``plan --prove`` (``rescheduler.optima``). Pure.

The fewest or cheapest moves that empty or relieve nodes, and the least excess that moves can leave.
Thresholds are percent, as HighNodeUtilization and LowNodeUtilization have them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.staged_repairs import repairs_in_stages, spread_rows
from rescheduler.optima.any_plan import LinearExpression, Terms, negative, strain_above
from rescheduler.optima.fillings import Consolidation, below, emptying, filled_to
from rescheduler.optima.integer_program import IntegerProgram, Solution
from rescheduler.optima.placement import CountedCluster, resource_of
from rescheduler.scheduling.framework import BoolArray, IntArray

_EPSILON: Final = 1e-9


def fewest_repairing_moves(
    placement: CountedCluster, stages: int, left: int, seconds: float, *, any_order: bool = False
) -> Solution:
    """Fewest moves that leave no more than ``left`` violations."""
    repairs = repairs_in_stages(placement, stages, cost_of_move=1.0, any_order=any_order)
    repairs.program.row(repairs.violations.terms, most=left - repairs.violations.constant)
    return repairs.program.solve(seconds)


def fewest_emptying_moves(
    placement: CountedCluster, asked: Consolidation, nodes: int, seconds: float
) -> Solution:
    """Fewest moves that empty so many nodes."""
    program, emptied, _ = emptying(placement, asked, cost_of_move=1.0)
    program.row(dict.fromkeys(emptied.values(), 1.0), least=nodes)
    return program.solve(seconds)


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
    """Hard spread is not judged (``staged_repairs``)."""

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
        return cls(high, below(placement, low), filled_to(placement, high), max_moves, any_order)


def least_excess(placement: CountedCluster, asked: Relief, seconds: float) -> Solution:
    """Least sum over nodes and resources of how bad the share above the target threshold is (``CountedCluster.excess``)."""
    program, moves, excess = _relieving(placement, asked)
    if asked.max_moves is not None:
        program.row(dict.fromkeys(moves, 1.0), most=asked.max_moves)
    total = program.column(cost=1.0, integer=False)
    program.row({total: 1.0, **negative(dict.fromkeys(excess, 1.0))}, least=0.0)
    return program.solve(seconds, gap=1e-3)


def fewest_relieving_moves(placement: CountedCluster, asked: Relief, left: float, seconds: float) -> Solution:
    """Fewest moves that leave no more than so much excess."""
    program, moves, excess = _relieving(placement, asked)
    total = program.column(cost=1.0)
    program.row({total: 1.0, **negative(dict.fromkeys(moves, 1.0))}, least=0.0)
    program.row(dict.fromkeys(excess, 1.0), most=left + 1e-6)
    return program.solve(seconds)


def _relieving(placement: CountedCluster, asked: Relief) -> tuple[IntegerProgram, list[int], list[int]]:
    """The program, its columns that count moves, and those that are the excess of a node and a resource."""
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
    excess = []
    for n in over:
        for r in named:
            size = float(placement.capacity[n, r])
            gone = {c: -float(placement.requests[k, r]) / size for (k, at), c in leaving.items() if at == n}
            value = LinearExpression(float(load[n, r]) / size, gone)
            excess.append(strain_above(program, value, share[r], resource_of(placement.resources[r])))
    spread_rows(program, placement, after, {} if asked.any_order else arriving)
    return program, list(arriving.values()), excess
