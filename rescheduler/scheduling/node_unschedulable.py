"""NodeUnschedulable: a cordoned node takes only pods that tolerate being unschedulable."""

from __future__ import annotations

from typing import ClassVar, Final

from rescheduler.model.records import Taint, TaintEffect
from rescheduler.scheduling.classes import Ask
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.plugin import FilterPlugin
from rescheduler.scheduling.taint_toleration import tolerates

REASON = "node(s) were unschedulable"
TAINT: Final = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
"""What the node lifecycle controller puts on a cordoned node at once."""


class NodeUnschedulable(FilterPlugin):
    """Judges ``spec.unschedulable``."""

    name: ClassVar[str] = "NodeUnschedulable"
    reason: ClassVar[str] = REASON

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes that are not cordoned, or all where the pod tolerates it."""
        if tolerates(ask.kind.spec.tolerations, TAINT):
            return None
        return cluster.nodes.schedulable
