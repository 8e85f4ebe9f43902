"""In which stage of a plan each move is: 1 for those that may begin at once, more for those that begin after others. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rescheduler.model.records import ObjectKey
from rescheduler.planning.plan import Move


def stages_of(moves: Sequence[Move]) -> list[int]:
    """The stage of each move, in the order of the plan, in which a move stands behind those that it begins after.

    Raises:
        LookupError: a move begins after one that does not stand before it.
    """
    found: dict[ObjectKey, int] = {}
    for move in moves:
        earlier = (found[ObjectKey(pod.namespace, pod.name)] for pod in move.after)
        found[ObjectKey(move.pod.namespace, move.pod.name)] = 1 + max(earlier, default=0)
    return list(found.values())


def in_stages(moves: Sequence[Move]) -> list[list[Move]]:
    """The moves of each stage, in the order of the plan."""
    found: list[list[Move]] = []
    for move, stage in zip(moves, stages_of(moves), strict=True):
        while len(found) < stage:
            found.append([])
        found[stage - 1].append(move)
    return found


def numbers_before(moves: Sequence[Move]) -> list[str]:
    """For each move the numbers, from 1 in the order of the plan, of those that it begins after: "2, 3", or ""."""
    numbers = {move.pod: number for number, move in enumerate(moves, 1)}
    return [", ".join(str(numbers[pod]) for pod in move.after) for move in moves]
