"""CEL as the policies of Kubernetes use it, on top of a CEL library: compiled and evaluated expressions; every error is a ``CelError``.

Construction of objects (``Object.spec{a: 1}``, ``JSONPatch{op: "add"}``) is first rewritten to map literals: the result is JSON, so the
name of the type is not needed. Not known: optional selection (``a.?b``), escaped names of properties, comparison of quantities.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

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


def _index_of(values: Any, wanted: Any) -> int:
    if isinstance(values, str):
        return values.find(wanted)
    return values.index(wanted) if wanted in values else -1


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
    # The authorizer: the only user of the sandbox is allowed everything.
    **dict.fromkeys(
        ("group", "resource", "subresource", "namespace", "name", "path", "check", "serviceAccount"),
        lambda authorizer, *_: authorizer,
    ),
    "allowed": lambda _: True,
    "quantity": lambda text: nano(text) / NANO,
    "asApproximateFloat": lambda quantity: quantity,
    "indexOf": _index_of,
    "lastIndexOf": lambda text, wanted: text.rfind(wanted),
    "format": _format,
    "jsonpatch.escapeKey": _escape_key,
    "substring": _substring,
}


_REWRITTEN: Final = re.compile(
    r"""(?P<kept>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|//[^\n]*)
    |\b(?:Object|JSONPatch)(?:\.\w+)*\s*(?=\{)
    |(?P<before>[{,]\s*)(?P<field>[A-Za-z_]\w*)(?=\s*:)""",
    re.VERBOSE,
)
"""Texts and comments, which stay; the name of a type; a field of an object."""


def rewrite(source: str) -> str:
    """``source`` in core CEL."""

    def word(found: re.Match[str]) -> str:
        return found["kept"] or (f'{found["before"]}"{found["field"]}"' if found["field"] else "")

    return _REWRITTEN.sub(word, source)
