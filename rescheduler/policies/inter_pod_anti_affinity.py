"""InterPodAntiAffinity: pods that stand together though required anti-affinity forbids it.

A conflict is a pair of pods in one topology domain, one of which has a term that matches the other. Either
of the two may go: for each (term, domain) the smallest set of pods is chosen whose leaving repairs it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from typing import ClassVar, Final

from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Namespace, Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import Tier, nothing, unchanged
from rescheduler.policies.pod_costs import elsewhere
from rescheduler.policies.proposals import Batch, Proposals, by_gain, reluctance
from rescheduler.policies.term_pairs import (
    changes_in_pairs,
    matched_by,
    may_have_pairs,
    pairs_of,
    pairs_with,
)
from rescheduler.policies.wire import PolicyArgs, Scope
from rescheduler.scheduling.classes import PodClass, PodGroup, TermCount, TermKind
from rescheduler.scheduling.framework import IntArray

_ANTI: Final = frozenset({TermKind.REQUIRED_ANTI})
_BROKEN: Final = "RequiredAntiAffinityBroken"


class InterPodAntiAffinityArgs(
    PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Nothing of its own."""


class InterPodAntiAffinity:
    """Badness: pairs of pods that a required term keeps apart and that share a domain, one for each direction."""

    name: str = "InterPodAntiAffinity"
    tier: ClassVar[Tier] = Tier.HARD

    def __init__(self, args: InterPodAntiAffinityArgs) -> None:
        self._scope = args.scope()

    def candidates(self, view: PolicyView) -> Proposals:
        """The pods whose leaving repairs all conflicts with the fewest moves, most conflicts first; the others as spares."""
        chosen: dict[str, Pod] = {}
        others: dict[str, Pod] = {}
        anti = [term for term in view.cluster.carried_terms if term.key.kind is TermKind.REQUIRED_ANTI]
        crowded = [term for term in anti if may_have_pairs(term, matched_by(term, view))]
        leavers = _Leavers(view, self._scope)
        for term in sorted(crowded, key=lambda term: _term_order(term, view.snapshot.namespaces)):
            for owners, matched in _together(term, matched_by(term, view)):
                staying = (_without(owners, chosen), _without(matched, chosen))
                chosen |= {pod.uid: pod for pod in _leaving(*staying, leavers)}
                if view.spares:
                    # Where one that should leave has no place, those leave that it stands with.
                    others |= {uid: pod for uid, pod in (owners | matched).items() if leavers.able(pod)}
        alike: defaultdict[tuple[PodClass, int, bool], list[Pod]] = defaultdict(list)
        for uid, pod in (others | chosen).items():
            alike[view.cluster.kind_of(pod), pairs_with(pod, _ANTI, view), uid not in chosen].append(pod)
        return by_gain(
            Batch.of(
                self.name,
                kind,
                pods,
                why=(_BROKEN, f"stands with {count} pod(s) that required anti-affinity keeps apart from it"),
                tier=Tier.HARD,
                falls=count,
                spare=spare,
            )
            for (kind, count, spare), pods in alike.items()
            if count
        )

    def badness(self, view: PolicyView) -> IntArray:
        """All conflicts, whoever may move."""
        total = nothing()
        anti = (term for term in view.cluster.carried_terms if term.key.kind is TermKind.REQUIRED_ANTI)
        total[Tier.HARD] = sum(pairs_of(term, view) for term in list(anti))
        return total

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """Conflicts of the replacement there less those of the pod here, by terms of its own and of others."""
        found = list(changes_in_pairs(pod, view.cluster.kind_of(replacement), _ANTI, view))
        if not found:
            return unchanged(view.nodes.size)
        total = found[0].by_node
        for more in found[1:]:
            total = total + more.by_node
        return elsewhere(Tier.HARD, total, view.state.node_index[pod.node])


_Pods = dict[str, Pod]
"""By uid."""


