"""Drives the controllers: one queue of keys per controller, one stepper for all of them.

Nothing here sleeps or starts a thread. ``step`` takes in what happened, reconciles every key that is due,
and takes in its own writes before the next key, so that no controller acts on a cache that is older than
its last write (the real ones need "expectations" for that). A refusal puts the key back with a back-off.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from rescheduler.sim.controllers.api import Api, ApiRefusal, Change
from rescheduler.sim.controllers.view import View
from rescheduler.sim.controllers.wire import GroupKind, Key, Obj, group_kind

_FIRST_BACKOFF_S = 0.05
_LAST_BACKOFF_S = 30.0


class Context:
    """What a controller may use: the cache, the API, the time, and a way to be asked again later."""

    def __init__(self, api: Api, view: View) -> None:
        self.api = api
        self.view = view
        self.now_s = 0.0


class Controller(Protocol):
    """One control loop. It may keep nothing between two calls that it could not find again in the view."""

    name: str

    @property
    def watches(self) -> frozenset[GroupKind] | None:
        """Kinds whose changes it wants to hear of; None: all."""
        ...

    def keys_for(self, view: View, change: Change, old: Obj | None) -> Iterable[Key]:
        """Which keys a change concerns."""
        ...

    def reconcile(self, ctx: Context, place: Key) -> float | None:
        """Bring one key closer to what is wanted; gives the time (epoch seconds) to look again, or None."""
        ...


class WorkQueue:
    """Keys to reconcile: each at most once, in order of arrival; later ones by their time."""

    def __init__(self) -> None:
        self._ready: deque[Key] = deque()
        self._waiting: list[tuple[float, Key]] = []
        self._due: dict[Key, float] = {}
        self._members: set[Key] = set()
        self._failures: dict[Key, int] = {}

    def add(self, place: Key) -> None:
        """Reconcile this key soon."""
        if place not in self._members:
            self._members.add(place)
            self._ready.append(place)

    def add_at(self, place: Key, moment_s: float) -> None:
        """Reconcile this key not before ``moment_s``; an earlier appointment stays."""
        if self._due.get(place, math.inf) > moment_s:
            self._due[place] = moment_s
            heapq.heappush(self._waiting, (moment_s, place))

    def pop(self, now_s: float) -> Key | None:
        """The next key that is due."""
        while self._waiting and self._waiting[0][0] <= now_s:
            moment_s, place = heapq.heappop(self._waiting)
            if self._due.get(place) == moment_s:
                del self._due[place]
                self.add(place)
        if not self._ready:
            return None
        place = self._ready.popleft()
        self._members.discard(place)
        return place

    def failed(self, place: Key, now_s: float) -> None:
        """Try this key again after a back-off that doubles."""
        count = self._failures.get(place, 0)
        self._failures[place] = count + 1
        self.add_at(place, now_s + min(_FIRST_BACKOFF_S * 2.0**count, _LAST_BACKOFF_S))

    def succeeded(self, place: Key) -> None:
        """Forget earlier failures of this key."""
        self._failures.pop(place, None)

    def next_due_s(self) -> float | None:
        """When the next key is due; 0.0 if one is due now, None if there is none."""
        if self._ready:
            return 0.0
        return self._waiting[0][0] if self._waiting else None


class ControllerRuntime:
    """All controllers on one view. Owned by one thread; only ``_hear`` is called by others."""

    def __init__(self, api: Api, controllers: Sequence[Controller]) -> None:
        self._inbox: deque[Change] = deque()
        self.view = View()
        self._context = Context(api, self.view)
        self._work = [(c, WorkQueue()) for c in controllers]
        self._unsubscribe = api.subscribe(self._hear)

    def prime(self, existing: Iterable[Obj]) -> None:
        """Take in objects that were there before the subscription."""
        for obj in existing:
            self._dispatch(Change("ADDED", obj))

    def close(self) -> None:
        """Stop listening."""
        self._unsubscribe()

    def step(self, now_s: float, limit: int = 10_000) -> int:
        """Reconcile everything that is due at ``now_s``; gives how many keys that were.

        ``limit`` bounds one call, so that two controllers that disagree cannot hold the thread for ever.
        """
        self._context.now_s = now_s
        self._drain()
        done = 0
        progress = True
        while progress and done < limit:
            progress = False
            for controller, queue in self._work:
                place = queue.pop(now_s)
                if place is not None:
                    self._reconcile(controller, queue, place, now_s)
                    done += 1
                    progress = True
        return done

    def next_due_s(self) -> float | None:
        """When ``step`` has something to do again without any event (epoch seconds); None: never."""
        if self._inbox:
            return 0.0
        due = [t for _, q in self._work if (t := q.next_due_s()) is not None]
        return min(due, default=None)

    def _reconcile(self, controller: Controller, queue: WorkQueue, place: Key, now_s: float) -> None:
        try:
            again = controller.reconcile(self._context, place)
        except ApiRefusal:
            queue.failed(place, now_s)
        else:
            queue.succeeded(place)
            if again is not None:
                queue.add_at(place, again)
        self._drain()

    def _hear(self, change: Change) -> None:
        self._inbox.append(change)

    def _drain(self) -> None:
        while self._inbox:
            self._dispatch(self._inbox.popleft())

    def _dispatch(self, change: Change) -> None:
        old = self.view.apply(change)
        kind = group_kind(change.object)
        for controller, queue in self._work:
            if controller.watches is None or kind in controller.watches:
                for place in controller.keys_for(self.view, change, old):
                    queue.add(place)
