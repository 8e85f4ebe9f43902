"""Which Events are written, which are counted into a series, which are dropped (pure).

The same thing, note included, said again about the same object within the window is one Event with a count, updated
now and then. Another note is another Event: a note cannot be changed afterwards, and folded into the first one it would
name the wrong pod. Everything together passes a token bucket, so that no storm of refusals becomes a storm of writes.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import msgspec

WINDOW_S: Final = 360.0
UPDATE_EVERY_S: Final = 30.0
REMEMBERED: Final = 4_096


class ObjectReference(msgspec.Struct, frozen=True):
    """The object that an Event is about."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"


class Occurrence(msgspec.Struct, frozen=True):
    """Something that people should know. ``reason`` and ``action``: CamelCase words of a closed list."""

    regarding: ObjectReference
    reason: str
    note: str
    action: str = "Reschedule"
    related: ObjectReference | None = None
    warning: bool = False


class EventWrite(enum.Enum):
    """What to do with an occurrence."""

    CREATE = enum.auto()
    UPDATE = enum.auto()
    COUNT_ONLY = enum.auto()
    DROP = enum.auto()


@dataclass(slots=True)
class Series:
    """One Event object and how often it was meant."""

    name: str
    count: int
    last_s: float
    written_s: float


class EventCorrelator:
    """Remembers what was said lately, bounded in size. One thread."""

    def __init__(self, *, per_second: float = 5.0, burst: float = 50.0) -> None:
        self._per_second, self._burst = per_second, burst
        self._tokens, self._filled_s = burst, 0.0
        self._series: OrderedDict[Occurrence, Series] = OrderedDict()

    def on_occurrence(self, what: Occurrence, name: str, now_s: float) -> tuple[EventWrite, Series]:
        """What to write now. ``name``: the Event's name if it is a new one."""
        known = self._series.get(what)
        if known is None or now_s - known.last_s > WINDOW_S:
            fresh = Series(name, 1, now_s, now_s)
            if not self._pass(now_s):
                return EventWrite.DROP, fresh
            self._remember(what, fresh)
            return EventWrite.CREATE, fresh
        known.count += 1
        known.last_s = now_s
        self._series.move_to_end(what)
        if now_s - known.written_s < UPDATE_EVERY_S or not self._pass(now_s):
            return EventWrite.COUNT_ONLY, known
        known.written_s = now_s
        return EventWrite.UPDATE, known

    def _remember(self, what: Occurrence, series: Series) -> None:
        self._series[what] = series
        self._series.move_to_end(what)
        while len(self._series) > REMEMBERED:
            self._series.popitem(last=False)

    def _pass(self, now_s: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_s) * self._per_second)
        self._filled_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
