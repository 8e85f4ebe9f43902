"""NodeAffinity: pods whose node no longer meets their node affinity, or meets their preferences badly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import numpy as np

from rescheduler.model.records import PodSpec
from rescheduler.policies.framework import Candidate, View, nowhere
from rescheduler.policies.index import PodClass
from rescheduler.policies.kinds import never_moves
from rescheduler.policies.order import by_gain
from rescheduler.policies.wire import ArgumentProblem, PolicyArgs
from rescheduler.scheduling.framework import FloatArray

REQUIRED: Final = "required"
PREFERRED: Final = "preferred"
REQUIRED_GAIN: Final = 0.9
PREFERRED_FACTOR: Final = 0.5


class NodeAffinityArgs(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """``types``: required, preferred.

    ``minimum_difference``: share (0..1) of a pod's preferred weights that a node must meet more than the
    pod's own before it counts as clearly better.
    """

    types: tuple[str, ...] = (REQUIRED,)
    minimum_difference: float = 0.5

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        if not self.types:
            yield ("types",), f"is empty: name {REQUIRED}, {PREFERRED} or both"
        for i, kind in enumerate(self.types):
            if kind not in (REQUIRED, PREFERRED):
                yield ("types", i), f"is {kind!r}: must be {REQUIRED} or {PREFERRED}"
        if not 0 < self.minimum_difference <= 1:
            yield ("minimumDifference",), f"is {self.minimum_difference:g}: must be above 0 and at most 1"


class NodeAffinity:
    """Required: gain 0.9 on every node that meets nodeSelector and required affinity, else 0.

    Preferred: gain = 0.5 x (weight met there - weight met here) / sum of all weights, if that share is at
    least ``minimumDifference``; positive weights only occur in Kubernetes. Only nodes that can be targets
    and meet what is required count as better.
    """

    name: ClassVar[str] = "NodeAffinity"

    def __init__(self, args: NodeAffinityArgs) -> None:
        self._args = args
        self._scope = args.scope()

    def candidates(self, view: View) -> Sequence[Candidate]:
        """Violations first, then pods by how much better a node could be."""
        found: list[Candidate] = []
        for known in view.index.classes:
            if not known.deleting:
                found.extend(self._of_class(known, view))
        return by_gain(found)

    def gains(self, candidate: Candidate, view: View) -> FloatArray:
        """By the formula of the class."""
        pod = candidate.pod
        here = view.state.node_index[pod.node]
        eligible = view.nodes.eligible(pod.spec)
        if REQUIRED in self._args.types and not eligible[here]:
            return np.where(eligible, REQUIRED_GAIN, 0.0)
        if PREFERRED not in self._args.types or not pod.spec.node_affinity_preferred:
            return nowhere(view)
        share = self._shares(pod.spec, view)
        better = share - share[here]
        clearly = eligible & (better >= self._args.minimum_difference)
        return np.where(clearly, PREFERRED_FACTOR * better, 0.0)

    def _of_class(self, known: PodClass, view: View) -> Iterator[Candidate]:
        spec = known.spec
        required = REQUIRED in self._args.types and bool(spec.node_selector or spec.node_affinity)
        preferred = PREFERRED in self._args.types and bool(spec.node_affinity_preferred)
        if not known.pods or not (required or preferred):
            return
        eligible = view.nodes.eligible(spec)
        share = self._shares(spec, view) if preferred else None
        reachable = eligible & view.nodes.targetable
        best = float(share[reachable].max()) if share is not None and reachable.any() else 0.0
        for pod, node in zip(known.pods, known.nodes, strict=True):
            if required and not eligible[node]:
                reason, message, gain = (
                    "RequiredNotMet",
                    f"node {pod.node} does not meet its required node affinity",
                    REQUIRED_GAIN,
                )
            elif share is not None and best - share[node] >= self._args.minimum_difference:
                reason = "PreferredMetElsewhere"
                message = f"node {pod.node} meets {share[node]:.0%} of its preferences, others {best:.0%}"
                gain = PREFERRED_FACTOR * (best - float(share[node]))
            else:
                continue
            if not never_moves(pod) and self._scope.admits(pod):
                yield Candidate(pod=pod, policy=self.name, reason=reason, message=message, gain=gain)

    def _shares(self, spec: PodSpec, view: View) -> FloatArray:
        total = sum(preferred.weight for preferred in spec.node_affinity_preferred)
        return view.nodes.preference(spec) / max(total, 1)
