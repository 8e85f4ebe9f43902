"""Reading and copying nested JSON without surprises."""

from __future__ import annotations

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
    """A copy that shares nothing mutable; JSON types only."""
    copied: _T = _copied(value)
    return copied


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copied(v) if isinstance(v, (dict, list)) else v for k, v in value.items()}
    if isinstance(value, list):
        return [_copied(v) if isinstance(v, (dict, list)) else v for v in value]
    return value


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
