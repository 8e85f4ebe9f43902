"""What a decision gives: a plan, and why pods are skipped, written out only where that is asked for. Pure data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rescheduler.planning.plan import Plan
from rescheduler.planning.skipped import SkippedPods
from rescheduler.policies.measurement import Unmeasured


class BeingEmptied(NamedTuple):
    """A node that pods leave by a policy, in this decision or in later ones."""

    policy: str
    node: str


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided."""

    moving: Plan
    """The plan without records of what is skipped: they are written only where they are asked for."""
    skipped: SkippedPods
    unmeasured: Unmeasured | None = None
    """Nodes that policies with usage "actual" leave out; None if there are none. The plan has a warning for each policy."""
    emptying: frozenset[BeingEmptied] = frozenset()
    """What the plan goes on with, of what earlier decisions have begun, and what it begins."""
    end: Callable[[], None] = lambda: None
    """Frees what the decision worked with; ``skipped`` is not asked again. Without it all of that waits for a garbage collection,
    which stops every thread, those that answer API servers among them."""

    def plan(self, *, last: bool = False) -> Plan:
        """The whole plan, with a record for every pod that is skipped. ``last``: ``end`` comes before the records, so that both never need memory at once."""
        skipped = self.skipped.records(self.end) if last else self.skipped.records()
        return msgspec.structs.replace(self.moving, skipped=skipped)
