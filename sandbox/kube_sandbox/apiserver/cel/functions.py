"""Functions of Kubernetes' CEL libraries that the project's policies use and the CEL library does not have.

A quantity is represented as a map with one key, because the library can pass only JSON-like values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import cel
from cel.stdlib import add_stdlib_to_context

from rescheduler.model.resources import NANO, nano

_QUANTITY = "$nano"


def _opt_select(value: Any, key: Any) -> Any:
    if isinstance(value, cel.OptionalValue):
        if not value.has_value():
            return value
        value = value.value()
    if isinstance(value, dict) and key in value:
        return cel.OptionalValue.of(value[key])
    return cel.OptionalValue.none()


def _opt_index(value: Any, key: Any) -> Any:
    if isinstance(value, cel.OptionalValue):
        if not value.has_value():
            return value
        value = value.value()
    if isinstance(value, list):
        inside = isinstance(key, int) and 0 <= key < len(value)
        return cel.OptionalValue.of(value[key]) if inside else cel.OptionalValue.none()
    return _opt_select(value, key)


def _quantity(text: Any) -> Any:
    return {_QUANTITY: str(nano(text))}


def _nanos(quantity: Any) -> int:
    return int(quantity[_QUANTITY]) if isinstance(quantity, dict) else int(quantity) * NANO


def _compare(left: Any, right: Any) -> int:
    a, b = _nanos(left), _nanos(right)
    return (a > b) - (a < b)


def _index_of(values: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(values, str):
        return values.find(wanted, start)
    return values.index(wanted) if wanted in values else -1


def _last_index_of(values: Any, wanted: Any) -> int:
    if isinstance(values, str):
        return values.rfind(wanted)
    return max((index for index, value in enumerate(values) if value == wanted), default=-1)


def _format(template: str, arguments: list[Any]) -> str:
    return re.sub("%[sdv]", "%s", template) % tuple(map(_text, arguments))


def _text(value: Any) -> str:
    """A value as ``format`` writes it: lists and maps much as their JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= last <= len(text):
        raise ValueError(f"substring({start}, {last}) is outside of {len(text)} characters")
    return text[start:last]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "optSelect": _opt_select,
    "optIndex": _opt_index,
    # The authorizer: the only user of the sandbox is allowed everything.
    **dict.fromkeys(
        ("group", "resource", "subresource", "namespace", "name", "path", "check", "serviceAccount"),
        lambda authorizer, *_: authorizer,
    ),
    "allowed": lambda _: True,
    "quantity": _quantity,
    "isGreaterThan": lambda a, b: _compare(a, b) > 0,
    "compareTo": _compare,
    "asApproximateFloat": lambda q: _nanos(q) / NANO,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "format": _format,
    "jsonpatch.escapeKey": _escape_key,
    "substring": _substring,
}


def context(variables: dict[str, Any]) -> cel.Context:
    """A context with these variables and all functions."""
    made = cel.Context(variables)
    add_stdlib_to_context(made)
    for name, function in FUNCTIONS.items():
        made.add_function(name, function)
    return made
