"""What no plan can pass, whatever its order and its stages: integer programs on where pods stand in the end. Pure.

Pods of every kind may leave every node. When the last of them has come to a node it had room for all that stood there, so in the end
a node holds no more than it can, or than it held at the start. A pod that stands elsewhere in the end was moved at least once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rescheduler.optima.integer_program import IntegerProgram, Solution
from rescheduler.optima.placement import CountedCluster, resource_of
from rescheduler.optima.repairs import LinearExpression, Terms, negative, strain_above
from rescheduler.policies.utilization import relief
from rescheduler.scheduling.framework import BoolArray, FloatArray


def least_excess_of_any_plan(
    placement: CountedCluster,
    judged: BoolArray,
    high: Mapping[str, float],
    max_moves: int | None,
    seconds: float,
) -> Solution:
    """Least sum over judged nodes and resources of how bad the share above the target threshold (percent) is."""
    program, brought = _moved(placement, max_moves)
    load = placement.load(placement.start)
    excess: list[int] = []
    for resource, percent in high.items():
        r = placement.resources.index(resource)
        for n in np.flatnonzero(judged & (placement.capacity[:, r] > 0)).tolist():
            size = float(placement.capacity[n, r])
            share = {column: factor / size for column, factor in brought[n, r].items()}
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
    program, brought = _moved(placement, max_moves)
    load = placement.load(placement.start)
    for n, room in ((n, one.room) for one in asked for n in np.flatnonzero(one.among).tolist()):
        rooms = program.column(cost=-1.0)
        for resource, size in room.items():
            r = placement.resources.index(resource)
            # Beyond what the node can hold nothing counts, so one that is too full at the start has none, and no debts.
            left = float(placement.capacity[n, r] - load[n, r])
            terms = dict(brought.get((n, r), {}))
            if left < 0:
                terms[program.column(-left, integer=False)] = -1.0
            program.row({**terms, rooms: float(size)}, most=left)
    return program.solve(seconds)


def _moved(
    placement: CountedCluster, max_moves: int | None
) -> tuple[IntegerProgram, Mapping[tuple[int, int], Terms]]:
    """The program, and what pods bring to (or take from) each node, by (node, resource)."""
    program = IntegerProgram()
    start, load = placement.start, placement.load(placement.start)
    brought: defaultdict[tuple[int, int], Terms] = defaultdict(dict)
    moves: list[int] = []
    for k in range(len(placement.kinds)):
        total, balance = float(start[k].sum()), dict[int, float]()
        for n in np.flatnonzero(placement.allowed[k]).tolist():
            coming = program.column(total)
            moves.append(coming)
            balance[coming] = 1.0
            for r in np.flatnonzero(placement.requests[k]).tolist():
                brought[n, r][coming] = float(placement.requests[k, r])
        for n in np.flatnonzero(start[k]).tolist():
            leaving = program.column(float(start[k, n]))
            balance[leaving] = -1.0
            for r in np.flatnonzero(placement.held[k]).tolist():
                brought[n, r][leaving] = -float(placement.held[k, r])
        program.row(balance, least=0.0, most=0.0)
    limited = [name not in placement.unlimited for name in placement.resources]
    for (n, r), terms in ((at, terms) for at, terms in brought.items() if limited[at[1]]):
        program.row(terms, most=max(float(placement.capacity[n, r] - load[n, r]), 0.0))
    if max_moves is not None:
        program.row(dict.fromkeys(moves, 1.0), most=max_moves)
    return program, brought
