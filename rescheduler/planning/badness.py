"""The badness of a placement, and what a move changes in it, as records for reports, metrics and logs.

The numbers are those that decide (policies/objective.py), tier by tier, not rounded and not worked out anew: so what a plan
shows before it, its moves and what it shows after them add up. Pure data.

Policies and rules work with arrays, whose elements look like numbers and are none for JSON and YAML. Records are what leaves
``planning``, so their base, ``Record``, is the one place where that ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, get_args

import msgspec
import numpy as np

from rescheduler.policies.objective import Tier
from rescheduler.scheduling.framework import IntArray

_NUMBERS: Final = frozenset({bool, int, float})


class Record(msgspec.Struct, frozen=True):
    """A record whose fields have no numpy scalars. Tuples are left as they are: those of records hold records and text."""

    def __post_init__(self) -> None:
        """Also after ``msgspec.structs.replace``."""
        for name in _with_numbers(type(self)):
            value = getattr(self, name)
            if isinstance(value, np.generic):
                msgspec.structs.force_setattr(self, name, value.item())


@cache
def _with_numbers(record: type[Record]) -> tuple[str, ...]:
    """The fields of a record that may have numbers."""
    fields = msgspec.structs.fields(record)
    return tuple(
        field.name for field in fields if not _NUMBERS.isdisjoint({field.type, *get_args(field.type)})
    )


class Badness(Record, frozen=True, omit_defaults=True):
    """One whole number for each tier, in the order in which tiers outweigh each other; of a change, below 0 is better."""

    hard: int = 0
    """Rules that are broken."""
    pending: int = 0
    """Pods that wait for room that other pods take."""
    soft: int = 0
    """Wishes that are not met, in millionths of a pod."""
    balance: int = 0
    """What nodes hold above their targets, in millionths of a node, each point more the fuller the node."""
    fragmentation: int = 0
    """Rooms of a template that pods break."""
    consolidation: int = 0
    """Nodes in use, or their prices, in millionths."""
    emptying: int = 0
    """Pods on nodes that are to be emptied; without a unit."""

    @classmethod
    def of(cls, column: IntArray) -> Badness:
        """That of a column, shape (tiers,)."""
        return cls(*column.tolist())

    def __add__(self, other: Badness) -> Badness:
        """Tier by tier."""
        return Badness(*(a + b for a, b in zip(self.tiers(), other.tiers(), strict=True)))

    def tiers(self) -> tuple[int, ...]:
        """The numbers in the order of ``Tier``."""
        return (
            self.hard, self.pending, self.soft, self.balance, self.fragmentation, self.consolidation, self.emptying,
        )  # fmt: skip

    def by_tier(self) -> dict[str, int]:
        """By name of the tier, without those that are 0."""
        return {tier_name(tier): value for tier, value in zip(Tier, self.tiers(), strict=True) if value}


class NodeCount(Record, frozen=True):
    """How many nodes count in one tier."""

    tier: str
    count: int


class MoveEffect(Record, frozen=True):
    """What one move changes for one policy."""

    policy: str
    change: Badness


def tier_name(tier: Tier) -> str:
    """As it stands in JSON, in logs and in labels of metrics."""
    return _TIER_NAMES[tier]


_TIER_NAMES: Final = {tier: tier.name.lower() for tier in Tier}
"""Each of them once: a plan has tens of thousands of records that name a tier."""


def sum_of(parts: Iterable[Badness]) -> Badness:
    """Of all of them together."""
    return sum(parts, start=Badness())


def by_policy(effects: Iterable[MoveEffect]) -> Mapping[str, Badness]:
    """What the effects add up to for each policy, in the order in which they are first named."""
    found: dict[str, Badness] = {}
    for effect in effects:
        found[effect.policy] = found.get(effect.policy, Badness()) + effect.change
    return found
