"""TaintToleration: NoSchedule and NoExecute taints refuse, PreferNoSchedule taints cost score."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from rescheduler.model.records import Taint, TaintEffect, Toleration
from rescheduler.scheduling.classes import Ask
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, IntArray, NodeIndices
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.plugin import FilterPlugin, normalise

REASON = "node(s) had untolerated taint(s)"
_HARD = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})
_PREFER = TaintEffect.PREFER_NO_SCHEDULE


class TaintToleration(FilterPlugin):
    """Judges taints against tolerations."""

    name: ClassVar[str] = "TaintToleration"
    reason: ClassVar[str] = REASON

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray:
        """Nodes without an untolerated NoSchedule or NoExecute taint."""
        return hard_taints_tolerated(ask.kind.spec.tolerations, cluster.nodes)

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray:
        """Fewer untolerated PreferNoSchedule taints score higher."""
        counts = untolerated_wishes(ask.kind.spec.tolerations, cluster.nodes)
        return normalise(counts[nodes], reverse=True)


def hard_taints_tolerated(tolerations: tuple[Toleration, ...], nodes: NodeTable) -> BoolArray:
    """Nodes whose NoSchedule and NoExecute taints are all tolerated."""
    return nodes.memo.of(
        ("NoSchedule", tolerations),
        None,
        lambda: nodes.taint_table(
            lambda taints: all(not keeps_off(tolerations, taint) for taint in taints)
        ).astype(np.bool_),
    )


def untolerated_wishes(tolerations: tuple[Toleration, ...], nodes: NodeTable) -> IntArray:
    """How many PreferNoSchedule taints of each node are not tolerated. Do not change the array."""
    able = tuple(t for t in tolerations if t.effect in ("", _PREFER))
    return nodes.memo.of(
        ("PreferNoSchedule", tolerations),
        None,
        lambda: nodes.taint_table(
            lambda taints: sum(t.effect == _PREFER and not tolerates(able, t) for t in taints)
        ),
    )


def keeps_off(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """True if the taint is of effect NoSchedule or NoExecute, and no toleration tolerates it."""
    return taint.effect in _HARD and not tolerates(tolerations, taint)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """True if any toleration tolerates the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)
