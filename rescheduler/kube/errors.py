"""What an API server refuses, as exceptions that are named by what must be done.

::

    ApiError                    any answer that is not a success
    ├── TryLaterError           nothing: time cures it (429, 5xx)
    │   └── NotServedError      404 that names no object: the path is not served now, or something else answered
    ├── AccessError             the administrator: rights or credentials
    │   ├── UnauthorizedError   401: credentials are not accepted
    │   └── ForbiddenError      403: rights are missing, or an admission webhook refuses
    ├── StaleError              the caller: look again, then decide again
    │   ├── ConflictError       409 (422 to a guarded JSON patch): the object was changed or replaced in between
    │   ├── AlreadyExistsError  409: an object of that name is there
    │   ├── NotFoundError       404 of the API server that names the object: it does not exist
    │   └── ExpiredError        410: the resource version or the page token is too old; list again
    └── RejectedError           the author of the object: it is invalid (400, 422, ...)

No answer at all is ``kube.transport.TransportError``; no server to ask is ``KubeconfigError``. This module reads only
``Status`` bodies, and loads no API client: commands that read dumps import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from rescheduler.errors import ReschedulerError

_MAX_MESSAGE: Final = 2_000
MOST_RETRY_AFTER_S: Final = 60.0
"""The longest wait that a server is granted: a proxy or an admission webhook may ask for hours, or for more seconds than
a thread can sleep, and what the wait is for is over long before."""


class Cause(msgspec.Struct, frozen=True):
    """One entry of ``Status.details.causes``: e.g. reason ``DisruptionBudget`` or ``FieldValueInvalid``."""

    reason: str = ""
    message: str = ""
    field: str = ""


class KubeconfigError(ReschedulerError):
    """The connection is not configured rightly. The user must act: ``remedy`` says how."""

    def __init__(self, file: str, message: str, remedy: str = "") -> None:
        super().__init__(f"{file}: {message}" + (f" ({remedy})" if remedy else ""))
        self.file = file
        self.message = message
        self.remedy = remedy


class ApiError(ReschedulerError):
    """An answer of the API server that is not a success.

    ``status``: HTTP code. ``reason``: machine word of the Status ("" where a proxy answered).
    ``retry_after_s``: what the server asked for, None if it did not say.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after_s = retry_after_s

    def has_cause(self, reason: str) -> bool:
        """True if the server names that cause."""
        return any(cause.reason == reason for cause in self.causes)


class TryLaterError(ApiError):
    """Overloaded or failing server."""


class NotServedError(TryLaterError):
    """404 without a Status that names an object: from a proxy, or of a kind that is not served at the moment.

    It proves nothing of any object. Whether a kind is served is told by ``discovery.proves_absent``. A call that ends so is
    not sent again by itself, since it may take until somebody installs the kind.
    """


class AccessError(ApiError):
    """Credentials or rights are missing."""


class UnauthorizedError(AccessError):
    """401."""


class ForbiddenError(AccessError):
    """403."""


class StaleError(ApiError):
    """The world is not as the caller thought."""


class ConflictError(StaleError):
    """409, or 422 to a JSON patch whose ``test`` fails: changed or replaced in between, a precondition failed."""


class AlreadyExistsError(StaleError):
    """409: the name is taken."""


class NotFoundError(StaleError):
    """404 of the API server about one object. ``about``: what it does not have, by plural name of the kind: "pods"."""

    about = ""


class ExpiredError(StaleError):
    """410: too old a version; list again."""


class RejectedError(ApiError):
    """The request itself is wrong."""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """``Status.details``."""

    name: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: float | None = None


class Status(msgspec.Struct, frozen=True):
    """A ``metav1.Status``. ``status``: "Success" or "Failure"."""

    kind: str
    status: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: Details | None = None


_STATUS = msgspec.json.Decoder(Status)


def parse_status(body: bytes) -> Status | None:
    """The Status in ``body``; None if it is anything else (an object, HTML of a proxy, nothing)."""
    try:
        status = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return status if status.kind == "Status" else None


def error_of(code: int, body: bytes, headers: Mapping[str, str] | None = None) -> ApiError:
    """The exception for an answer that is not a success; ``body`` may be text, HTML or empty."""
    status = parse_status(body)
    if status is not None:
        return _error(code, status, headers or {})
    message = body[:_MAX_MESSAGE].decode("utf-8", "replace").strip()
    return _class_of(code, "", None)(code, "", message, (), _retry_after(headers or {}, None))


def error_of_status(status: Status) -> ApiError:
    """The exception for a Status that came inside a stream (watch event ERROR)."""
    return _error(status.code, status, {})


def _error(code: int, status: Status, headers: Mapping[str, str]) -> ApiError:
    details = status.details or Details()
    kind = _class_of(code, status.reason, status)
    error = kind(code, status.reason, status.message, details.causes or (), _retry_after(headers, details))
    if isinstance(error, NotFoundError):
        error.about = details.kind
    return error


def _class_of(code: int, reason: str, status: Status | None) -> type[ApiError]:
    if code == HTTPStatus.NOT_FOUND:
        named = status is not None and status.details is not None and bool(status.details.name)
        return NotFoundError if named else NotServedError
    if status is None and code in _OF_OBJECTS:
        return TryLaterError  # something that stands before the API server says so, of nothing that it knows
    if code == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExistsError
    if code == HTTPStatus.TOO_MANY_REQUESTS or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return TryLaterError
    if code < HTTPStatus.BAD_REQUEST:  # no API server sends its clients elsewhere: a login page does
        return TryLaterError
    return _CLASSES.get(code, RejectedError)


_OF_OBJECTS: Final = (HTTPStatus.CONFLICT, HTTPStatus.GONE, HTTPStatus.UNPROCESSABLE_ENTITY)
"""Answers that say what is stored; only the API server knows it, and it says it in a Status."""

_CLASSES: Final[Mapping[int, type[ApiError]]] = {
    HTTPStatus.UNAUTHORIZED: UnauthorizedError,
    HTTPStatus.FORBIDDEN: ForbiddenError,
    HTTPStatus.CONFLICT: ConflictError,
    HTTPStatus.GONE: ExpiredError,
}


def _retry_after(headers: Mapping[str, str], details: Details | None) -> float | None:
    """Seconds of the header, else of the Status; a date or nonsense counts as not said, and so does what is no wait.

    A Status with 0 seconds says nothing: a budget that blocks sends it (measured on 1.37.0). Taken at its word, it
    would be asked again at once and without an end.
    """
    text = headers.get("retry-after", "").strip()
    said = float(text) if text.isdecimal() else (details.retry_after_seconds if details else None)
    return min(said, MOST_RETRY_AFTER_S) if said is not None and said > 0.0 else None
