"""Which Events are written, and which are not because the same was said lately, or too much at once (pure).

The same thing, note included, said again about the same object is one Event in six minutes. Another note is another Event: a note
cannot be changed afterwards, and folded into the first one it would name the wrong pod. Everything together passes a token bucket, so
that no storm of refusals becomes a storm of writes.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from typing import Final

from rescheduler.model.event import Event

WINDOW_S: Final = 360.0
REMEMBERED: Final = 4_096


class EventFate(enum.Enum):
    """What becomes of an occurrence."""

    WRITTEN = enum.auto()
    SAID = enum.auto()
    """It was said lately."""
    DROPPED = enum.auto()
    """There are too many."""


class EventCorrelator:
    """Remembers what was said lately, bounded in size. One thread."""

    def __init__(self, *, per_second: float = 5.0, burst: float = 50.0) -> None:
        self._per_second, self._burst = per_second, burst
        self._tokens, self._filled_s = burst, 0.0
        self._said_s: OrderedDict[Event, float] = OrderedDict()

    def fate(self, what: Event, now_s: float) -> EventFate:
        """Of what is said now."""
        said_s = self._said_s.get(what)
        if said_s is not None and now_s - said_s <= WINDOW_S:
            return EventFate.SAID
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_s) * self._per_second)
        self._filled_s = now_s
        if self._tokens < 1:
            return EventFate.DROPPED
        self._tokens -= 1
        self._said_s[what] = now_s
        self._said_s.move_to_end(what)
        if len(self._said_s) > REMEMBERED:
            self._said_s.popitem(last=False)
        return EventFate.WRITTEN
