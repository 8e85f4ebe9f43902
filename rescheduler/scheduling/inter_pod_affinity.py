"""InterPodAffinity: required and preferred (anti-)affinity between pods, in both directions.

Terminating pods count until they are gone. A pod that would be the first of its kind may start anywhere
that has the topology keys. If the pod has no required terms and no running pod's anti-affinity matches it,
kube-scheduler skips the filter altogether, so that nominated pods are not looked at either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from rescheduler.model.records import PodAffinityTerm, PodSpec
from rescheduler.scheduling.classes import Ask, Nominated, PodClass, PodGroup, TermCount, TermKind
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.counts import Counts
from rescheduler.scheduling.framework import MAX_NODE_SCORE, BoolArray, IntArray, NodeIndices, Refusal
from rescheduler.scheduling.matching import Matcher, matcher_of, parsed
from rescheduler.scheduling.nodes import Column
from rescheduler.scheduling.plugin import FilterPlugin

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"


class _Counted(NamedTuple):
    """A group of pods, looked at in the domains of one topology key."""

    group: PodGroup
    column: Column
    """The label of the topology key."""
    weight: int = 0
    """Of preferred terms; negative for anti-affinity."""


class _Terms(NamedTuple):
    """The pod's own terms, bound to the counts of the cluster."""

    together: PodGroup | None
    """Pods that match all required affinity terms at once."""
    affinity: tuple[Column, ...]
    """The topology keys of the required affinity terms, in their order."""
    anti: tuple[_Counted, ...]
    """The required anti-affinity terms."""
    self_match: bool
    """True if the pod meets all its own required affinity terms."""
    invalid: str
    """Why a selector cannot be parsed; "" if all can."""


