"""InterPodAntiAffinity: pods that stand together though required anti-affinity forbids it.

A conflict is a pair of pods in one topology domain, one of which has a term that matches the other. Either
of the two may go: for each (term, domain) the smallest set of pods is chosen whose leaving repairs it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.classes import PodClass
from rescheduler.policies.framework import Candidate, View, nowhere
from rescheduler.policies.index import AntiTerm, matches
from rescheduler.policies.kinds import never_moves
from rescheduler.policies.order import by_gain, reluctance
from rescheduler.policies.wire import PolicyArgs, Scope
from rescheduler.scheduling.framework import FloatArray, IntArray


class InterPodAntiAffinityArgs(
    PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Nothing of its own."""


@dataclass(frozen=True, slots=True)
class _Repair:
    """One way of repairing a domain: these pods leave; ``stuck`` of them cannot."""

    leavers: tuple[Pod, ...]
    stuck: int


class InterPodAntiAffinity:
    """Gain = 1 - 0.5 / (1 + conflicts of the pod here), on every node where it would have none; else 0.

    One conflict gives 0.75, many approach 1.
    """

    name: ClassVar[str] = "InterPodAntiAffinity"

    def __init__(self, args: InterPodAntiAffinityArgs) -> None:
        self._scope = args.scope()

    def candidates(self, view: View) -> Sequence[Candidate]:
        """The pods whose leaving repairs all conflicts with the fewest moves; most conflicts first."""
        chosen: dict[str, Pod] = {}
        crowded = [item for item in view.index.anti_terms.items() if _may_conflict(*item, view)]
        for anti, owners in sorted(crowded, key=_term_order):
            for members in _crowded(anti, owners, view):
                for pod in _cheapest(members, view, self._scope, frozenset(chosen)).leavers:
                    chosen[pod.uid] = pod
        found = (self._candidate(pod, view) for pod in chosen.values())
        return by_gain(c for c in found if c is not None)

    def gains(self, candidate: Candidate, view: View) -> FloatArray:
        """By the formula of the class."""
        conflicts = _conflicts(candidate.pod, view)
        here = int(conflicts[view.state.node_index[candidate.pod.node]])
        if here == 0:
            return nowhere(view)
        return np.where(conflicts == 0, _gain(here), 0.0)

    def _candidate(self, pod: Pod, view: View) -> Candidate | None:
        count = int(_conflicts(pod, view)[view.state.node_index[pod.node]])
        if count == 0:
            return None
        return Candidate(
            pod=pod,
            policy=self.name,
            reason="RequiredAntiAffinityBroken",
            message=f"stands with {count} pod(s) that required anti-affinity keeps apart from it",
            gain=_gain(count),
        )


def _gain(conflicts: int) -> float:
    return 1.0 - 0.5 / (1 + conflicts)


@dataclass(slots=True)
class _Members:
    """Pods of one (term, domain): those that have the term, and those that it matches."""

    owners: dict[str, Pod]
    matched: dict[str, Pod]

    def conflict(self) -> bool:
        """True if some owner stands with another pod that its term matches."""
        both = self.owners.keys() & self.matched.keys()
        return len(self.owners) * len(self.matched) > len(both)


def _may_conflict(anti: AntiTerm, owners: Iterable[PodClass], view: View) -> bool:
    """False if no two pods that a term is about stand in one domain: nearly always, and cheaply said."""
    codes = view.nodes.code_list(anti.term.topology_key)
    about = {id(known): known for known in owners if known.pods}
    for known in view.index.matching(anti.namespaces, anti.term.selector):
        about[id(known)] = known
    taken: set[int] = set()
    number = 0
    for known in about.values():
        number += len(known.nodes)
        taken.update(map(codes.__getitem__, known.nodes))
    return len(taken) < number


