"""TaintToleration: NoSchedule and NoExecute taints refuse, PreferNoSchedule taints cost score.

The comparison operators Gt and Lt are behind an alpha gate that is off in 1.37: such a toleration
tolerates nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rescheduler.model.records import Taint, TaintEffect, Toleration
from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, IntArray, Refusal
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.plugin import NodeIndices, normalise

REASON = "node(s) had untolerated taint(s)"
_HARD = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})
_PREFER = TaintEffect.PREFER_NO_SCHEDULE


class TaintToleration:
    """Judges taints against tolerations."""

    name: ClassVar[str] = "TaintToleration"

    def everywhere(self, ask: Ask, cluster: Cluster) -> None:
        """Never refuses everywhere."""

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray:
        """Nodes without an untolerated NoSchedule or NoExecute taint."""
        return hard_taints_tolerated(ask.kind.spec.tolerations, cluster.nodes)

    def refusals(
        self,
        ask: Ask,
        cluster: Cluster,
        node: int,
        nominated: Sequence[Nominated] = (),  # noqa: ARG002 -- pods do not matter to it
    ) -> tuple[Refusal, ...]:
        """The one reason, unresolvable."""
        if self.mask(ask, cluster)[node]:
            return ()
        return (Refusal(self.name, REASON, unresolvable=True),)

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray:
        """Fewer untolerated PreferNoSchedule taints score higher."""
        tolerations = ask.kind.spec.tolerations
        key = ("PreferNoSchedule", tolerations)
        counts = cluster.nodes.memo.get(key)
        if counts is None:
            able = tuple(t for t in tolerations if t.effect in ("", _PREFER))
            counts = cluster.nodes.taint_table(
                lambda taints: sum(t.effect == _PREFER and not tolerates(able, t) for t in taints)
            )
            cluster.nodes.memo[key] = counts
        return normalise(counts[nodes], reverse=True)


def hard_taints_tolerated(tolerations: tuple[Toleration, ...], nodes: NodeTable) -> BoolArray:
    """Nodes whose NoSchedule and NoExecute taints are all tolerated."""
    key = ("NoSchedule", tolerations)
    known: BoolArray | None = nodes.memo.get(key)
    if known is None:
        known = nodes.taint_table(
            lambda taints: all(t.effect not in _HARD or tolerates(tolerations, t) for t in taints)
        ).astype(bool)
        nodes.memo[key] = known
    return known


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """True if any toleration tolerates the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False
