"""The hints on nodes: those that moves leave there, and those that are outdated. Pure.

Promises: all changes of a node are one write, one at a time, so moves that leave the same node do not make each other's
writes fail. A hint waits here until its node shows it; what waits may be lost in a crash, as it only makes a target less likely.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rescheduler.calls.call import Call
from rescheduler.calls.nodes import write_avoid_hints
from rescheduler.model.node_status import AvoidEntry
from rescheduler.model.records import Node, ObjectKey
from rescheduler.planning.avoid import collected, with_entry


def hints_machine(node: str) -> ObjectKey:
    """The machine that writes the hints of a node."""
    return ObjectKey("hints", node)


@dataclass(slots=True)
class NodeHints:
    """Used by the core thread only."""

    left: dict[str, tuple[AvoidEntry, ...]] = field(default_factory=dict)
    """By node, what moves left that it does not show yet."""

    def leave(self, node: str, hint: AvoidEntry, now_s: float) -> None:
        """A move leaves this hint on the node."""
        self.left[node] = with_entry(self.left.get(node, ()), hint, now_s)

    def changes(
        self, nodes: Mapping[str, Node], hinted: Iterable[Node], controllers: Collection[str], now_s: float
    ) -> Iterator[Call]:
        """For each node whose list is to be another one: that list.

        ``hinted``: all nodes with hints. ``controllers``: uids of the controllers that exist; hints for others go.
        """
        for name in sorted({*self.left, *(node.name for node in hinted)}):
            node = nodes.get(name)
            if node is None:
                self.left.pop(name, None)
                continue
            alive = [entry.controller_uid for entry in node.avoid if entry.controller_uid in controllers]
            entries = collected(node.avoid, alive, now_s)
            for hint in self.left.get(name, ()):
                if hint.expires_at_s > now_s:
                    entries = with_entry(entries, hint, now_s)
            if set(entries) != set(node.avoid):
                yield write_avoid_hints(node, entries)
            else:
                self.left.pop(name, None)
