"""Structural schemas of custom resources: pruning, defaults, and validation without CEL."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from kube_sandbox.apiserver.errors import FieldError, Json, invalid_value, not_supported, required
from kube_sandbox.apiserver.json_values import deep_copy

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_DURATION = re.compile(r"[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+)")
_IDENTITY = ("apiVersion", "kind", "metadata")


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


def validate(value: Any, schema: Json, path: str) -> list[FieldError]:
    """Errors of a value."""
    if value is None:
        return (
            []
            if schema.get("nullable") or not schema.get("type")
            else [_wrong_type(path, value, schema["type"])]
        )
    faults = _type_faults(value, schema, path)
    if faults:
        return faults
    faults = _plain_faults(value, schema, path)
    if isinstance(value, dict):
        faults += _object_faults(value, schema, path)
    elif isinstance(value, list):
        faults += _list_faults(value, schema, path)
    elif isinstance(value, str):
        faults += _string_faults(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        faults += _number_faults(value, schema, path)
    return faults


def _type_faults(value: Any, schema: Json, path: str) -> list[FieldError]:
    if schema.get(_INT_OR_STRING):
        fine = isinstance(value, (int, str)) and not isinstance(value, bool)
        return [] if fine else [_wrong_type(path, value, "integer,string")]
    kind = schema.get("type")
    if kind is None or _is(value, kind):
        return []
    return [_wrong_type(path, value, kind)]


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    types: dict[str, type | tuple[type, ...]] = {
        "object": dict,
        "array": list,
        "string": str,
        "number": (int, float),
        "boolean": bool,
    }
    return isinstance(value, types.get(kind, object))


def type_name(value: Any) -> str:
    """The name of the JSON type in messages."""
    if value is None:
        return "null"
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "object")


def _wrong_type(path: str, value: Any, kind: str) -> FieldError:
    shown = type_name(value)
    text = f'Invalid value: "{shown}": {path} in body must be of type {kind}: "{shown}"'
    return FieldError("FieldValueTypeInvalid", path, text)


def _plain_faults(value: Any, schema: Json, path: str) -> list[FieldError]:
    if "enum" in schema and value not in schema["enum"]:
        return [not_supported(path, value, [str(item) for item in schema["enum"]])]
    return _combined_faults(value, schema, path)


def _combined_faults(value: Any, schema: Json, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    for part in schema.get("allOf") or ():
        faults += validate(value, part, path)
    for name in ("anyOf", "oneOf"):
        options = schema.get(name)
        if options and schema.get(_INT_OR_STRING) is None:
            passing = sum(not validate(value, option, path) for option in options)
            if passing == 0 or (name == "oneOf" and passing > 1):
                text = f"{path} in body must validate {'at least one' if name == 'anyOf' else 'one and only one'} schema ({name})"
                faults.append(invalid_value(path, type_name(value), text))
    if schema.get("not") and not validate(value, schema["not"], path):
        faults.append(
            invalid_value(path, type_name(value), f"{path} in body must not validate the schema (not)")
        )
    return faults


def _child(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _object_faults(value: Json, schema: Json, path: str) -> list[FieldError]:
    faults = [required(_child(path, key)) for key in schema.get("required") or () if key not in value]
    known = schema.get("properties") or {}
    for key, below in known.items():
        if key in value:
            faults += validate(value[key], below, _child(path, key))
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        for key in value.keys() - known.keys():
            faults += validate(value[key], extra, _child(path, key))
    if len(value) > schema.get("maxProperties", len(value)):
        text = f"{path} in body should have at most {schema['maxProperties']} properties"
        faults.append(FieldError("FieldValueTooMany", path, f"Too many: {len(value)}: {text}"))
    if len(value) < schema.get("minProperties", 0):
        text = f"{path} in body should have at least {schema['minProperties']} properties"
        faults.append(invalid_value(path, len(value), text))
    return faults


def _list_faults(value: list[Any], schema: Json, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    below = schema.get("items") or {}
    for index, item in enumerate(value):
        faults += validate(item, below, f"{path}[{index}]")
    if len(value) > schema.get("maxItems", len(value)):
        text = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
        faults.append(FieldError("FieldValueTooMany", path, text))
    if len(value) < schema.get("minItems", 0):
        text = f"{path} in body should have at least {schema['minItems']} items"
        faults.append(invalid_value(path, len(value), text))
    return faults + _duplicates(value, schema, path)


def _duplicates(value: list[Any], schema: Json, path: str) -> list[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in {"set", "map"}:
        return []
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    seen: list[Any] = []
    faults = []
    for index, item in enumerate(value):
        mark = tuple(item.get(k) for k in keys) if kind == "map" and isinstance(item, dict) else item
        if mark in seen:
            faults.append(FieldError("FieldValueDuplicate", f"{path}[{index}]", f"Duplicate value: {mark}"))
        seen.append(mark)
    return faults


def _string_faults(value: str, schema: Json, path: str) -> list[FieldError]:
    faults = []
    if len(value) > schema.get("maxLength", len(value)):
        text = f"Too long: may not be more than {schema['maxLength']} bytes"
        faults.append(FieldError("FieldValueTooLong", path, text))
    if len(value) < schema.get("minLength", 0):
        text = f"{path} in body should be at least {schema['minLength']} chars long"
        faults.append(invalid_value(path, value, text))
    if "pattern" in schema and not re.search(schema["pattern"], value):
        faults.append(invalid_value(path, value, f"{path} in body should match '{schema['pattern']}'"))
    form = schema.get("format")
    if form and not _has_format(value, form):
        text = f'Invalid value: "{value}": {path} in body must be of type {form}: "{value}"'
        faults.append(FieldError("FieldValueTypeInvalid", path, text))
    return faults


def _has_format(value: str, form: str) -> bool:
    if form == "date-time":
        if not _DATE_TIME.fullmatch(value):
            return False
        try:
            datetime.fromisoformat(value.upper())
        except ValueError:
            return False
        return True
    if form == "duration":
        return bool(_DURATION.fullmatch(value))
    return True


def _number_faults(value: float, schema: Json, path: str) -> list[FieldError]:
    faults = []
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        faults.append(invalid_value(path, value, f"{path} in body should be {word} {low}"))
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        faults.append(invalid_value(path, value, f"{path} in body should be {word} {high}"))
    step = schema.get("multipleOf")
    if step and value % step:
        faults.append(invalid_value(path, value, f"{path} in body should be a multiple of {step}"))
    return faults
