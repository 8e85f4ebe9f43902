"""The fewest violations after so many stages of moves, as integer programs on counts of pods by kind and node. Pure.

A stage is a set of moves that run at once: each needs room on its target while all old pods of the stage still hold theirs. Anti-affinity
counts old pods too, as kube-scheduler does while they end. Hard spread is judged at the end of a stage, for zones where pods arrive, or
(``any_order``) not at all: when a pod arrives, one that leaves its zone later in the stage still counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from rescheduler.optima.integer_program import IntegerProgram, Solution
from rescheduler.optima.placement import CountedCluster
from rescheduler.policies.utilization import STEEPNESS, weight_of

Terms = dict[int, float]
_TANGENTS: Final = (0.0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8)
"""Shares above a limit at which a convex function is taken for its tangent."""


@dataclass(frozen=True)
class LinearExpression:
    """constant + sum of factor x column."""

    constant: float
    terms: Terms

    def plus(self, other: Mapping[int, float], factor: float = 1.0) -> LinearExpression:
        """The sum of this and factor x other."""
        total = dict(self.terms)
        for column, value in other.items():
            total[column] = total.get(column, 0.0) + factor * value
        return LinearExpression(self.constant, total)


def fewest_violations(
    placement: CountedCluster,
    stages: int,
    seconds: float,
    *,
    max_moves: int | None = None,
    any_order: bool = False,
) -> Solution:
    """Least violations after so many stages with at most so many moves together."""
    repairs = repairs_in_stages(placement, stages, any_order=any_order)
    if max_moves is not None:
        moves = [column for stage in repairs.stages for column in stage.arriving.values()]
        repairs.program.row(dict.fromkeys(moves, 1.0), most=max_moves)
    return fewest_left(repairs).solve(seconds)


def fewest_left(repairs: Repairs) -> IntegerProgram:
    """The program whose solution leaves the fewest violations."""
    program, left = repairs.program, repairs.violations
    excess = program.column(cost=1.0, integer=False)
    program.row({excess: 1.0, **negative(left.terms)}, least=left.constant)
    return program


@dataclass(frozen=True)
class Stage:
    """Columns of a stage by (kind, node)."""

    arriving: dict[tuple[int, int], int]
    leaving: dict[tuple[int, int], int]


@dataclass(frozen=True)
class Repairs:
    """A program, its stages, and the violations that are left."""

    program: IntegerProgram
    stages: list[Stage]
    violations: LinearExpression


def repairs_in_stages(
    placement: CountedCluster, stages: int, cost_of_move: float = 0.0, *, any_order: bool = False
) -> Repairs:
    """The program of so many stages, and what it is about."""
    program = IntegerProgram()
    kinds, nodes = placement.start.shape
    standing = [
        [LinearExpression(float(placement.start[k, n]), {}) for n in range(nodes)] for k in range(kinds)
    ]
    columns: list[Stage] = []
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
        least = spread_rows(program, placement, after, {} if any_order else arriving)
        standing = after
        columns.append(Stage(arriving, departing))
    return Repairs(program, columns, _violations(program, placement, standing, least))


def _taken(placement: CountedCluster, kind: int, node: int, stage: int) -> bool:
    """One of its kind stands there and may not have company, and no stage has been in which it could have left."""
    return stage == 0 and bool(placement.kinds[kind].apart) and bool(placement.start[kind, node] > 0)


def _at_most(program: IntegerProgram, terms: Terms, limit: LinearExpression) -> None:
    program.row(LinearExpression(0.0, terms).plus(limit.terms, -1.0).terms, most=limit.constant)


def _room(
    program: IntegerProgram,
    placement: CountedCluster,
    standing: list[list[LinearExpression]],
    arriving: dict[tuple[int, int], int],
) -> None:
    """Old pods hold their room while new ones come; a pod that may have moved holds what is less, of before and after."""
    needs = np.minimum(placement.requests, placement.held)
    at_node: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for (k, n), column in arriving.items():
        at_node[n][k] = column
    for n, coming in sorted(at_node.items()):
        for r in range(len(placement.resources)):
            if not needs[list(coming), r].any():
                continue
            total = LinearExpression(0.0, {})
            constant = float(placement.fixed[n, r])
            for k in range(len(placement.kinds)):
                asked = float(needs[k, r])
                constant += asked * standing[k][n].constant
                total = total.plus(standing[k][n].terms, asked)
                if k in coming:
                    total = total.plus({coming[k]: asked})
            program.row(total.terms, most=max(float(placement.capacity[n, r]) - constant, 0.0))


def _apart(
    program: IntegerProgram,
    placement: CountedCluster,
    standing: list[list[LinearExpression]],
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
        _at_most(program, here.terms, LinearExpression(-here.constant, {occupied: most}))
        program.row({column: 1.0, occupied: 1.0}, most=1.0)


def spread_rows(
    program: IntegerProgram,
    placement: CountedCluster,
    after: list[list[LinearExpression]],
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
            if not coming:
                continue
            comes = program.column(1.0)
            program.row({**coming, comes: -total}, most=0.0)
            terms = count.plus({low: -1.0, comes: total}).terms
            program.row(terms, most=kind.max_skew + total - count.constant)
    return found


def _violations(
    program: IntegerProgram,
    placement: CountedCluster,
    standing: list[list[LinearExpression]],
    least: dict[int, int],
) -> LinearExpression:
    """Pods where they may not be, and columns for those too many on a node or in a zone."""
    total = LinearExpression(0.0, {})
    for k, kind in enumerate(placement.kinds):
        for n in np.flatnonzero(placement.wrong[k] & (placement.start[k] > 0)).tolist():
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


def above(program: IntegerProgram, value: LinearExpression, limit: float) -> int:
    """A column that is at least value - limit."""
    column = program.column(integer=False)
    program.row({column: 1.0, **negative(value.terms)}, least=value.constant - limit)
    return column


def strain_above(program: IntegerProgram, share: LinearExpression, limit: float, resource: str) -> int:
    """A column that is at least how bad a node's share above the limit is by LowNodeUtilization's objective, less a little."""
    column = program.column(integer=False)
    weight = weight_of(resource)
    for at in _TANGENTS:
        # The tangent of a convex function never passes it.
        slope, less = weight * (1.0 + 2.0 * STEEPNESS * at), weight * STEEPNESS * at * at
        terms = {c: slope * factor for c, factor in share.terms.items()}
        program.row({column: 1.0, **negative(terms)}, least=slope * (share.constant - limit) - less)
    return column


def _sum(parts: list[LinearExpression]) -> LinearExpression:
    terms: Counter[int] = Counter()
    for part in parts:
        for column, factor in part.terms.items():
            terms[column] += factor  # type: ignore[assignment]
    return LinearExpression(sum(p.constant for p in parts), dict(terms))


def negative(terms: Mapping[int, float]) -> Terms:
    """All factors with the other sign."""
    return {column: -factor for column, factor in terms.items()}
