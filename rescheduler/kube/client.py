"""Calls to the API server: paths and bodies in, raw JSON out, refusals as ``ApiError``.

Only bytes go through here; records are decoded and encoded by ``rescheduler.model``. Every call has a
time limit. What may be tried again is tried again (see ``kube.retry``); an eviction never is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

import msgspec

from rescheduler.kube.answers import NotAnApiServerError, body_of, read_answer
from rescheduler.kube.errors import ConflictError, ExpiredError, RejectedError
from rescheduler.kube.eviction import eviction_body, eviction_path, interpret
from rescheduler.kube.retry import Retry
from rescheduler.kube.transport import Request, Stream, Transport, TransportError
from rescheduler.model.object_meta import Described
from rescheduler.model.outcomes import EvictionOutcome, EvictionResult

FIELD_MANAGER: Final = "rescheduler"
PAGE_LIMIT: Final = 500
RESTARTS: Final = 3
"""Of one list: where tokens grow old while a page is read, another try ends like the one before."""
DEFAULT_TIMEOUT_S: Final = 30.0
TRIAL_TIMEOUT_S: Final = 10.0

Body = Mapping[str, Any] | bytes
"""An object as data or as JSON."""

_STRICT: Final = {"fieldValidation": "Strict"}
_MERGE: Final = "application/merge-patch+json"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_APPLY: Final = "application/apply-patch+yaml"


class _PageMeta(msgspec.Struct, rename={"continue_": "continue", "resource_version": "resourceVersion"}):
    continue_: str | None = ""
    resource_version: str | None = ""


class _Page(msgspec.Struct):
    metadata: _PageMeta | None = None


_ITEMS: Final = b'"items":['
_HEAD_BYTES: Final = 4 << 10
"""The token stands before the items in what an API server writes, and is shorter."""


class KubeApi:
    """The calls of the API that the program makes. Usable from many threads.

    Every method raises ``ApiError`` (see its tree) and ``TransportError`` (no answer), unless it says
    otherwise. ``dry_run`` asks the server to go through everything but storing.
    """

    def __init__(
        self, transport: Transport, retry: Retry | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self.transport = transport
        self._retry = retry or Retry()
        self._timeout_s = timeout_s

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """The body at ``path``."""
        return self._call(self._request("GET", path, query), repeatable=True)

    def list(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """The pages of a collection, one consistent version; each page is a List as JSON.

        A page token that grew too old restarts the list from its first page, ``RESTARTS`` times at most: callers must take
        each item as the newest of its name. No resource version is sent, so the answer is never stale.
        """
        token, restarts = "", 0
        while True:
            page_query = {**(query or {}), "limit": str(PAGE_LIMIT)}
            if token:
                page_query["continue"] = token
            try:
                body = self.get(path, page_query)
            except ExpiredError:
                if not token or restarts == RESTARTS:
                    raise
                token, restarts = "", restarts + 1
                continue
            yield body
            token = page_token(body)
            if not token:
                return

    def create(self, path: str, body: Body, *, dry_run: bool = False, strict: bool = False) -> bytes:
        """POST ``body`` to the collection ``path``; the object as stored.

        With a name of its own it is sent again after a lost answer; then AlreadyExistsError may mean
        our own first try. Without one (generateName, Bindings) it is sent once.
        """
        request = self._write("POST", path, body, dry_run=dry_run, extra=_STRICT if strict else None)
        return self._call(request, repeatable=dry_run or _is_named(body))

    def try_creation(self, path: str, body: bytes, *, strict: bool = False) -> bytes:
        """POST ``body`` in a dry run, once: the object as it would be stored. The caller decides when to try again.

        ``strict``: fields that its kind does not have are refused. Its time limit is short, because admission webhooks may answer late, and other moves wait meanwhile.
        """
        extra = _STRICT if strict else None
        request = self._write("POST", path, body, dry_run=True, extra=extra)
        answer = self.transport.send(replace(request, timeout_s=TRIAL_TIMEOUT_S))
        return body_of(answer)

    def replace(self, path: str, body: Body, *, dry_run: bool = False) -> bytes:
        """PUT ``body``; with a resourceVersion in it this is a compare-and-swap (ConflictError)."""
        return self._call(self._write("PUT", path, body, dry_run=dry_run), repeatable=True)

    def merge_patch(self, path: str, patch: Body, *, dry_run: bool = False) -> bytes:
        """RFC 7386 patch; idempotent."""
        return self._call(self._write("PATCH", path, patch, _MERGE, dry_run=dry_run), repeatable=True)

    def strategic_patch(self, path: str, patch: Body, *, dry_run: bool = False) -> bytes:
        """Strategic merge patch (built-in kinds only); idempotent."""
        return self._call(self._write("PATCH", path, patch, _STRATEGIC, dry_run=dry_run), repeatable=True)

    def json_patch(
        self, path: str, operations: Sequence[Mapping[str, Any]] | bytes, *, dry_run: bool = False
    ) -> bytes:
        """RFC 6902 patch; sent again after a lost answer only if a ``test`` operation guards it (ConflictError if it fails)."""
        body = operations if isinstance(operations, bytes) else msgspec.json.encode(list(operations))
        guarded = any(operation.op == "test" for operation in _OPERATIONS.decode(body))
        request = self._write("PATCH", path, body, _JSON_PATCH, dry_run=dry_run)
        try:
            return self._call(request, repeatable=guarded)
        except RejectedError as error:
            # An object that would be invalid is refused with causes; a patch that does not apply, without any.
            if guarded and error.status == HTTPStatus.UNPROCESSABLE_ENTITY and not error.causes:
                text = "the object was changed in between: the JSON patch does not apply to it"
                raise ConflictError(error.status, error.reason, text) from error
            raise

    def apply(self, path: str, body: Body, *, manager: str) -> bytes:
        """Server-side apply of the fields in ``body``, which must name apiVersion and kind; they are taken over from other managers."""
        extra = {"force": "true", "fieldManager": manager}
        return self._call(
            self._write("PATCH", path, body, _APPLY, dry_run=False, extra=extra), repeatable=True
        )

    def delete(
        self,
        path: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_s: int | None = None,
        propagation: str = "",
        own_name: bool = False,
        dry_run: bool = False,
    ) -> bytes:
        """Delete the object if it is still that ``uid`` (ConflictError if not).

        Without uid and version it is sent once: after a lost answer the name may already be a successor's.
        ``own_name``: it cannot, since no other client can make an object of that name.
        """
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid} if uid else {}
        if resource_version:
            preconditions["resourceVersion"] = resource_version
        if preconditions:
            options["preconditions"] = preconditions
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation:
            options["propagationPolicy"] = propagation
        if dry_run:  # not in the query, which the API server ignores where there is a body
            options["dryRun"] = ["All"]
        request = self._request("DELETE", path, {}, body=msgspec.json.encode(options))
        return self._call(request, repeatable=bool(preconditions) or own_name or dry_run)

    def evict(
        self, namespace: str, name: str, uid: str, grace_s: int | None = None, *, dry_run: bool = False
    ) -> EvictionResult:
        """Evict that very pod, once. Never raises; no answer is UNKNOWN: look at the pod.

        A dry run proves rights, admission and the budget of this moment, not joint feasibility.
        """
        body = eviction_body(namespace, name, uid, grace_s)
        query = {"dryRun": "All"} if dry_run else {}
        request = self._request("POST", eviction_path(namespace, name), query, body=msgspec.json.encode(body))
        try:
            answer = self.transport.send(request)
        except TransportError as error:
            return EvictionResult(EvictionOutcome.UNKNOWN, str(error))
        return interpret(answer)

    def watch(self, path: str, query: Mapping[str, str], *, silence_s: float) -> Stream:
        """Open a watch, once. The caller looks at the stream's status; raises TransportError only."""
        request = Request(method="GET", path=path, query={**query, "watch": "1"}, timeout_s=silence_s)
        return self.transport.stream(request)

    def _call(self, request: Request, *, repeatable: bool) -> bytes:
        def once() -> bytes:
            return body_of(self.transport.send(request))

        return self._retry.call(once, repeatable=repeatable)

    def _request(
        self, method: str, path: str, query: Mapping[str, str] | None, *, body: bytes = b""
    ) -> Request:
        return Request(method=method, path=path, query=query or {}, body=body, timeout_s=self._timeout_s)

    def _write(
        self,
        method: str,
        path: str,
        body: Body,
        content_type: str = "application/json",
        *,
        dry_run: bool,
        extra: Mapping[str, str] | None = None,
    ) -> Request:
        query = {"fieldManager": FIELD_MANAGER, **(extra or {})}
        if dry_run:
            query["dryRun"] = "All"
        return Request(
            method=method,
            path=path,
            query=query,
            body=body if isinstance(body, bytes) else msgspec.json.encode(body),
            content_type=content_type,
            timeout_s=self._timeout_s,
        )


def page_token(page: bytes) -> str:
    """The token of the next page; empty on the last one. Raises NotAnApiServerError."""
    token = _token_before_items(page)
    if token:
        return token
    meta = read_answer(page, _Page).metadata
    return (meta.continue_ or "") if meta else ""


def _token_before_items(page: bytes) -> str:
    """The token where API servers write it; "" if it is not there. To read the whole page for it takes half as long as to decode that."""
    at = page.find(_ITEMS, 0, _HEAD_BYTES)
    if at < 0:
        return ""
    try:
        meta = read_answer(page[: at + len(_ITEMS)] + b"]}", _Page).metadata
    except NotAnApiServerError:
        return ""  # something else has that name: the whole page tells
    return (meta.continue_ or "") if meta else ""


class _Operation(msgspec.Struct):
    op: str


# Made before there are threads: the first use of a decoder is not safe from two.
_NAMED = msgspec.json.Decoder(Described)
_OPERATIONS = msgspec.json.Decoder(list[_Operation])


def _is_named(body: Body) -> bool:
    if isinstance(body, bytes):
        return bool(_NAMED.decode(body).metadata.name)
    return bool(body.get("metadata", {}).get("name"))
