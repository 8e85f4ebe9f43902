"""One informer of the program without its thread: the real Reflector, fed from the embedded API server's store.

It lists, hears changes in order, loses the server and comes back, and waits as long in between as the real one.
What it learns are the real informer's events.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from rescheduler.kube.reflector import End, EndKind, Gaps, InformerEvent, ListPage, Reflector
from rescheduler.model.decode import Decoder, Record
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.wire import GroupKind, Obj, uid
from rescheduler.sim.storeapi import StoreApi

_VERSION: Final = "1"
"""Opaque; whether the server still knows it is decided by the history (``forgotten``)."""

Reachable = Callable[[], bool]


class Watch:
    """A list and what came after it. ``news``: what the server has told and nobody has heard yet."""

    def __init__(
        self, kind: Kind, api: StoreApi, decoder: Decoder, *, rng: random.Random, reachable: Reachable
    ) -> None:
        resource = RESOURCES[kind]
        self._group_kind = GroupKind(resource.group, resource.kind or str(kind))
        self._api, self._rng, self._reachable = api, rng, reachable
        self._decoder, self._encoder = decoder, msgspec.json.Encoder()
        self._reflector = Reflector(kind, optional=resource.optional, watch_list=False)
        self._forgotten = False
        self.asks_at_s: float | None = 0.0
        """When it asks the server next; None: its stream is open."""
        self.stalled_until_s = 0.0
        self.news: deque[Change] = deque()

    @property
    def synced(self) -> bool:
        """It has had a first complete list."""
        return self._reflector.synced

    @property
    def gaps(self) -> Gaps:
        """As ``Informer.gaps``."""
        return self._reflector.gaps

    def break_off(self, now_s: float, *, forgotten: bool) -> list[InformerEvent]:
        """The stream ends. ``forgotten``: what is missed from now on is not to be had any more."""
        self._forgotten |= forgotten
        return self._ended(End(EndKind.BROKEN, "reset"), now_s) if self.asks_at_s is None else []

    def connect(self, now_s: float) -> list[InformerEvent]:
        """Ask the server, if it is time to."""
        if self.asks_at_s is None or now_s < self.asks_at_s:
            return []
        if not self._reachable():
            return self._ended(End(EndKind.BROKEN, "connection refused"), now_s)
        events: list[InformerEvent] = []
        if isinstance(self._reflector.next_step(), ListPage):
            self._forgotten = False
            self.news.clear()
            listed = map(self._record, self._api.list(self._group_kind))
            events = self._reflector.on_page(list(listed), _VERSION, "", now_s)
        elif self._forgotten:
            return self._ended(End(EndKind.EXPIRED, "too old resource version"), now_s)
        self._reflector.on_opened(now_s)
        self.asks_at_s = None
        return events

    def due_s(self) -> float | None:
        """When it asks or can tell something next; None: there is nothing."""
        if self.asks_at_s is not None:
            return self.asks_at_s
        return self.stalled_until_s if self.news else None

    def tell(self, now_s: float, portion: Callable[[int], int]) -> list[InformerEvent]:
        """So many of the news; none while it is broken or stalled."""
        if self.asks_at_s is not None or now_s < self.stalled_until_s:
            return []
        return [e for _ in range(portion(len(self.news))) for e in self._change(self.news.popleft(), now_s)]

    def behind(self, object_uid: str) -> bool:
        """True if something happened to the object that was not heard."""
        return any(uid(change.object) == object_uid for change in self.news)

    def _change(self, change: Change, now_s: float) -> list[InformerEvent]:
        deleted = change.type == "DELETED"
        return self._reflector.on_change(self._record(change.object), _VERSION, deleted=deleted, now_s=now_s)

    def _ended(self, end: End, now_s: float) -> list[InformerEvent]:
        wait_s, events = self._reflector.on_end(end, now_s, self._rng.random())
        self.asks_at_s = now_s + max(wait_s, 0.001)
        return events

    def _record(self, obj: Obj) -> Record:
        return self._decoder.record(self._reflector.kind, self._encoder.encode(obj))
