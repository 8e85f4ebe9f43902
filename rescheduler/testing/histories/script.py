"""What happens in a history from outside: deeds of people, of other programs and of fate, each at its moment.

A deed is due at a time, or after so many marks of the program, so that it hits the middle of a move. The
script knows which writes are its own (``acting``) and remembers whom its deeds hit (``hits``): the witness
excuses nothing else.
"""

from __future__ import annotations

import enum
import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rescheduler.sim.controllers.api import ApiRefusal
from rescheduler.sim.controllers.wire import Obj

Tell = Callable[[str], None]


class Mark(enum.StrEnum):
    """What the program does that deeds are counted by."""

    WRITE = "write"
    INTENT = "intent to evict"


@dataclass(order=True, slots=True)
class _Entry:
    at: float
    serial: int
    name: str = field(compare=False)
    do: Callable[[], None] = field(compare=False)


class Script:
    """A stepper of the cluster. ``done``: names of the deeds that were carried out, counted."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._serial = itertools.count()
        self._by_time: list[_Entry] = []
        self._by_mark: dict[Mark, list[_Entry]] = {mark: [] for mark in Mark}
        self._marks: Counter[Mark] = Counter()
        self._rests_until_s = 0.0
        self.acting = False
        self.done: Counter[str] = Counter()
        self.hits: set[str] = set()

    def at(self, moment_s: float, name: str, do: Callable[[], None]) -> None:
        """Do this at a moment (epoch seconds)."""
        heapq.heappush(self._by_time, _Entry(moment_s, next(self._serial), name, do))

    def after(self, count: int, mark: Mark, name: str, do: Callable[[], None]) -> None:
        """Do this once the program has done that so often."""
        heapq.heappush(self._by_mark[mark], _Entry(count, next(self._serial), name, do))

    def note(self, mark: Mark) -> None:
        """The program has done it."""
        self._marks[mark] += 1

    def rest(self, until_s: float) -> None:
        """Nobody can do anything before then; what is due meanwhile is done then."""
        self._rests_until_s = max(until_s, self._rests_until_s)

    def clear(self) -> None:
        """Nothing more happens."""
        self._by_time.clear()
        for entries in self._by_mark.values():
            entries.clear()

    def step(self, now_s: float) -> int:
        """Do what is due."""
        if now_s < self._rests_until_s:
            return 0
        due = []
        while self._by_time and self._by_time[0].at <= now_s:
            due.append(heapq.heappop(self._by_time))
        for mark, entries in self._by_mark.items():
            while entries and entries[0].at <= self._marks[mark]:
                due.append(heapq.heappop(entries))
        for entry in due:
            self._carry_out(entry)
        return len(due)

    def next_due_s(self, now_s: float) -> float | None:
        """When the next deed is due; those that wait for a mark come with it."""
        if any(entries and entries[0].at <= self._marks[mark] for mark, entries in self._by_mark.items()):
            return max(now_s, self._rests_until_s)
        return max(self._by_time[0].at, self._rests_until_s) if self._by_time else None

    def _carry_out(self, entry: _Entry) -> None:
        """What an API server refuses to people is no fault of anybody."""
        self._tell(f"-- {entry.name}")
        self.acting = True
        try:
            entry.do()
        except ApiRefusal as refusal:
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
