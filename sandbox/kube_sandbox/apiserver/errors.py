"""Errors of the API server: one exception with a ``metav1.Status``, and field errors.

Reasons, codes and messages are those of apimachinery's ``api/errors``, because clients depend on them.
"""

from __future__ import annotations

import json
from typing import Any

from rescheduler.errors import ReschedulerError

Json = dict[str, Any]
"""One API object or a part of one, as decoded from JSON."""


class StatusError(ReschedulerError):
    """A rejected request. ``status_object`` is the body of the response, ``code`` its HTTP status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    @property
    def status_object(self) -> Json:
        """The body of the response."""
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            body["details"] = self.details
        if not self.reason:
            del body["reason"]
        return body


def qualified(group: str, resource: str) -> str:
    """``pods`` or ``deployments.apps``: the name of a resource in messages."""
    return f"{resource}.{group}" if group else resource


def _details(group: str, resource: str, name: str, causes: list[Json] | None = None) -> Json:
    details: Json = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = resource
    if causes:
        details["causes"] = causes
    return details


def not_found(group: str, resource: str, name: str) -> StatusError:
    """404 NotFound of one object."""
    message = f'{qualified(group, resource)} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_details(group, resource, name))


def unknown_path() -> StatusError:
    """404 of a path that is not served."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def already_exists(group: str, resource: str, name: str) -> StatusError:
    """409 AlreadyExists."""
    message = f'{qualified(group, resource)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=_details(group, resource, name))


def conflict(group: str, resource: str, name: str, why: str) -> StatusError:
    """409 Conflict; ``why`` is the end of the message."""
    message = f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(group, resource, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(group: str, kind: str, name: str, causes: list[FieldError]) -> StatusError:
    """422 Invalid with one cause per field."""
    text = ", ".join(cause.text for cause in causes)
    if len(causes) > 1:
        text = f"[{text}]"
    details = _details(group, kind, name, [cause.as_cause for cause in causes])
    return StatusError(
        422, "Invalid", f'{qualified(group, kind)} "{name}" is invalid: {text}', details=details
    )


def bad_request(message: str) -> StatusError:
    """400 BadRequest."""
    return StatusError(400, "BadRequest", message)


def forbidden(
    group: str, resource: str, name: str, why: str, causes: list[Json] | None = None
) -> StatusError:
    """403 Forbidden."""
    message = f'{qualified(group, resource)} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, details=_details(group, resource, name, causes))


def expired(message: str) -> StatusError:
    """410 Expired: the version or the continue token is older than the kept history."""
    return StatusError(410, "Expired", message)


def method_not_allowed() -> StatusError:
    """405: the resource does not serve this verb."""
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, details={})


def unsupported_media(message: str, details: Json | None = None) -> StatusError:
    """415: a body in an unsupported format."""
    return StatusError(415, "UnsupportedMediaType", message, details=details)


def bad_options(kind: str, fault: FieldError) -> StatusError:
    """422: an invalid option of a request (``kind``: ListOptions, CreateOptions, ...)."""
    message = f'{kind}.meta.k8s.io "" is invalid: {fault.text}'
    details = {"group": "meta.k8s.io", "kind": kind, "causes": [fault.as_cause]}
    return StatusError(422, "Invalid", message, details=details)


def foreign_uid(group: str, resource: str, name: str, *, wanted: str, found: str) -> StatusError:
    """409: the object of that name has another uid."""
    why = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    return conflict(group, resource, name, why)


class FieldError:
    """An error of one field, with the text of ``field.Error``."""

    def __init__(self, reason: str, path: str, message: str) -> None:
        self.reason = reason
        self.path = path
        self.message = message

    @property
    def text(self) -> str:
        """``path: message``."""
        return f"{self.path}: {self.message}"

    @property
    def as_cause(self) -> Json:
        """The cause in ``details``."""
        return {"reason": self.reason, "message": self.message, "field": self.path}


def required(path: str, message: str = "") -> FieldError:
    """A missing value."""
    return FieldError("FieldValueRequired", path, "Required value" + (f": {message}" if message else ""))


def invalid_value(path: str, value: object, message: str) -> FieldError:
    """A wrong value."""
    return FieldError("FieldValueInvalid", path, f"Invalid value: {_shown(value)}: {message}")


def not_supported(path: str, value: object, allowed: list[str]) -> FieldError:
    """A value outside an enumeration."""
    listed = ", ".join(f'"{item}"' for item in allowed)
    text = f"Unsupported value: {_shown(value)}: supported values: {listed}"
    return FieldError("FieldValueNotSupported", path, text)


def forbidden_field(path: str, message: str) -> FieldError:
    """A field that may not be set or changed here."""
    return FieldError("FieldValueForbidden", path, f"Forbidden: {message}")


def _shown(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
