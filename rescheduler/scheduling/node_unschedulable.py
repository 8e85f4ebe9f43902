"""NodeUnschedulable: a cordoned node takes only pods that tolerate being unschedulable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rescheduler.model.records import Taint, TaintEffect
from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, Refusal
from rescheduler.scheduling.taint_toleration import tolerates

REASON = "node(s) were unschedulable"
TAINT: Final = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)
"""What the node lifecycle controller puts on a cordoned node at once."""


class NodeUnschedulable:
    """Judges ``spec.unschedulable``."""

    name: ClassVar[str] = "NodeUnschedulable"

    def everywhere(self, ask: Ask, cluster: Cluster) -> None:
        """Never refuses everywhere."""

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes that are not cordoned, or all where the pod tolerates it."""
        if tolerates(ask.kind.spec.tolerations, TAINT):
            return None
        return cluster.nodes.schedulable

    def refusals(
        self,
        ask: Ask,
        cluster: Cluster,
        node: int,
        nominated: Sequence[Nominated] = (),  # noqa: ARG002 -- pods do not matter to it
    ) -> tuple[Refusal, ...]:
        """The one reason, unresolvable."""
        mask = self.mask(ask, cluster)
        return () if mask is None or mask[node] else (Refusal(self.name, REASON, unresolvable=True),)
