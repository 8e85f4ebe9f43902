"""One informer: the thread that lists and watches one kind and puts its changes into a queue.

All decisions are the Reflector's; this module sends what that asks for and hands the answers back.
Promises: events reach the queue in order, the handler does nothing else; the thread ends within the
time of one request after ``stop``; no failure of the server or the network ends it before.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from http import HTTPStatus
from queue import SimpleQueue
from typing import Final, Protocol

import structlog

from rescheduler.kube.client import PAGE_LIMIT, KubeApi
from rescheduler.kube.discovery import proves_absent
from rescheduler.kube.errors import ApiError, error_of
from rescheduler.kube.gc_pause import PROCESS_PAUSE
from rescheduler.kube.reflector import (
    End,
    EndKind,
    InformerEvent,
    ListRequest,
    Reflected,
    Reflector,
    WatchRequest,
)
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import (
    LineSplitter,
    LineTooLongError,
    Request,
    SilenceError,
    Stream,
    Transport,
    TransportError,
)
from rescheduler.logs import Seldom
from rescheduler.model.decode import BadObject, Decoder, EventType, ListPage, UndecodableError, WatchEvent
from rescheduler.model.kinds import Kind, Resource
from rescheduler.model.names import GROUP
from rescheduler.model.records import ObjectKey
from rescheduler.model.times import FIRST_WATCH_LASTS_S, SILENCE_S, WATCH_LASTS_S

LIST_TIMEOUT_S: Final = 60.0
_REPEAT_S: Final = 600.0
"""A problem that lasts is logged again after so long."""
_PAGE_OF_OURS: Final = 50
"""Objects in a page of our own kinds: a tenant may make each 1.5 MB, of which the decoder keeps little."""
Events = SimpleQueue[InformerEvent]
"""The queue of a consumer with a thread of its own."""


class ChangeSink(Protocol):
    """Takes changes, in order, on the informer's thread; it must not block."""

    def put(self, event: InformerEvent, /) -> None:
        """Take one change."""
        ...


