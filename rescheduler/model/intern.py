"""Tables that make equal values one object, without keeping values that nobody asks for any more.

Pods of one controller share their spec, labels and owner; a table finds the shared object by the bytes
that it was decoded from. A table has two generations: what is not asked for during a whole generation
is forgotten. Forgetting costs sharing, never correctness, because values are compared by content.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

GENERATION_SIZE = 1 << 16
"""Entries of one generation: at most twice as many values are held."""


class InternTable(Generic[Key, Value]):
    """Key -> value, bounded by two generations. For one thread; a race costs sharing only."""

    __slots__ = ("_new", "_old", "_size")

    def __init__(self, size: int = GENERATION_SIZE) -> None:
        self._new: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}
        self._size = size

    def __len__(self) -> int:
        return len(self._new) + len(self._old)

    def get(self, key: Key, make: Callable[[Key], Value]) -> Value:
        """The value of ``key``; made, and remembered, if it is not known. What ``make`` raises passes."""
        value = self._new.get(key)
        if value is not None:
            return value
        value = self._old.pop(key, None)
        if value is None:
            value = make(key)
        if len(self._new) >= self._size:
            self._old, self._new = self._new, {}
        self._new[key] = value
        return value
