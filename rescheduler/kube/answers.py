"""Reads the answers of an API server, and recognizes those that come from something else.

A proxy or a login page answers 200 with HTML, an answer is cut off, and an aggregated server may send JSON of another shape.
None may be taken for success, nor be a crash: each is ``NotAnApiServerError``, which is tried again like every failing server.
Nor does any of them prove that nothing was written: ``may_have_happened``.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import msgspec

from rescheduler.kube.errors import TryLaterError, error_of
from rescheduler.kube.transport import Response, TransportError

T = TypeVar("T")

_SHOWN: Final = 80
_ANYTHING: Final = msgspec.json.Decoder(msgspec.Raw)
"""Goes through the whole text and keeps nothing of it."""
_DECODERS: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}
_BUILDING: Final = threading.Lock()


class NotAnApiServerError(TryLaterError):
    """A 2xx answer that no API server gives."""

    def __init__(self, body: bytes, why: str, status: int = HTTPStatus.OK) -> None:
        shown = " ".join(body[:_SHOWN].decode("utf-8", "replace").split())
        super().__init__(
            status,
            "NotAnApiServer",
            f"the answer is not that of an API server ({why}): {shown!r}; "
            "check the server's address, and what proxy or login page stands before it",
        )


def body_of(answer: Response) -> bytes:
    """The body of a successful answer, which is a whole JSON object.

    Raises:
        ApiError: the server refuses; NotAnApiServerError: the body is something else.
    """
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise error_of(answer.status, answer.body, answer.headers)
    if not is_object(answer.body):
        raise NotAnApiServerError(answer.body, "it is no JSON object", answer.status)
    try:
        _ANYTHING.decode(answer.body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise NotAnApiServerError(answer.body, str(error), answer.status) from error
    return answer.body


def may_have_happened(error: Exception) -> bool:
    """True if a call that ended so may have been carried out all the same; only a refusal proves that it was not.

    Where storage is slow the API server gives up on a write that is stored a moment later (500, 504), and a proxy answers
    in the place of a server behind it whose answer it lost (502, 503, 504).
    """
    if isinstance(error, TryLaterError):
        return error.status != HTTPStatus.TOO_MANY_REQUESTS
    return isinstance(error, TransportError)


def is_object(body: bytes) -> bool:
    """True if the text begins like a JSON object."""
    return body.lstrip()[:1] == b"{"


def read_answer(body: bytes, shape: type[T]) -> T:
    """The body as ``shape``. Usable from many threads, also at the first use of a type.

    Raises:
        NotAnApiServerError: it has another shape.
    """
    decoder = _decoder_of(shape)
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotAnApiServerError(body, str(error)) from error


def read_field(body: bytes, path: str, shape: type[T], default: T) -> T:
    """What the body has at ``path`` (``status.allowed``), of a type of Python's own; ``default``: nothing. Raises as ``read_answer``."""
    found: Any = read_answer(body, dict[str, Any])
    try:
        for key in path.split("."):
            found = None if found is None else msgspec.convert(found, dict[str, Any]).get(key)
        return default if found is None else msgspec.convert(found, shape)
    except msgspec.ValidationError as error:
        raise NotAnApiServerError(body, f"{path}: {error}") from error


class _Items(msgspec.Struct, Generic[T]):
    items: list[T] | None = None


def read_items(body: bytes, shape: type[T]) -> list[T]:
    """The items of a list or a page of it, each as ``shape``. Raises as ``read_answer``."""
    listed: type[_Items[T]] = _Items[shape]  # type: ignore[valid-type]
    return read_answer(body, listed).items or []


def _decoder_of(shape: type[T]) -> msgspec.json.Decoder[T]:
    """One thread at a time builds decoders: msgspec shows a type to other threads before it is complete, and the process ends (SIGSEGV)."""
    found = _DECODERS.get(shape)
    if found is None:
        with _BUILDING:
            found = _DECODERS.setdefault(shape, msgspec.json.Decoder(shape))
    return found
