"""InterPodAntiAffinity: pods that stand together though required anti-affinity forbids it.

A conflict is a pair of pods in one topology domain, one of which has a term that matches the other. Either
of the two may go: for each (term, domain) the smallest set of pods is chosen whose leaving repairs it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Namespace, Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import Tier, gain, nothing, unchanged
from rescheduler.policies.pod_costs import elsewhere
from rescheduler.policies.proposals import Batch, Proposals, by_gain, by_name, reluctance
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


class InterPodAntiAffinityArgs(
    PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Nothing of its own."""


@dataclass(frozen=True, slots=True)
class _Repair:
    """One way of repairing a domain: these pods leave it."""

    leavers: tuple[Pod, ...]
    left: int
    """Conflicts that remain, because some that would have to leave cannot."""
    stuck: int
    """How many of those that would have to leave cannot."""

    def size(self) -> tuple[int, int, int]:
        """The smallest is the best."""
        return self.left, self.stuck, len(self.leavers)


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
            for members in _crowded(term, matched_by(term, view)):
                for pod in _cheapest(members, leavers, chosen).leavers:
                    chosen[pod.uid] = pod
                if view.spares:
                    # Where one that should leave has no place, those leave that it stands with.
                    others |= {
                        uid: pod
                        for uid, pod in (members.owners | members.matched).items()
                        if not pod.deleting and leavers.able(pod)
                    }
        alike: defaultdict[tuple[PodClass, int, bool], list[Pod]] = defaultdict(list)
        for uid, pod in (others | chosen).items():
            alike[view.cluster.kind_of(pod), pairs_with(pod, _ANTI, view), uid not in chosen].append(pod)
        return by_gain(
            Batch(
                kind=kind,
                pods=by_name(pods),
                policy=self.name,
                reason="RequiredAntiAffinityBroken",
                message=f"stands with {count} pod(s) that required anti-affinity keeps apart from it",
                gain=gain(Tier.HARD, count),
                tier=Tier.HARD,
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


@dataclass(slots=True)
class _Members:
    """Pods of one term in one domain, by uid."""

    owners: dict[str, Pod]
    """Those that carry the term."""
    matched: dict[str, Pod]
    """Those that it matches."""

    def conflicts(self) -> int:
        """Pairs of an owner and another pod that its term matches."""
        # Every pair of an owner and a matched pod is a conflict, but for a pod with itself.
        both = self.owners.keys() & self.matched.keys()
        return len(self.owners) * len(self.matched) - len(both)

    def without(self, gone: Container[str]) -> _Members:
        """The same once some have left."""
        owners = {uid: pod for uid, pod in self.owners.items() if uid not in gone}
        return _Members(owners, {uid: pod for uid, pod in self.matched.items() if uid not in gone})

    def staying(self) -> _Members:
        """Those that are not terminating."""
        return self.without(
            {uid for pods in (self.owners, self.matched) for uid, p in pods.items() if p.deleting}
        )


def _crowded(term: TermCount, matched: PodGroup) -> Iterable[_Members]:
    codes = term.column.code_list
    domains: defaultdict[int, _Members] = defaultdict(lambda: _Members({}, {}))
    for known, owning in [*((c, True) for c in term.carriers), *((c, False) for c in matched.classes)]:
        for pod, node in zip(known.pods, known.nodes, strict=True):
            if codes[node] >= 0:
                members = domains[codes[node]]
                (members.owners if owning else members.matched)[pod.uid] = pod
    return [members for members in domains.values() if members.conflicts()]


def _cheapest(members: _Members, leavers: _Leavers, gone: Container[str]) -> _Repair:
    """The repair that leaves the fewest conflicts, then with the fewest moves, then the least reluctant.

    Without any conflict only three sets can stay: no owner, nothing matched, or one single pod that is both. Where none of
    these can be had, because pods are protected or none of the policy's, whoever can leave the best of them does.
    """
    here = members.without(gone)
    if not here.conflicts():
        return _Repair((), 0, 0)
    owners, matched = here.owners, here.matched
    everyone = {**owners, **matched}
    staying = here.staying()
    repairs: list[_Repair] = []
    both = [everyone[uid] for uid in owners.keys() & matched.keys()]
    if both:
        stays = max(both, key=lambda p: (not leavers.able(p), *_keep_order(p, leavers)))
        repairs.append(_repair((p for p in everyone.values() if p is not stays), staying, leavers))
        if len(both) == len(everyone) and not (repairs[0].stuck or stays.deleting):
            return repairs[0]  # all can leave and all but one do; in both other ways that one leaves as well
    repairs[:0] = [_repair(way.values(), staying, leavers) for way in (owners, matched)]
    fewest = min(repair.size() for repair in repairs)
    best = [repair for repair in repairs if repair.size() == fewest]
    return best[0] if len(best) == 1 else min(best, key=lambda repair: _repair_order(repair, leavers))


def _keep_order(pod: Pod, leavers: _Leavers) -> tuple[object, ...]:
    return (*reluctance(pod), leavers.disruption((pod,)), -pod.created_at_s, pod.namespace, pod.name)


def _repair(pods: Iterable[Pod], staying: _Members, leavers: _Leavers) -> _Repair:
    leaving = sorted((p for p in pods if not p.deleting), key=lambda p: (p.namespace, p.name))
    able = tuple(p for p in leaving if leavers.able(p))
    proposed = able or tuple(p for p in leaving if leavers.in_scope(p))
    stuck = len(leaving) - len(able)
    left = staying.without({p.uid for p in able}).conflicts() if stuck else 0
    return _Repair(proposed, left, stuck)


def _repair_order(repair: _Repair, leavers: _Leavers) -> tuple[object, ...]:
    reluctances = sorted((reluctance(p) for p in repair.leavers), reverse=True)
    return (
        reluctances,
        leavers.disruption(repair.leavers),
        [(p.namespace, p.name) for p in repair.leavers],
    )


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
        if not self._scope.admits(pod) or belongs_to_node(pod):
            return False
        return bool(self._nodes[self._view.state.node_index[pod.node]])

    def disruption(self, pods: Iterable[Pod]) -> float:
        """What it costs to move these."""
        return round(sum(map(self._view.disruption, pods)), 2)


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
