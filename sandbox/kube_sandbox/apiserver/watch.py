"""Lists and watches: consistent pages, and streams of changes that begin at a consistent point."""

from __future__ import annotations

import base64
import binascii
import math
import queue
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from kube_sandbox.apiserver.errors import (
    Json,
    StatusError,
    bad_options,
    bad_request,
    forbidden_field,
    not_supported,
)
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.selectors import Query, SelectionPredicate
from kube_sandbox.apiserver.store import Clock, Key, ObjectStore, StoredChange
from kube_sandbox.apiserver.tables import ResponseForm

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_MOST_WAITING = 50_000
_POLL_S = 1.0
_BOOKMARK_EVERY_S = 60.0
_encode = msgspec.json.encode


class WatchStream:
    """An open watch (``kube.transport.Stream``). Iteration waits for events; ``drain`` does not wait."""

    status = 200

    def __init__(
        self,
        *,
        resource: ResourceType,
        chosen: SelectionPredicate,
        clock: Clock,
        version: int,
        timeout_s: float,
        bookmarks: bool,
    ) -> None:
        self._resource = resource
        self._chosen = chosen
        self._clock = clock
        self._waiting: queue.SimpleQueue[StoredChange | bytes | None] = queue.SimpleQueue()
        self._stop: Callable[[], None] = lambda: None
        self._closed = False
        self._ended = False
        self._deadline_s = clock() + timeout_s
        self._next_bookmark_s = clock() + _BOOKMARK_EVERY_S if bookmarks else math.inf
        self.version = version
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
        while not self._ended and (left_s := self._deadline_s - self._clock()) > 0:
            if line := self._next(min(_POLL_S, left_s)):
                yield line
            if not self._ended:
                yield from self._due_bookmark()
        self.close()

    def drain(self) -> list[bytes]:
        """Lines that are ready now; for single-threaded use under virtual time."""
        lines: list[bytes] = []
        while (line := self._next(0.0)) is not None:
            lines.append(line)
        return [*filter(None, lines), *self._due_bookmark()]

    def _next(self, wait_s: float) -> bytes | None:
        """The next line, empty for a change that is not chosen; None: there is none yet, or the watch has ended."""
        try:
            item = self._waiting.get(wait_s > 0, wait_s)
        except queue.Empty:
            return None
        if item is None:
            self._ended = True
            return None
        return self._line(item)

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
        shown = item.object
        if kind == "DELETED" and item.type != "DELETED" and item.previous is not None:
            metadata = {**item.previous["metadata"], "resourceVersion": str(item.version)}
            shown = {**item.previous, "metadata": metadata}
        if shown is item.object and self._resource.encode is None:
            return b'{"type":"' + kind.encode() + b'","object":' + item.encoded + b"}\n"
        return self.event_line(kind, shown)

    def _event_type(self, change: StoredChange) -> str:
        chosen = self._chosen
        if chosen.everything:
            return change.type
        before = change.previous is not None and chosen.matches(change.previous)
        after = change.type != "DELETED" and chosen.matches(change.object)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    def event_line(self, kind: str, obj: Json) -> bytes:
        """One event."""
        if self._resource.encode is not None:
            obj = self._resource.encode(obj)
        return _encode({"type": kind, "object": obj}) + b"\n"

    def bookmark_line(self, version: int, *, initial_end: bool = False) -> bytes:
        """A bookmark event."""
        metadata: Json = {"resourceVersion": str(version)}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        metadata["creationTimestamp"] = None
        obj = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": metadata}
        return _encode({"type": "BOOKMARK", "object": obj}) + b"\n"

    def _due_bookmark(self) -> Iterator[bytes]:
        if self._clock() < self._next_bookmark_s:
            return
        self._next_bookmark_s = self._clock() + _BOOKMARK_EVERY_S
        yield self.bookmark_line(self.version)


_TOO_LARGE: Json = {
    "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
    "retryAfterSeconds": 1,
}
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})


def is_true(text: str | None) -> bool:
    """A boolean query parameter, as strconv.ParseBool reads it."""
    return text in _TRUE


@dataclass(frozen=True, slots=True)
class _Page:
    version: int
    after: Key


