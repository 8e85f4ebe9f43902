"""What a controller process has read of the cluster: everything at its start, then as late as its watches are.

Each kind has a watch of its own: order is kept within a kind and not between kinds, and any of them may
stall. All of them lose the API server together, and each comes back in its own time. ``behind`` tells whether the
program could not yet know of a change.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Final

from rescheduler.kube.reflector import ChangeType, Gaps, InformerEvent
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.snapshot import Snapshot
from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.wire import GroupKind, group_kind
from rescheduler.sim.storeapi import StoreApi
from rescheduler.testing.histories.watch import Reachable, Watch

WATCHED: Final = {GroupKind(r.group, r.kind or str(kind)): kind for kind, r in RESOURCES.items()}


class Caches:
    """The caches of one process after the other. ``late``: news come in small and random portions."""

    def __init__(self, api: StoreApi, rng: random.Random, *, late: bool, reachable: Reachable) -> None:
        self._api, self._rng, self._late, self._reachable = api, rng, late, reachable
        self._watches: dict[Kind, Watch] = {}
        self._events: deque[InformerEvent] = deque()
        self._state = ClusterState()
        self._decoder = Decoder()
        api.subscribe(self._hear)

    @property
    def synced(self) -> bool:
        """Everything was read once."""
        return all(watch.synced for watch in self._watches.values())

    def read_anew(self, now_s: float) -> None:
        """A process starts: it lists everything, or tries to."""
        self._events.clear()
        self._state = ClusterState()
        self._watches = {
            kind: Watch(kind, self._api, self._decoder, rng=self._rng, reachable=self._reachable)
            for kind in RESOURCES
        }
        self.connect(now_s)
        self._apply()

    def break_off(self, now_s: float, *, forgotten: bool) -> None:
        """All watches end. ``forgotten``: the server will not know any more what they have missed."""
        for watch in self._watches.values():
            self._events += watch.break_off(now_s, forgotten=forgotten)

    def stall(self, kind: Kind, until_s: float) -> None:
        """The watch of this kind says nothing until then."""
        watch = self._watches[kind]
        watch.stalled_until_s = max(until_s, watch.stalled_until_s)

    def connect(self, now_s: float) -> int:
        """Watches that are broken try again, whatever the program is doing; gives how many did."""
        due = [w for w in self._watches.values() if w.asks_at_s is not None and w.asks_at_s <= now_s]
        for watch in due:
            self._events += watch.connect(now_s)
        return len(due)

    def take_in(self, now_s: float) -> None:
        """Hear what has arrived."""
        for watch in self._watches.values():
            self._events += watch.tell(now_s, self._portion)
        self._apply()

    def waiting(self, now_s: float) -> bool:
        """True if there are news that could be heard now."""
        return bool(self._events) or any(
            (due_s := watch.due_s()) is not None and due_s <= now_s for watch in self._watches.values()
        )

    def next_due_s(self, now_s: float) -> float | None:
        """When there are news to hear; None: there are none."""
        if self._events:
            return now_s
        due = [due_s for watch in self._watches.values() if (due_s := watch.due_s()) is not None]
        return max(now_s, min(due)) if due else None

    def asks_at_s(self) -> float | None:
        """When a broken watch tries again; None: all are open."""
        return min((w.asks_at_s for w in self._watches.values() if w.asks_at_s is not None), default=None)

    def gaps(self) -> Gaps:
        """Of the view of pods: see ``Informer.gaps``."""
        return self._watches[Kind.POD].gaps

    def behind(self, kind: Kind, object_uid: str) -> bool:
        """True if something happened to the object that the program has not heard of."""
        untaken = (e.record for e in self._events if e.kind is kind and e.record is not None)
        return self._watches[kind].behind(object_uid) or any(r.uid == object_uid for r in untaken)

    def snapshot(self, now_s: float) -> Snapshot:
        """What the program believes."""
        return self._state.snapshot(now_s)

    def _portion(self, news: int) -> int:
        return self._rng.randint(0, news) if self._late and news else news

    def _apply(self) -> None:
        """As the loop of ``run`` takes events."""
        while self._events:
            event = self._events.popleft()
            if event.type is ChangeType.DELETED:
                self._state.remove(event.kind, event.record)
            elif event.type is not ChangeType.SYNCED:
                self._state.apply(event.kind, event.record)

    def _hear(self, change: Change) -> None:
        kind = WATCHED.get(group_kind(change.object))
        if kind is not None and kind in self._watches:
            self._watches[kind].news.append(change)
