"""Nodes to be emptied as numbers for ``consolidation``: what their pods need, where those may go, what must not meet.

What the numbers say is necessary, not sufficient: they are made of the scheduler's own answers at the moment of asking
(room, taints, affinity, ports, volumes: ``Targets.allowed``), and of what planned moves change for each other (room,
required anti-affinity, host ports, hard topology spread, PodDisruptionBudgets). Each pod that the search moves is judged
again by all rules before it is planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import ObjectKey, Pod
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.consolidation import (
    Bound,
    ConsolidationProblem,
    Mark,
    Occupant,
    Source,
    consolidate,
)
from rescheduler.planning.targets import Targets
from rescheduler.planning.trial import Trial
from rescheduler.policies.emptying import EmptyingPolicy
from rescheduler.policies.proposals import Candidate
from rescheduler.scheduling.classes import PodClass, TermKind
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray
from rescheduler.scheduling.matching import Matcher, matcher_of
from rescheduler.scheduling.pod_topology_spread import constraints_of

_PLENTY = 2**62


class Wanted(NamedTuple):
    """Where one pod is to go."""

    node: int
    going: BoolArray
    """Nodes that are to be emptied as well."""

    def first(self, gains: FloatArray) -> FloatArray:
        """Gains of that node alone."""
        only = np.zeros_like(gains)
        only[self.node] = gains[self.node]
        return only

    def others(self, gains: FloatArray) -> FloatArray:
        """Gains of the nodes to take where the rules do not allow that node."""
        return np.where(self.going, 0.0, gains)


class Chosen(NamedTuple):
    """A node to empty: its candidates, and the node that each of them goes to."""

    members: tuple[Candidate, ...]
    targets: tuple[int, ...]
    going: BoolArray
    """All nodes that are to be emptied."""

    def wanted(self, number: int) -> Wanted:
        """The target of one of ``members``."""
        return Wanted(self.targets[number], self.going)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptying:
    """Chooses nodes to empty in one trial."""

    trial: Trial
    targets: Targets
    budgets: BudgetLedger
    replacement: Callable[[Pod], Pod]
    passes: int

    def choose(
        self, policy: EmptyingPolicy, groups: Sequence[Sequence[Candidate]], most_moves: int | None
    ) -> list[Chosen]:
        """Which of the nodes are emptied together with at most so many moves, the fewest pods for their price first.

        ``groups``: the candidates of each node, none of which is known to be refused.
        """
        if not groups:
            return []
        order = np.argsort(self.trial.view.nodes.ranks, kind="stable")
        problem = _Problem(self, policy, order)
        sources = [problem.source(members) for members in groups]
        found = consolidate(problem.cluster([s for s, _ in sources], most_moves), self.passes)
        found.sort(key=lambda one: len(one.targets) / sources[one.source][0].price)
        going = np.zeros(len(order), dtype=np.bool_)
        going[[order[sources[one.source][0].node] for one in found]] = True
        return [
            Chosen(sources[one.source][1], tuple(int(order[node]) for node in one.targets), going)
            for one in found
        ]


class _Problem:
    """Everything in the order of the names of nodes, so that the result does not depend on the order of reading."""

    def __init__(self, emptying: Emptying, policy: EmptyingPolicy, order: IntArray) -> None:
        self._emptying = emptying
        self._trial = emptying.trial
        self._policy = policy
        self._order = order
        self._most_held = policy.most_held(self._trial.view)
        self._prices = policy.prices(self._trial.view)
        self._resources: dict[str, int] = {"pods": 0}
        self._free: list[IntArray] = []
        self._weights: list[float] = []
        """By resource: one unit as a share of what is free altogether."""
        self._add("pods")
        self._budgets: dict[ObjectKey, int] = {}
        self._left: list[int] = []
        self._masks: dict[object, BoolArray] = {}
        self._domains: dict[str, IntArray] = {}
        self._marks: dict[PodClass, tuple[tuple[Mark, ...], tuple[Mark, ...]]] = {}
        self._alive: list[Pod] = []
        self._numbers: dict[object, int] = {}

    def source(self, members: Sequence[Candidate]) -> tuple[Source, tuple[Candidate, ...]]:
        """The node of these candidates; and they in the order of its items, the largest first."""
        items = [self._item(one) for one in members]
        ranked = sorted(range(len(items)), key=lambda i: -items[i].size)
        node = self._trial.state.node_index[members[0].pod.node]
        price = int(self._prices[node])
        at = int(self._trial.view.nodes.ranks[node])
        spent = Counter(budget for one in members for budget in self._spent(one))
        source = Source(at, tuple(items[i] for i in ranked), price, tuple(sorted(spent.items())))
        return source, tuple(members[i] for i in ranked)

    def cluster(self, sources: Sequence[Source], most_moves: int | None) -> ConsolidationProblem:
        """What is searched in."""
        free = np.stack(self._free)
        capacity = np.stack([self._capacity(name) for name in self._resources])
        return ConsolidationProblem(
            free=free,
            shares=np.clip(free, 0, None) / np.maximum(capacity, 1),
            receives=self._policy.receives(self._trial.view)[self._order],
            sources=tuple(sources),
            budgets=tuple(self._left),
            most_moves=most_moves,
        )

    def _item(self, candidate: Candidate) -> Occupant:
        pod = candidate.pod
        replacement = self._emptying.replacement(pod)
        needs = [(self._resource(name), amount) for name, amount in self._trial.needs(replacement)]
        kind = self._trial.state.cluster.kind_of(replacement)
        bears, minds = self._marks_of(kind)
        return Occupant(
            needs=tuple(needs),
            size=sum(amount * self._weights[at] for at, amount in needs),
            allowed=lambda: self._allowed(candidate, replacement),
            bears=bears,
            minds=minds,
            spreads=tuple(self._spreads(pod, kind)),
        )

    def _resource(self, name: str) -> int:
        if name not in self._resources:
            self._resources[name] = len(self._resources)
            self._add(name)
        return self._resources[name]

    def _add(self, resource: str) -> None:
        free = self._free_of(resource)
        self._free.append(free)
        self._weights.append(1.0 / max(float(np.clip(free, 0, None).sum()), 1.0))

    def _free_of(self, resource: str) -> IntArray:
        state = self._trial.state
        allocatable, held = state.allocatable(resource), state.requested(resource)
        # A resource that devices stand behind is not counted where the node does not offer it itself.
        free = np.where(allocatable > 0, allocatable - held - self._trial.planned.departed(resource), _PLENTY)
        most = self._most_held.get(resource)
        if most is not None:
            free = np.minimum(free, most - held)
        ordered: IntArray = free[self._order]
        return ordered

    def _capacity(self, resource: str) -> IntArray:
        ordered: IntArray = np.where(
            self._free[self._resources[resource]] < _PLENTY // 2,
            self._trial.state.allocatable(resource)[self._order],
            _PLENTY,
        )
        return ordered

    def _allowed(self, candidate: Candidate, replacement: Pod) -> BoolArray:
        """Asked only of pods that the search would place, and once for pods that are alike."""
        pod = candidate.pod
        key = self._emptying.targets.kind(pod, replacement)
        known = self._masks.get(key)
        if known is None:
            found = self._emptying.targets.allowed(pod, replacement, candidate.policy)
            known = self._masks[key] = found[self._order]
            self._alive.extend((pod, replacement))  # keys hold identities: their objects must live as long
        return known

    def _marks_of(self, kind: PodClass) -> tuple[tuple[Mark, ...], tuple[Mark, ...]]:
        """What its pods bear, and what they mind: required anti-affinity of either side, host ports."""
        known = self._marks.get(kind)
        if known is not None:
            return known
        own = [(matcher_of(term, kind.namespace), term.topology_key) for term in kind.spec.pod_anti_affinity]
        about = [
            (term.key.matcher, term.key.topology_key)
            for term in self._trial.state.cluster.terms_about(kind)
            if term.key.kind is TermKind.REQUIRED_ANTI
        ]
        ports = [
            Mark(self._number((port.protocol or "TCP", port.port)), self._codes(None))
            for port in kind.spec.host_ports
        ]
        bears = (*self._terms("carries", own), *self._terms("matches", about), *ports)
        minds = (*self._terms("carries", about), *self._terms("matches", own), *ports)
        self._marks[kind] = bears, minds
        return bears, minds

    def _terms(self, side: str, terms: list[tuple[Matcher, str]]) -> Iterator[Mark]:
        for matcher, topology_key in terms:
            yield Mark(self._number((side, matcher, topology_key)), self._codes(topology_key))

    def _number(self, key: object) -> int:
        """A short name: keys are compared in the search very often."""
        return self._numbers.setdefault(key, len(self._numbers))

    def _codes(self, topology_key: str | None) -> IntArray:
        """The domain of each node; without a key each node is one."""
        key = topology_key or ""
        known = self._domains.get(key)
        if known is None:
            if topology_key is None:
                known = np.arange(len(self._order), dtype=np.int64)
            else:
                known = self._trial.view.nodes.column(topology_key).codes.astype(np.int64)[self._order]
            self._domains[key] = known
        return known

    def _spreads(self, pod: Pod, kind: PodClass) -> Iterator[Bound]:
        """Hard constraints: as long as pods stay in their domains, no count changes."""
        here = int(self._trial.view.nodes.ranks[self._trial.state.node_index[pod.node]])
        for constraint, selector in constraints_of(kind, self._trial.state.cluster, hard=True):
            domains = self._codes(constraint.topology_key)
            number = self._number((kind.namespace, selector, constraint.topology_key))
            yield Bound(number, domains, int(domains[here]))

    def _spent(self, candidate: Candidate) -> Iterator[int]:
        for budget, left in self._emptying.budgets.spent_by(candidate.pod, candidate.policy):
            if budget not in self._budgets:
                self._budgets[budget] = len(self._left)
                self._left.append(left)
            yield self._budgets[budget]
