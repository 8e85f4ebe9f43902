"""The script of a history: what users, other programs and faults do, and when.

A disturbance is due at a time, or after a number of milestones of the program, so that it hits the middle of a move. The
script marks its own writes (``acting``) and records which objects its disturbances hit (``hits``): the checker excuses
a broken invariant only for those.
"""

from __future__ import annotations

import enum
import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.controllers.unstructured import Obj

Tell = Callable[[str], None]


class Milestone(enum.StrEnum):
    """Writes after which a disturbance can be due: all of the program, and the steps of moves."""

    WRITE = "write"
    MOVE = "new move"
    AVAILABLE = "Available"
    INTENT = "intent to evict"
    EVICTED = "eviction"


@dataclass(order=True, slots=True)
class _Entry:
    at: float
    serial: int
    name: str = field(compare=False)
    do: Callable[[], None] = field(compare=False)
    later_s: float = field(default=0.0, compare=False)


class Script:
    """A component of the sandbox. ``done``: how often each disturbance was carried out."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._serial = itertools.count()
        self._by_time: list[_Entry] = []
        self._by_milestone: dict[Milestone, list[_Entry]] = {milestone: [] for milestone in Milestone}
        self._milestones: Counter[Milestone] = Counter()
        self._rests_until_s = 0.0
        self.acting = False
        self.done: Counter[str] = Counter()
        self.hits: set[str] = set()

    def at(self, moment_s: float, name: str, do: Callable[[], None]) -> None:
        """Do this at a moment (epoch seconds)."""
        heapq.heappush(self._by_time, _Entry(moment_s, next(self._serial), name, do))

    def after(
        self, count: int, milestone: Milestone, name: str, do: Callable[[], None], *, later_s: float = 0.0
    ) -> None:
        """Do this ``later_s`` after the milestone was reached ``count`` times."""
        heapq.heappush(self._by_milestone[milestone], _Entry(count, next(self._serial), name, do, later_s))

    def note(self, milestone: Milestone) -> None:
        """A milestone was reached."""
        self._milestones[milestone] += 1

    def rest(self, until_s: float) -> None:
        """Do nothing before then (the API server is away); what is due meanwhile is done then."""
        self._rests_until_s = max(until_s, self._rests_until_s)

    def clear(self) -> None:
        """Drop everything that is not done yet."""
        self._by_time.clear()
        for entries in self._by_milestone.values():
            entries.clear()

    def step(self, now_s: float) -> int:
        """Do what is due."""
        if now_s < self._rests_until_s:
            return 0
        due = []
        while self._by_time and self._by_time[0].at <= now_s:
            due.append(heapq.heappop(self._by_time))
        for milestone, entries in self._by_milestone.items():
            while entries and entries[0].at <= self._milestones[milestone]:
                due.append(heapq.heappop(entries))
        for entry in due:
            if entry.later_s:
                self.at(now_s + entry.later_s, entry.name, entry.do)
            else:
                self._carry_out(entry)
        return len(due)

    def next_due_s(self, now_s: float) -> float | None:
        """When the next disturbance is due; None if none waits for a time or for a milestone that was reached."""
        if any(
            entries and entries[0].at <= self._milestones[milestone]
            for milestone, entries in self._by_milestone.items()
        ):
            return max(now_s, self._rests_until_s)
        return max(self._by_time[0].at, self._rests_until_s) if self._by_time else None

    def _carry_out(self, entry: _Entry) -> None:
        """A disturbance that the API server refuses is no fault: it is only noted in the trace."""
        self._tell(f"-- {entry.name}")
        self.acting = True
        try:
            entry.do()
        except StatusError as refusal:
            self._tell(f"   refused: {refusal}")
        else:
            self.done[entry.name] += 1
        finally:
            self.acting = False


def names_of(obj: Obj) -> str:
    """KIND NAMESPACE/NAME, for traces."""
    metadata = obj["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{obj['kind']} {place}{metadata['name']}"
