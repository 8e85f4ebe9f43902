"""CEL as Kubernetes uses it, on top of a CEL library: compiled and evaluated expressions; every error is a ``CelError``.

Kubernetes' CEL is first rewritten to the core language that the library evaluates:

- Object construction (``Object.spec{a: 1}``, ``JSONPatch{op: "add"}``) becomes a map literal: the result is
  JSON, so the name of the type is not needed.
- Optional selection (``a.?b``, ``a[?k]``) becomes a call of ``optSelect`` or ``optIndex``.
- Escaped property names (``self.__namespace__``) become the plain ones.

A quantity is represented as a map with one key, because the library can pass only JSON-like values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import cel
from cel.stdlib import add_stdlib_to_context

from rescheduler.errors import ReschedulerError
from rescheduler.model.resources import NANO, nano

_FAULTS = (ValueError, TypeError, KeyError, IndexError, RuntimeError, ArithmeticError, AttributeError)


class CelError(ReschedulerError):
    """An expression that cannot be compiled, or cannot be evaluated on this object."""


class Expression:
    """One compiled expression."""

    def __init__(self, source: str) -> None:
        try:
            self._program = cel.compile(rewrite(source))
            self.variables = frozenset(self._program.variables())
        except _FAULTS as error:
            raise CelError(f"compilation failed: {error}") from error
        self.source = source

    def evaluate(self, variables: Mapping[str, Any] | Environment) -> Any:
        """The value. Raises CelError."""
        environment = variables if isinstance(variables, Environment) else Environment(variables)
        try:
            return self._program.execute(environment.context(self.variables))
        except _FAULTS as error:
            raise CelError(f"{type(error).__name__}: {error}") from error


class Environment:
    """Variables for several expressions. The library converts each variable once, when an expression first uses it.

    The conversion of an object takes longer than most expressions.
    """

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._waiting = dict(variables)
        self._context = cel.Context()
        add_stdlib_to_context(self._context)
        for name, function in FUNCTIONS.items():
            self._context.add_function(name, function)

    def set(self, name: str, value: Any) -> None:
        """Give a variable a new value."""
        self._waiting[name] = value

    def context(self, names: frozenset[str]) -> cel.Context:
        """A context in which these variables have their values, as far as they are known."""
        for name in names & self._waiting.keys():
            self._context.add_variable(name, self._waiting.pop(name))
        return self._context


@lru_cache(maxsize=4096)
def compiled(source: str) -> Expression:
    """The compiled expression, cached by its source. Raises CelError."""
    return Expression(source)


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


_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<string>[bBrR]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    |(?P<number>0x[0-9a-fA-F]+u?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?u?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<other>\.\?|\[\?|&&|\|\||[=!<>]=|.)""",
    re.VERBOSE | re.DOTALL,
)
_MESSAGES = frozenset({"Object", "JSONPatch"})
_ESCAPES = (
    ("__underscores__", "__"),
    ("__dot__", "."),
    ("__dash__", "-"),
    ("__slash__", "/"),
)


@dataclass(slots=True)
class _Writer:
    tokens: list[tuple[str, str]]
    position: int = 0
    out: list[str] = field(default_factory=list)
    braces: list[str] = field(default_factory=list)

    def peek(self, ahead: int = 1) -> tuple[str, str]:
        """The ``ahead``-th next token that is no space."""
        index = self.position
        while index < len(self.tokens):
            if self.tokens[index][0] != "space":
                ahead -= 1
                if ahead == 0:
                    return self.tokens[index]
            index += 1
        return ("end", "")

    def previous(self) -> str:
        """The last written token that is no space."""
        return next((text for text in reversed(self.out) if text.strip()), "")


def rewrite(source: str) -> str:
    """``source`` in core CEL."""
    writer = _Writer([(m.lastgroup or "other", m[0]) for m in _TOKEN.finditer(source)])
    while writer.position < len(writer.tokens):
        kind, text = writer.tokens[writer.position]
        writer.position += 1
        if kind == "name":
            _name(writer, text)
        elif kind == "other":
            _punctuation(writer, text)
        else:
            writer.out.append(text)
    return "".join(writer.out)


def _name(writer: _Writer, text: str) -> None:
    before = writer.previous()
    if text in _MESSAGES and before != "." and _skip_message_name(writer):
        writer.braces.append("message")
        writer.out.append("{")
    elif writer.braces[-1:] == ["message"] and before in {"{", ","} and writer.peek()[1] == ":":
        writer.out.append(f'"{_unescaped(text)}"')
    elif before == "." and text.startswith("__"):
        writer.out.append(_unescaped(text))
    else:
        writer.out.append(text)


def _skip_message_name(writer: _Writer) -> bool:
    """Move past ``.a.b{`` if that follows; True if it did."""
    start = writer.position
    while writer.peek()[1] == "." and writer.peek(2)[0] == "name":
        _advance(writer, 2)
    if writer.peek()[1] == "{":
        _advance(writer, 1)
        return True
    writer.position = start
    return False


def _advance(writer: _Writer, count: int) -> None:
    while count:
        if writer.tokens[writer.position][0] != "space":
            count -= 1
        writer.position += 1


def _punctuation(writer: _Writer, text: str) -> None:
    if text == ".?":
        name = writer.peek()[1]
        _advance(writer, 1)
        writer.out.append(f'.optSelect("{_unescaped(name)}")')
    elif text == "[?":
        writer.braces.append("optional")
        writer.out.append(".optIndex(")
    elif text == "]" and writer.braces[-1:] == ["optional"]:
        writer.braces.pop()
        writer.out.append(")")
    else:
        _track(writer, text)
        writer.out.append(text)


def _track(writer: _Writer, text: str) -> None:
    if text in "{[(":
        writer.braces.append(text)
    elif text in "}])" and writer.braces:
        writer.braces.pop()


def _unescaped(name: str) -> str:
    if name.startswith("__") and name.endswith("__") and name.count("__") == 2:  # noqa: PLR2004 - one at each end
        return name[2:-2]
    for escape, plain in _ESCAPES:
        name = name.replace(escape, plain)
    return name
