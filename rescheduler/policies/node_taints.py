"""NodeTaints: pods on nodes with taints that they do not tolerate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from rescheduler.model.records import Pod, Taint, Toleration
from rescheduler.policies.framework import PolicyView, nowhere
from rescheduler.policies.objective import NO_CHANGE, ONE, TIERS, Tier
from rescheduler.policies.pod_costs import CostRows, change_of_cost, change_of_cost_at, sum_of_costs
from rescheduler.policies.proposals import NODE, Batch, Candidate, Proposals, by_gain, by_name
from rescheduler.policies.wire import ArgumentProblem, PolicyArgs
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import FloatArray, IntArray, NodeIndices
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.taint_toleration import tolerates

UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
WEIGHTS: Final = {"NoExecute": 1.0, "NoSchedule": 0.8, "PreferNoSchedule": 0.3}
COSTS: Final = {
    "NoExecute": (Tier.HARD, 2),
    "NoSchedule": (Tier.HARD, 1),
    "PreferNoSchedule": (Tier.SOFT, ONE),
}
"""What a pod that does not tolerate such a taint adds to the badness of the placement."""


class NodeTaintsArgs(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """``includedTaints`` and ``excludedTaints`` name taints by ``key`` or ``key=value``, one of them only."""

    included_taints: tuple[str, ...] = ()
    excluded_taints: tuple[str, ...] = ()
    include_prefer_no_schedule: bool = False

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        if self.included_taints and self.excluded_taints:
            yield ("includedTaints",), "includedTaints and excludedTaints are both given: keep one of them"


class NodeTaints:
    """Gain = weight of the worst untolerated taint here - the same there.

    Weights: NoExecute 1, NoSchedule 0.8, PreferNoSchedule 0.3 (only by choice), none 0. The taint of a
    cordoned node counts only if ``includedTaints`` names it: emptying such a node is the drain's business.

    Badness: each pod that may be proposed, by the worst taint that it does not tolerate; see ``COSTS``.
    """

    name: ClassVar[str] = "NodeTaints"

    def __init__(self, args: NodeTaintsArgs) -> None:
        self._args = args
        self._scope = args.scope()

    def candidates(self, view: PolicyView) -> Proposals:
        """Pods that do not tolerate a taint of their node; worst taint first."""
        considered = [self._considered(taints) for taints in view.nodes.taint_sets]
        columns = view.columns
        sets = view.nodes.taint_codes[columns.nodes]
        tainted = np.array([bool(taints) for taints in considered], dtype=np.bool_)[sets]
        hits = np.flatnonzero(tainted & self._scope.nodes(view.nodes)[columns.nodes])
        worst_of: dict[tuple[int, tuple[Toleration, ...]], Taint | None] = {}
        found: dict[tuple[int, Taint], list[Pod]] = {}
        for i, kind, taint_set in zip(
            hits.tolist(), columns.kinds[hits].tolist(), sets[hits].tolist(), strict=True
        ):
            key = taint_set, columns.classes[kind].spec.tolerations
            if key not in worst_of:
                worst_of[key] = _worst(considered[taint_set], key[1])
            worst = worst_of[key]
            if worst is not None:
                found.setdefault((kind, worst), []).append(columns.pods[i])
        batches = (self._batch(columns.classes[kind], worst, pods) for (kind, worst), pods in found.items())
        return by_gain(batch for batch in batches if self._scope.proposes(batch.kind))

    def gains(self, candidate: Candidate, view: PolicyView) -> FloatArray:
        """By the formula of the class."""
        pod = candidate.pod
        per_set = np.array([self._badness(pod, self._considered(s)) for s in view.nodes.taint_sets])
        badness: FloatArray = per_set[view.nodes.taint_codes]
        here = badness[view.state.node_index[pod.node]]
        if here <= 0:
            return nowhere(view)
        better: FloatArray = np.maximum(here - badness, 0.0)
        return better

    def badness(self, view: PolicyView) -> IntArray:
        """By the worst untolerated taint of each pod."""
        return sum_of_costs(lambda kind, nodes: self._cost(kind, nodes, view), view)

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """The same there less the same here."""
        return change_of_cost(lambda kind, nodes: self._cost(kind, nodes, view), pod, replacement, view)

    def change_at(self, pod: Pod, replacement: Pod, node: int, view: PolicyView) -> IntArray:
        """The same for one node."""
        codes, cluster = view.nodes.taint_codes, view.cluster
        same_taints = codes[node] == codes[view.state.node_index[pod.node]]
        if same_taints and cluster.kind_of(pod) is cluster.kind_of(replacement):
            return NO_CHANGE
        return change_of_cost_at(
            lambda kind, nodes: self._cost(kind, nodes, view), pod, replacement, node, view
        )

    def _cost(self, kind: PodClass, nodes: NodeIndices | slice, view: PolicyView) -> CostRows:
        if not self._scope.proposes(kind):
            return ()
        table, tolerations = view.nodes, kind.spec.tolerations
        by_set = table.memo.of((self, tolerations), None, lambda: self._cost_by_set(tolerations, table))
        return [(tier, costs.take(table.taint_codes[nodes])) for tier, costs in by_set]

    def _cost_by_set(self, tolerations: tuple[Toleration, ...], nodes: NodeTable) -> CostRows:
        """For each distinct set of taints that nodes have; no rows if all are tolerated."""
        costs = np.zeros((TIERS, len(nodes.taint_sets)), dtype=np.int64)
        for i, taints in enumerate(nodes.taint_sets):
            worst = _worst(self._considered(taints), tolerations)
            if worst is not None:
                tier, cost = COSTS[worst.effect]
                costs[tier, i] = cost
        return [(tier, costs[tier]) for tier in Tier if costs[tier].any()]

    def _batch(self, known: PodClass, worst: Taint, pods: list[Pod]) -> Batch:
        name = f"{worst.key}={worst.value}" if worst.value else worst.key
        return Batch(
            kind=known,
            pods=by_name(pods),
            policy=self.name,
            reason=f"Untolerated{worst.effect}",
            message=f"does not tolerate the taint {name}:{worst.effect} of node {NODE}",
            gain=WEIGHTS[worst.effect],
            tier=COSTS[worst.effect][0],
        )

    def _badness(self, pod: Pod, taints: tuple[Taint, ...]) -> float:
        worst = (WEIGHTS[t.effect] for t in taints if not tolerates(pod.spec.tolerations, t))
        return max(worst, default=0.0)

    def _considered(self, taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
        return tuple(t for t in taints if self._counts(t))

    def _counts(self, taint: Taint) -> bool:
        if taint.effect not in WEIGHTS:
            return False
        if taint.effect == "PreferNoSchedule" and not self._args.include_prefer_no_schedule:
            return False
        names = (taint.key, f"{taint.key}={taint.value}")
        if self._args.included_taints:
            return any(name in self._args.included_taints for name in names)
        if taint.key == UNSCHEDULABLE_TAINT:
            return False
        return not any(name in self._args.excluded_taints for name in names)


def _worst(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The taint of the highest weight that is not tolerated."""
    untolerated = (t for t in taints if not tolerates(tolerations, t))
    return max(untolerated, key=lambda t: WEIGHTS.get(t.effect, 0.0), default=None)
