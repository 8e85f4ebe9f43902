"""What kube-scheduler's scores ask of a whole placement: one number that falls whenever pods stand better by them.

kube-scheduler scores one pod against the feasible nodes of a moment, normalised over these, so a sum of scores would rise and
fall with what else is feasible, and moves that each gain in score can go round in a circle. Here each scoring plugin has a
part that is a function of where pods stand, in millionths (``objective.ONE``) of a pod, by the weights of the profile:

- TaintToleration: per pod, its untolerated PreferNoSchedule taints, as a share of the most that any node has;
- NodeAffinity: per pod, the preferred weight that its node does not meet, as a share of the most that any node meets. The
  hint that admission adds is left out;
- PodTopologySpread: the excess of soft constraints, the profile's defaults included;
- InterPodAffinity: pairs of pods by preferred terms, each with its weight out of 100, affinity below 0;
- NodeResourcesFit: per node, twice the area under what the strategy takes off the score while the node fills: with LeastAllocated the
  square of the share that is requested, so that the same pod costs more on a fuller node;
- NodeResourcesBalancedAllocation: per node, half the deviation of the shares, of which the score is the difference.

Costs of nodes are rounded per node, so that what a move changes is exact. Images, volumes and devices have no part: they are where
they are, or differ by claim. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.node_marks import is_avoid_hint
from rescheduler.model.records import ObjectKey, Pod, PreferredNodeTerm, SpreadConstraint
from rescheduler.model.selectors import LabelSelector
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, Tier, unchanged
from rescheduler.policies.pod_costs import CostRows, change_of_cost, sum_of_costs
from rescheduler.policies.spread_groups import SpreadGroups
from rescheduler.policies.term_pairs import changes_in_pairs, pairs_of, terms_of
from rescheduler.policies.wire import Scope
from rescheduler.scheduling.amounts import held_amount, incoming_amount
from rescheduler.scheduling.classes import PodClass, TermCount, TermKind
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import (
    MAX_NODE_SCORE,
    BoolArray,
    FloatArray,
    IntArray,
    NodeIndices,
    Profile,
    ScoringStrategy,
)
from rescheduler.scheduling.node_affinity import preferred_weights
from rescheduler.scheduling.pod_topology_spread import constraints_of
from rescheduler.scheduling.resource_scores import broken_line, scored_use
from rescheduler.scheduling.taint_toleration import untolerated_wishes


def owners_terms(kind: PodClass, view: PolicyView) -> tuple[PreferredNodeTerm, ...]:
    """The preferred terms of a class of pods. One in the form of a hint is the owner's if the template has it, too."""
    terms = kind.spec.node_affinity_preferred
    if not any(is_avoid_hint(term) for term in terms):
        return terms
    written = _template_terms(kind, view)
    return tuple(term for term in terms if term in written or not is_avoid_hint(term))


def _template_terms(kind: PodClass, view: PolicyView) -> tuple[PreferredNodeTerm, ...]:
    owner = kind.controller
    workload = view.snapshot.workloads.get(owner.uid) if owner is not None else None
    template = workload.template if workload is not None else None
    return template.node_affinity_preferred if template is not None else ()


_SOCIAL: Final = frozenset({TermKind.PREFERRED, TermKind.PREFERRED_ANTI, TermKind.REQUIRED})
MOST_JUDGED: Final = 1_000
"""Pods that are judged at once, one of each class and node, those first that their node and their own wishes tell most of. A plan moves
others before it comes to the rest, which the next one finds."""


class Leavers(NamedTuple):
    """Pods of one class on one node."""

    kind: PodClass
    pods: list[Pod]
    fall: int
    """By how much the potential falls at most if one of them moves."""


