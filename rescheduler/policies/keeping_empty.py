"""What becomes of nodes that a policy has emptied: nothing, or they are cordoned or tainted for a while, so that they stay empty. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from rescheduler.model.kept_empty import Hold
from rescheduler.model.records import Node

LEAST_S: Final = 600.0
"""Longer than a node counts as emptied a moment ago (``coordination.emptied_nodes``), so no node is cordoned twice for one emptying."""
MOST_S: Final = 30 * 24 * 3600.0


class EmptiedNodes(enum.StrEnum):
    """Argument ``emptiedNodes``."""

    NONE = "none"
    CORDON = "cordon"
    TAINT = "taint"

    @property
    def hold(self) -> Hold | None:
        """What keeps pods away from them; None: nothing."""
        return _HOLDS.get(self)


_HOLDS: Final = {EmptiedNodes.CORDON: Hold.CORDONED, EmptiedNodes.TAINT: Hold.TAINTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepingRule:
    """Nodes with these labels that moves of this policy have emptied are cordoned or tainted for so long."""

    policy: str
    hold: Hold = Hold.CORDONED
    node_labels: tuple[tuple[str, str], ...] = ()
    kept_for_s: float

    def holds_for(self, node: Node) -> bool:
        """True if the node takes part in the policy."""
        return all(node.labels.get(key) == value for key, value in self.node_labels)
