"""NodeDeclaredFeatures: what the pod's spec needs of a kubelet must be declared in the node's status."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from rescheduler.scheduling.classes import Ask
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.plugin import FilterPlugin

REASON = "node(s) didn't match Pod's required features"


class NodeDeclaredFeatures(FilterPlugin):
    """Judges ``status.declaredFeatures``."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    reason: ClassVar[str] = REASON

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