class ScorePotential:
    """The potential of all scores of one profile, for the pods of one scope."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def badness(self, view: PolicyView) -> int:
        """Of the whole placement."""
        cluster = view.cluster
        of_pods = int(sum_of_costs(self._cost, view)[Tier.SOFT])
        of_nodes = int(cost_of_nodes(view).sum())
        of_pairs = sum(
            self._per_pair(term, cluster.profile) * pairs_of(term, view)
            for term in list(cluster.carried_terms)
            if term.key.kind in _SOCIAL
        )
        _, excess = self._groups(view).excess()
        return of_pods + of_nodes + of_pairs + excess * unit(cluster.profile, "PodTopologySpread")

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """What a move to each node changes; 0 for the pod's own node. Shape (nodes,)."""
        cluster, here = view.cluster, view.state.node_index[pod.node]
        alone = change_of_cost(self._cost, pod, replacement, view)
        change: IntArray = alone[Tier.SOFT] + change_on_nodes(pod, replacement, view)
        for pairs in changes_in_pairs(pod, cluster.kind_of(replacement), _SOCIAL, view):
            change += self._per_pair(pairs.term, cluster.profile) * pairs.by_node
        per_pod = unit(cluster.profile, "PodTopologySpread")
        for excess in self._groups(view).changes(pod, replacement, view):
            change += per_pod * excess.by_node
        change[here] = 0
        return change

    def leavers(
        self, kinds: Iterable[PodClass], asked: BoolArray, least: int, view: PolicyView
    ) -> Iterator[Leavers]:
        """Pods on the nodes ``asked`` of which a move takes ``least`` off the potential, on a node that may be a target."""
        questions: list[tuple[int, ObjectKey, Leavers]] = []
        for kind in kinds:
            falls, social = self._falls_alone(kind, view), self._minds_others(kind, view)
            alike: dict[int, list[Pod]] = {}
            for pod, node in zip(kind.pods, kind.nodes, strict=True):
                if asked[node] and (social or falls[node] >= least):
                    alike.setdefault(node, []).append(pod)
            questions += [
                (-int(falls[node]), min(pod.key for pod in pods), Leavers(kind, pods, 0))
                for node, pods in alike.items()
            ]
        for _, _, one in sorted(questions, key=itemgetter(0, 1))[:MOST_JUDGED]:
            change = self.change(one.pods[0], one.pods[0], view)
            better = view.nodes.usable & (change <= -least)
            if better.any():
                better = better & _takes(one.pods[0], view)
            if better.any():
                yield one._replace(fall=-int(change[better].min()))

    def _falls_alone(self, kind: PodClass, view: PolicyView) -> IntArray:
        """By node where a pod of the class may stand: the most that a move could take off, as far as no other pod is concerned."""
        wishes = sum(
            (costs for _, costs in self._cost(kind, _ALL, view)), start=unchanged(view.nodes.size)[0]
        )
        comes = wishes + _rise(kind, view)
        leaves = wishes + cost_of_nodes(view) - _cost(partial(held_amount, kind), -1, _ALL, view.cluster)
        least = comes[view.nodes.usable].min(initial=np.iinfo(np.int64).max)
        falls: IntArray = leaves - least
        return falls

    def _minds_others(self, kind: PodClass, view: PolicyView) -> bool:
        """True if where other pods stand matters, too."""
        return bool(terms_of(kind, _SOCIAL, view)) or self._groups(view).counts(kind)

    def _cost(self, kind: PodClass, nodes: NodeIndices | slice, view: PolicyView) -> CostRows:
        """TaintToleration and NodeAffinity of one pod."""
        rows: list[tuple[Tier, IntArray]] = []
        if not self._scope.proposes(kind):
            return rows
        table, profile = view.nodes, view.cluster.profile
        taints = untolerated_wishes(kind.spec.tolerations, table)
        most = int(taints.max(initial=0))
        if most:
            rows.append((Tier.SOFT, unit(profile, "TaintToleration") * taints[nodes] // most))
        terms = profile.added_affinity_preferred + owners_terms(kind, view)
        met = preferred_weights(terms, table)
        best = int(met.max(initial=0)) if terms else 0
        if best:
            rows.append((Tier.SOFT, unit(profile, "NodeAffinity") * (best - met[nodes]) // best))
        return rows

    def _per_pair(self, term: TermCount, profile: Profile) -> int:
        whole = unit(profile, "InterPodAffinity")
        match term.key.kind:
            case TermKind.PREFERRED_ANTI:
                return whole * term.key.weight // MAX_NODE_SCORE
            case TermKind.PREFERRED:
                return -(whole * term.key.weight // MAX_NODE_SCORE)
            case TermKind.REQUIRED:
                return -(whole * profile.hard_pod_affinity_weight // MAX_NODE_SCORE)
            case TermKind.REQUIRED_ANTI:
                return 0

    def _groups(self, view: PolicyView) -> SpreadGroups:
        cluster = view.cluster

        def wanted(kind: PodClass) -> Sequence[tuple[SpreadConstraint, LabelSelector | None]]:
            return constraints_of(kind, cluster, hard=False) if self._scope.proposes(kind) else ()

        return SpreadGroups.of(self, view, wanted)


_STEPS: Final = 10_000
"""Shares of a node are told apart by hundredths of a percent."""
_ALL: Final = slice(None)


def unit(profile: Profile, plugin: str) -> int:
    """Millionths of a pod that the whole range of a plugin's score counts for: its weight among all that score."""
    total = sum(weight for _, weight in profile.weights)
    return ONE * dict(profile.weights).get(plugin, 0) // max(total, 1)


def cost_of_nodes(view: PolicyView) -> IntArray:
    """Of every node as it is. Do not change the array."""
    cluster = view.cluster
    answers = cluster.occupancy.answers
    return answers.of((cost_of_nodes,), lambda nodes: _cost(lambda _, **__: 0, 0, nodes, cluster))


def change_on_nodes(pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
    """What the sum changes by if the pod leaves its node and the replacement stands on each other node."""
    cluster, here = view.cluster, view.state.node_index[pod.node]
    gone = _cost(partial(held_amount, pod), -1, slice(here, here + 1), cluster) - cost_of_nodes(view)[here]
    change: IntArray = _rise(replacement, view) + gone
    return change


def _rise(coming: Pod | PodClass, view: PolicyView) -> IntArray:
    """What each node costs more with such a pod there."""
    cluster, spec = view.cluster, coming.spec
    asked = spec.requests, spec.score_cpu_milli, spec.score_memory_bytes
    with_it = cluster.occupancy.answers.of(
        (_rise, asked), lambda nodes: _cost(partial(incoming_amount, spec), 1, nodes, cluster)
    )
    rise: IntArray = with_it - cost_of_nodes(view)
    return rise


def _takes(pod: Pod, view: PolicyView) -> BoolArray:
    """Nodes that would take the pod if it were gone."""
    state = view.state
    mark = state.checkpoint()
    state.remove(pod)
    found: BoolArray = state.feasible(pod).copy()
    state.rollback(mark)
    return found


def _cost(amount: Callable[..., int], sign: int, nodes: NodeIndices | slice, cluster: Cluster) -> IntArray:
    """Of these nodes with so much more (or less) on each. ``amount``: of a resource, with ``defaults`` or without (``amounts``)."""
    profile = cluster.profile
    curve = cluster.memo.of(_curve, None, lambda: _curve(profile))
    filled, weights = _nothing(cluster, nodes), _nothing(cluster, nodes)
    for resource, weight in profile.fit_resources:
        capacity, counted = cluster.nodes.divisor(resource)
        used = scored_use(cluster, resource)[nodes] + sign * amount(resource, defaults=True)
        step = np.rint(np.clip(used / capacity[nodes], 0.0, 1.0) * _STEPS).astype(np.intp)
        filled += np.where(counted[nodes], weight * curve[step], 0.0)
        weights += weight * counted[nodes]
    fit = np.rint(unit(profile, "NodeResourcesFit") * filled / np.maximum(weights, 1.0)).astype(np.int64)
    shares: list[FloatArray] = []
    present: list[FloatArray] = []
    for resource, _ in profile.balanced_resources:
        capacity, counted = cluster.nodes.divisor(resource)
        used = cluster.requested(resource)[nodes] + sign * amount(resource, defaults=False)
        shares.append(np.where(counted[nodes], np.minimum(used / capacity[nodes], 1.0), 0.0))
        present.append(counted[nodes].astype(np.float64))
    uneven = (
        unit(profile, "NodeResourcesBalancedAllocation")
        * _deviation(shares, present, _nothing(cluster, nodes))
        / 2
    )
    even: IntArray = fit + np.rint(uneven).astype(np.int64)
    return even


def _deviation(shares: list[FloatArray], present: list[FloatArray], zero: FloatArray) -> FloatArray:
    """Standard deviation over the resources that each node has."""
    # Added up one by one, so that the sum of one node is the same alone and among others.
    number = np.maximum(sum(present, zero), 1.0)
    mean = sum(shares, zero) / number
    parts = [has * (share - mean) * (share - mean) for share, has in zip(shares, present, strict=True)]
    deviation: FloatArray = np.sqrt(sum(parts, zero) / number)
    return deviation


def _curve(profile: Profile) -> FloatArray:
    """By step of a resource's share: twice the area under what is taken off the score up to there."""
    percent = np.arange(MAX_NODE_SCORE + 1, dtype=np.int64)
    match profile.fit_strategy:
        case ScoringStrategy.LEAST_ALLOCATED:
            lacking = percent
        case ScoringStrategy.MOST_ALLOCATED:
            lacking = MAX_NODE_SCORE - percent
        case ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO:
            lacking = MAX_NODE_SCORE - broken_line(profile.fit_shape, percent)
    steps = np.arange(_STEPS + 1) * MAX_NODE_SCORE / _STEPS
    height = np.interp(steps, percent, lacking) / MAX_NODE_SCORE
    area: FloatArray = np.concatenate(([0.0], np.cumsum(height[1:] + height[:-1]) / _STEPS))
    return area


def _nothing(cluster: Cluster, nodes: NodeIndices | slice) -> FloatArray:
    return np.zeros(len(cluster.nodes.all[nodes]))