def _crowded(anti: AntiTerm, owners: Iterable[PodClass], view: View) -> Iterable[_Members]:
    codes, _ = view.nodes.domains(anti.term.topology_key)
    domains: defaultdict[int, _Members] = defaultdict(lambda: _Members({}, {}))
    matched = view.index.matching(anti.namespaces, anti.term.selector)
    for known, owning in [*((c, True) for c in owners), *((c, False) for c in matched)]:
        for pod, node in zip(known.pods, known.nodes, strict=True):
            code = int(codes[node])
            if code >= 0:
                members = domains[code]
                (members.owners if owning else members.matched)[pod.uid] = pod
    return [members for members in domains.values() if members.conflict()]


def _cheapest(members: _Members, view: View, scope: Scope, gone: frozenset[str]) -> _Repair:
    """The repair with the fewest pods that cannot move, then the fewest moves, then the least reluctant.

    Without any conflict only three sets can stay: no owner, nothing matched, or one single pod that is both.
    """
    owners = {uid: pod for uid, pod in members.owners.items() if uid not in gone}
    matched = {uid: pod for uid, pod in members.matched.items() if uid not in gone}
    if not _Members(owners, matched).conflict():
        return _Repair((), 0)
    everyone = {**owners, **matched}
    ways = [owners, matched]
    both = [everyone[uid] for uid in owners.keys() & matched.keys()]
    if both:
        stays = max(both, key=lambda p: (not _can_leave(p, view, scope), *_keep_order(p)))
        ways.append({uid: pod for uid, pod in everyone.items() if uid != stays.uid})
    return min((_repair(way.values(), view, scope) for way in ways), key=_repair_order)


def _keep_order(pod: Pod) -> tuple[bool, int, int, float, str, str]:
    return (*reluctance(pod), -pod.created_at_s, pod.namespace, pod.name)


def _repair(pods: Iterable[Pod], view: View, scope: Scope) -> _Repair:
    leaving = sorted((p for p in pods if not p.deleting), key=lambda p: (p.namespace, p.name))
    able = tuple(p for p in leaving if _can_leave(p, view, scope))
    proposed = tuple(p for p in leaving if scope.admits(p) and not never_moves(p))
    return _Repair(able or proposed, len(leaving) - len(able))


def _repair_order(repair: _Repair) -> tuple[object, ...]:
    reluctances = sorted((reluctance(p) for p in repair.leavers), reverse=True)
    return repair.stuck, len(repair.leavers), reluctances, [(p.namespace, p.name) for p in repair.leavers]


def _can_leave(pod: Pod, view: View, scope: Scope) -> bool:
    return scope.admits(pod) and not never_moves(pod) and view.movable(pod)


def _term_order(item: tuple[AntiTerm, list[PodClass]]) -> str:
    anti, _ = item
    return repr((anti.namespaces, anti.term))


def _conflicts(pod: Pod, view: View) -> IntArray:
    """For each node: with how many pods the pod would be in conflict if it stood there."""
    index = view.index
    here = view.state.node_index[pod.node]
    total = np.zeros(len(view.nodes), dtype=np.int64)
    for term in pod.spec.pod_anti_affinity:
        anti = index.resolve(term, pod.namespace)
        if anti.term.selector is None:
            continue
        counts = index.counts(anti.namespaces, anti.term.selector, deleting=True)
        total += _in_domain(counts, term.topology_key, here, own=matches(anti, pod), view=view)
    own_terms = {index.resolve(term, pod.namespace) for term in pod.spec.pod_anti_affinity}
    for anti in index.terms_against(pod):
        counts = index.owner_counts(anti)
        total += _in_domain(counts, anti.term.topology_key, here, own=anti in own_terms, view=view)
    return total


def _in_domain(counts: IntArray, key: str, here: int, *, own: bool, view: View) -> IntArray:
    """Counts per node summed over its domain, the pod itself left out; 0 where the node has no such label."""
    codes, values = view.nodes.domains(key)
    known = codes >= 0
    sums = np.bincount(codes[known], weights=counts[known], minlength=len(values)).astype(np.int64)
    if own and known[here]:
        sums[codes[here]] -= 1
    return np.where(known, sums[codes], 0) if len(values) else np.zeros(len(codes), dtype=np.int64)
