"""PodAffinity: pods that are not near the pods that they want near, or near those that they would rather avoid.

Two kinds, each switched on by name: ``required`` (required pod affinity that holds no more, as when the partner was moved) and
``preferred`` (preferred pod affinity and anti-affinity, by weight). Required anti-affinity is InterPodAntiAffinity's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec
import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.near_pods import PodWish, PodWishes, change, cost, missed
from rescheduler.policies.objective import ONE, TIERS, Tier, nothing, unchanged
from rescheduler.policies.proposals import (
    NODE,
    Batch,
    Proposals,
    by_gain,
    least_disturbing,
)
from rescheduler.policies.term_pairs import changes_in_pairs, pairs_of
from rescheduler.policies.wire import ArgumentProblem, PolicyArgs
from rescheduler.scheduling.classes import PodClass, TermCount, TermKind
from rescheduler.scheduling.framework import MAX_NODE_SCORE, IntArray
from rescheduler.scheduling.node_affinity import required_mask

REQUIRED: Final = "required"
PREFERRED: Final = "preferred"
TYPES: Final = (REQUIRED, PREFERRED)
NOT_NEAR: Final = "RequiredPodsNotNear"
BRINGS_NEAR: Final = "OthersRequireIt"
MET_ELSEWHERE: Final = "PreferredMetElsewhere"
_ANTI: Final = frozenset({TermKind.PREFERRED_ANTI})
_PARTNERS: Final = 16
"""So many of the pods that others require are looked at, those first whose move disturbs least."""


class PodAffinityArgs(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """``types``: required, preferred.

    ``minimum_difference``: share (of a pod's preferred weights about other pods) by which a node must be better than the
    pod's own before it counts as clearly better.
    """

    types: tuple[Literal["required", "preferred"], ...] = (REQUIRED,)
    minimum_difference: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.5

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        if not self.types:
            yield ("types",), f"is empty: name some of {', '.join(TYPES)}"


class PodAffinity:
    """Badness: 1 for each pod whose required pod affinity does not hold; its weight out of 100 for each preferred affinity that does not.

    The same for each pair of pods that preferred anti-affinity would keep apart: of anti-affinity each pod counts. Where one partner
    that comes repairs more than one pod that leaves, the partner is proposed first.
    """

    name: str = "PodAffinity"

    def __init__(self, args: PodAffinityArgs) -> None:
        self.tier = Tier.HARD if REQUIRED in args.types else Tier.SOFT
        self._args = args
        self._scope = args.scope()

    def candidates(self, view: PolicyView) -> Proposals:
        """Partners that repair several pods, pods that are not near what they require, then by how much better a node could be."""
        found: list[Batch] = []
        if REQUIRED in self._args.types:
            for wish in self._required(view):
                found.extend(self._not_near(wish, view))
        if PREFERRED in self._args.types:
            for kind in tuple(view.cluster.classes):
                if kind.pods and self._scope.proposes(kind):
                    found.extend(self._better_elsewhere(kind, view))
        return by_gain(found)

    def badness(self, view: PolicyView) -> IntArray:
        """All pods, whoever may move."""
        total = nothing()
        if REQUIRED in self._args.types:
            total[Tier.HARD] = cost(self._required(view))
        if PREFERRED in self._args.types:
            total[Tier.SOFT] = cost(PodWishes.of(TermKind.PREFERRED, view))
            total[Tier.SOFT] += sum(_of_pair(term) * pairs_of(term, view) for term in _avoiding(view))
        return total

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """The same after the move less before it."""
        then = view.cluster.kind_of(replacement)
        found: list[tuple[Tier, IntArray | None]] = []
        if REQUIRED in self._args.types:
            found.append((Tier.HARD, change(self._required(view), pod, then, view)))
        if PREFERRED in self._args.types:
            found.append((Tier.SOFT, change(PodWishes.of(TermKind.PREFERRED, view), pod, then, view)))
            pairs = changes_in_pairs(pod, then, _ANTI, view)
            found += [(Tier.SOFT, _of_pair(one.term) * one.by_node) for one in pairs]
        if all(values is None for _, values in found):
            return unchanged(view.nodes.size)
        total = np.zeros((TIERS, view.nodes.size), dtype=np.int64)
        for tier, values in found:
            if values is not None:
                total[tier] += values
        total[:, view.state.node_index[pod.node]] = 0
        return total

    def _required(self, view: PolicyView) -> PodWishes:
        return PodWishes.of(TermKind.REQUIRED, view)

    def _not_near(self, wish: PodWish, view: PolicyView) -> Iterator[Batch]:
        lonely = 0
        asked = self._scope.nodes(view.nodes)
        keys = " and ".join(column.key for column in wish.columns)
        for kind, which in missed(wish):
            lonely += len(which)
            if not self._scope.proposes(kind):
                continue
            pods = [kind.pods[i] for i in which.tolist() if asked[kind.nodes[i]]]
            if pods:
                message = f"no pod that its pod affinity requires is near node/{NODE} by {keys}"
                yield self._batch(kind, pods, NOT_NEAR, message, 1)
        if lonely:
            yield from self._partners(wish, view)

    def _partners(self, wish: PodWish, view: PolicyView) -> Iterator[Batch]:
        """The pod that repairs most if it comes: first if that is more than one, else in the place of those that cannot leave."""
        asked = self._scope.nodes(view.nodes)
        near = [
            (pod, kind)
            for kind in wish.group.classes
            if self._scope.proposes(kind)
            for pod, node in zip(kind.pods, kind.nodes, strict=True)
            if asked[node] and view.may_move(pod, kind)
        ]
        best: tuple[int, Pod, PodClass] | None = None
        for pod, kind in sorted(near, key=least_disturbing(view.disruption))[:_PARTNERS]:
            fall = int(-self.change(pod, pod, view)[Tier.HARD].min())
            if fall > (best[0] if best is not None else 0):
                best = fall, pod, kind
        if best is None or (best[0] <= 1 and not view.spares):
            return
        fall, pod, kind = best
        message = f"{fall} pod(s) require it near and are not near node/{NODE}"
        yield self._batch(kind, [pod], BRINGS_NEAR, message, fall, spare=fall <= 1)

    def _better_elsewhere(self, kind: PodClass, view: PolicyView) -> Iterator[Batch]:
        weights = _weights(kind)
        if not weights:
            return
        asked = self._scope.nodes(view.nodes)
        reachable = required_mask(kind.spec, view.nodes) & view.nodes.usable
        by_lead: dict[int, list[Pod]] = {}
        leads: dict[int, int] = {}
        for pod, node in zip(kind.pods, kind.nodes, strict=True):
            if not asked[node]:
                continue
            if node not in leads:
                leads[node] = -int(self.change(pod, pod, view)[Tier.SOFT, reachable].min(initial=0))
            if leads[node] >= self._args.minimum_difference * _of_weight(weights):
                by_lead.setdefault(leads[node], []).append(pod)
        for lead, pods in by_lead.items():
            share = lead / _of_weight(weights)
            message = f"another node is nearer to what it prefers of other pods than {NODE}, by {share:.2g} of its weights"
            yield self._batch(kind, pods, MET_ELSEWHERE, message, lead)

    def _batch(
        self,
        kind: PodClass,
        pods: list[Pod],
        reason: str,
        message: str,
        fall: int,
        *,
        spare: bool = False,
    ) -> Batch:
        wish = reason == MET_ELSEWHERE
        tier, unit = (Tier.SOFT, _of_weight(_weights(kind))) if wish else (Tier.HARD, 1)
        least = self._args.minimum_difference if wish else 0.0
        return Batch.of(
            self.name,
            kind,
            pods,
            why=(reason, message),
            tier=tier,
            falls=fall / unit,
            spare=spare,
            unit=unit,
            least=least,
        )


def _weights(kind: PodClass) -> int:
    """Of all that pods of the class prefer of other pods."""
    terms = (*kind.spec.pod_affinity_preferred, *kind.spec.pod_anti_affinity_preferred)
    return sum(one.weight for one in terms)


def _of_pair(term: TermCount) -> int:
    return _of_weight(term.key.weight)


def _of_weight(weight: int) -> int:
    """Of a preference, in millionths of a pod."""
    return ONE * weight // MAX_NODE_SCORE


def _avoiding(view: PolicyView) -> list[TermCount]:
    return [term for term in view.cluster.carried_terms if term.key.kind is TermKind.PREFERRED_ANTI]
