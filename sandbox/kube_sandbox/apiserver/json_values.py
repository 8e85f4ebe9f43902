"""Reads and copies nested JSON, and reads times in it."""

from __future__ import annotations

import marshal
from datetime import datetime
from typing import Any, TypeVar

from kube_sandbox.apiserver.errors import Json

_T = TypeVar("_T")


def dig(obj: Any, *keys: str) -> Any:
    """The value under ``keys``; None if a key is missing, or a value on the way is no object."""
    for key in keys:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def deep_copy(value: _T) -> _T:
    """A deep copy of JSON types, by ``marshal``, which is three times as fast as a recursive copy."""
    plain: Any = value
    copied: _T = marshal.loads(marshal.dumps(plain))  # noqa: S302 - our own bytes of this moment
    return copied


def meta(obj: Json) -> Json:
    """``obj.metadata``; it is created if it is missing or null."""
    found = obj.get("metadata")
    if not isinstance(found, dict):
        found = {}
        obj["metadata"] = found
    return found


def set_default(obj: Json, key: str, value: Any) -> None:
    """Sets ``key`` where it is missing or null."""
    if obj.get(key) is None:
        obj[key] = value


def seconds(text: str | None) -> float:
    """A time in JSON as seconds since the epoch; 0.0 if there is none."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0
