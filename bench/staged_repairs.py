"""The fewest violations after so many stages of moves, as integer programs on counts of pods by kind and node. Pure.

A stage is a set of moves that run at once: each needs room on its target while all old pods of the stage still hold theirs. Anti-affinity
counts old pods too, as kube-scheduler does while they end. Hard spread is judged at the end of a stage, for zones where pods arrive, or
(``any_order``) not at all: when a pod arrives, one that leaves its zone later in the stage still counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from rescheduler.optima.any_plan import (
    LinearExpression,
    at_most,
    fewest_in_zones,
    negative,
    violations_left,
    zones_of,
)
from rescheduler.optima.integer_program import IntegerProgram, Solution
from rescheduler.optima.placement import CountedCluster


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
        moves = [column for arriving in repairs.stages for column in arriving.values()]
        repairs.program.row(dict.fromkeys(moves, 1.0), most=max_moves)
    return fewest_left(repairs).solve(seconds)


def fewest_left(repairs: Repairs) -> IntegerProgram:
    """The program whose solution leaves the fewest violations."""
    program, left = repairs.program, repairs.violations
    excess = program.column(cost=1.0, integer=False)
    program.row({excess: 1.0, **negative(left.terms)}, least=left.constant)
    return program


@dataclass(frozen=True)
class Repairs:
    """A program, of each stage the columns of who arrives by (kind, node), and the violations that are left."""

    program: IntegerProgram
    stages: list[dict[tuple[int, int], int]]
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
    columns: list[dict[tuple[int, int], int]] = []
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
                    balance[new] += 1
                    here = here.plus({new: 1.0})
                if standing[k][n].constant or standing[k][n].terms:
                    leaving = program.column(placement.start[k, n] if stage == 0 else total)
                    balance[leaving] -= 1
                    here = here.plus({leaving: -1.0})
                    if stage:
                        at_most(program, {leaving: 1.0}, standing[k][n])
                row.append(here)
            program.row({c: float(f) for c, f in balance.items()}, least=0.0, most=0.0)
            after.append(row)
        _room(program, placement, standing, arriving)
        _apart(program, placement, standing, arriving, stage)
        least = spread_rows(program, placement, after, {} if any_order else arriving)
        standing = after
        columns.append(arriving)
    return Repairs(program, columns, violations_left(program, placement, standing, least))


def _taken(placement: CountedCluster, kind: int, node: int, stage: int) -> bool:
    """One of its kind stands there and may not have company, and no stage has been in which it could have left."""
    return stage == 0 and bool(placement.kinds[kind].apart) and bool(placement.start[kind, node] > 0)


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
        at_most(program, here.terms, LinearExpression(-here.constant, {occupied: most}))
        program.row({column: 1.0, occupied: 1.0}, most=1.0)


def spread_rows(
    program: IntegerProgram,
    placement: CountedCluster,
    after: list[list[LinearExpression]],
    arriving: dict[tuple[int, int], int],
) -> dict[int, int]:
    """By kind, the column that is at most the count of every zone; where pods arrive a zone is at most maxSkew above."""
    found = fewest_in_zones(program, placement, after)
    for k, kind in enumerate(placement.kinds):
        total = float(placement.start[k].sum())
        for zone, count in zones_of(placement, after, k) if kind.max_skew else ():
            at = np.flatnonzero(placement.zones == zone).tolist()
            coming = {arriving[k, n]: 1.0 for n in at if (k, n) in arriving}
            if not coming:
                continue
            comes = program.column(1.0)
            program.row({**coming, comes: -total}, most=0.0)
            terms = count.plus({found[k]: -1.0, comes: total}).terms
            program.row(terms, most=kind.max_skew + total - count.constant)
    return found
