"""PodTopologySpread: hard constraints refuse by skew, soft ones (or the profile's defaults) cost score.

Terminating pods do not count, and an empty selector counts none although the pod itself matches it.
A node that lacks the key of one hard constraint drops out of the counts of all hard constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from rescheduler.model.records import Pod, PodSpec, SpreadConstraint, Workload
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.scheduling.classes import Ask, Nominated, PodClass, PodGroup
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.counts import domain_sums
from rescheduler.scheduling.framework import BoolArray, IntArray, NodeIndices, Refusal
from rescheduler.scheduling.matching import Matcher, NamespaceScope
from rescheduler.scheduling.node_affinity import required_mask
from rescheduler.scheduling.nodes import Column, NodeTable
from rescheduler.scheduling.plugin import FilterPlugin
from rescheduler.scheduling.spread_score import SoftConstraint, spread_score
from rescheduler.scheduling.taint_toleration import hard_taints_tolerated

SKEW = "node(s) didn't match pod topology spread constraints"
MISSING_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
_NO_DOMAIN = 2**31 - 1
_OWNERS = frozenset({("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")})
"""Controllers whose selector the default constraints take over."""


class _Hard(NamedTuple):
    """A DoNotSchedule constraint, bound to the counts of the cluster."""

    constraint: SpreadConstraint
    selector: LabelSelector | None
    column: Column
    group: PodGroup
    counted: BoolArray | None
    """Nodes whose pods and domains count; None: all."""
    domains: BoolArray
    """Domains that have a counted node."""
    number_of_domains: int
    self_match: int


class PodTopologySpread(FilterPlugin):
    """Judges how evenly pods spread."""

    name: ClassVar[str] = "PodTopologySpread"

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:  # noqa: ARG002 -- the plugin protocol
        """Refuses a pod with a hard constraint whose selector cannot be parsed."""
        error = malformed(ask.kind, hard=True)
        if not error:
            return None
        what = "get constraints from pod: obtaining pod's hard topology spread constraints"
        return Refusal(
            self.name, f'running PreFilter plugin "{self.name}": {what}: {error}', unresolvable=True
        )

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes on which no hard constraint's skew is exceeded."""
        constraints = _hard(ask.kind, cluster)
        if not constraints:
            return None
        mask = cluster.nodes.all
        for hard in constraints:
            mask = mask & _within_skew(hard, _counts(hard), hard.self_match)
        return mask

    def refusals(
        self, ask: Ask, cluster: Cluster, node: int, nominated: Sequence[Nominated] = ()
    ) -> tuple[Refusal, ...]:
        """The first constraint that refuses; a missing label is unresolvable."""
        constraints = _hard(ask.kind, cluster)
        keyed = all(hard.column.code_list[node] >= 0 for hard in constraints)
        for hard in constraints:
            code = hard.column.code_list[node]
            if code < 0:
                return (Refusal(self.name, MISSING_LABEL, unresolvable=True),)
            counts = _counts(hard)
            # Nominated pods change the counts of their own node's domain, which is this one.
            if nominated and keyed and (hard.counted is None or hard.counted[node]):
                counts = counts.copy()
                counts[code] += sum(_joins(hard, ask.kind, one) for one in nominated)
            if counts[code] + hard.self_match - _least(hard, counts) > hard.constraint.max_skew:
                return (Refusal(self.name, SKEW),)
        return ()

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray | None:
        """Fewer matching pods in the node's domains score higher; None without soft constraints."""
        constraints = _soft(ask.kind, cluster)
        if not constraints:
            return None
        return spread_score(constraints, cluster.nodes, nodes, require_all_keys=_whole(ask.kind, cluster))


class CountedPod(NamedTuple):
    """A pod that is on a node, or not, in another world than that of the cluster's counts."""

    pod: Pod
    node: int
    """Index of its node."""
    change: int
    """1: it is there only in the other world; -1: it is there only in the cluster."""


class SpreadAfter(NamedTuple):
    """Where the hard constraints of a pod hold in another world than that of the cluster's counts."""

    domains: list[tuple[Column, BoolArray]]
    """By constraint: the topology key, and which of its domains are within the skew."""

    def restrict(self, nodes: BoolArray) -> None:
        """Leave those of the ``nodes`` that every constraint allows."""
        for column, within in self.domains:
            nodes &= column.spread_mask(within)

    def allows(self, node: int) -> bool:
        """The same for one node."""
        for column, within in self.domains:
            code = column.code_list[node]
            if code < 0 or not within[code]:
                return False
        return True


