"""NodeTaints: pods on nodes with taints that they do not tolerate."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import ClassVar, Final, NamedTuple

import numpy as np

from rescheduler.model.node_marks import NOTHING_SEEN, young_taints
from rescheduler.model.records import Pod, Taint, Toleration
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.written import document_key
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, TIERS, UNITS, Tier
from rescheduler.policies.pod_costs import CostRows, change_of_cost, pods_on, sum_of_costs
from rescheduler.policies.proposals import NODE, Batch, Proposals, by_gain
from rescheduler.policies.wire import Age, ArgumentProblem, PolicyArgs
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import IntArray, NodeIndices
from rescheduler.scheduling.nodes import Codes, NodeTable
from rescheduler.scheduling.taint_toleration import tolerates

PASSING_DOMAINS: Final = frozenset(
    {
        "node.kubernetes.io",
        "node.cloudprovider.kubernetes.io",
        "startup-taint.cluster-autoscaler.kubernetes.io",
        "ignore-taint.cluster-autoscaler.kubernetes.io",
        "status-taint.cluster-autoscaler.kubernetes.io",
        "karpenter.sh",
        "rescheduler.dev",
    }
)
"""Domains of taints that say what Kubernetes, an autoscaler or this controller does with a node at the moment; they see to its pods themselves."""
PASSING_KEYS: Final = frozenset(
    {"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "DeletionCandidate"}
)
PASSING_WORDS: Final = (
    "not-ready",
    "notready",
    "not_ready",
    "uninitialized",
    "unregistered",
    "unreachable",
    "startup",
)
"""In the names of taints that a component sets on its node while it starts again (``node.cilium.io/agent-not-ready``)."""
COSTS: Final = {
    "NoExecute": (Tier.HARD, 2),
    "NoSchedule": (Tier.HARD, 1),
    "PreferNoSchedule": (Tier.SOFT, ONE),
}
"""What a pod that does not tolerate such a taint adds to the badness of the placement, the worst first."""
_RANKS: Final = {effect: rank for rank, effect in enumerate(reversed(COSTS), 1)}


class NodeTaintsArgs(PolicyArgs, frozen=True, kw_only=True, rename=document_key):
    """``includedTaints`` and ``excludedTaints`` name taints by ``key`` or ``key=value``, one of them only.

    ``after_s``: for how long a taint must have stood.
    """

    included_taints: tuple[str, ...] = ()
    excluded_taints: tuple[str, ...] = ()
    include_prefer_no_schedule: bool = False
    after_s: Age = 300.0

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        if self.included_taints and self.excluded_taints:
            yield ("includedTaints",), "includedTaints and excludedTaints are both given: keep one of them"


class NodeTaints:
    """Badness: each pod that may be proposed, by the worst taint that it does not tolerate; see ``COSTS``.

    PreferNoSchedule counts only by choice. A taint that has not stood for ``after`` counts for nothing, and one that passes (``passes``) only if ``includedTaints`` names it: so does that of a
    cordoned node, because emptying it is the drain's business.
    """

    name: str = "NodeTaints"
    tier: ClassVar[Tier] = Tier.HARD

    def __init__(self, args: NodeTaintsArgs) -> None:
        self._args = args
        self._scope = args.scope()
        self._after_s = args.after_s

    def candidates(self, view: PolicyView) -> Proposals:
        """Pods that do not tolerate a taint of their node; worst taint first."""
        _, considered, codes = self._counted(view)
        tainted = np.array([bool(taints) for taints in considered], dtype=np.bool_)[codes]
        worst_of: dict[tuple[int, tuple[Toleration, ...]], Taint | None] = {}
        found: dict[tuple[PodClass, Taint], list[Pod]] = {}
        for pod, kind, node in pods_on(tainted, self._scope, view):
            key = codes.item(node), kind.spec.tolerations
            if key not in worst_of:
                worst_of[key] = _worst(considered[key[0]], key[1])
            worst = worst_of[key]
            if worst is not None:
                found.setdefault((kind, worst), []).append(pod)
        return by_gain(self._batch(kind, worst, pods) for (kind, worst), pods in found.items())

    def badness(self, view: PolicyView) -> IntArray:
        """By the worst untolerated taint of each pod."""
        return sum_of_costs(self._cost, view)

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """The same there less the same here."""
        return change_of_cost(self._cost, pod, replacement, view)

    def _cost(self, kind: PodClass, nodes: NodeIndices | slice, view: PolicyView) -> CostRows:
        if not self._scope.proposes(kind):
            return ()
        tolerations, counted = kind.spec.tolerations, self._counted(view)
        by_set = view.nodes.memo.of(
            (self, tolerations), counted.version, lambda: _cost_by_set(tolerations, counted.sets)
        )
        return [(tier, costs.take(counted.codes[nodes])) for tier, costs in by_set]

    def _counted(self, view: PolicyView) -> _Counted:
        """The taints that count, by node. They change with the time, too."""
        snapshot = view.snapshot
        stamp = id(snapshot), snapshot.taken_at_s
        return view.nodes.memo.of((self, _Counted), stamp, lambda: self._count(snapshot, view.nodes))

    def _count(self, snapshot: Snapshot, table: NodeTable) -> _Counted:
        numbers: dict[tuple[Taint, ...], int] = {}
        of_set = [
            numbers.setdefault(tuple(t for t in taints if self._counts(t)), len(numbers))
            for taints in table.taint_sets
        ]
        codes = np.asarray(of_set, dtype=np.int32)[table.taint_codes]
        for index, node in enumerate(table.records if self._after_s > 0 else ()):
            if not node.taints:
                continue
            seen = snapshot.node_marks_since.get(node.name, NOTHING_SEEN)
            young = set(young_taints(node, seen, snapshot.taken_at_s, self._after_s))
            if young:
                left = tuple(t for t in node.taints if t not in young and self._counts(t))
                codes[index] = numbers.setdefault(left, len(numbers))
        return _Counted(next(_VERSIONS), tuple(numbers), codes)

    def _batch(self, known: PodClass, worst: Taint, pods: list[Pod]) -> Batch:
        name = f"{worst.key}={worst.value}" if worst.value else worst.key
        tier, cost = COSTS[worst.effect]
        message = f"does not tolerate the taint {name}:{worst.effect} of node/{NODE}"
        why = f"Untolerated{worst.effect}", message
        return Batch.of(self.name, known, pods, why=why, tier=tier, falls=cost / UNITS[tier])

    def _counts(self, taint: Taint) -> bool:
        if taint.effect not in COSTS:
            return False
        if taint.effect == "PreferNoSchedule" and not self._args.include_prefer_no_schedule:
            return False
        names = (taint.key, f"{taint.key}={taint.value}")
        if self._args.included_taints:
            return any(name in self._args.included_taints for name in names)
        if passes(taint):
            return False
        return not any(name in self._args.excluded_taints for name in names)


_VERSIONS: Final = count()


class _Counted(NamedTuple):
    """Taints that count."""

    version: int
    """Another number each time that they were counted."""
    sets: tuple[tuple[Taint, ...], ...]
    codes: Codes
    """For each node the index of its taints in ``sets``."""


def passes(taint: Taint) -> bool:
    """True for a taint that says what happens to a node at the moment, not that its pods are to leave."""
    domain, _, name = taint.key.rpartition("/")
    words = name.lower()
    return (
        domain in PASSING_DOMAINS or taint.key in PASSING_KEYS or any(word in words for word in PASSING_WORDS)
    )


def _cost_by_set(tolerations: tuple[Toleration, ...], sets: tuple[tuple[Taint, ...], ...]) -> CostRows:
    """For each set of taints; no rows if all are tolerated."""
    costs = np.zeros((TIERS, len(sets)), dtype=np.int64)
    for i, taints in enumerate(sets):
        worst = _worst(taints, tolerations)
        if worst is not None:
            tier, cost = COSTS[worst.effect]
            costs[tier, i] = cost
    return [(tier, costs[tier]) for tier in Tier if costs[tier].any()]


def _worst(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The taint of the highest weight that is not tolerated."""
    untolerated = (t for t in taints if not tolerates(tolerations, t))
    return max(untolerated, key=lambda t: _RANKS.get(t.effect, 0), default=None)
