"""Which pods changed between two snapshots, without looking at all of them.

A ChangeLog belongs to one ClusterState and notes the key of every pod that came, changed or left. A
snapshot carries a Mark: how far the log was. Two marks of one log name the keys in between. It promises
that no change is missed: where it cannot know (another log, too long ago, pods put in by other ways) it says
so, and the caller compares everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rescheduler.model.records import ObjectKey

KEPT: Final = 20_000
"""Changes that are remembered at least; a reader who comes later compares everything."""


class ChangeLog:
    """Keys of changed pods, in order. For one thread."""

    __slots__ = ("_first", "_keys")

    def __init__(self) -> None:
        self._keys: list[ObjectKey] = []
        self._first = 0

    def note(self, key: ObjectKey) -> None:
        """The pod of that key came, changed or left."""
        self._keys.append(key)
        if len(self._keys) > 2 * KEPT:
            del self._keys[:KEPT]
            self._first += KEPT

    def forget(self) -> None:
        """Anything may have changed: nothing is known of the time before."""
        self._first += len(self._keys) + 1
        self._keys.clear()

    def mark(self, pods: Mapping[ObjectKey, Any]) -> Mark:
        """How far the log is now, for a snapshot whose pods are ``pods``."""
        return Mark(log=self, position=self._first + len(self._keys), pods=pods)

    def between(self, start: int, end: int) -> Iterable[ObjectKey] | None:
        """Keys noted from position ``start`` to ``end``, each once; None if ``start`` is too long ago."""
        if not self._first <= start <= end:
            return None
        return dict.fromkeys(self._keys[start - self._first : end - self._first])


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A position in a log. ``pods``: the very mapping that it holds for."""

    log: ChangeLog
    position: int
    pods: Mapping[ObjectKey, Any]


def changed_keys(
    old: Mapping[ObjectKey, Any], old_mark: Mark | None, new: Mapping[ObjectKey, Any], new_mark: Mark | None
) -> Iterable[ObjectKey] | None:
    """Keys of all pods that may differ between ``old`` and ``new``; None: not known, compare everything."""
    if old is new:
        return ()
    if old_mark is None or new_mark is None or old_mark.log is not new_mark.log:
        return None
    if old_mark.pods is not old or new_mark.pods is not new:
        return None  # a snapshot that was put together by hand
    return new_mark.log.between(old_mark.position, new_mark.position)
