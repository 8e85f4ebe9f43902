"""Which pods changed between two snapshots, without comparing all pods.

A ChangeLog belongs to one ClusterState and records the key of every pod that was added, changed or deleted. A
snapshot carries a LogPosition: the length of the log when the snapshot was taken. Two positions of one log give
the keys in between. No change is missed: where the log cannot tell (another log, a position that was dropped, a
snapshot that was built by hand) the answer is None, and the caller compares all pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rescheduler.model.records import ObjectKey

KEPT: Final = 20_000
"""The log keeps at least so many changes; from an older position the caller has to compare all pods."""


class ChangeLog:
    """Keys of changed pods in the order of their changes. For one thread."""

    __slots__ = ("_first", "_keys")

    def __init__(self) -> None:
        self._keys: list[ObjectKey] = []
        self._first = 0

    def append(self, key: ObjectKey) -> None:
        """Record that the pod of that key was added, changed or deleted."""
        self._keys.append(key)
        if len(self._keys) > 2 * KEPT:
            del self._keys[:KEPT]
            self._first += KEPT

    def invalidate(self) -> None:
        """Any number of pods may have changed: drop the log, so that no older position can be compared."""
        self._first += len(self._keys) + 1
        self._keys.clear()

    def position(self, pods: Mapping[ObjectKey, Any]) -> LogPosition:
        """The end of the log, for a snapshot whose pods are ``pods``."""
        return LogPosition(log=self, position=self._first + len(self._keys), pods=pods)

    def between(self, start: int, end: int) -> Iterable[ObjectKey] | None:
        """Keys recorded from position ``start`` to ``end``, each once; None if ``start`` was dropped."""
        if not self._first <= start <= end:
            return None
        return dict.fromkeys(self._keys[start - self._first : end - self._first])


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """The state of a log when a snapshot was taken."""

    log: ChangeLog
    position: int
    pods: Mapping[ObjectKey, Any]
    """The pods of that snapshot: the position is valid for this mapping (by identity) only."""


def changed_keys(
    old: Mapping[ObjectKey, Any],
    old_position: LogPosition | None,
    new: Mapping[ObjectKey, Any],
    new_position: LogPosition | None,
) -> Iterable[ObjectKey] | None:
    """Keys of all pods that may differ between ``old`` and ``new``; None: unknown, the caller compares all pods."""
    if old is new:
        return ()
    if old_position is None or new_position is None or old_position.log is not new_position.log:
        return None
    if old_position.pods is not old or new_position.pods is not new:
        return None  # the pods of a snapshot were replaced by hand: the log does not describe them
    return new_position.log.between(old_position.position, new_position.position)
