"""The best repairs in so many stages of moves, as integer programs on counts of pods by kind and node.

A stage is a set of moves that run at once: each needs room on its target while all old pods of the stage still hold theirs. Anti-affinity
counts old pods too, as kube-scheduler does while they end. Hard spread is judged at the end of a stage, for zones where pods arrive:
a bound that a plan cannot pass, whatever its order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.integer_program import IntegerProgram, Solution
from bench.placement import Placement

Terms = dict[int, float]


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
    return _fewest(_repairs(placement, stages)).solve(seconds)


def best_repairs(placement: Placement, stages: int, seconds: float) -> list[list[Counted]]:
    """The moves of a solution of ``fewest_violations``, by stage; empty if none was found in time."""
    repairs = _repairs(placement, stages)
    values = _fewest(repairs).solve(seconds).values
    return [_moves_of(stage, values) for stage in repairs.stages] if values else []


def _fewest(repairs: _Repairs) -> IntegerProgram:
    program, left = repairs.program, repairs.violations
    excess = program.column(cost=1.0, integer=False)
    program.row({excess: 1.0, **negative(left.terms)}, least=left.constant)
    return program


def _moves_of(stage: _Stage, values: Sequence[float]) -> list[Counted]:
    """Who comes to where is matched with who leaves, kind by kind."""
    sources: defaultdict[int, list[int]] = defaultdict(list)
    for (k, n), column in stage.leaving.items():
        sources[k] += [n] * round(values[column])
    found = []
    for (k, n), column in stage.arriving.items():
        for _ in range(round(values[column])):
            source = next((s for s in sources[k] if s != n), n)
            sources[k].remove(source)
            found.append(Counted(k, source, n))
    return [move for move in found if move.source != move.target]


def fewest_repairing_moves(placement: Placement, stages: int, left: int, seconds: float) -> Solution:
    """Fewest moves that leave no more than ``left`` violations."""
    repairs = _repairs(placement, stages, cost_of_move=1.0)
    repairs.program.row(repairs.violations.terms, most=left - repairs.violations.constant)
    return repairs.program.solve(seconds)


@dataclass(frozen=True)
class Counted:
    """A move of one pod of a kind, by the numbers of its nodes."""

    kind: int
    source: int
    target: int


@dataclass(frozen=True)
class _Stage:
    """Columns of a stage by (kind, node)."""

    arriving: dict[tuple[int, int], int]
    leaving: dict[tuple[int, int], int]


@dataclass(frozen=True)
class _Repairs:
    """A program, its stages, and the violations that are left."""

    program: IntegerProgram
    stages: list[_Stage]
    violations: Expression


def _repairs(placement: Placement, stages: int, cost_of_move: float = 0.0) -> _Repairs:
    program = IntegerProgram()
    kinds, nodes = placement.start.shape
    standing = [[Expression(float(placement.start[k, n]), {}) for n in range(nodes)] for k in range(kinds)]
    columns: list[_Stage] = []
    least: dict[int, int] = {}
    for stage in range(stages):
        arriving: dict[tuple[int, int], int] = {}
        departing: dict[tuple[int, int], int] = {}
        after = []
        for k in range(kinds):
            total, row, balance = float(placement.start[k].sum()), [], Counter[int]()
            for n in range(nodes):
                here = standing[k][n]
                if placement.allowed[k, n] and not _taken(placement, k, n, stage):
                    new = program.column(1.0 if placement.kinds[k].apart else total, cost=cost_of_move)
                    arriving[k, n] = new
                    balance[new] += 1
                    here = here.plus({new: 1.0})
                if standing[k][n].constant or standing[k][n].terms:
                    leaving = program.column(placement.start[k, n] if stage == 0 else total)
                    departing[k, n] = leaving
                    balance[leaving] -= 1
                    here = here.plus({leaving: -1.0})
                    if stage:
                        _at_most(program, {leaving: 1.0}, standing[k][n])
                row.append(here)
            program.row({c: float(f) for c, f in balance.items()}, least=0.0, most=0.0)
            after.append(row)
        _room(program, placement, standing, arriving)
        _apart(program, placement, standing, arriving, stage)
        least = spread_rows(program, placement, after, arriving)
        standing = after
        columns.append(_Stage(arriving, departing))
    return _Repairs(program, columns, _violations(program, placement, standing, least))


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


def spread_rows(
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
                total = total.plus({above(program, standing[k][n], 1.0): 1.0})
        if kind.max_skew:
            for zone in range(int(placement.zones.max()) + 1):
                at = np.flatnonzero(placement.zones == zone).tolist()
                count = _sum([standing[k][n] for n in at]).plus({least[k]: -1.0})
                total = total.plus({above(program, count, float(kind.max_skew)): 1.0})
    return total


def above(program: IntegerProgram, value: Expression, limit: float) -> int:
    """A column that is at least value - limit."""
    column = program.column(integer=False)
    program.row({column: 1.0, **negative(value.terms)}, least=value.constant - limit)
    return column


def _sum(parts: list[Expression]) -> Expression:
    terms: Counter[int] = Counter()
    for part in parts:
        for column, factor in part.terms.items():
            terms[column] += factor  # type: ignore[assignment]
    return Expression(sum(p.constant for p in parts), dict(terms))


def negative(terms: Mapping[int, float]) -> Terms:
    return {column: -factor for column, factor in terms.items()}
