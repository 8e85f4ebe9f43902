"""Reads that only help a decision, such as the measured usage of nodes: asked for beside the loop, taken when they are there.

A read that fails or hangs delays nothing but what it would have told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rescheduler.controller.call_pool import CallPool, InlinePool
from rescheduler.controller.one_call import OneCall
from rescheduler.model.records import NodeUsage

USAGE: Final = "measured usage of nodes"
GATE: Final = "whether the gate is in force"


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
            self.pool.begin(
                OneCall(USAGE, self.read, self._take, lambda _, at_s: self._take((), at_s)), now_s
            )
        return self._usage if self._known else None

    @property
    def awaited(self) -> bool:
        """True while the first read has no answer."""
        return self._asks and not self._known

    def _take(self, usage: Sequence[NodeUsage], _now_s: float) -> None:
        self._asks, self._known, self._usage = False, True, usage


@dataclass(slots=True, kw_only=True)
class GateReader:
    """Reads whether the gate is in force, for decisions; each eviction proves it anew. Used by the core thread only."""

    read: Callable[[], bool]
    """Raises ApiError, TransportError."""
    pool: CallPool = field(default_factory=InlinePool)
    every_s: float = 5.0
    _due_s: float = 0.0
    _asks: bool = False
    _in_force: bool | None = None
    _error: Exception | None = None

    def current(self, now_s: float) -> bool | None:
        """What is known; None until the first answer. That it is not in force counts for one decision, then it is read again.

        Raises what the last read raised, once.
        """
        if not self._asks and now_s >= self._due_s:
            self._asks, self._due_s = True, now_s + self.every_s
            self.pool.begin(OneCall(GATE, self.read, self._take, self._failed), now_s)
        error, known = self._error, self._in_force
        self._error = None
        if known is False:
            self._in_force, self._due_s = None, now_s
        if error is not None:
            raise error
        return known

    @property
    def awaited(self) -> bool:
        """True while a decision needs the answer of a read."""
        return self._asks and self._in_force is None

    def _take(self, in_force: bool, _now_s: float) -> None:  # noqa: FBT001
        self._asks, self._in_force = False, in_force

    def _failed(self, error: Exception, _now_s: float) -> None:
        self._asks, self._in_force, self._due_s, self._error = False, None, 0.0, error
