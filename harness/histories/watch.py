"""One informer of the program without its thread: the product's Reflector, fed from the store of the sandbox.

It lists, receives changes in order, loses the connection and reconnects with the same backoff as the real informer, and
emits the same events.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.unstructured import GroupKind, Obj, key, uid
from rescheduler.kube.reflector import (
    End,
    EndKind,
    InformerEvent,
    ListRequest,
    Reflected,
    Reflector,
    WatchRequest,
)
from rescheduler.model.decode import BadObject, Decoder, Record
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import GROUP
from rescheduler.model.records import ObjectKey

_VERSION: Final = "1"
"""Opaque; whether the server still knows it is decided by the history (``forgotten``)."""

BOOKMARK_S: Final = 1.0
"""A real server sends one about once a minute; scaled down as the limit of stale caches is."""

Reachable = Callable[[], bool]


class Watch(Reflected):
    """A list and the changes after it."""

    def __init__(
        self,
        kind: Kind,
        api: Api,
        decoder: Decoder,
        *,
        rng: random.Random,
        reachable: Reachable,
        clock: Callable[[], float],
    ) -> None:
        resource = RESOURCES[kind]
        self._group_kind = GroupKind(resource.group, resource.kind or str(kind))
        self.kind = kind
        self.decode_errors = 0
        self._api, self._rng, self._reachable = api, rng, reachable
        self._decoder, self._encoder = decoder, msgspec.json.Encoder()
        own = resource.group == GROUP
        self._reflector = Reflector(kind, optional=resource.optional and not own, kept=own, watch_list=False)
        self._forgotten = False
        self._clock, self._started_at_s = clock, clock()
        self.asks_at_s: float | None = 0.0
        """When it connects next; None: its stream is open."""
        self.ends_at_s: float | None = None
        """When the server ends the open stream, because the Reflector has asked for a short one."""
        self.stalled_until_s = 0.0
        self.refused_until_s = 0.0
        """The server refuses this kind until then."""
        self.unserved_until_s = 0.0
        """Until then every request for it is answered with 404."""
        self.unserved = EndKind.UNPROVEN
        """ABSENT: the server's list of kinds does not have it, either."""
        self.empty_lists = 0
        """So many lists that come next are empty, whatever is there."""
        self.lag_s = 0.0
        """How long each change takes to arrive."""
        self._news: deque[tuple[float, ObjectChange]] = deque()

    @property
    def acts_at_s(self) -> float | None:
        """When it connects, or its stream ends; None: neither is due."""
        return self.ends_at_s if self.asks_at_s is None else self.asks_at_s

    def stale_for_s(self) -> float:
        """Age of the cache. While a watch is open and no change is queued, the server sends bookmarks."""
        now_s = self._clock()
        told_everything = self.asks_at_s is None and now_s >= self.stalled_until_s and not self._news
        last_s = self._reflector.last_contact_s
        if told_everything and last_s is not None and now_s >= last_s + BOOKMARK_S:
            self._reflector.on_bookmark(_VERSION, initial_end=False, now_s=now_s)
        return super().stale_for_s()

    def break_off(self, now_s: float, *, forgotten: bool) -> list[InformerEvent]:
        """The stream ends. ``forgotten``: the server does not keep the changes that are missed from now on."""
        self._forgotten |= forgotten
        return self._ended(End(EndKind.BROKEN, "reset"), now_s) if self.asks_at_s is None else []

    def connect(self, now_s: float) -> list[InformerEvent]:
        """Connect, or end a stream that was to be short, if it is due."""
        if self.ends_at_s is not None and now_s >= self.ends_at_s and self.asks_at_s is None:
            return self._ended(End(EndKind.CLEAN), now_s)
        if self.asks_at_s is None or now_s < self.asks_at_s:
            return []
        if not self._reachable():
            return self._ended(End(EndKind.BROKEN, "connection refused"), now_s)
        if now_s < self.refused_until_s:
            return self._ended(End(EndKind.REFUSED, "the server is currently unable to handle it"), now_s)
        if now_s < self.unserved_until_s:
            return self._ended(End(self.unserved, "404 page not found"), now_s)
        events: list[InformerEvent] = []
        if isinstance(self._reflector.next_step(), ListRequest):
            events = self._list(now_s)
            if self._reflector.doubt is not None:
                return events + self._ended(self._reflector.doubt, now_s)
        elif self._forgotten:
            return self._ended(End(EndKind.EXPIRED, "too old resource version"), now_s)
        step = self._reflector.next_step()
        if isinstance(step, WatchRequest) and step.longest_s is not None:
            self.ends_at_s = now_s + step.longest_s
        self._reflector.on_opened(now_s)
        self.asks_at_s = None
        return events

    def _list(self, now_s: float) -> list[InformerEvent]:
        self._forgotten = False
        there = self._api.list(self._group_kind)
        if self.empty_lists:
            # What is new since the watch broke follows in the watch: nothing could tell that a list lacks what no cache has.
            self.empty_lists, there = self.empty_lists - 1, []
        else:
            self._news.clear()
        listed = map(self._record, there)
        return self._reflector.on_page([r for r in listed if r is not None], _VERSION, "", now_s)

    def due_s(self) -> float | None:
        """When it connects or can deliver a change next; None: neither is due."""
        if self.asks_at_s is not None:
            return self.asks_at_s
        return max(self.stalled_until_s, self._news[0][0] + self.lag_s) if self._news else None

    def hear(self, change: ObjectChange) -> None:
        """The server sends a change."""
        self._news.append((self._clock(), change))

    def tell(self, now_s: float, portion: Callable[[int], int]) -> list[InformerEvent]:
        """Deliver a portion of the queued changes; none while the watch is broken or stalled."""
        if self.asks_at_s is not None or now_s < self.stalled_until_s:
            return []
        arrived = sum(sent_s + self.lag_s <= now_s for sent_s, _ in self._news)
        taken = [self._news.popleft()[1] for _ in range(portion(arrived))]
        return [event for change in taken for event in self._change(change, now_s)]

    def behind(self, object_uid: str) -> bool:
        """True if a change of the object is queued and was not delivered yet."""
        return any(uid(change.object) == object_uid for _, change in self._news)

    def _change(self, change: ObjectChange, now_s: float) -> list[InformerEvent]:
        text, deleted = self._encoder.encode(change.object), change.type == "DELETED"
        record = self._decoder.attempt(self.kind, text)
        if isinstance(record, BadObject):
            self.decode_errors += 1
            instead = self._decoder.stand_in(self.kind, text)
            return self._reflector.on_damaged(
                ObjectKey(*key(change.object)), instead, _VERSION, deleted=deleted, now_s=now_s
            )
        return self._reflector.on_change(record, _VERSION, deleted=deleted, now_s=now_s)

    def _ended(self, end: End, now_s: float) -> list[InformerEvent]:
        wait_s, events = self._reflector.on_end(end, now_s, self._rng.random())
        self.asks_at_s, self.ends_at_s = now_s + max(wait_s, 0.001), None
        return events

    def _record(self, obj: Obj) -> Record | None:
        """The record of an object, or its stand-in; None if it has neither."""
        text = self._encoder.encode(obj)
        record = self._decoder.attempt(self.kind, text)
        if not isinstance(record, BadObject):
            return record
        self.decode_errors += 1
        return self._decoder.stand_in(self.kind, text)
