"""NodeTaints: pods on nodes with taints that they do not tolerate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import numpy as np

from rescheduler.model.records import Node, Pod, Taint, Toleration
from rescheduler.policies.framework import Candidate, View, nowhere
from rescheduler.policies.kinds import never_moves
from rescheduler.policies.order import by_gain
from rescheduler.policies.taints import tolerates
from rescheduler.policies.wire import ArgumentProblem, PolicyArgs
from rescheduler.scheduling.framework import FloatArray

UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
WEIGHTS: Final = {"NoExecute": 1.0, "NoSchedule": 0.8, "PreferNoSchedule": 0.3}


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
    """

    name: ClassVar[str] = "NodeTaints"

    def __init__(self, args: NodeTaintsArgs) -> None:
        self._args = args
        self._scope = args.scope()

    def candidates(self, view: View) -> Sequence[Candidate]:
        """Pods that do not tolerate a taint of their node; worst taint first."""
        found: list[Candidate] = []
        for node in view.nodes.nodes:
            taints = self._considered(node.taints)
            if taints:
                found.extend(self._on(node, taints, view))
        return by_gain(found)

    def gains(self, candidate: Candidate, view: View) -> FloatArray:
        """By the formula of the class."""
        pod = candidate.pod
        per_set = np.array([self._badness(pod, self._considered(s)) for s in view.nodes.taint_sets])
        badness: FloatArray = per_set[view.nodes.taint_codes]
        here = badness[view.state.node_index[pod.node]]
        if here <= 0:
            return nowhere(view)
        better: FloatArray = np.maximum(here - badness, 0.0)
        return better

    def _on(self, node: Node, taints: tuple[Taint, ...], view: View) -> Iterator[Candidate]:
        worst_for: dict[tuple[Toleration, ...], Taint | None] = {}
        for pod in view.state.pods_on(node.name):
            if pod.deleting or never_moves(pod) or not self._scope.admits(pod):
                continue
            tolerations = pod.spec.tolerations
            if tolerations not in worst_for:
                worst_for[tolerations] = _worst(taints, tolerations)
            worst = worst_for[tolerations]
            if worst is not None:
                name = f"{worst.key}={worst.value}" if worst.value else worst.key
                yield Candidate(
                    pod=pod,
                    policy=self.name,
                    reason=f"Untolerated{worst.effect}",
                    message=f"does not tolerate the taint {name}:{worst.effect} of node {node.name}",
                    gain=WEIGHTS[worst.effect],
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
