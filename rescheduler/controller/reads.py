"""Reads that only help a decision, such as the measured usage of nodes: asked for beside the loop, taken when they are there.

A read that fails or hangs delays nothing but what it would have told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rescheduler.controller.call_pool import OWN_LANE, CallPool
from rescheduler.model.records import NodeUsage

T = TypeVar("T")


@dataclass(slots=True)
class Read(Generic[T]):
    """One read, as a ``call_pool.Work``. ``ask`` runs on any thread, ``take`` and ``failed`` on the core thread."""

    ask: Callable[[], T]
    take: Callable[[T], None]
    failed: Callable[[Exception], None]
    lane: str = OWN_LANE
    _answer: list[T] = field(default_factory=list)
    _error: Exception | None = None

    def call(self) -> bool:
        """Ask."""
        try:
            self._answer.append(self.ask())
        except Exception as error:  # noqa: BLE001 - what only helps ends nothing, whatever a server answers
            self._error = error
        return False

    def land(self, now_s: float) -> None:
        """Give the answer on."""
        del now_s
        if self._error is not None:
            self.failed(self._error)
        for answer in self._answer:
            self.take(answer)


@dataclass(slots=True, kw_only=True)
class UsageReader:
    """Reads the measured usage of nodes at intervals. Used by the core thread only."""

    read: Callable[[], Sequence[NodeUsage]]
    """Raises ApiError, TransportError."""
    pool: CallPool
    every_s: float = 30.0
    _due_s: float = 0.0
    _asks: bool = False
    _known: bool = False
    _usage: Sequence[NodeUsage] = ()

    def current(self, now_s: float) -> Sequence[NodeUsage] | None:
        """What is known; None until the first read has an answer, or has failed. Begins the next read if it is due."""
        if not self._asks and (now_s >= self._due_s or not self._known):
            self._asks, self._due_s = True, now_s + self.every_s
            self.pool.begin(Read(self.read, self._take, lambda _: self._take(())), now_s)
        return self._usage if self._known else None

    @property
    def awaited(self) -> bool:
        """True while the first read has no answer."""
        return self._asks and not self._known

    def _take(self, usage: Sequence[NodeUsage]) -> None:
        self._asks, self._known, self._usage = False, True, usage
