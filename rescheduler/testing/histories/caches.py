"""What a controller process has read of the cluster: everything at its start, then as late as its watches are.

Each kind has a watch of its own: order is kept within a kind and not between kinds, and any of them may
stall. ``behind`` tells whether the program could not yet know of a change.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Final

from rescheduler.model.kinds import RESOURCES
from rescheduler.model.snapshot import Snapshot
from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.wire import uid
from rescheduler.sim.scheduler.records import ClusterRecords
from rescheduler.sim.storeapi import StoreApi

WATCHED: Final = frozenset(resource.kind or str(kind) for kind, resource in RESOURCES.items())


class Caches:
    """The caches of one process after the other. ``late``: news come in small and random portions."""

    def __init__(self, api: StoreApi, rng: random.Random, *, late: bool) -> None:
        self._api, self._rng, self._late = api, rng, late
        self._news: dict[str, deque[Change]] = {}
        self._stalled_until_s: dict[str, float] = {}
        self._records = ClusterRecords()
        api.subscribe(self._hear)

    def read_anew(self) -> None:
        """A process starts: it lists everything."""
        self._news.clear()
        self._stalled_until_s.clear()
        self._records = ClusterRecords()
        for obj in self._api.everything():
            self._records.apply(Change("ADDED", obj))

    def stall(self, kind: str, until_s: float) -> None:
        """The watch of this kind says nothing until then."""
        self._stalled_until_s[kind] = max(until_s, self._stalled_until_s.get(kind, 0.0))

    def take_in(self, now_s: float) -> None:
        """Hear what has arrived."""
        for kind, news in self._news.items():
            if now_s < self._stalled_until_s.get(kind, 0.0):
                continue
            portion = self._rng.randint(0, len(news)) if self._late else len(news)
            for _ in range(portion):
                self._records.apply(news.popleft())

    def waiting(self, now_s: float) -> bool:
        """True if there are news that could be heard now."""
        return any(
            news and now_s >= self._stalled_until_s.get(kind, 0.0) for kind, news in self._news.items()
        )

    def next_due_s(self, now_s: float) -> float | None:
        """When there are news to hear; None: there are none."""
        due = [max(now_s, self._stalled_until_s.get(kind, 0.0)) for kind, news in self._news.items() if news]
        return min(due, default=None)

    def behind(self, kind: str, object_uid: str) -> bool:
        """True if something happened to the object that the program has not heard of."""
        return any(uid(change.object) == object_uid for change in self._news.get(kind, ()))

    def snapshot(self, now_s: float) -> Snapshot:
        """What the program believes."""
        return self._records.snapshot(now_s)

    def _hear(self, change: Change) -> None:
        kind = change.object["kind"]
        if kind in WATCHED:
            self._news.setdefault(kind, deque()).append(change)
