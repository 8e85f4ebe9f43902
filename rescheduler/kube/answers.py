"""Reads the answers of an API server, and recognizes those that come from something else.

A proxy or a login page answers 200 with HTML, and an aggregated server may send JSON of another shape. Neither may be
taken for success, nor be a crash: each is ``NotAnApiServerError``, which is tried again like every failing server.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from rescheduler.kube.errors import TryLaterError, error_of
from rescheduler.kube.transport import Response

T = TypeVar("T")

_SHOWN: Final = 80


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
    """The body of a successful answer, which is a JSON object.

    Raises:
        ApiError: the server refuses; NotAnApiServerError: the body is something else.
    """
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise error_of(answer.status, answer.body, answer.headers)
    if not is_object(answer.body):
        raise NotAnApiServerError(answer.body, "it is no JSON object", answer.status)
    return answer.body


def is_object(body: bytes) -> bool:
    """True if the text begins like a JSON object."""
    return body.lstrip()[:1] == b"{"


def read_answer(body: bytes, shape: type[T] | msgspec.json.Decoder[T]) -> T:
    """The body as ``shape``: a type, or a decoder where threads may meet at its first use.

    Raises:
        NotAnApiServerError: it has another shape.
    """
    decoder = shape if isinstance(shape, msgspec.json.Decoder) else msgspec.json.Decoder(shape)
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotAnApiServerError(body, str(error)) from error
