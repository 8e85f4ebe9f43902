"""What the best plan could reach, as integer programs on counts of pods by kind and node.

A stage is a set of moves that run at once: each needs room on its target while all old pods of the stage still hold theirs. Anti-affinity
counts old pods too, as kube-scheduler does while they end. Hard spread is judged at the end of a stage, for zones where pods arrive:
a bound that a plan cannot pass, whatever its order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.integer_program import IntegerProgram, Solution
from bench.placement import BoolArray, IntArray, Placement

Terms = dict[int, float]
_EPSILON: Final = 1e-9


@dataclass(frozen=True)
class Expression:
    """constant + sum of factor x column."""

    constant: float
    terms: Terms

    def plus(self, other: Mapping[int, float], factor: float = 1.0) -> Expression:
        total = dict(self.terms)
        for column, value in other.items():
            total[column] = total.get(column, 0.0) + factor * value
        return Expression(self.constant, total)


def fewest_violations(placement: Placement, stages: int, seconds: float) -> Solution:
    """Least violations after so many stages of moves."""
    program, _, violations = _repairs(placement, stages)
    excess = program.column(cost=1.0, integer=False)
    program.row({excess: 1.0, **_negative(violations.terms)}, least=violations.constant)
    return program.solve(seconds)


def fewest_repairing_moves(placement: Placement, stages: int, left: int, seconds: float) -> Solution:
    """Fewest moves that leave no more than ``left`` violations."""
    program, moves, violations = _repairs(placement, stages, cost_of_move=1.0)
    program.row(violations.terms, most=left - violations.constant)
    program.row(dict.fromkeys(moves, 1.0), least=0.0)
    return program.solve(seconds)


def _repairs(
    placement: Placement, stages: int, cost_of_move: float = 0.0
) -> tuple[IntegerProgram, list[int], Expression]:
    """The program, its columns that count moves, and the violations that are left."""
    program = IntegerProgram()
    kinds, nodes = placement.start.shape
    standing = [[Expression(float(placement.start[k, n]), {}) for n in range(nodes)] for k in range(kinds)]
    moves: list[int] = []
    least: dict[int, int] = {}
    for stage in range(stages):
        arriving: dict[tuple[int, int], int] = {}
        after = []
        for k in range(kinds):
            total, row, balance = float(placement.start[k].sum()), [], Counter[int]()
            for n in range(nodes):
                here = standing[k][n]
                if placement.allowed[k, n] and not _taken(placement, k, n, stage):
                    new = program.column(1.0 if placement.kinds[k].apart else total, cost=cost_of_move)
                    arriving[k, n] = new
                    moves.append(new)
                    balance[new] += 1
                    here = here.plus({new: 1.0})
                if standing[k][n].constant or standing[k][n].terms:
                    leaving = program.column(placement.start[k, n] if stage == 0 else total)
                    balance[leaving] -= 1
                    here = here.plus({leaving: -1.0})
                    if stage:
                        _at_most(program, {leaving: 1.0}, standing[k][n])
                row.append(here)
            program.row({c: float(f) for c, f in balance.items()}, least=0.0, most=0.0)
            after.append(row)
        _room(program, placement, standing, arriving)
        _apart(program, placement, standing, arriving, stage)
        least = _spread(program, placement, after, arriving)
        standing = after
    return program, moves, _violations(program, placement, standing, least)


def _taken(placement: Placement, kind: int, node: int, stage: int) -> bool:
    """One of its kind stands there and may not have company, and no stage has been in which it could have left."""
    return stage == 0 and placement.kinds[kind].apart and placement.start[kind, node] > 0


def _at_most(program: IntegerProgram, terms: Terms, limit: Expression) -> None:
    program.row(Expression(0.0, terms).plus(limit.terms, -1.0).terms, most=limit.constant)


def _room(
    program: IntegerProgram,
    placement: Placement,
    standing: list[list[Expression]],
    arriving: dict[tuple[int, int], int],
) -> None:
    """Old pods hold their room while new ones come."""
    for n in range(len(placement.nodes)):
        coming = {k: column for (k, at), column in arriving.items() if at == n}
        if not coming:
            continue
        for r in range(len(placement.resources)):
            total = Expression(0.0, {})
            constant = float(placement.fixed[n, r])
            for k in range(len(placement.kinds)):
                asked = float(placement.requests[k, r])
                constant += asked * standing[k][n].constant
                total = total.plus(standing[k][n].terms, asked)
                if k in coming:
                    total = total.plus({coming[k]: asked})
            program.row(total.terms, most=max(float(placement.capacity[n, r]) - constant, 0.0))


def _apart(
    program: IntegerProgram,
    placement: Placement,
    standing: list[list[Expression]],
    arriving: dict[tuple[int, int], int],
    stage: int,
) -> None:
    for (k, n), column in arriving.items():
        if not placement.kinds[k].apart or stage == 0:
            continue
        here, most = standing[k][n], float(placement.start[k, n])
        if most <= 1:
            program.row(here.plus({column: 1.0}).terms, most=1.0 - here.constant)
            continue
        occupied = program.column(1.0)
        _at_most(program, here.terms, Expression(-here.constant, {occupied: most}))
        program.row({column: 1.0, occupied: 1.0}, most=1.0)


def _spread(
    program: IntegerProgram,
    placement: Placement,
    after: list[list[Expression]],
    arriving: dict[tuple[int, int], int],
) -> dict[int, int]:
    """By kind, the column that is at most the count of every zone; where pods arrive a zone is at most maxSkew above."""
    found: dict[int, int] = {}
    for k, kind in enumerate(placement.kinds):
        if not kind.max_skew:
            continue
        total = float(placement.start[k].sum())
        low = found[k] = program.column(total)
        for zone in range(int(placement.zones.max()) + 1):
            at = np.flatnonzero(placement.zones == zone).tolist()
            count = _sum([after[k][n] for n in at])
            _at_most(program, {low: 1.0}, count)
            coming = {arriving[k, n]: 1.0 for n in at if (k, n) in arriving}
            comes = program.column(1.0)
            program.row({**coming, comes: -total}, most=0.0)
            terms = count.plus({low: -1.0, comes: total}).terms
            program.row(terms, most=kind.max_skew + total - count.constant)
    return found


def _violations(
    program: IntegerProgram, placement: Placement, standing: list[list[Expression]], least: dict[int, int]
) -> Expression:
    """Pods where they may not be, and columns for those too many on a node or in a zone."""
    total = Expression(0.0, {})
    for k, kind in enumerate(placement.kinds):
        for n in np.flatnonzero(~placement.allowed[k] & (placement.start[k] > 0)).tolist():
            total = _sum([total, standing[k][n]])
        if kind.apart:
            for n in np.flatnonzero(placement.start[k] > 1).tolist():
                total = total.plus({_above(program, standing[k][n], 1.0): 1.0})
        if kind.max_skew:
            for zone in range(int(placement.zones.max()) + 1):
                at = np.flatnonzero(placement.zones == zone).tolist()
                count = _sum([standing[k][n] for n in at]).plus({least[k]: -1.0})
                total = total.plus({_above(program, count, float(kind.max_skew)): 1.0})
    return total


def _above(program: IntegerProgram, value: Expression, limit: float) -> int:
    """A column that is at least value - limit."""
    column = program.column(integer=False)
    program.row({column: 1.0, **_negative(value.terms)}, least=value.constant - limit)
    return column


def _sum(parts: list[Expression]) -> Expression:
    terms: Counter[int] = Counter()
    for part in parts:
        for column, factor in part.terms.items():
            terms[column] += factor  # type: ignore[assignment]
    return Expression(sum(p.constant for p in parts), dict(terms))


def _negative(terms: Mapping[int, float]) -> Terms:
    return {column: -factor for column, factor in terms.items()}


@dataclass(frozen=True)
class Consolidation:
    """Which nodes may be emptied, how full nodes may become, and how many moves there are."""

    candidates: BoolArray
    limit: IntArray
    """(nodes, resources)"""
    max_moves: int | None

    @classmethod
    def of(
        cls, placement: Placement, low: dict[str, float], high: dict[str, float], max_moves: int | None
    ) -> Consolidation:
        """Thresholds in percent, as HighNodeUtilization has them."""
        load = placement.load(placement.start)
        candidates = placement.start.sum(axis=0) > 0
        for resource, percent in low.items():
            at = placement.resources.index(resource)
            candidates &= load[:, at] / placement.capacity[:, at] < percent / 100 - _EPSILON
        return cls(candidates, filled_to(placement, high), max_moves)


def filled_to(placement: Placement, high: dict[str, float]) -> IntArray:
    """(nodes, resources): what nodes may hold, with thresholds in percent."""
    limit = placement.capacity.copy()
    for resource, percent in high.items():
        at = placement.resources.index(resource)
        limit[:, at] = np.floor(placement.capacity[:, at] * (percent / 100) + 1e-6).astype(np.int64)
    return limit


def most_emptied(placement: Placement, asked: Consolidation, seconds: float) -> Solution:
    """The objective is minus the most nodes that can be emptied; all pods of a node move or none."""
    program, emptied, pods = _emptying(placement, asked, cost_of_node=-1.0)
    if asked.max_moves is not None:
        program.row({emptied[n]: pods[n] for n in emptied}, most=asked.max_moves)
    return program.solve(seconds)


def fewest_emptying_moves(placement: Placement, asked: Consolidation, nodes: int, seconds: float) -> Solution:
    """Fewest moves that empty so many nodes."""
    program, emptied, _ = _emptying(placement, asked, cost_of_move=1.0)
    program.row(dict.fromkeys(emptied.values(), 1.0), least=nodes)
    return program.solve(seconds)


def _emptying(
    placement: Placement, asked: Consolidation, *, cost_of_node: float = 0.0, cost_of_move: float = 0.0
) -> tuple[IntegerProgram, dict[int, int], dict[int, float]]:
    program = IntegerProgram()
    start, load = placement.start, placement.load(placement.start)
    pods = {n: float(start[:, n].sum()) for n in np.flatnonzero(asked.candidates).tolist()}
    emptied = {n: program.column(1.0, cost=cost_of_node + cost_of_move * pods[n]) for n in pods}
    arriving: dict[tuple[int, int], int] = {}
    after: list[list[Expression]] = []
    for k, kind in enumerate(placement.kinds):
        row: list[Expression] = []
        balance: Terms = {}
        for n in range(len(placement.nodes)):
            here = Expression(float(start[k, n]), {})
            if n in emptied and start[k, n]:
                here = here.plus({emptied[n]: -float(start[k, n])})
                balance[emptied[n]] = -float(start[k, n])
            receives = placement.allowed[k, n] and start[:, n].any() and not (kind.apart and start[k, n])
            most = _most_that_fit(placement, asked.limit[n] - load[n], k) if receives else 0
            if most:
                new = arriving[k, n] = program.column(float(most))
                balance[new] = 1.0
                here = here.plus({new: 1.0})
            row.append(here)
        program.row(balance, least=0.0, most=0.0)
        after.append(row)
    for n in range(len(placement.nodes)):
        coming = {k: column for (k, at), column in arriving.items() if at == n}
        for r in range(len(placement.resources)):
            room = max(float(asked.limit[n, r] - load[n, r]), 0.0)
            terms = {column: float(placement.requests[k, r]) for k, column in coming.items()}
            if n in emptied and terms:
                terms[emptied[n]] = room
            program.row(terms, most=room)
        # Of each kind by itself too: without it the bound is weak, and pods that ask for nothing would still come.
        if n in emptied:
            for k, column in coming.items():
                most = float(_most_that_fit(placement, asked.limit[n] - load[n], k))
                program.row({column: 1.0, emptied[n]: most}, most=most)
    _spread(program, placement, after, arriving)
    return program, emptied, pods


def _most_that_fit(placement: Placement, room: IntArray, kind: int) -> int:
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

    @classmethod
    def of(
        cls, placement: Placement, low: dict[str, float], high: dict[str, float], max_moves: int | None
    ) -> Relief:
        """Thresholds as LowNodeUtilization has them."""
        load = placement.load(placement.start)
        free = np.ones(len(placement.nodes), dtype=np.bool_)
        for resource, percent in low.items():
            at = placement.resources.index(resource)
            free &= load[:, at] / placement.capacity[:, at] < percent / 100 - _EPSILON
        return cls(high, free, filled_to(placement, high), max_moves)


def least_excess(placement: Placement, asked: Relief, seconds: float) -> Solution:
    """Least sum over nodes and resources of the share above the target threshold."""
    program, moves, excess = _relieving(placement, asked)
    if asked.max_moves is not None:
        program.row(dict.fromkeys(moves, 1.0), most=asked.max_moves)
    total = program.column(cost=1.0, integer=False)
    program.row({total: 1.0, **_negative(dict.fromkeys(excess, 1.0))}, least=0.0)
    return program.solve(seconds, gap=1e-3)


def fewest_relieving_moves(placement: Placement, asked: Relief, left: float, seconds: float) -> Solution:
    """Fewest moves that leave no more than so much excess."""
    program, moves, excess = _relieving(placement, asked)
    total = program.column(cost=1.0)
    program.row({total: 1.0, **_negative(dict.fromkeys(moves, 1.0))}, least=0.0)
    program.row(dict.fromkeys(excess, 1.0), most=left + 1e-6)
    return program.solve(seconds)


def _relieving(placement: Placement, asked: Relief) -> tuple[IntegerProgram, list[int], list[int]]:
    """The program, its columns that count moves, and those that are the excess of a node and a resource."""
    program = IntegerProgram()
    start, load = placement.start, placement.load(placement.start)
    named = [placement.resources.index(r) for r in asked.high]
    share = {placement.resources.index(r): percent / 100 for r, percent in asked.high.items()}
    over = [n for n in range(len(placement.nodes))
            if any(load[n, r] / placement.capacity[n, r] > share[r] + _EPSILON for r in named)]  # fmt: skip
    leaving: dict[tuple[int, int], int] = {}
    arriving: dict[tuple[int, int], int] = {}
    after: list[list[Expression]] = []
    for k, kind in enumerate(placement.kinds):
        balance: Terms = {}
        row = [Expression(float(count), {}) for count in start[k].tolist()]
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
            excess.append(_above(program, Expression(float(load[n, r]) / size, gone), share[r]))
    _spread(program, placement, after, arriving)
    return program, list(arriving.values()), excess
