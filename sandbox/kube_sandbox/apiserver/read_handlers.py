"""Handlers of list and watch requests."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kube_sandbox.apiserver.errors import (
    Json,
    StatusError,
    bad_options,
    bad_request,
    expired,
    forbidden_field,
    not_supported,
)
from kube_sandbox.apiserver.mvcc import Key
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.request_selectors import SelectionPredicate
from kube_sandbox.apiserver.store import ObjectStore
from kube_sandbox.apiserver.tables import ResponseForm
from kube_sandbox.apiserver.watch import WatchOptions, WatchStream, open_watch

Query = Callable[[str], str]
"""The value of a query parameter; empty if it is missing."""

_TOO_LARGE: Json = {
    "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
    "retryAfterSeconds": 1,
}
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})


def is_true(text: str) -> bool:
    """A boolean query parameter, as strconv.ParseBool reads it."""
    return text in _TRUE


@dataclass(frozen=True, slots=True)
class _Page:
    version: int
    after: Key


def list_objects(
    store: ObjectStore, resource: ResourceType, chosen: SelectionPredicate, query: Query, shape: ResponseForm
) -> Json:
    """One list or page. Raises 400, 410 (too old) and 504 (a version from the future)."""
    limit = _number(query("limit"))
    page = _continued(query("continue")) if query("continue") else None
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
    if resource.encode is not None:
        items = [resource.encode(obj) for obj in items]
    return shape.many(items, metadata)


def _candidates(
    store: ObjectStore, resource: ResourceType, chosen: SelectionPredicate, version: int, page: _Page | None
) -> list[tuple[Key, Json]]:
    if chosen.single_name and page is None and version >= store.objects.version:
        name = chosen.single_name
        if chosen.namespace or not resource.namespaced:
            found = store.find(resource.table, chosen.namespace, name)
            return [((chosen.namespace, name), found)] if found else []
    try:
        objects = store.objects.items_at(resource.table, version)
    except StatusError as error:
        if page is None:
            raise
        text = (
            "The provided continue parameter is too old to display a consistent list result. You can start a "
            "new list without the continue parameter."
        )
        raise expired(text) from error
    return [entry for entry in objects if entry[0] > page.after] if page else objects


def _list_version(store: ObjectStore, query: Query) -> int:
    now = store.objects.version
    asked = _number(query("resourceVersion"))
    match = query("resourceVersionMatch")
    if match and match not in {"Exact", "NotOlderThan"}:
        allowed = ["Exact", "NotOlderThan"]
        raise bad_options("ListOptions", not_supported("resourceVersionMatch", match, allowed))
    if match and not query("resourceVersion"):
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


def _number(text: str) -> int:
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
    shape: ResponseForm,
    *,
    bookmark_every_s: float,
) -> WatchStream:
    """Opens a watch. Raises 400, 410 and 422."""
    send_initial = is_true(query("sendInitialEvents"))
    if query("sendInitialEvents") and query("resourceVersionMatch") != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise bad_options("ListOptions", forbidden_field("resourceVersionMatch", text))
    if query("resourceVersionMatch") and not query("sendInitialEvents"):
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise bad_options("ListOptions", forbidden_field("resourceVersionMatch", text))
    since = _number(query("resourceVersion"))
    options = WatchOptions(
        since=since or (store.objects.version if query("sendInitialEvents") else None),
        send_initial=send_initial,
        bookmarks=is_true(query("allowWatchBookmarks")),
        timeout_s=float(_number(query("timeoutSeconds")) or 1800),
        bookmark_every_s=bookmark_every_s,
        form=shape.event,
    )
    return open_watch(store, resource, chosen, options)
