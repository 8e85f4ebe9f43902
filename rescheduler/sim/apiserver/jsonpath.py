"""Reading and copying nested JSON without surprises."""

from __future__ import annotations

import marshal
from typing import Any, TypeVar

from rescheduler.sim.apiserver.errors import Json

_T = TypeVar("_T")


def dig(obj: Any, *keys: str) -> Any:
    """The value under ``keys``, or None where any step is missing or no object."""
    for key in keys:
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def dotted(obj: Any, path: str) -> Any:
    """The value under ``a.b.c``, or None."""
    return dig(obj, *path.split("."))


def deep_copy(value: _T) -> _T:
    """A copy that shares nothing mutable; JSON types only. By ``marshal``: three times as fast as by hand."""
    plain: Any = value
    copied: _T = marshal.loads(marshal.dumps(plain))  # noqa: S302 - our own bytes of this moment
    return copied


def meta(obj: Json) -> Json:
    """``obj.metadata``; made if missing or null."""
    found = obj.get("metadata")
    if not isinstance(found, dict):
        found = {}
        obj["metadata"] = found
    return found


def set_default(obj: Json, key: str, value: Any) -> None:
    """Sets ``key`` where it is missing or null."""
    if obj.get(key) is None:
        obj[key] = value
