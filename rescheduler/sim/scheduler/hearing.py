"""What the scheduler has heard of the cluster, and what it has not: its watches, and the list that follows an outage.

Usually changes are heard in order and at once. A scheduler that has lost the API server hears nothing for a
while and then reads a new list, as client-go does it (``reconcileReplacement``): it is told what is gone before it
is told of anything else, and it goes on scheduling in between. While it hears nothing it tries nothing.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable

from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.wire import Obj, uid

ReadAnew = Callable[[], Iterable[Obj]]
"""Lists everything that there is."""


class Hearing:
    """A queue of changes. ``hear`` may be called by any thread; all else by the one that owns the scheduler."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._inbox: deque[Change] = deque()
        self._heard: dict[str, Obj] = {}
        self._untold: deque[Change] = deque()
        """What a new list has besides what is gone, and what has changed since it was read."""
        self._deaf_until_s = 0.0
        self._read_anew: ReadAnew | None = None

    def hear(self, change: Change) -> None:
        """Something changed."""
        if self._read_anew is None:  # otherwise the list will tell
            (self._untold or self._inbox).append(change)

    def next(self) -> Change | None:
        """What can be heard now, one by one; None: nothing more."""
        if not self._inbox:
            return None
        change = self._inbox.popleft()
        if change.type == "DELETED":
            self._heard.pop(uid(change.object), None)
        else:
            self._heard[uid(change.object)] = change.object
        return change

    def lose(self, until_s: float, read_anew: ReadAnew) -> None:
        """Nothing is heard until then; a list is read anew at that moment."""
        self._inbox.clear()
        self._untold.clear()
        self._deaf_until_s, self._read_anew = until_s, read_anew

    def deaf(self, now_s: float) -> bool:
        """True while nothing is heard. The first look afterwards reads the list; later ones tell more of it."""
        if self._read_anew is not None:
            if now_s < self._deaf_until_s:
                return True
            self._take(list(self._read_anew()))
            self._read_anew = None
        elif self._untold:
            for _ in range(self._rng.randint(1, len(self._untold))):
                self._inbox.append(self._untold.popleft())
        return False

    def own(self, pod_uid: str) -> None:
        """A binding of its own is known to the scheduler before its watch tells (the "assumed" pod)."""
        self._inbox.extend(c for c in self._untold if uid(c.object) == pod_uid)
        self._untold = deque(c for c in self._untold if uid(c.object) != pod_uid)

    def due_s(self) -> float | None:
        """When there is something to hear (epoch seconds); None: nothing yet."""
        if self._read_anew is not None:
            return self._deaf_until_s
        return 0.0 if self._inbox or self._untold else None

    def _take(self, listed: list[Obj]) -> None:
        there = {uid(obj) for obj in listed}
        self._inbox.extend(Change("DELETED", obj) for known, obj in self._heard.items() if known not in there)
        self._untold.extend(Change("MODIFIED", obj) for obj in listed if self._heard.get(uid(obj)) is not obj)
