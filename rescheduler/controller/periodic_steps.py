"""Steps of what is looked after in rounds and is no Reservation and no move; here those that keep emptied nodes empty.

A look visits all pods, or all moves, so it is made once a second at most, not in every round. ``coordination.emptied_nodes`` decides
about nodes; while there is one, it is looked each five seconds where nothing changes: times are over then, a little later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from rescheduler.calls.call import AnyCall
from rescheduler.coordination.emptied_nodes import observed_nodes, step
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import earliest
from rescheduler.planning.decided import BeingEmptied
from rescheduler.policies.keeping_empty import KeepingRule

BETWEEN_LOOKS_S: Final = 1.0
_AT_LATEST_S: Final = 5.0
"""After the last look, while a node is kept and nothing wakes a round."""


def keeping_machine(node: str) -> ObjectKey:
    """The machine that keeps one node empty."""
    return ObjectKey("kept-empty", node)


class PeriodicStep(NamedTuple):
    """Of something that is looked after in rounds and is no Reservation and no move: emptied nodes, windows, head-rooms."""

    machine: ObjectKey
    calls: Callable[[], Sequence[AnyCall]]
    """Decides; what it raises concerns this machine only."""


@dataclass(slots=True)
class Looks:
    """When it is looked, and what was found. Used by the core thread only."""

    again_s: float | None = None
    """When to look again at the latest; None: only when something changes."""
    machines: tuple[ObjectKey, ...] = ()
    """Of what was found at the last look."""
    _looked_s: float = -math.inf

    def rests(self, now_s: float) -> bool:
        """True if the last look was a moment ago. Else it is looked now."""
        if 0 <= now_s - self._looked_s < BETWEEN_LOOKS_S:
            # What woke this round may be seen only now: without a time nobody would look until the next change.
            self.wake(self._looked_s + BETWEEN_LOOKS_S)
            return True
        self._looked_s, self.again_s = now_s, None
        return False

    def wake(self, at_s: float | None) -> None:
        """Look then at the latest."""
        self.again_s = earliest(self.again_s, at_s)


@dataclass(slots=True)
class EmptiedNodeKeeper(Looks):
    """Looks after emptied nodes."""

    emptying: frozenset[BeingEmptied] | None = None
    """What the last decision empties; None: there was none yet."""

    def steps(
        self, snapshot: Snapshot, unbound: Iterable[Pod], rules: Sequence[KeepingRule], now_s: float
    ) -> Iterator[PeriodicStep]:
        """What is to be done now. ``unbound``: pods without a node, those that ask the node autoscaler for one too."""
        if self.rests(now_s):
            return
        found = tuple(observed_nodes(snapshot, unbound, rules, self.emptying, now_s))
        self.machines = tuple(keeping_machine(observed.node.name) for observed in found)
        self.wake(now_s + _AT_LATEST_S if found else None)
        for observed in found:
            if calls := step(observed, now_s):
                machine = keeping_machine(observed.node.name)
                yield PeriodicStep(machine, partial(tuple, calls))