def spread_after(
    ask: Ask,
    cluster: Cluster,
    changes: Callable[[Matcher], Iterable[CountedPod]],
    *,
    counted_there: bool = False,
) -> SpreadAfter | None:
    """What ``PodTopologySpread.mask`` says in a world that differs by some living pods; None if the pod has no hard constraint.

    ``changes``: gives those that a matcher may match, and perhaps others. ``counted_there``: the pod stands in that world, and is
    asked about the node where it stands: then this is what the mask says of that node with the pod taken off.
    """
    constraints = _hard(ask.kind, cluster)
    if not constraints or PodTopologySpread.name in cluster.profile.disabled:
        return None
    namespaces = cluster.snapshot.namespaces
    found: list[tuple[Column, BoolArray]] = []
    for hard in constraints:
        (matcher,) = hard.group.key.matchers
        counts = _counts(hard).copy()
        for pod, node, change in changes(matcher):
            code = hard.column.code_list[node]
            counted = code >= 0 and (hard.counted is None or hard.counted[node])
            if counted and matcher.matches(pod.namespace, pod.labels, namespaces, own=True):
                counts[code] += change
        # Taken off, a pod of the emptiest domain is within every skew, and one of another domain does not change the least.
        within = _domains_within_skew(hard, counts, 0 if counted_there else hard.self_match)
        found.append((hard.column, within))
    return SpreadAfter(found)


def hard_matchers(ask: Ask, cluster: Cluster) -> list[Matcher]:
    """Whom the pod's hard constraints count; empty if it has none, or if the profile does not judge them."""
    if PodTopologySpread.name in cluster.profile.disabled:
        return []
    return [hard.group.key.matchers[0] for hard in _hard(ask.kind, cluster)]


def hard_groups(kind: PodClass, cluster: Cluster) -> list[Sequence[PodClass]]:
    """By hard constraint of the pod, the classes of pods that it counts."""
    if PodTopologySpread.name in cluster.profile.disabled:
        return []
    return [hard.group.classes for hard in _hard(kind, cluster)]


def _within_skew(hard: _Hard, counts: IntArray, joining: int) -> BoolArray:
    return hard.column.spread_mask(_domains_within_skew(hard, counts, joining))


def _domains_within_skew(hard: _Hard, counts: IntArray, joining: int) -> BoolArray:
    # skew = count + joining - least <= max_skew, written for the count of every domain at once.
    within: BoolArray = counts <= hard.constraint.max_skew - joining + _least(hard, counts)
    return within


def _hard(kind: PodClass, cluster: Cluster) -> tuple[_Hard, ...]:
    return kind.memo.of("hard_spread", _stamp(cluster), lambda: _bind_hard(kind, cluster))


def _stamp(cluster: Cluster) -> tuple[int, int]:
    """Constraints are bound to selectors of Services and workloads, and to labels and taints of nodes."""
    return cluster.selector_epoch, cluster.nodes.epoch


def _bind_hard(kind: PodClass, cluster: Cluster) -> tuple[_Hard, ...]:
    wanted = constraints_of(kind, cluster, hard=True)
    columns = [cluster.nodes.column(constraint.topology_key) for constraint, _ in wanted]
    keyed = cluster.nodes.all
    for column in columns:
        keyed = keyed & column.present
    bound: list[_Hard] = []
    for (constraint, selector), column in zip(wanted, columns, strict=True):
        counted = keyed & included(constraint, kind.spec, cluster.nodes)
        present = np.zeros(len(column.values), dtype=np.bool_)
        present[column.codes[counted]] = True
        bound.append(
            _Hard(
                constraint=constraint,
                selector=selector,
                column=column,
                group=spread_group(kind, selector, cluster),
                counted=None if bool(counted.all()) else counted,
                domains=present,
                number_of_domains=int(present.sum()),
                self_match=int(selector is not None and selector.matches(kind.labels)),
            )
        )
    return tuple(bound)


def _counts(hard: _Hard) -> IntArray:
    if hard.counted is None:
        return hard.group.in_domains(hard.column).dense()
    return domain_sums(hard.column, np.where(hard.counted, hard.group.per_node.dense(), 0))


def _least(hard: _Hard, counts: IntArray) -> int:
    if hard.number_of_domains < hard.constraint.min_domains:
        return 0
    if not hard.number_of_domains:
        return _NO_DOMAIN
    return int(counts[hard.domains].min())


