"""NodeAffinity: pods whose node no longer meets their node affinity, or meets their preferences badly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import numpy as np

from rescheduler.model.records import Pod, PodSpec
from rescheduler.policies.classes import PodClass
from rescheduler.policies.framework import Candidate, View, nowhere
from rescheduler.policies.kinds import never_moves
from rescheduler.policies.order import Ranked, in_order, in_order_of_class
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
        found: list[Ranked] = []
        for known in view.index.classes:
            if not known.deleting and known.pods and self._looks_at(known.spec):
                found.extend(self._remembered(known, view))
        return in_order(found)

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

    def _looks_at(self, spec: PodSpec) -> bool:
        return (REQUIRED in self._args.types and bool(spec.node_selector or spec.node_affinity)) or (
            PREFERRED in self._args.types and bool(spec.node_affinity_preferred)
        )

    def _remembered(self, known: PodClass, view: View) -> list[Ranked]:
        """The candidates of a class depend on where its pods stand and on the nodes, on nothing else."""
        memo = known.memo.get(self)
        if memo is None or memo[0] != known.version or memo[1] is not view.nodes:
            memo = known.memo[self] = known.version, view.nodes, self._of_class(known, view)
        found: list[Ranked] = memo[2]
        return found

    def _of_class(self, known: PodClass, view: View) -> list[Ranked]:
        spec, where = known.spec, known.where
        eligible = view.nodes.eligible(spec)
        broken = ~eligible[where] & (REQUIRED in self._args.types)
        found = [
            self._candidate(
                known.pods[i],
                "RequiredNotMet",
                f"node {known.pods[i].node} does not meet its required node affinity",
                REQUIRED_GAIN,
            )
            for i in np.flatnonzero(broken).tolist()
        ]
        if PREFERRED in self._args.types and spec.node_affinity_preferred:
            share = self._shares(spec, view)
            reachable = eligible & view.nodes.targetable
            best = float(share[reachable].max()) if reachable.any() else 0.0
            worse = ~broken & (best - share[where] >= self._args.minimum_difference)
            for i in np.flatnonzero(worse).tolist():
                here = float(share[known.nodes[i]])
                message = f"node {known.pods[i].node} meets {here:.0%} of its preferences, others {best:.0%}"
                gain = PREFERRED_FACTOR * (best - here)
                found.append(self._candidate(known.pods[i], "PreferredMetElsewhere", message, gain))
        return in_order_of_class(c for c in found if not never_moves(c.pod) and self._scope.admits(c.pod))

    def _candidate(self, pod: Pod, reason: str, message: str, gain: float) -> Candidate:
        return Candidate(pod=pod, policy=self.name, reason=reason, message=message, gain=gain)

    def _shares(self, spec: PodSpec, view: View) -> FloatArray:
        total = sum(preferred.weight for preferred in spec.node_affinity_preferred)
        return view.nodes.preference(spec) / max(total, 1)