class InterPodAffinity(FilterPlugin):
    """Judges pods against pods."""

    name: ClassVar[str] = "InterPodAffinity"

    def everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:
        """Refuses a pod whose selectors cannot be parsed."""
        invalid = _terms(ask.kind, cluster).invalid
        if invalid:
            return Refusal(self.name, f"parsing pod: {invalid}", unresolvable=True)
        return None

    def mask(self, ask: Ask, cluster: Cluster) -> BoolArray | None:
        """Nodes where the pod's terms and the terms of running pods hold."""
        own = _terms(ask.kind, cluster)
        against = _carried_against(ask.kind, cluster)
        if own.together is None and not own.anti and not against:
            return None
        mask = cluster.nodes.all.copy()
        if own.together is not None:
            mask &= _affinity_mask(own, own.together, cluster)
        for counted in own.anti:
            mask &= ~_populated(counted.group.in_domains(counted.column), counted.column)
        for term in against:
            mask &= ~_populated(term.counts, term.column)
        return mask

    def refusals(
        self, ask: Ask, cluster: Cluster, node: int, nominated: Sequence[Nominated] = ()
    ) -> tuple[Refusal, ...]:
        """The first of three reasons; only a missing affinity is unresolvable."""
        own = _terms(ask.kind, cluster)
        against = _carried_against(ask.kind, cluster)
        if own.together is None and not own.anti and not against:
            return ()
        if own.together is not None and not _affinity_holds(own, own.together, cluster, node, nominated):
            return (Refusal(self.name, AFFINITY, unresolvable=True),)
        if any(_here(counted, cluster, node, nominated) for counted in own.anti):
            return (Refusal(self.name, ANTI_AFFINITY),)
        if any(_carried_here(term, node) for term in against) or _carried_by(
            ask.kind, cluster, node, nominated
        ):
            return (Refusal(self.name, EXISTING_ANTI_AFFINITY),)
        return ()

    def score(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray | None:
        """Sum of signed weights over both directions, stretched to 0..100; None if no term meets a pod."""
        spec = ask.kind.spec
        preferring = bool(spec.pod_affinity_preferred or spec.pod_anti_affinity_preferred)
        if cluster.profile.ignore_preferred_terms_of_existing_pods and not preferring:
            return None
        raw = np.zeros(len(nodes), dtype=np.int64)
        met = False
        for weight, counts, column in _signed(ask.kind, cluster):
            met = True
            raw += weight * column.spread(counts.dense())[nodes]
        return _stretch(raw) if met else None


def _terms(kind: PodClass, cluster: Cluster) -> _Terms:
    return kind.memo.of("required_terms", None, lambda: _bind(kind, cluster))


def _bind(kind: PodClass, cluster: Cluster) -> _Terms:
    spec, namespace = kind.spec, kind.namespace
    wanted = tuple(matcher_of(term, namespace) for term in spec.pod_affinity)
    return _Terms(
        together=cluster.group(wanted, living=False) if wanted else None,
        affinity=tuple(cluster.nodes.column(term.topology_key) for term in spec.pod_affinity),
        anti=tuple(_count(term, namespace, cluster) for term in spec.pod_anti_affinity),
        self_match=all(_covers(matcher, kind, cluster) for matcher in wanted),
        invalid=_invalid(spec),
    )


def _invalid(spec: PodSpec) -> str:
    """What kube-scheduler says of selectors that cannot be parsed: the first of each group of terms."""
    groups: tuple[tuple[str, Iterable[PodAffinityTerm]], ...] = (
        ("requiredAffinityTerms", spec.pod_affinity),
        ("requiredAntiAffinityTerms", spec.pod_anti_affinity),
        ("preferredAffinityTerms", (weighted.term for weighted in spec.pod_affinity_preferred)),
        ("preferredAntiAffinityTerms", (weighted.term for weighted in spec.pod_anti_affinity_preferred)),
    )
    errors = [f"{name}: {error}" for name, terms in groups if (error := _first_error(terms))]
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""


def _first_error(terms: Iterable[PodAffinityTerm]) -> str:
    selectors = (selector for term in terms for selector in (term.selector, term.namespace_selector))
    return next((selector.invalid for selector in selectors if selector is not None and selector.invalid), "")


def _count(term: PodAffinityTerm, namespace: str, cluster: Cluster, weight: int = 0) -> _Counted:
    group = cluster.group((matcher_of(term, namespace),), living=False)
    return _Counted(group, cluster.nodes.column(term.topology_key), weight)


def _preferred(kind: PodClass, cluster: Cluster) -> tuple[_Counted, ...]:
    spec, namespace = kind.spec, kind.namespace
    return kind.memo.of(
        "preferred_terms",
        None,
        lambda: (
            *(_count(t.term, namespace, cluster, t.weight) for t in spec.pod_affinity_preferred),
            *(_count(t.term, namespace, cluster, -t.weight) for t in spec.pod_anti_affinity_preferred),
        ),
    )


def _signed(kind: PodClass, cluster: Cluster) -> Iterator[tuple[int, Counts, Column]]:
    """What ``score`` sums up and is not 0 everywhere: weight, and counts by domain of a key."""
    for counted in _preferred(kind, cluster):
        counts = counted.group.in_domains(counted.column)
        if counts.values:
            yield counted.weight, counts, counted.column
    for term in cluster.terms_about(kind):
        weight = _weight(term, cluster)
        if weight and term.counts.values:
            yield weight, term.counts, term.column


def _covers(matcher: Matcher, kind: PodClass, cluster: Cluster) -> bool:
    return matcher.matches(kind.namespace, kind.labels, cluster.snapshot.namespaces, own=True)


def _carried_against(kind: PodClass, cluster: Cluster) -> list[TermCount]:
    return [
        term
        for term in cluster.terms_about(kind)
        if term.counts.values and term.key.kind is TermKind.REQUIRED_ANTI
    ]


def _populated(counts: Counts, column: Column) -> BoolArray:
    populated = np.zeros(len(column.values), dtype=np.bool_)
    populated[list(counts.values)] = True
    return column.spread_mask(populated)


def _affinity_mask(own: _Terms, together: PodGroup, cluster: Cluster) -> BoolArray:
    mask = cluster.nodes.all.copy()
    anywhere = False
    for column in own.affinity:
        counts = together.in_domains(column)
        anywhere = anywhere or bool(counts.values)
        mask &= _populated(counts, column)
    # The first pod of an application that wants to stand with itself would wait for ever: it may start anywhere.
    if not anywhere and own.self_match:
        mask = cluster.nodes.all.copy()
        for column in own.affinity:
            mask &= column.present
    return mask


def _affinity_holds(
    own: _Terms, together: PodGroup, cluster: Cluster, node: int, nominated: Sequence[Nominated]
) -> bool:
    codes = [column.code_list[node] for column in own.affinity]
    if any(code < 0 for code in codes):
        return False
    matchers = together.key.matchers
    # A nominated pod counts only if it matches all terms at once, as pods that stand do.
    extra = sum(all(_covers(m, one.kind, cluster) for m in matchers) for one in nominated)
    counts = [together.in_domains(column) for column in own.affinity]
    if all(have.at(code) + extra > 0 for have, code in zip(counts, codes, strict=True)):
        return True
    return not extra and own.self_match and not any(have.values for have in counts)


def _here(counted: _Counted, cluster: Cluster, node: int, nominated: Sequence[Nominated]) -> bool:
    code = counted.column.code_list[node]
    if code < 0:
        return False
    if counted.group.in_domains(counted.column).at(code) > 0:
        return True
    matcher = counted.group.key.matchers[0]
    return any(_covers(matcher, one.kind, cluster) for one in nominated)


def _carried_here(term: TermCount, node: int) -> bool:
    code = term.column.code_list[node]
    return code >= 0 and term.counts.at(code) > 0


def _carried_by(kind: PodClass, cluster: Cluster, node: int, nominated: Sequence[Nominated]) -> bool:
    namespaces = cluster.snapshot.namespaces
    for one in nominated:
        terms = one.kind.spec.pod_anti_affinity
        for term in terms if parsed(terms) else ():
            if cluster.nodes.column(term.topology_key).code_list[node] < 0:
                continue
            matcher = matcher_of(term, one.kind.namespace)
            if matcher.matches(kind.namespace, kind.labels, namespaces, own=False):
                return True
    return False


def _weight(term: TermCount, cluster: Cluster) -> int:
    match term.key.kind:
        case TermKind.PREFERRED:
            return term.key.weight
        case TermKind.PREFERRED_ANTI:
            return -term.key.weight
        case TermKind.REQUIRED:
            return cluster.profile.hard_pod_affinity_weight
        case TermKind.REQUIRED_ANTI:
            return 0


def _stretch(raw: IntArray) -> IntArray:
    if not len(raw):
        return raw
    lowest, highest = int(raw.min()), int(raw.max())
    if highest == lowest:
        return np.zeros_like(raw)
    return (MAX_NODE_SCORE * ((raw - lowest) / (highest - lowest))).astype(np.int64)