def list_objects(
    store: ObjectStore, resource: ResourceType, chosen: SelectionPredicate, query: Query, form: ResponseForm
) -> Json:
    """One list or page. Raises 400, 410 (too old) and 504 (a version from the future)."""
    limit = _number(query.get("limit"))
    page = _continued(query["continue"]) if query.get("continue") else None
    with store.lock:
        version = page.version if page else _list_version(store, query)
        objects = _candidates(store, resource, chosen, version, page)
    items: list[Json] = []
    metadata: Json = {"resourceVersion": str(version)}
    for index, (_, obj) in enumerate(objects):
        if not chosen.matches(obj):
            continue
        if limit and len(items) == limit:
            previous = items[-1]["metadata"]
            metadata["continue"] = _token(version, (previous.get("namespace", ""), previous["name"]))
            if not (chosen.labels or chosen.fields):
                metadata["remainingItemCount"] = sum(chosen.matches(rest) for _, rest in objects[index:])
            break
        items.append(obj)
    return form.many(items, metadata)


def _candidates(
    store: ObjectStore, resource: ResourceType, chosen: SelectionPredicate, version: int, page: _Page | None
) -> list[tuple[Key, Json]]:
    if chosen.single_name and page is None and version >= store.objects.version:
        name = chosen.single_name
        if chosen.namespace or not resource.namespaced:
            found = store.find(resource.table, chosen.namespace, name)
            return [((chosen.namespace, name), found)] if found else []
    objects = store.objects.items_at(resource.table, version)
    return [entry for entry in objects if entry[0] > page.after] if page else objects


def _list_version(store: ObjectStore, query: Query) -> int:
    now = store.objects.version
    asked = _number(query.get("resourceVersion"))
    match = query.get("resourceVersionMatch")
    if match and match not in {"Exact", "NotOlderThan"}:
        allowed = ["Exact", "NotOlderThan"]
        raise bad_options("ListOptions", not_supported("resourceVersionMatch", match, allowed))
    if match and not query.get("resourceVersion"):
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise bad_options("ListOptions", forbidden_field("resourceVersionMatch", text))
    if asked > now:
        text = f"Timeout: Too large resource version: {asked}, current: {now}"
        raise StatusError(504, "Timeout", text, details=_TOO_LARGE, headers={"Retry-After": "1"})
    return asked if match == "Exact" and asked else now


def _token(version: int, after: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([version, *after])).decode().rstrip("=")


def _continued(token: str) -> _Page:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        version, namespace, name = msgspec.json.decode(raw, type=tuple[int, str, str])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    return _Page(version, (namespace, name))


def _number(text: str | None) -> int:
    if not text:
        return 0
    if not text.isdigit():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def watch_objects(
    store: ObjectStore,
    resource: ResourceType,
    chosen: SelectionPredicate,
    query: Query,
) -> WatchStream:
    """Opens a watch at a consistent point. If the version is too old, it has one ERROR event. Raises 400 and 422."""
    initial, match = query.get("sendInitialEvents"), query.get("resourceVersionMatch")
    if initial and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise bad_options("ListOptions", forbidden_field("resourceVersionMatch", text))
    if match and not initial:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise bad_options("ListOptions", forbidden_field("resourceVersionMatch", text))
    since, send_initial = _number(query.get("resourceVersion")), is_true(initial)
    bookmarks = is_true(query.get("allowWatchBookmarks"))
    with store.lock:
        now = store.objects.version
        stream = WatchStream(
            resource=resource,
            chosen=chosen,
            clock=store.clock,
            version=now,
            timeout_s=float(_number(query.get("timeoutSeconds")) or 1800),
            bookmarks=bookmarks,
        )
        if send_initial or not (since or initial):
            for obj in store.objects.items(resource.table, chosen.namespace):
                if chosen.matches(obj):
                    stream.push_bytes(stream.event_line("ADDED", obj))
            if send_initial and bookmarks:
                stream.push_bytes(stream.bookmark_line(now, initial_end=True))
        try:
            for change in store.objects.changes_after(resource.table, now if send_initial else since or now):
                stream.push(change)
        except StatusError as error:
            stream.push_bytes(_encode({"type": "ERROR", "object": error.status_object}) + b"\n")
            stream.close()
            return stream
        stream.opened_by(store.objects.listen(resource.table, stream.push))
    return stream
