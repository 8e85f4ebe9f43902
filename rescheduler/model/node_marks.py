"""What is special about a node, as plans and pages mark it. Pure."""

from __future__ import annotations

import enum
from typing import Final

from rescheduler.model.records import Node, Taint

_OF_THE_SYSTEM: Final = "node.kubernetes.io/"
"""Prefix of taints that repeat what the marks say: unschedulable, not-ready, unreachable."""


class NodeMark(enum.StrEnum):
    """What is special about a node."""

    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    TAINTED = "Tainted"
    KEPT_EMPTY = "KeptEmpty"
    """The controller has emptied it, and keeps new pods away."""
    DELETING = "Deleting"


def marks_of(node: Node) -> tuple[NodeMark, ...]:
    """In the order of the enumeration."""
    if node.usable and not node.taints and node.kept_empty is None:
        return ()
    found = {
        NodeMark.NOT_READY: not node.ready,
        NodeMark.CORDONED: node.unschedulable,
        NodeMark.TAINTED: bool(own_taints(node)),
        NodeMark.KEPT_EMPTY: node.kept_empty is not None,
        NodeMark.DELETING: node.deleting,
    }
    return tuple(mark for mark, there in found.items() if there)


def own_taints(node: Node) -> list[Taint]:
    """Those that people or programs have set."""
    return [taint for taint in node.taints if not taint.key.startswith(_OF_THE_SYSTEM)]
