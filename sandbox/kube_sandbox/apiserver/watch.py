"""Watches: one queue for each watcher, which the writer fills and the iteration of the stream empties.

Events have the order of their versions. An object that starts or stops matching the selectors is sent as ADDED or
DELETED. All events up to the version of a bookmark have been sent before it.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from kube_sandbox.apiserver.errors import Json, StatusError
from kube_sandbox.apiserver.mvcc import StoredChange
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.request_selectors import SelectionPredicate
from kube_sandbox.apiserver.store import Clock, ObjectStore

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_MOST_WAITING = 50_000
_POLL_S = 1.0
_encode = msgspec.json.encode

Form = Callable[[Json], Json]
"""Converts an object to the form of a response, for example a Table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Options of a watch."""

    since: int | None
    """Version to start from. None: the watch begins with synthetic ADDED events for the current objects."""
    send_initial: bool = False
    """sendInitialEvents."""
    bookmarks: bool = False
    """allowWatchBookmarks."""
    timeout_s: float = 1800.0
    bookmark_every_s: float = 60.0
    form: Form | None = None
    """Form of the objects; None: as they are."""


class WatchStream:
    """An open watch (``kube.transport.Stream``). Iteration waits for events; ``drain`` does not wait."""

    status = 200

    def __init__(
        self, *, resource: ResourceType, chosen: SelectionPredicate, options: WatchOptions, clock: Clock
    ) -> None:
        self._resource = resource
        self._chosen = chosen
        self._options = options
        self._clock = clock
        self._waiting: queue.SimpleQueue[StoredChange | bytes | None] = queue.SimpleQueue()
        self._stop: Callable[[], None] = lambda: None
        self._closed = False
        self._ended = False
        self._deadline_s = clock() + options.timeout_s
        self._next_bookmark_s = clock() + options.bookmark_every_s
        self.version = 0
        self.headers: Mapping[str, str] = {"content-type": "application/json"}

    def opened_by(self, stop: Callable[[], None]) -> None:
        """Set the function that ends the subscription to the store."""
        self._stop = stop

    def push(self, change: StoredChange) -> None:
        """Take one change; called by the writer's thread."""
        if self._waiting.qsize() > _MOST_WAITING:
            self.close()
        else:
            self._waiting.put(change)

    def push_bytes(self, line: bytes) -> None:
        """Take a line that is ready to send."""
        self._waiting.put(line)

    def __iter__(self) -> Iterator[bytes]:
        while not self._ended:
            remaining_s = self._deadline_s - self._clock()
            if remaining_s <= 0:
                break
            try:
                item = self._waiting.get(timeout=min(_POLL_S, remaining_s))
            except queue.Empty:
                yield from self._due_bookmark()
                continue
            if item is None:
                break
            line = self._line(item)
            if line:
                yield line
            yield from self._due_bookmark()
        self.close()

    def drain(self) -> list[bytes]:
        """Lines that are ready now; for single-threaded use under virtual time."""
        lines: list[bytes] = []
        while True:
            try:
                item = self._waiting.get_nowait()
            except queue.Empty:
                break
            if item is None:
                self._ended = True
                break
            line = self._line(item)
            if line:
                lines.append(line)
        lines.extend(self._due_bookmark())
        return lines

    def read_all(self) -> bytes:
        """The events that are ready now."""
        return b"".join(self.drain())

    def close(self) -> None:
        """End the watch; a thread that iterates it returns."""
        if not self._closed:
            self._closed = True
            self._stop()
            self._waiting.put(None)

    def _line(self, item: StoredChange | bytes) -> bytes:
        if isinstance(item, bytes):
            return item
        self.version = item.version
        kind = self._event_type(item)
        if not kind:
            return b""
        shown = item.obj
        if kind == "DELETED" and item.kind != "DELETED" and item.previous is not None:
            metadata = {**item.previous["metadata"], "resourceVersion": str(item.version)}
            shown = {**item.previous, "metadata": metadata}
        if shown is item.obj and self._options.form is None and self._resource.encode is None:
            return b'{"type":"' + kind.encode() + b'","object":' + item.encoded + b"}\n"
        return self.event_line(kind, shown)

    def _event_type(self, change: StoredChange) -> str:
        chosen = self._chosen
        if chosen.everything:
            return change.kind
        before = change.previous is not None and chosen.matches(change.previous)
        after = change.kind != "DELETED" and chosen.matches(change.obj)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    def event_line(self, kind: str, obj: Json) -> bytes:
        """One event in this watch's form."""
        if self._resource.encode is not None:
            obj = self._resource.encode(obj)
        if self._options.form is not None:
            obj = self._options.form(obj)
        return _encode({"type": kind, "object": obj}) + b"\n"

    def bookmark_line(self, version: int, *, initial_end: bool = False) -> bytes:
        """A bookmark event."""
        metadata: Json = {"resourceVersion": str(version)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        metadata["creationTimestamp"] = None
        obj = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": metadata}
        if self._options.form is not None:
            obj = self._options.form(obj)
        return _encode({"type": "BOOKMARK", "object": obj}) + b"\n"

    def _due_bookmark(self) -> Iterator[bytes]:
        if not self._options.bookmarks or self._clock() < self._next_bookmark_s or not self.version:
            return
        self._next_bookmark_s = self._clock() + self._options.bookmark_every_s
        yield self.bookmark_line(self.version)


def open_watch(
    store: ObjectStore, resource: ResourceType, chosen: SelectionPredicate, options: WatchOptions
) -> WatchStream:
    """Open a watch at a consistent point. If the version is too old, the watch has one ERROR event."""
    stream = WatchStream(resource=resource, chosen=chosen, options=options, clock=store.clock)
    with store.lock:
        try:
            _replay(store, resource, chosen, options, stream)
        except StatusError as error:
            stream.push_bytes(_encode({"type": "ERROR", "object": error.status_object}) + b"\n")
            stream.close()
            return stream
        stream.opened_by(store.objects.listen(resource.table, stream.push))
    return stream


def _replay(
    store: ObjectStore,
    resource: ResourceType,
    chosen: SelectionPredicate,
    options: WatchOptions,
    stream: WatchStream,
) -> None:
    now = store.objects.version
    stream.version = now
    if options.since is None or options.send_initial:
        for obj in store.objects.items(resource.table, chosen.namespace):
            if chosen.matches(obj):
                stream.push_bytes(stream.event_line("ADDED", obj))
        if options.send_initial and options.bookmarks:
            stream.push_bytes(stream.bookmark_line(now, initial_end=True))
        return
    for change in store.objects.changes_after(resource.table, options.since):
        stream.push(change)
