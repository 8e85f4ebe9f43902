"""Reads and copies nested JSON, and reads and writes times in it."""

from __future__ import annotations

import functools
import marshal
from datetime import UTC, datetime
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


def parse_time(text: object) -> float | None:
    """Seconds since the epoch of an RFC 3339 time, or None."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def timestamp(seconds: float) -> str:
    """RFC 3339 in UTC, whole seconds, as ``metav1.Time``."""
    return _formatted(int(seconds))


@functools.lru_cache(maxsize=1024)
def _formatted(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
