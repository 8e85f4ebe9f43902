"""Reading and copying nested JSON without surprises."""

from __future__ import annotations

from typing import Any

from rescheduler.sim.apiserver.errors import Json


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


def deep_copy(value: Any) -> Any:
    """A copy that shares nothing mutable; JSON types only."""
    if isinstance(value, dict):
        return {k: deep_copy(v) if isinstance(v, (dict, list)) else v for k, v in value.items()}
    if isinstance(value, list):
        return [deep_copy(v) if isinstance(v, (dict, list)) else v for v in value]
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
