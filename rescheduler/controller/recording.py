"""Keeps ConfigMap ``move-history``: reads it before anything is planned, and writes what has changed in each round.

``coordination.move_history`` decides what it contains. While it cannot be read or written, no move begins, none is
evicted for, and no decision is made, because limits would not count what happens; moves that have evicted go on. The same
holds while the present time is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from rescheduler.controller.mirror import Mirror
from rescheduler.coordination.move_history import MoveHistory
from rescheduler.kube.errors import ApiError
from rescheduler.kube.transport import TransportError
from rescheduler.model.past_moves import PastMove


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
    _failed: ApiError | TransportError | None = None
    _taken: Mapping[str, str] | None = None
    """The content that was taken in last."""
    _bad: frozenset[str] = frozenset()
    """Keys of entries that were logged as ignored."""

    def store(self, now_s: float) -> None:
        """Take in what is stored, and write the difference to what should be. Raises ApiError, TransportError."""
        try:
            if problem := self.no_time():
                raise UnknownTimeError(problem)
            self._take(now_s)
            self.mirror.follow(self.history.content(), now_s)
            self._taken = self.mirror.read(now_s)
        except (ApiError, TransportError) as error:
            self._failed, self.history.problem = error, str(error)
            raise
        self.history.confirm()
        self._failed, self.history.problem = None, ""

    @property
    def behind(self) -> bool:
        """True if something has changed that is not stored yet."""
        return self.history.stored is not self.history.moves

    def current(self, now_s: float) -> Mapping[str, PastMove]:
        """All past moves, for a decision. Raises ApiError, TransportError: they cannot be read or written."""
        if not self.required:
            return self.history.moves
        if self._failed is not None:
            raise self._failed
        self._take(now_s)
        return self.history.moves

    def _take(self, now_s: float) -> None:
        stored = self.mirror.read(now_s)
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