class SharedDecoder:
    """One Decoder for all informers, so that equal parts are shared between kinds; one thread at a time.

    Decoding holds the interpreter anyway, so the lock costs nothing.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._lock = threading.Lock()

    def page(self, kind: Kind, body: bytes) -> ListPage:
        """See ``Decoder.page``."""
        with self._lock:
            return self._decoder.page(kind, body)

    def event(self, kind: Kind, line: bytes) -> WatchEvent:
        """See ``Decoder.event``."""
        with self._lock:
            return self._decoder.event(kind, line)


class Informer(Reflected):
    """Lists and watches one kind from ``start`` until ``stop``; an empty ``namespace`` means all."""

    def __init__(
        self,
        kind: Kind,
        resource: Resource,
        transport: Transport,
        decoder: SharedDecoder,
        events: ChangeSink,
        *,
        namespace: str = "",
        field_selector: str = "",
        watch_list: bool = True,
        silence_s: float = SILENCE_S,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.kind = kind
        self._path = resource.object_path(namespace, "") if namespace else resource.collection_path
        self._page_limit = _PAGE_OF_OURS if resource.group == GROUP else PAGE_LIMIT
        self._transport, self._decoder, self._events = transport, decoder, events
        self._selector = {"fieldSelector": field_selector} if field_selector else {}
        self._silence_s = silence_s
        self._clock, self._chance = clock, chance
        self._resource = resource
        self._api = KubeApi(transport, NO_RETRY)
        own = resource.group == GROUP
        self._reflector = Reflector(kind, optional=resource.optional, kept=own, watch_list=watch_list)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._synced = False
        self._filling = False
        self._started_at_s = clock()
        self._log = structlog.get_logger("rescheduler.informer")
        self._seldom = Seldom(_REPEAT_S)
        self._thread = threading.Thread(target=self._run, name=f"informer-{resource.plural}", daemon=True)
        self.decode_errors = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch; ``join`` waits for it. May be called from any thread."""
        self._stopping.set()
        with self._lock:
            if self._stream is not None:
                self._stream.close()

    def join(self, timeout_s: float) -> bool:
        """True if the thread has ended within the time."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def died(self) -> bool:
        """True if the thread ended although it was not stopped: a fault of the program itself."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._stopping.is_set()

    @property
    def synced(self) -> bool:
        """All events of the first complete list are in the queue (or the kind is known to be absent)."""
        return self._synced

    @property
    def absent(self) -> bool:
        """The server does not have this kind now."""
        return self._reflector.absent

    def _run(self) -> None:
        while not self._stopping.is_set():
            with ExitStack() as pause:
                self._filling = self._reflector.filling
                if self._filling:
                    pause.enter_context(PROCESS_PAUSE.during())
                end = self._fill(pause)
            if end is None or self._stopping.is_set():
                continue
            self._stopping.wait(self._ended(end))

    def _ended(self, end: End) -> float:
        """Seconds to wait before the next request."""
        was_absent = self.absent
        if end.kind is EndKind.UNPROVEN:
            end = self._proven(end)
        wait_s, events = self._reflector.on_end(end, self._clock(), self._chance())
        self._put(events)
        self._tell(end, wait_s, newly_absent=self.absent and not was_absent)
        return wait_s

    def _proven(self, end: End) -> End:
        """The end after a 404: ABSENT if the server's list of kinds does not have this one."""
        try:
            absent = proves_absent(self._api, self._resource)
        except (ApiError, TransportError) as error:
            return End(EndKind.UNPROVEN, f"{end.message}; what is served is not known: {error}")
        return End(EndKind.ABSENT, end.message) if absent else end

    def _fill(self, pause: ExitStack) -> End | None:
        """Steps until something ends; the pause of the collector is left once the list is complete."""
        while not self._stopping.is_set():
            step = self._reflector.next_step()
            end = self._list(step) if isinstance(step, ListRequest) else self._watch(step, pause)
            if end is not None:
                return end
            self._unpause(pause)
        return None

    def _unpause(self, pause: ExitStack) -> None:
        if self._filling and not self._reflector.filling:
            self._filling = False
            PROCESS_PAUSE.settle()
            pause.close()

    def _list(self, step: ListRequest) -> End | None:
        query = {"limit": str(self._page_limit), **self._selector}
        if step.token:
            query["continue"] = step.token
        try:
            answer = self._transport.send(
                Request(method="GET", path=self._path, query=query, timeout_s=LIST_TIMEOUT_S)
            )
        except TransportError as error:
            return End(EndKind.BROKEN, str(error))
        if answer.status != HTTPStatus.OK:
            return end_of(error_of(answer.status, answer.body, answer.headers))
        try:
            page = self._decoder.page(self.kind, answer.body)
        except UndecodableError as error:
            self.decode_errors += 1
            return End(EndKind.UNDECODABLE, str(error))
        for bad in page.bad:
            self._warn(bad)
        if not page.resource_version:
            self.decode_errors += 1
            return End(
                EndKind.UNDECODABLE, "the answer is no list of an API server: it has no resourceVersion"
            )
        self._put(
            self._reflector.on_page(page.records, page.resource_version, page.continue_token, self._clock())
        )
        return self._reflector.doubt

    def _watch(self, step: WatchRequest, pause: ExitStack) -> End:
        try:
            stream = self._transport.stream(self._watch_request(step))
        except TransportError as error:
            return End(EndKind.BROKEN, str(error))
        with self._lock:
            self._stream = stream
        try:
            if self._stopping.is_set():
                return End(EndKind.CLEAN)
            if stream.status != HTTPStatus.OK:
                refusal = error_of(stream.status, stream.read_all(), stream.headers)
                return end_of(refusal, initial=step.initial)
            self._reflector.on_opened(self._clock())
            return self._follow(stream, pause, initial=step.initial)
        except SilenceError as error:
            return End(EndKind.SILENT, str(error))
        except TransportError as error:
            return End(EndKind.BROKEN, str(error))
        finally:
            with self._lock:
                self._stream = None
            stream.close()

    def _watch_request(self, step: WatchRequest) -> Request:
        lasts_s: tuple[float, float] = FIRST_WATCH_LASTS_S if step.initial else WATCH_LASTS_S
        shortest_s, longest_s = lasts_s if step.longest_s is None else (step.longest_s / 2, step.longest_s)
        query = {
            **self._selector,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(round(shortest_s + (longest_s - shortest_s) * self._chance())),
        }
        if step.initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        else:
            query["resourceVersion"] = step.version
        return Request(method="GET", path=self._path, query=query, timeout_s=self._silence_s)

    def _follow(self, stream: Stream, pause: ExitStack, *, initial: bool) -> End:
        splitter = LineSplitter()
        for chunk in stream:
            try:
                for line in splitter.feed(chunk):
                    end = self._take(self._decoder.event(self.kind, line), initial=initial)
                    if end is not None:
                        return end
            except (LineTooLongError, UndecodableError) as error:
                self.decode_errors += 1
                return End(EndKind.UNDECODABLE, str(error))
            self._unpause(pause)
        return End(EndKind.BROKEN, "cut off inside a line") if splitter.cut_off else End(EndKind.CLEAN)

    def _take(self, event: WatchEvent, *, initial: bool) -> End | None:
        now_s, version = self._clock(), event.resource_version
        if event.type is EventType.ERROR:
            return end_of(ApiError(event.status_code, "", event.message), initial=initial)
        if event.type is EventType.BOOKMARK:
            changes = self._reflector.on_bookmark(version, initial_end=event.initial_events_end, now_s=now_s)
        elif event.bad is not None:
            self._warn(event.bad)
            deleted = event.type is EventType.DELETED
            changes = self._reflector.on_damaged(
                _key_of(event.bad), event.record, version, deleted=deleted, now_s=now_s
            )
        else:
            deleted = event.type is EventType.DELETED
            changes = self._reflector.on_change(event.record, version, deleted=deleted, now_s=now_s)
        self._put(changes)
        return self._reflector.doubt

    def _put(self, events: Iterable[InformerEvent]) -> None:
        for event in events:
            self._events.put(event)
        self._synced = self._reflector.synced

    def _warn(self, bad: BadObject) -> None:
        self.decode_errors += 1
        self._log.warning(
            "An object cannot be read: what it holds counts, and nothing is done for it",
            kind=bad.kind,
            object=bad.name,
            error=bad.error,
        )

    def _tell(self, end: End, wait_s: float, *, newly_absent: bool) -> None:
        """Log the end: a problem that lasts once in a while, not once for each try."""
        facts = {"kind": self.kind, "end": end.kind, "error": end.message, "wait_s": round(wait_s, 2)}
        if newly_absent:
            self._log.info("The API server does not serve a kind; it is looked for now and then", **facts)
        elif end.kind in (EndKind.CLEAN, EndKind.SILENT):
            self._log.debug("A watch ended", **facts)
        elif self.absent or not self._seldom.due(end.kind, self._clock()):
            self._log.debug("A list or watch failed again", **facts)
        elif end.kind is EndKind.DENIED:
            self._log.warning("Objects may not be listed or watched: rights are missing", **facts)
        else:
            self._log.info("A list or watch failed", **facts)


def _key_of(bad: BadObject) -> ObjectKey:
    namespace, _, name = bad.name.rpartition("/")
    return ObjectKey(namespace, name)


def end_of(error: ApiError, *, initial: bool = False) -> End:
    """What an error of the server means for a list or watch; ``initial``: it had sendInitialEvents."""
    match error.status:
        case HTTPStatus.GONE:
            kind = EndKind.EXPIRED
        case HTTPStatus.BAD_REQUEST | HTTPStatus.UNPROCESSABLE_ENTITY if initial:
            kind = EndKind.UNSUPPORTED
        case HTTPStatus.NOT_FOUND:
            kind = EndKind.UNPROVEN
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            kind = EndKind.DENIED
        case _:
            kind = EndKind.REFUSED
    return End(kind, str(error), error.retry_after_s)
