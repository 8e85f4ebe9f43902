"""What no plan can pass, whatever its order and its stages: integer programs on where pods stand in the end. Pure.

Pods of every kind may leave every node. When the last of them has come to a node it had room for all that stood there, so in the end
a node holds no more than it can, or than it held at the start. A pod that stands elsewhere in the end was moved at least once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from rescheduler.optima.integer_program import IntegerProgram, Solution
from rescheduler.optima.placement import CountedCluster, resource_of
from rescheduler.policies.utilization import STEEPNESS, relief, weight_of
from rescheduler.scheduling.framework import BoolArray, FloatArray

Terms = dict[int, float]
Standing = Sequence[Sequence["LinearExpression"]]
"""By kind and node, how many pods stand there in the end."""
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


def fewest_violations_of_any_plan(
    placement: CountedCluster, max_moves: int | None, seconds: float
) -> Solution:
    """Fewest pods where they may not be, or too many on a node or in a zone."""
    program, moved = _moved(placement, max_moves)
    after = [
        [LinearExpression(float(count), moved.changes[k, n]) for n, count in enumerate(row)]
        for k, row in enumerate(placement.start.tolist())
    ]
    for k, kind in enumerate(placement.kinds):
        # Who arrives must find none of its kind there.
        for n in np.flatnonzero(placement.start[k] <= 1).tolist() if kind.apart else ():
            at_most(program, after[k][n].terms, LinearExpression(1.0 - after[k][n].constant, {}))
    left = violations_left(program, placement, after, fewest_in_zones(program, placement, after))
    total = program.column(cost=1.0, integer=False)
    program.row({total: 1.0, **negative(left.terms)}, least=left.constant)
    return program.solve(seconds)


def least_excess_of_any_plan(
    placement: CountedCluster,
    judged: BoolArray,
    high: Mapping[str, float],
    max_moves: int | None,
    seconds: float,
) -> Solution:
    """Least sum over judged nodes and resources of how bad the share above the target threshold (percent) is."""
    program, moved = _moved(placement, max_moves)
    load = placement.load(placement.start)
    excess: list[int] = []
    for resource, percent in high.items():
        r = placement.resources.index(resource)
        for n in np.flatnonzero(judged & (placement.capacity[:, r] > 0)).tolist():
            size = float(placement.capacity[n, r])
            share = {column: factor / size for column, factor in moved.brought[n, r].items()}
            if share or load[n, r] / size > percent / 100:
                value = LinearExpression(float(load[n, r]) / size, share)
                excess.append(strain_above(program, value, percent / 100, resource_of(resource)))
    total = program.column(cost=1.0, integer=False)
    program.row({total: 1.0, **negative(dict.fromkeys(excess, 1.0))}, least=0.0)
    return program.solve(seconds, gap=1e-4)


def most_relief_by_count(
    placement: CountedCluster, judged: BoolArray, high: Mapping[str, float], max_moves: int
) -> float:
    """The excess that so many moves take away if there is room for every pod: a bound that is found for thousands of nodes, too.

    A pod takes away no more of a resource than the largest pods of its node do, one after the other; what that is falls from pod to
    pod, so that the moves that take away most of all are the best.
    """
    load = placement.load(placement.start)
    worth: list[float] = []
    above: dict[int, FloatArray] = {}
    for resource, percent in high.items():
        r = placement.resources.index(resource)
        above[r] = load[:, r] - percent / 100 * placement.capacity[:, r]
    for n in np.flatnonzero(judged & np.any([over > 0 for over in above.values()], axis=0)).tolist():
        here = placement.start[:, n]
        pods = np.repeat(placement.held[here > 0], here[here > 0], axis=0)
        taken = np.zeros(len(pods))
        for r, over in above.items():
            size = placement.capacity[n, r]
            if size > 0 and over[n] > 0:
                together = np.minimum(np.sort(pods[:, r])[::-1].cumsum(), over[n]) / size
                taken += np.diff(
                    relief(resource_of(placement.resources[r]), together, over[n] / size), prepend=0.0
                )
        worth.extend(taken.tolist())
    return sum(sorted(worth, reverse=True)[:max_moves])


class RoomsOfTemplate(NamedTuple):
    """Rooms that count."""

    room: Mapping[str, int]
    """The size of one by resource."""
    among: BoolArray
    """Nodes that can hold one."""


def most_rooms_of_any_plan(
    placement: CountedCluster,
    asked: Sequence[RoomsOfTemplate],
    max_moves: int | None,
    seconds: float,
) -> Solution:
    """The objective is minus the most rooms of all templates together, those of each counted by itself."""
    program, moved = _moved(placement, max_moves)
    load = placement.load(placement.start)
    for n, room in ((n, one.room) for one in asked for n in np.flatnonzero(one.among).tolist()):
        rooms = program.column(cost=-1.0)
        for resource, size in room.items():
            r = placement.resources.index(resource)
            # Beyond what the node can hold nothing counts, so one that is too full at the start has none, and no debts.
            left = float(placement.capacity[n, r] - load[n, r])
            terms = dict(moved.brought.get((n, r), {}))
            if left < 0:
                terms[program.column(-left, integer=False)] = -1.0
            program.row({**terms, rooms: float(size)}, most=left)
    return program.solve(seconds)


class _Moved(NamedTuple):
    """What moves change."""

    changes: defaultdict[tuple[int, int], Terms]
    """By (kind, node): pods that come, less those that leave."""
    brought: defaultdict[tuple[int, int], Terms]
    """By (node, resource): what they bring."""


def _moved(placement: CountedCluster, max_moves: int | None) -> tuple[IntegerProgram, _Moved]:
    """The program, and what its columns are about."""
    program, moved = IntegerProgram(), _Moved(defaultdict(dict), defaultdict(dict))
    start, load = placement.start, placement.load(placement.start)
    moves: list[int] = []
    for k, kind in enumerate(placement.kinds):
        total, balance = float(start[k].sum()), dict[int, float]()
        for n in np.flatnonzero(placement.allowed[k]).tolist():
            coming = program.column(1.0 if kind.apart else total)
            moves.append(coming)
            balance[coming] = moved.changes[k, n][coming] = 1.0
            for r in np.flatnonzero(placement.requests[k]).tolist():
                moved.brought[n, r][coming] = float(placement.requests[k, r])
        for n in np.flatnonzero(start[k]).tolist():
            leaving = program.column(float(start[k, n]))
            balance[leaving] = moved.changes[k, n][leaving] = -1.0
            for r in np.flatnonzero(placement.held[k]).tolist():
                moved.brought[n, r][leaving] = -float(placement.held[k, r])
        program.row(balance, least=0.0, most=0.0)
    limited = [name not in placement.unlimited for name in placement.resources]
    for (n, r), terms in ((at, terms) for at, terms in moved.brought.items() if limited[at[1]]):
        program.row(terms, most=max(float(placement.capacity[n, r] - load[n, r]), 0.0))
    if max_moves is not None:
        program.row(dict.fromkeys(moves, 1.0), most=max_moves)
    return program, moved


def zones_of(
    placement: CountedCluster, standing: Standing, kind: int
) -> Iterator[tuple[int, LinearExpression]]:
    """Each zone, with how many of the kind stand there."""
    for zone in range(int(placement.zones.max()) + 1):
        yield zone, _sum([standing[kind][n] for n in np.flatnonzero(placement.zones == zone).tolist()])


def fewest_in_zones(program: IntegerProgram, placement: CountedCluster, standing: Standing) -> dict[int, int]:
    """By kind that is spread, a column that is at most the count of every zone."""
    found: dict[int, int] = {}
    for k, kind in enumerate(placement.kinds):
        if kind.max_skew:
            low = found[k] = program.column(float(placement.start[k].sum()))
            for _, count in zones_of(placement, standing, k):
                at_most(program, {low: 1.0}, count)
    return found


def violations_left(
    program: IntegerProgram,
    placement: CountedCluster,
    standing: Standing,
    least: Mapping[int, int],
) -> LinearExpression:
    """Pods where they may not be, and columns for those too many on a node or in a zone."""
    total = LinearExpression(0.0, {})
    for k, kind in enumerate(placement.kinds):
        for n in np.flatnonzero(placement.wrong[k] & (placement.start[k] > 0)).tolist():
            total = _sum([total, standing[k][n]])
        if kind.apart:
            for n in np.flatnonzero(placement.start[k] > 1).tolist():
                total = total.plus({_above(program, standing[k][n], 1.0): 1.0})
        if kind.max_skew:
            for _, count in zones_of(placement, standing, k):
                over = _above(program, count.plus({least[k]: -1.0}), float(kind.max_skew))
                total = total.plus({over: 1.0})
    return total


def at_most(program: IntegerProgram, terms: Terms, limit: LinearExpression) -> None:
    """The terms are no more than the limit."""
    program.row(LinearExpression(0.0, terms).plus(limit.terms, -1.0).terms, most=limit.constant)


def _above(program: IntegerProgram, value: LinearExpression, limit: float) -> int:
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
