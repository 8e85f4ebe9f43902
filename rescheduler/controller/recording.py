"""Keeps ConfigMap ``move-history``: reads it before anything is planned, and writes what has changed in each round.

``coordination.move_history`` decides what it contains. While it cannot be read or written, no move begins, none is
evicted for, and no decision is made, because limits would not count what happens; moves that have evicted go on. The same
holds while the present time is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import structlog

from rescheduler.controller.mirror import Done, Mirror, raised
from rescheduler.coordination.move_history import MoveHistory
from rescheduler.kube.errors import ApiError
from rescheduler.kube.transport import TransportError
from rescheduler.model.past_moves import PastMove

ENDS_WAIT_S: Final = 5.0
"""How long the end of a move may wait for others before it is stored: its PodMigration is not deleted before, and says it."""


class UnknownTimeError(TransportError):
    """The API servers do not agree on the time: what depends on ages must wait."""


@dataclass(slots=True, kw_only=True)
class MoveRecorder:
    """Reads and writes the ConfigMap. Used by the core thread only."""

    mirror: Mirror
    required: bool = True
    """False for a dry run: it also decides if it may not read the ConfigMap."""
    no_time: Callable[[], str] = lambda: ""
    """Why the present time is not known, and so no time can be recorded; empty if it is."""
    history: MoveHistory = field(default_factory=MoveHistory)
    log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.history"))
    write_at_s: float | None = None
    """When what waits is written; None: nothing waits."""
    _failed: ApiError | TransportError | None = None
    _taken: Mapping[str, str] | None = None
    """The content that was taken in last."""
    _bad: frozenset[str] = frozenset()
    """Keys of entries that were logged as ignored."""

    def store(self, now_s: float, done: Done = raised) -> None:
        """Take in what is stored, then begin to write the difference to what should be.

        ``done`` is called on the core thread with what became of each call.
        """
        if problem := self.no_time():
            self._ended(UnknownTimeError(problem), now_s, done)
            return
        stored = self.mirror.read(now_s, partial(self._ended, done=done))
        # Never written before it was read: what this process does not know yet would be removed.
        if stored is None:
            return
        self._take(stored, now_s)
        if self._may_wait(now_s):
            return
        content, moves = self.history.content(), self.history.moves
        self.mirror.follow(content, now_s, partial(self._wrote, moves, done))
        if not self.mirror.behind:
            self._stored(moves)

    @property
    def behind(self) -> bool:
        """True if something has changed that is not stored yet."""
        return self.history.stored is not self.history.moves

    def current(self) -> Mapping[str, PastMove] | None:
        """All past moves, for a decision; None: they are being read. Raises ApiError, TransportError: they cannot be."""
        if not self.required:
            return self.history.moves
        if self._failed is not None:
            raise self._failed
        return self.history.moves if self._taken is not None else None

    @property
    def awaited(self) -> bool:
        """True while a decision has to wait for the first read."""
        return self.required and self._failed is None and self._taken is None

    def _may_wait(self, now_s: float) -> bool:
        """True while all that is not stored yet is how moves ended: written together with what others wait for, or later."""
        if not self.history.may_wait:
            self.write_at_s = None
            return False
        if self.write_at_s is None:
            self.write_at_s = now_s + ENDS_WAIT_S
        if now_s < self.write_at_s:
            return True
        self.write_at_s = None
        return False

    def _wrote(
        self, moves: Mapping[str, PastMove], done: Done, error: Exception | None, now_s: float
    ) -> None:
        """A call has landed; ``moves``: what it wrote, if it was a write."""
        if error is None and not self.mirror.behind:
            self._stored(moves)
        self._ended(error, now_s, done)

    def _stored(self, moves: Mapping[str, PastMove]) -> None:
        self.history.confirm(moves)
        self._taken = self.mirror.known
        self._failed, self.history.problem = None, ""

    def _ended(self, error: Exception | None, now_s: float, done: Done) -> None:
        if error is not None:
            self.history.problem = str(error)
            self._failed = (
                error if isinstance(error, ApiError | TransportError) else TransportError(str(error))
            )
        done(error, now_s)

    def _take(self, stored: Mapping[str, str], now_s: float) -> None:
        if stored is self._taken:
            return
        self._taken = stored
        bad = frozenset(self.history.read(stored, now_s))
        if bad - self._bad:
            self.log.warning(
                "Entries of ConfigMap move-history cannot be read: they are ignored and removed",
                keys=sorted(key[:80] for key in bad)[:20],
                entries=len(bad),
            )
        self._bad = bad
