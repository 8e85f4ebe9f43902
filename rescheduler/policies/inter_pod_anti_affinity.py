"""InterPodAntiAffinity: pods that stand together though required anti-affinity forbids it.

A conflict is a pair of pods in one topology domain, one of which has a term that matches the other. Either
of the two may go: for each (term, domain) the smallest set of pods is chosen whose leaving repairs it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.classes import PodClass, standing
from rescheduler.policies.framework import View, nowhere
from rescheduler.policies.index import AntiTerm, matches
from rescheduler.policies.kinds import never_moves
from rescheduler.policies.order import by_gain, reluctance
from rescheduler.policies.wanted import Batch, Candidate, Wanted
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

    def candidates(self, view: View) -> Wanted:
        """The pods whose leaving repairs all conflicts with the fewest moves; most conflicts first."""
        chosen: dict[str, Pod] = {}
        terms = view.index.anti_terms.items()
        crowded = [(anti, owners) for anti, owners in terms if owners and _may_conflict(anti, owners, view)]
        for anti, owners in sorted(crowded, key=_term_order):
            for members in _crowded(anti, owners, view):
                for pod in _cheapest(members, view, self._scope, frozenset(chosen)).leavers:
                    chosen[pod.uid] = pod
        found = (self._batch(pod, view) for pod in chosen.values())
        return by_gain(batch for batch in found if batch is not None)

    def gains(self, candidate: Candidate, view: View) -> FloatArray:
        """By the formula of the class."""
        conflicts: IntArray = np.zeros(len(view.nodes), dtype=np.int64)
        for counted in _conflicts(candidate.pod, view):
            conflicts += counted.per_node()
        here = int(conflicts[view.state.node_index[candidate.pod.node]])
        if here == 0:
            return nowhere(view)
        return np.where(conflicts == 0, _gain(here), 0.0)

    def _batch(self, pod: Pod, view: View) -> Batch | None:
        here = view.state.node_index[pod.node]
        count = sum(counted.at(here) for counted in _conflicts(pod, view))
        kind = view.index.class_of(pod)
        if count == 0 or kind is None:
            return None
        return Batch(
            kind=kind,
            pods=(pod,),
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


def _may_conflict(anti: AntiTerm, owners: Sequence[PodClass], view: View) -> bool:
    """False if no two pods that a term is about stand in one domain: nearly always, cheaply said, and remembered."""
    about = list(dict.fromkeys((*owners, *view.index.matching(anti.namespaces, anti.term.selector))))
    now = view.nodes, standing(about)
    memo, key = owners[0].memo, (InterPodAntiAffinity, anti)
    if memo.get(key) == now:
        return False
    codes = view.nodes.code_list(anti.term.topology_key)
    taken: set[int] = set()
    number = 0
    for known in about:
        number += len(known.nodes)
        taken.update(map(codes.__getitem__, known.nodes))
    if len(taken) < number:
        return True
    memo[key] = now
    return False


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


@dataclass(frozen=True, slots=True)
class _Counted:
    """Pods that one term keeps apart from a pod, by domain code. ``own``: the pod's own domain if it is among them."""

    codes: IntArray
    size: int
    numbers: Mapping[int, int]
    own: int

    def at(self, node: int) -> int:
        """How many there are in the domain of a node, the pod itself left out."""
        code = int(self.codes[node])
        return self.numbers.get(code, 0) - (code == self.own) if code >= 0 else 0

    def per_node(self) -> IntArray:
        """The same for every node; 0 where a node has no such label."""
        sums: IntArray = np.zeros(self.size + 1, dtype=np.int64)  # the last one is of nodes without the label
        sums[list(self.numbers)] = list(self.numbers.values())
        if self.own >= 0:
            sums[self.own] -= 1
        return sums[self.codes]


def _conflicts(pod: Pod, view: View) -> Iterable[_Counted]:
    """Pods that the pod would be in conflict with, by term: by those that it has, and by those of others."""
    index = view.index
    here = view.state.node_index[pod.node]
    own_terms = [index.resolve(term, pod.namespace) for term in pod.spec.pod_anti_affinity]
    for anti in own_terms:
        if anti.term.selector is not None:
            matched = index.matching(anti.namespaces, anti.term.selector)
            yield _count(matched, anti, here, itself=matches(anti, pod), view=view)
    for anti in index.terms_against(pod):
        yield _count(index.anti_terms[anti], anti, here, itself=anti in own_terms, view=view)


def _count(classes: Sequence[PodClass], anti: AntiTerm, here: int, *, itself: bool, view: View) -> _Counted:
    """``itself``: the pod, which stands on node ``here``, is one of the pods of the classes."""
    codes, values = view.nodes.domains(anti.term.topology_key)
    own = int(codes[here]) if itself else -1
    return _Counted(codes, len(values), _numbers(classes, anti.term.topology_key, view), own)


def _numbers(classes: Sequence[PodClass], key: str, view: View) -> Mapping[int, int]:
    """Pods of the classes by domain, kept within a decision until one comes or goes."""
    now = standing(classes)
    memo = view.memo.get((InterPodAntiAffinity, now[0], key))
    if memo is None or memo[0] != now:
        codes = view.nodes.code_list(key)
        numbers = Counter(codes[node] for known in classes for node in known.nodes)
        del numbers[-1]
        memo = view.memo[InterPodAntiAffinity, now[0], key] = now, numbers
    found: Mapping[int, int] = memo[1]
    return found
