"""Policies of pods that had better be replaced on another node, whichever it is: because of what became of them where they stand.

A subclass says which pods, and why; this module knows the rest. A pod counts while it stands where the snapshot shows it, so a pod
that a plan moves, and its replacement, count no more. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, Tier, nothing, unchanged
from rescheduler.policies.pod_costs import elsewhere
from rescheduler.policies.proposals import Batch, Proposals, by_gain
from rescheduler.policies.wire import PolicyArgs
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import IntArray

ArgsT = TypeVar("ArgsT", bound=PolicyArgs)
PodsToReplace = Mapping[str, tuple[Pod, str]]
"""By uid the pod and why it is to leave, for people, after its name."""


class ReplacingPolicy(ABC, Generic[ArgsT]):
    """Each such pod costs one pod in tier Soft, and nothing wherever its replacement stands."""

    name: str
    reason: ClassVar[str]
    tier: ClassVar[Tier] = Tier.SOFT

    def __init__(self, args: ArgsT) -> None:
        self.args = args
        self._scope = args.scope()

    @abstractmethod
    def to_replace(self, view: PolicyView) -> PodsToReplace:
        """Which pods of ``view.snapshot`` are to leave; those outside of the scope may be among them."""

    def candidates(self, view: PolicyView) -> Proposals:
        """Those that still stand."""
        asked, counted = self._scope.nodes(view.nodes), self._counted(view)
        found: defaultdict[tuple[PodClass, str], list[Pod]] = defaultdict(list)
        for kind, pod in self._standing(view):
            if asked[view.state.node_index[pod.node]]:
                found[kind, counted[pod.uid][1]].append(pod)
        return by_gain(
            Batch.of(self.name, kind, pods, why=(self.reason, why), tier=self.tier)
            for (kind, why), pods in found.items()
        )

    def badness(self, view: PolicyView) -> IntArray:
        """One pod each."""
        total = nothing()
        total[self.tier] = ONE * len(self._standing(view))
        return total

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """One pod less, wherever it goes; but a replacement that is such a pod itself counts where that one stood."""
        leaves, home = self._counts(pod, pod.node, view), self._counted(view).get(replacement.uid)
        if not leaves and home is None:
            return unchanged(view.nodes.size)
        by_node: IntArray = np.full(view.nodes.size, -ONE * leaves, dtype=np.int64)
        if home is not None:
            by_node[view.state.node_index[home[0].node]] += ONE
        return elsewhere(self.tier, by_node, view.state.node_index[pod.node])

    def _counts(self, pod: Pod, node: str, view: PolicyView) -> bool:
        found = self._counted(view).get(pod.uid)
        return found is not None and found[0].node == node

    def _standing(self, view: PolicyView) -> list[tuple[PodClass, Pod]]:
        """Those that no planned move has taken away."""

        def standing() -> list[tuple[PodClass, Pod]]:
            kinds = dict.fromkeys(view.cluster.kind_of(pod) for pod, _ in self._counted(view).values())
            return [(kind, pod) for kind in kinds for pod in kind.pods if self._counts(pod, pod.node, view)]

        return view.memo.of((self, ReplacingPolicy), view.cluster.version, standing)

    def _counted(self, view: PolicyView) -> PodsToReplace:
        """Those in scope on known nodes. It changes with the time, too."""

        def count() -> PodsToReplace:
            return {
                uid: (pod, why)
                for uid, (pod, why) in self.to_replace(view).items()
                if pod.node in view.state.node_index and self._scope.proposes(view.cluster.kind_of(pod))
            }

        stamp = id(view.snapshot), view.snapshot.taken_at_s
        return view.nodes.memo.of((self, ReplacingPolicy), stamp, count)
