"""Remembers since when the marks of each node are as they are; forgotten with the process, which then sees all taints for the first time.

Used by one thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rescheduler.model.decode import Record
from rescheduler.model.node_marks import NOTHING_SEEN, NodeMarksSince
from rescheduler.model.records import Node


class MarksMemory:
    """Follows the nodes."""

    def __init__(self) -> None:
        self._of: dict[str, NodeMarksSince] = {}
        self._known: Mapping[str, NodeMarksSince] | None = None

    @property
    def known(self) -> Mapping[str, NodeMarksSince]:
        """By name of the node; a copy that stays as it is."""
        if self._known is None:
            self._known = MappingProxyType(dict(self._of))
        return self._known

    def take(self, before: Record | None, after: Record | None, now_s: float) -> None:
        """One node before and after a change; None: it did not exist, or does not any more. ``now_s``: since the epoch."""
        old = before if isinstance(before, Node) else None
        if not isinstance(after, Node):
            changed = old is not None and self._of.pop(old.name, None) is not None
        else:
            if old is not None and old.uid != after.uid:
                old = None
            known = self._of.get(after.name, NOTHING_SEEN) if old is not None else NOTHING_SEEN
            found = known.after(old, after, now_s)
            changed = found != known
            self._of[after.name] = found
        if changed:
            self._known = None