def _together(term: TermCount, matched: PodGroup) -> list[tuple[_Pods, _Pods]]:
    """By domain where there is any conflict, the pods that carry the term, and those that it matches."""
    codes = term.column.code_list
    domains: defaultdict[int, tuple[_Pods, _Pods]] = defaultdict(lambda: ({}, {}))
    for known, matches in [*((c, 0) for c in term.carriers), *((c, 1) for c in matched.classes)]:
        for pod, node in zip(known.pods, known.nodes, strict=True):
            if codes[node] >= 0:
                domains[codes[node]][matches][pod.uid] = pod
    return [
        (owners, matched)
        for owners, matched in domains.values()
        if _conflicts(len(owners), len(matched), len(owners.keys() & matched.keys()))
    ]


def _without(pods: _Pods, gone: Container[str]) -> _Pods:
    return {uid: pod for uid, pod in pods.items() if uid not in gone}


def _conflicts(owners: int, matched: int, both: int) -> int:
    """Every pair of an owner and a matched pod is one, but for a pod with itself."""
    return owners * matched - both


def _leaving(owners: _Pods, matched: _Pods, leavers: _Leavers) -> Iterator[Pod]:
    """Who leaves a domain: the one with most conflicts, again and again, of equal ones the least reluctant; first those that may be moved."""
    kinds: dict[tuple[bool, bool, bool], list[Pod]] = {}
    for uid, pod in (owners | matched).items():
        if leavers.in_scope(pod):
            kinds.setdefault((leavers.able(pod), uid in owners, uid in matched), []).append(pod)
    for pods in kinds.values():
        if len(pods) > 1:  # an order costs more than all else here
            pods.sort(key=leavers.order, reverse=True)
    carry, match, both = len(owners), len(matched), len(owners.keys() & matched.keys())
    while _conflicts(carry, match, both):
        pairs = {
            kind: kind[1] * (match - kind[2]) + kind[2] * (carry - kind[1]) for kind in kinds if kinds[kind]
        }
        most = max(((kind[0], number) for kind, number in pairs.items() if number), default=None)
        if most is None:
            return
        worst = [kind for kind, number in pairs.items() if (kind[0], number) == most]
        kind = worst[0] if len(worst) == 1 else min(worst, key=lambda kind: leavers.order(kinds[kind][-1]))
        yield kinds[kind].pop()
        carry, match, both = carry - kind[1], match - kind[2], both - (kind[1] and kind[2])


class _Leavers:
    """Which pods may be proposed, and which of them may be moved: each is asked about in several terms and ways."""

    def __init__(self, view: PolicyView, scope: Scope) -> None:
        self._view, self._scope = view, scope
        self._nodes = scope.nodes(view.nodes)
        self._able: dict[str, bool] = {}

    def able(self, pod: Pod) -> bool:
        """True if the pod may be moved."""
        known = self._able.get(pod.uid)
        if known is None:
            known = self.in_scope(pod) and self._view.may_move(pod, self._view.cluster.kind_of(pod))
            self._able[pod.uid] = known
        return known

    def in_scope(self, pod: Pod) -> bool:
        """True if the policy may propose it."""
        if not self._scope.admits(pod) or belongs_to_node(pod) or pod.deleting:
            return False
        return bool(self._nodes[self._view.state.node_index[pod.node]])

    def order(self, pod: Pod) -> tuple[object, ...]:
        """Who leaves first: the least reluctant, then the one whose move disrupts least, then the youngest."""
        return (
            *reluctance(pod),
            round(self._view.disruption(pod), 2),
            -pod.created_at_s,
            pod.namespace,
            pod.name,
        )


def _term_order(term: TermCount, namespaces: Mapping[str, Namespace]) -> str:
    """By namespaces as they are now, selector and key: a pod that leaves for one term may settle a later one."""
    scope, selector = term.key.matcher
    covered = None
    if scope.selector is None:
        covered = tuple(sorted(scope.names))
    elif not scope.selector.empty:
        found = (name for name in namespaces if scope.covers(name, namespaces, own=True))
        covered = tuple(sorted({*scope.names, *found}))
    return repr((covered, selector, term.key.topology_key))
