"""Compiles and evaluates CEL expressions; every error is a ``CelError`` with a message."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import cel

from kube_sandbox.apiserver.cel.functions import context
from kube_sandbox.apiserver.cel.rewrite import rewrite
from rescheduler.errors import ReschedulerError

_FAULTS = (ValueError, TypeError, KeyError, IndexError, RuntimeError, ArithmeticError, AttributeError)


class CelError(ReschedulerError):
    """An expression that cannot be compiled, or cannot be evaluated on this object."""


class Expression:
    """One compiled expression."""

    def __init__(self, source: str) -> None:
        try:
            self._program = cel.compile(rewrite(source))
            self.variables = frozenset(self._program.variables())
            self._plain = frozenset(self._program.functions()) <= _CORE
        except _FAULTS as error:
            raise CelError(f"compilation failed: {error}") from error
        self.source = source

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value. Raises CelError."""
        used = {name: variables[name] for name in self.variables if name in variables}
        try:
            return self._program.execute(used if self._plain else context(used))
        except _FAULTS as error:
            raise CelError(f"{type(error).__name__}: {error}") from error


@lru_cache(maxsize=4096)
def compiled(source: str) -> Expression:
    """The compiled expression, cached by its source. Raises CelError."""
    return Expression(source)


_CORE = frozenset(
    {
        *(
            f"_{o}_"
            for o in ("==", "!=", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*", "/", "%", "in", "?_:")
        ),
        *(
            "!_",
            "-_",
            "@in",
            "_[_]",
            "_?_:_",
            "in",
            "size",
            "has",
            "startsWith",
            "endsWith",
            "contains",
            "matches",
        ),
        *("dyn", "string", "int", "double", "duration", "timestamp", "type", "@not_strictly_false"),
    }
)
"""Functions of the library itself: an expression with only these needs no context with Kubernetes' functions."""
