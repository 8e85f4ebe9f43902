"""NodeDeclaredFeatures: what the pod's spec needs of a kubelet must be declared in the node's status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, Refusal

REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures:
    """Judges ``status.declaredFeatures``."""

    name: ClassVar[str] = "NodeDeclaredFeatures"

    def everywhere(self, ask: Ask, cluster: Cluster) -> None:
        """Never refuses everywhere."""

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes that declare every feature that the pod needs."""
        needed = ask.kind.spec.required_features
        if not needed:
            return None
        wanted, records = frozenset(needed), cluster.nodes.records
        return cluster.nodes.memo.of(
            ("features", needed),
            None,
            lambda: np.fromiter(
                (wanted.issubset(node.declared_features) for node in records), np.bool_, len(records)
            ),
        )

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
