"""One call that the core thread begins and does not wait for: a read, or a write of an object that has no machine.

Used for what is not a step of a Reservation or a move: the controller's own ConfigMaps, probes of schedulers, reads that
help a decision. The call is made on any thread; its outcome is taken on the core thread. Nothing is tried again here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rescheduler.controller.call_pool import OWN_LANE
from rescheduler.controller.effects import NotLeaderError

T = TypeVar("T")


@dataclass(slots=True)
class OneCall(Generic[T]):
    """A ``call_pool.Work`` of one call. ``take`` and ``failed`` also get seconds since the epoch."""

    what: str
    """What it is about, for people."""
    ask: Callable[[], T]
    take: Callable[[T, float], None]
    failed: Callable[[Exception, float], None]
    """Called with whatever ``ask`` raised, defects included; lost leadership is raised instead."""
    lane: str = OWN_LANE
    _answer: list[T] = field(default_factory=list)
    _error: Exception | None = None

    def call(self) -> bool:
        """Make the call."""
        try:
            self._answer.append(self.ask())
        except Exception as error:  # noqa: BLE001 - it is told on the core thread
            self._error = error
        return False

    def land(self, now_s: float) -> None:
        """Give the outcome on. Raises NotLeaderError."""
        if isinstance(self._error, NotLeaderError):
            raise self._error
        if self._error is not None:
            self.failed(self._error, now_s)
        for answer in self._answer:
            self.take(answer, now_s)
