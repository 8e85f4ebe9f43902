"""``x-kubernetes-validations``: CEL rules inside the schemas of custom resources, transition rules included.

``oldSelf`` is correlated along object fields, map keys and lists of type map; below lists of other types there is
no old value, so transition rules are not evaluated there. CEL reads strings of format date-time and duration as
timestamps and durations.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from kube_sandbox.apiserver.cel.expressions import CelError, compiled
from kube_sandbox.apiserver.errors import FieldError, Json, invalid_value

_RULES = "x-kubernetes-validations"
_MISSING = object()
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_REASONS = {
    "FieldValueRequired": "Required value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueDuplicate": "Duplicate value",
}


def validate_rules(value: Any, old: Any, schema: Json, path: str = "") -> list[FieldError]:
    """Errors of the rules of ``schema`` and of all schemas below it. ``old`` None: a creation."""
    return _check(value, _MISSING if old is None else old, schema, path)


def _check(value: Any, old: Any, schema: Json, path: str) -> list[FieldError]:
    if value is None or not has_rules(schema):
        return []
    faults = [fault for rule in schema.get(_RULES) or () for fault in _one(rule, value, old, schema, path)]
    if isinstance(value, dict):
        faults += _check_fields(value, old, schema, path)
    elif isinstance(value, list):
        below = schema.get("items") or {}
        for index, item in enumerate(value):
            faults += _check(item, _counterpart(item, old, schema), below, f"{path}[{index}]")
    return faults


def _check_fields(value: Json, old: Any, schema: Json, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    known, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, item in value.items():
        below = known.get(key, extra if isinstance(extra, dict) else None)
        if below is not None:
            before = old.get(key, _MISSING) if isinstance(old, dict) else _MISSING
            faults += _check(item, before, below, f"{path}.{key}" if path else key)
    return faults


_rules_known: dict[int, tuple[Json, bool]] = {}


def has_rules(schema: Json) -> bool:
    """True if the schema, or a schema below it, has a rule."""
    known = _rules_known.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    extra = schema.get("additionalProperties")
    below = [*(schema.get("properties") or {}).values(), schema.get("items"), extra]
    found = bool(schema.get(_RULES)) or any(has_rules(s) for s in below if isinstance(s, dict))
    _rules_known[id(schema)] = (schema, found)
    return found


def _counterpart(item: Any, old: Any, schema: Json) -> Any:
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map":
        return _MISSING
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    for candidate in old:
        if all(candidate.get(key) == item.get(key) for key in keys):
            return candidate
    return _MISSING


def _one(rule: Json, value: Any, old: Any, schema: Json, path: str) -> list[FieldError]:
    source = rule["rule"]
    try:
        expression = compiled(source)
        variables = {"self": to_cel(value, schema)}
        if "oldSelf" in expression.variables:
            if old is _MISSING and not rule.get("optionalOldSelf"):
                return []  # a transition rule: without an old value it does not apply
            variables["oldSelf"] = None if old is _MISSING else to_cel(old, schema)
        if expression.evaluate(variables) is True:
            return []
        text = _message(rule, variables)
    except CelError as error:
        text = f"rule evaluation error: {error}: {source}"
    reason = rule.get("reason", "FieldValueInvalid")
    if rule.get("fieldPath"):
        path = f"{path}{rule['fieldPath']}".lstrip(".")
    if reason in _REASONS:
        return [FieldError(reason, path, f"{_REASONS[reason]}: {text}")]
    if isinstance(value, (dict, list)):
        return [FieldError("FieldValueInvalid", path or "<nil>", f"Invalid value: {text}")]
    return [invalid_value(path or "<nil>", value, text)]


def _message(rule: Json, variables: dict[str, Any]) -> str:
    if rule.get("messageExpression"):
        try:
            return str(compiled(rule["messageExpression"]).evaluate(variables))
        except CelError:
            return str(rule.get("message") or f"failed rule: {rule['rule']}")
    return str(rule.get("message") or f"failed rule: {rule['rule']}")


def to_cel(value: Any, schema: Json) -> Any:
    """The value with timestamps and durations in place of their strings."""
    if isinstance(value, dict):
        known, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        below = extra if isinstance(extra, dict) else {}
        return {key: to_cel(item, known.get(key, below)) for key, item in value.items()}
    if isinstance(value, list):
        below = schema.get("items") or {}
        return [to_cel(item, below) for item in value]
    if isinstance(value, str) and schema.get("type") == "string":
        return _text_to_cel(value, schema.get("format", ""))
    return value


def _text_to_cel(value: str, form: str) -> Any:
    try:
        if form == "date-time":
            return datetime.fromisoformat(value.upper())
        if form == "duration":
            parts = re.findall(r"([\d.]+)(ns|us|µs|ms|s|m|h)", value)
            return timedelta(seconds=sum(float(n) * _UNITS[unit] for n, unit in parts))
    except ValueError:
        return value
    return value