def _joins(hard: _Hard, kind: PodClass, one: Nominated) -> bool:
    """Nominated pods are counted without looking at deletion or at an empty selector, as kube-scheduler does."""
    return (
        one.kind.namespace == kind.namespace
        and hard.selector is not None
        and hard.selector.matches(one.kind.labels)
    )


def _whole(kind: PodClass, cluster: Cluster) -> bool:
    """True if nodes that lack the key of one soft constraint are not scored."""
    return bool(kind.spec.spread) or not cluster.profile.system_default_spread


def _soft(kind: PodClass, cluster: Cluster) -> tuple[SoftConstraint, ...]:
    return kind.memo.of("soft_spread", _stamp(cluster), lambda: _bind_soft(kind, cluster))


def _bind_soft(kind: PodClass, cluster: Cluster) -> tuple[SoftConstraint, ...]:
    return tuple(
        SoftConstraint(
            max_skew=constraint.max_skew,
            column=cluster.nodes.column(constraint.topology_key),
            group=spread_group(kind, selector, cluster),
            counted=included(constraint, kind.spec, cluster.nodes),
        )
        for constraint, selector in constraints_of(kind, cluster, hard=False)
    )


def malformed(kind: PodClass, *, hard: bool) -> str:
    """Why a selector of the pod's hard, or of its soft, constraints cannot be parsed; "" if all can."""
    for constraint in kind.spec.spread:
        if constraint.hard is hard and constraint.selector is not None and constraint.selector.invalid:
            return constraint.selector.invalid
    return ""


def constraints_of(
    kind: PodClass, cluster: Cluster, *, hard: bool
) -> list[tuple[SpreadConstraint, LabelSelector | None]]:
    """The pod's constraints, or the profile's defaults if it has none, with their final selectors."""
    spec = kind.spec
    if spec.spread:
        return [(c, merged_selector(c, kind.labels)) for c in spec.spread if c.hard is hard]
    defaults = [c for c in cluster.profile.default_spread if c.hard is hard]
    if not defaults:
        return []
    selector = _default_selector(kind, cluster)
    return [] if selector.empty else [(constraint, selector) for constraint in defaults]


def merged_selector(constraint: SpreadConstraint, labels: LabelSet) -> LabelSelector | None:
    """The selector of a constraint for a pod with these labels, its matchLabelKeys merged in."""
    selector = constraint.selector
    added = [
        Requirement(key, Operator.IN, (labels[key],)) for key in constraint.match_label_keys if key in labels
    ]
    if selector is None or selector.invalid or not added:
        return selector
    fresh = [requirement for requirement in added if requirement not in selector.requirements]
    return LabelSelector((*selector.requirements, *fresh)) if fresh else selector


def included(constraint: SpreadConstraint, spec: PodSpec, nodes: NodeTable) -> BoolArray:
    """Nodes that the constraint's node inclusion policies count."""
    mask = nodes.all
    if constraint.node_affinity_honor:
        mask = required_mask(spec, nodes)
    if constraint.node_taints_honor:
        mask = mask & hard_taints_tolerated(spec.tolerations, nodes)
    return mask


def spread_group(kind: PodClass, selector: LabelSelector | None, cluster: Cluster) -> PodGroup:
    """The living pods of the namespace that the selector matches; none for an empty selector."""
    if selector is not None and selector.empty:
        selector = None
    return cluster.group((Matcher(NamespaceScope(frozenset((kind.namespace,))), selector),), living=True)


def _default_selector(kind: PodClass, cluster: Cluster) -> LabelSelector:
    """Requirements of all Services that select the pod and of its ReplicaSet, StatefulSet or controller."""
    requirements: dict[Requirement, None] = {}
    for service in cluster.services_in(kind.namespace):
        if service.selector is None:
            continue
        wanted = [Requirement(key, Operator.IN, (value,)) for key, value in service.selector]
        if all(requirement.matches(kind.labels) for requirement in wanted):
            requirements.update(dict.fromkeys(wanted))
    owner = _owner(kind, cluster)
    if owner is not None and owner.selector is not None and not owner.selector.invalid:
        requirements.update(dict.fromkeys(owner.selector.requirements))
    return LabelSelector(tuple(requirements))


def _owner(kind: PodClass, cluster: Cluster) -> Workload | None:
    controller = kind.controller
    if controller is None or (controller.api_version, controller.kind) not in _OWNERS:
        return None
    return cluster.workload(controller.kind, kind.namespace, controller.name)
