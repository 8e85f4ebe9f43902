"""The informers of a controller process: they list everything at its start and then receive events, possibly late.

Each kind has a watch of its own: events are in order within a kind, not between kinds, and any watch may stall. In an
outage all watches break together, and each reconnects in its own time. ``behind`` returns whether the program could
not know of a change yet.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection
from queue import SimpleQueue
from typing import Final

from harness.histories.watch import Reachable, Watch
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.unstructured import GroupKind, group_kind
from rescheduler.kube.informer import Events
from rescheduler.kube.reflector import EndKind, Gaps, InformerEvent
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind

WATCHED: Final = {GroupKind(r.group, r.kind or str(kind)): kind for kind, r in RESOURCES.items()}


class Caches:
    """The informers of one process after the other, as the loop sees them; stepped, not threads.

    ``late``: events arrive in small and random portions.
    """

    def __init__(
        self, api: Api, rng: random.Random, *, clock: Callable[[], float], late: bool, reachable: Reachable
    ) -> None:
        self._api, self._rng, self._late, self._reachable = api, rng, late, reachable
        self._clock = clock
        self._watches: dict[Kind, Watch] = {}
        self._arrived: deque[InformerEvent] = deque()
        """Events that the watches have received and that are not in the queue of the loop yet."""
        self._decoder = Decoder()
        self._refused_until_s: dict[Kind, float] = {}
        self._lags_s: dict[Kind, float] = {}
        self._unserved: dict[Kind, tuple[float, EndKind]] = {}
        self.events: Events = SimpleQueue()
        api.subscribe(self._hear)

    # What the loop calls

    def synced(self) -> bool:
        """Everything was read once."""
        return all(watch.synced for watch in self._watches.values())

    def stale_for_s(self) -> float:
        """Age of the oldest cache."""
        return max(watch.stale_for_s() for watch in self._watches.values())

    def waiting_for(self) -> tuple[Kind, ...]:
        """Kinds whose first list is not complete."""
        return tuple(kind for kind, watch in self._watches.items() if not watch.synced)

    def unknown(self) -> dict[Kind, str]:
        """Kinds that were read and of which nothing is known now, each with the reason."""
        return {kind: watch.unknown for kind, watch in self._watches.items() if watch.unknown}

    def problems(self) -> dict[Kind, str]:
        """Kinds that cannot be read, each with the reason."""
        return {kind: watch.problem for kind, watch in self._watches.items() if watch.problem}

    def gaps(self, kind: Kind) -> Gaps:
        """See ``Informer.gaps``."""
        return self._watches[kind].gaps

    def watches(self) -> tuple[Watch, ...]:
        """Each of them, for the metrics of the process."""
        return tuple(self._watches.values())

    # What the history does

    def read_anew(self, now_s: float) -> None:
        """A process starts: it lists everything, or tries to."""
        self._arrived.clear()
        self.events = SimpleQueue()
        self._watches = {
            kind: Watch(
                kind, self._api, self._decoder, rng=self._rng, reachable=self._reachable, clock=self._clock
            )
            for kind in RESOURCES
        }
        for kind, until_s in self._refused_until_s.items():
            self._watches[kind].refused_until_s = until_s
        for kind, lag_s in self._lags_s.items():
            self._watches[kind].lag_s = lag_s
        for kind, (until_s, end) in self._unserved.items():
            self._watches[kind].unserved_until_s, self._watches[kind].unserved = until_s, end
        self.connect(now_s)

    def break_off(self, now_s: float, *, forgotten: bool) -> None:
        """All watches end. ``forgotten``: they cannot continue afterwards and must list again."""
        for watch in self._watches.values():
            self._arrived += watch.break_off(now_s, forgotten=forgotten)

    def stall(self, kind: Kind, until_s: float) -> None:
        """The watch of this kind receives nothing until then."""
        watch = self._watches[kind]
        watch.stalled_until_s = max(until_s, watch.stalled_until_s)

    def refuse(self, kind: Kind, until_s: float) -> None:
        """The server refuses this kind until then: its watch ends, and no process can list it."""
        self._refused_until_s[kind] = until_s
        self._watches[kind].refused_until_s = until_s
        self._arrived += self._watches[kind].break_off(self._clock(), forgotten=False)

    def unserve(self, kind: Kind, until_s: float, end: EndKind) -> None:
        """Until then requests for this kind are answered with 404: its watch ends."""
        self._unserved[kind] = until_s, end
        self._watches[kind].unserved_until_s, self._watches[kind].unserved = until_s, end
        self._arrived += self._watches[kind].break_off(self._clock(), forgotten=False)

    def empty(self, kind: Kind, lists: int) -> None:
        """The watch of this kind ends, and so many lists that follow are empty. A first list has nothing to be compared with."""
        if not self._watches[kind].synced:
            return
        self._watches[kind].empty_lists = lists
        self._arrived += self._watches[kind].break_off(self._clock(), forgotten=True)

    def lag(self, seconds: float, kinds: Collection[Kind] = tuple(RESOURCES)) -> None:
        """From now on each change of these kinds takes so long to arrive."""
        for kind in kinds:
            self._lags_s[kind] = self._watches[kind].lag_s = seconds

    def connect(self, now_s: float) -> int:
        """Broken watches that are due reconnect. Returns how many tried."""
        due = [w for w in self._watches.values() if (at_s := w.acts_at_s) is not None and at_s <= now_s]
        for watch in due:
            self._arrived += watch.connect(now_s)
        return len(due)

    def deliver(self, now_s: float) -> None:
        """Put the events that have arrived into the queue of the loop."""
        for watch in self._watches.values():
            self._arrived += watch.tell(now_s, self._portion)
        while self._arrived:
            self.events.put(self._arrived.popleft())

    def waiting(self, now_s: float) -> bool:
        """True if there are events that could be delivered now."""
        return bool(self._arrived) or any(
            (due_s := watch.due_s()) is not None and due_s <= now_s for watch in self._watches.values()
        )

    def next_due_s(self, now_s: float) -> float | None:
        """When the next event can be delivered; None: there is none."""
        if self._arrived:
            return now_s
        due = [due_s for watch in self._watches.values() if (due_s := watch.due_s()) is not None]
        return max(now_s, min(due)) if due else None

    def asks_at_s(self) -> float | None:
        """When a broken watch tries again, or a short one ends; None: all are open."""
        return min((at_s for w in self._watches.values() if (at_s := w.acts_at_s) is not None), default=None)

    def behind(self, kind: Kind, object_uid: str) -> bool:
        """True if the object was changed and the event was not delivered yet."""
        arrived = (e.record for e in self._arrived if e.kind is kind and e.record is not None)
        return self._watches[kind].behind(object_uid) or any(r.uid == object_uid for r in arrived)

    def _portion(self, news: int) -> int:
        return self._rng.randint(0, news) if self._late and news else news

    def _hear(self, change: ObjectChange) -> None:
        kind = WATCHED.get(group_kind(change.object))
        if kind is not None and kind in self._watches:
            self._watches[kind].hear(change)
