"""Structural schemas of custom resources: pruning and defaults. Values are checked by a real server only.

What a schema's CEL rules refuse is refused here too (``cel.schema_rules``).
"""

from __future__ import annotations

from typing import Any, Final

from kube_sandbox.apiserver.errors import Json
from kube_sandbox.apiserver.json_values import deep_copy

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_IDENTITY: Final = ("apiVersion", "kind", "metadata")


def prune(value: Any, schema: Json, *, root: bool = False, path: str = "") -> list[str]:
    """Drop fields that the schema does not have, in place; returns their paths."""
    if isinstance(value, list):
        below = schema.get("items") or {}
        return [p for i, item in enumerate(value) for p in prune(item, below, path=f"{path}[{i}]")]
    if not isinstance(value, dict):
        return []
    dropped: list[str] = []
    known = schema.get("properties") or {}
    extra = schema.get("additionalProperties")
    keep_all = bool(schema.get(_PRESERVE)) or extra is True
    for key in list(value):
        if (root or schema.get(_EMBEDDED)) and key in _IDENTITY:
            continue  # apiVersion, kind and metadata are kept although schemas usually do not declare them
        place = _child(path, key)
        if key in known:
            dropped += prune(value[key], known[key], path=place)
        elif isinstance(extra, dict):
            dropped += prune(value[key], extra, path=place)
        elif not keep_all:
            del value[key]
            dropped.append(place)
    return dropped


def default(value: Any, schema: Json) -> None:
    """Write the schema's defaults for missing fields (or null ones that are not nullable), in place."""
    if isinstance(value, list):
        for item in value:
            default(item, schema.get("items") or {})
        return
    if not isinstance(value, dict):
        return
    for key, below in (schema.get("properties") or {}).items():
        missing = key not in value or (value[key] is None and not below.get("nullable"))
        if missing and "default" in below:
            value[key] = deep_copy(below["default"])
        if key in value:
            default(value[key], below)  # a default value may itself lack fields with defaults
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        for key, item in value.items():
            if key not in (schema.get("properties") or {}):
                default(item, extra)


def drop_nulls(value: Any, schema: Json) -> None:
    """Remove null fields that are not nullable and have no default, as a real server does."""
    if isinstance(value, list):
        for item in value:
            drop_nulls(item, schema.get("items") or {})
    elif isinstance(value, dict):
        known = schema.get("properties") or {}
        for key in [k for k, v in value.items() if v is None and k in known and not known[k].get("nullable")]:
            del value[key]
        for key, item in value.items():
            drop_nulls(item, known.get(key) or {})


def _child(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
