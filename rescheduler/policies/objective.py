"""What is bad about a whole placement, in whole numbers: the one measure that every planned move lowers.

The badness of a placement is a column of integers, one for each ``Tier``; policies are added up, and columns are compared
from the first tier to the last, so no fault of a later tier makes good for one of an earlier. Integers, because sums of
them are exact: a move that lowers the sum lowers it in every order of adding. It is a function of where pods stand, never
of how they came there. Since every move lowers it, and there are finitely many placements, a cluster that nobody else
changes comes to rest (docs/design/05-objective.md). Pure.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np

from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray, NodeIndices

ONE: Final = 1_000_000
"""One pod that is as badly placed as can be, in ``Tier.SOFT``; one whole node too much, in ``Tier.BALANCE``."""


class Tier(enum.IntEnum):
    """Classes of faults in the order in which they are compared: the first outweighs all that follow."""

    HARD = 0
    """Pods that break a rule that the scheduler enforces, or stand on an unhealthy node: a count."""
    PENDING = 1
    """Pods that cannot start because other pods stand where they would fit: a count."""
    SOFT = 2
    """Wishes that are not met, in millionths of a pod (``ONE``)."""
    BALANCE = 3
    """How bad the shares of nodes above their targets are, in millionths of a node (``ONE``): more for each point, the fuller the node."""
    FRAGMENTATION = 4
    """Rooms of a template that pods break: a count."""
    CONSOLIDATION = 5
    """Nodes in use, in millionths of a node (``ONE``), or their prices in millionths."""
    EMPTYING = 6
    """Pods on nodes that are to be emptied, or that leave a room: what falls while that takes several cycles."""


TIERS: Final = len(Tier)

UNITS: Final = {
    Tier.HARD: 1,
    Tier.PENDING: 1,
    Tier.SOFT: ONE,
    Tier.BALANCE: ONE,
    Tier.FRAGMENTATION: 1,
    Tier.CONSOLIDATION: ONE,
    Tier.EMPTYING: 1,
}
"""What one rule, pod or node counts for; EMPTYING has no unit."""


_LACKS: Final = {
    Tier.HARD: 0.2,
    Tier.PENDING: 0.0,
    Tier.SOFT: 0.5,
    Tier.BALANCE: 0.007,
    Tier.FRAGMENTATION: 0.5,
    Tier.CONSOLIDATION: 0.0,
    Tier.EMPTYING: 1.0,
}
"""What a move that takes off one unit lacks of the highest gain, 1; one that takes off two lacks this part of this part, and so on."""


def gain(tier: Tier, units: float) -> float:
    """What it is worth, as people and ``minimumGain`` count it (0..1), that a tier falls by so many units."""
    return 1.0 - float(_LACKS[tier] ** max(units, 0.0))


def gains(change: IntArray, units: Mapping[Tier, int] = UNITS) -> FloatArray:
    """The same of a change (tiers, nodes) in the first tier that it touches, by node; 0 where that does not fall."""
    found = np.zeros(change.shape[1])
    untouched = np.ones(change.shape[1], dtype=np.bool_)
    for tier in Tier:
        # Most moves are about few tiers.
        if np.count_nonzero(row := change[tier]):
            gained = 1.0 - np.power(_LACKS[tier], np.maximum(-row / units[tier], 0.0))
            np.copyto(found, gained, where=untouched)
            untouched &= row == 0
    return found


@lru_cache(maxsize=8)
def unchanged(nodes: int) -> IntArray:
    """A move that changes nothing, to whichever of ``nodes`` nodes. Shape (tiers, nodes), read-only, one object for each size."""
    return _frozen(np.zeros((TIERS, nodes), dtype=np.int64))


def nothing() -> IntArray:
    """A new column without any fault. Shape (tiers,)."""
    return np.zeros(TIERS, dtype=np.int64)


def in_tier(tier: Tier, values: IntArray) -> IntArray:
    """A change (one value for each node) in one tier only. Shape (tiers, nodes)."""
    change = np.zeros((TIERS, len(values)), dtype=np.int64)
    change[tier] = values
    return change


def falls(change: IntArray) -> BoolArray:
    """For which nodes a change (tiers, nodes) makes the placement better: its first value that is not 0 is negative."""
    return _first_sign(change) < 0


def worsens_wishes(change: IntArray) -> BoolArray:
    """For which nodes a change (tiers, nodes) breaks more rules, or as many and meets fewer wishes."""
    hard, soft = change[Tier.HARD], change[Tier.SOFT]
    worse: BoolArray = (hard > 0) | ((hard == 0) & (soft > 0))
    return worse


def lowers(change: IntArray) -> bool:
    """True if a column (tiers,) makes the placement better."""
    values: list[int] = change.tolist()
    return next((value for value in values if value), 0) < 0


def reaches(change: IntArray) -> bool:
    """True if a column (tiers,) falls in what it is about: that a node is emptied further does not make a whole group of moves good."""
    about = change.copy()
    about[Tier.EMPTYING] = 0
    return lowers(about)


def worst_tier(change: IntArray) -> Tier | None:
    """The tier that decides that a column (tiers,) does not fall; None if nothing changes at all."""
    found = np.flatnonzero(change)
    return Tier(int(found[0])) if found.size else None


_TELLING: Final = {
    Tier.HARD: 1,
    Tier.PENDING: 1,
    Tier.SOFT: ONE // 1000,
    Tier.BALANCE: ONE // 1000,
    Tier.FRAGMENTATION: 1,
    Tier.CONSOLIDATION: 1,
}
"""From which difference on one node is a better choice than another."""


def best(change: IntArray, nodes: NodeIndices) -> BoolArray:
    """Which of ``nodes`` (at least one) a move makes best by its change (tiers, all nodes).

    Less than a thousandth of a pod or node does not count: there it decides how far nodes are emptied, then the scheduler's points.
    """
    chosen = np.ones(len(nodes), dtype=np.bool_)
    for tier, telling in _TELLING.items():
        # Most moves are about few tiers.
        if np.count_nonzero(change[tier]):
            values = change[tier][nodes]
            chosen &= values < values[chosen].min() + telling
    return chosen


def lowest(change: IntArray, nodes: NodeIndices) -> int:
    """Of ``nodes`` (at least one) the first with the lowest change (tiers, all nodes), compared exactly."""
    return int(nodes[np.lexsort(change[::-1, nodes])[0]])


def _first_sign(change: IntArray) -> IntArray:
    sign: IntArray = np.zeros(change.shape[1], dtype=np.int64)
    for row in change:
        # Most moves are about few tiers.
        if np.count_nonzero(row):
            sign = np.where(sign == 0, np.sign(row), sign)
    return sign


def _frozen(values: IntArray) -> IntArray:
    values.flags.writeable = False
    return values
