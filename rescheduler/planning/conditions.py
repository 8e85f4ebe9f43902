"""What a search asks of the scheduler's rules: what is free, which nodes take a pod, who may not meet whom.

Everything is in the order of the names of nodes, so that the result of a search does not depend on the order of reading.
The answers are necessary, not sufficient: they are the scheduler's own at the moment of asking (room, taints, affinity,
ports, volumes: ``Targets.allowed``), and what planned moves change for each other (required anti-affinity, host ports,
hard topology spread). Each pod that a search moves is judged again by all rules before it is planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

import numpy as np

from rescheduler.model.records import ObjectKey, Pod
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.placement_conflicts import Bound, Mark
from rescheduler.planning.targets import Targets
from rescheduler.planning.trial import Trial
from rescheduler.scheduling.classes import PodClass, TermKind
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.matching import Matcher, matcher_of
from rescheduler.scheduling.pod_topology_spread import constraints_of

PLENTY: Final = 2**62
"""What is free of a resource that a node does not count."""


class MindsMarks(Protocol):
    """A pod of a search."""

    @property
    def minds(self) -> tuple[Mark, ...]:
        """What keeps it away."""
        ...


class Conditions:
    """The answers of one moment."""

    def __init__(
        self, trial: Trial, targets: Targets, budgets: BudgetLedger, order: IntArray, *, apart: bool = False
    ) -> None:
        """``order``: the nodes by name. ``apart``: no node that a pod may leave takes any, so that is not asked for."""
        self._apart = apart
        self._trial = trial
        self._targets = targets
        self._budgets = budgets
        self._order = order
        self.left: list[int] = []
        """What is left of each budget that ``spent`` has named."""
        self._budget_numbers: dict[ObjectKey, int] = {}
        self._masks: dict[object, BoolArray] = {}
        self._domains: dict[str, IntArray] = {}
        self._single: dict[str, bool] = {}
        self._marks: dict[PodClass, tuple[tuple[Mark, ...], tuple[Mark, ...]]] = {}
        self._hard: dict[PodClass, list[tuple[int, IntArray]]] = {}
        self._alive: list[Pod] = []
        self._numbers: dict[object, int] = {}
        self._topologies: dict[int, str] = {}
        """Topology key of a mark by its number; "": each node is a domain."""

    def free(self, resource: str) -> IntArray:
        """How much of it the scheduler would still give on each node while planned moves' old pods hold their rooms."""
        state = self._trial.state
        allocatable, held = state.allocatable(resource), state.requested(resource)
        # A resource that devices stand behind is not counted where the node does not offer it itself.
        free = np.where(allocatable > 0, allocatable - held - self._trial.planned.departed(resource), PLENTY)
        ordered: IntArray = free[self._order]
        return ordered

    def allowed(self, pod: Pod, replacement: Pod, reason: str) -> BoolArray:
        """Nodes that would take it before any pod is moved. Costs much, so it is asked once for pods that are alike."""
        key = self._key(pod, replacement)
        known = self._masks.get(key)
        if known is None:
            found = self._targets.allowed(pod, replacement, reason)
            known = self._masks[key] = found[self._order]
            self._alive.extend((pod, replacement))  # keys hold identities: their objects must live as long
        return known

    def _key(self, pod: Pod, replacement: Pod) -> tuple[object, ...]:
        """The same for pods that all nodes treat alike: with ``apart`` those that leave the same domains, not only the same node."""
        if not self._apart:
            return self._targets.kind(pod, replacement)
        spec = replacement.spec
        near = [term.topology_key for term in spec.pod_affinity]
        near += [constraint.topology_key for constraint in spec.spread if constraint.hard]
        # What a pod keeps away from its own node says nothing of other nodes.
        far = [
            key
            for key in dict.fromkeys(
                term.topology_key for term in (*spec.pod_anti_affinity, *pod.spec.pod_anti_affinity)
            )
            if key not in near and not self._one_node_each(key)
        ]
        here = self._trial.state.node_index[pod.node]
        domains = tuple(self._trial.view.nodes.column(key).code_list[here] for key in (*near, *far))
        claims = pod.name if spec.volumes else ""
        elsewhere = self._trial.kind(pod)
        return pod.namespace, id(spec), id(pod.spec), id(replacement.labels), domains, claims, elsewhere

    def _one_node_each(self, topology_key: str) -> bool:
        """True if every domain has one node at most."""
        known = self._single.get(topology_key)
        if known is None:
            column = self._trial.view.nodes.column(topology_key)
            known = self._single[topology_key] = len(column.values) == int(column.present.sum())
        return known

    def marks(self, kind: PodClass) -> tuple[tuple[Mark, ...], tuple[Mark, ...]]:
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
        ports = [self._mark((port.protocol or "TCP", port.port), "") for port in kind.spec.host_ports]
        bears = (*self._terms("carries", own), *self._terms("matches", about), *ports)
        minds = (*self._terms("carries", about), *self._terms("matches", own), *ports)
        self._marks[kind] = bears, minds
        return bears, minds

    def standing(self, pods: Iterable[MindsMarks]) -> Mapping[tuple[int, int], int]:
        """By number of a mark and domain, how many pods bear it there now: of the marks that any of these pods minds."""
        minded = {mark.key for pod in pods for mark in pod.minds}
        nodes, found = self._trial.view.nodes, Counter[tuple[int, int]]()
        places: IntArray = np.full(nodes.size, -1, dtype=np.int64)
        places[self._order] = np.arange(len(self._order))
        for kind in self._trial.state.cluster.classes if minded else ():
            for mark in self.marks(kind)[0]:
                if mark.key in minded:
                    # Nodes that take no part are in domains of those that do.
                    key = self._topologies[mark.key]
                    domains = nodes.column(key).codes[kind.where] if key else places[kind.where]
                    found.update((mark.key, domain) for domain in domains.tolist() if domain >= 0)
        return found

    def _terms(self, side: str, terms: list[tuple[Matcher, str]]) -> Iterator[Mark]:
        for matcher, topology_key in terms:
            yield self._mark((side, matcher, topology_key), topology_key)

    def _mark(self, key: object, topology_key: str) -> Mark:
        number = self._number(key)
        self._topologies[number] = topology_key
        return Mark(number, self._codes(topology_key))

    def _number(self, key: object) -> int:
        """A short name: keys are compared in the search very often."""
        return self._numbers.setdefault(key, len(self._numbers))

    def _codes(self, topology_key: str) -> IntArray:
        """The domain of each node; without a key each node is one."""
        known = self._domains.get(topology_key)
        if known is None:
            if not topology_key:
                known = np.arange(len(self._order), dtype=np.int64)
            else:
                known = self._trial.view.nodes.column(topology_key).codes.astype(np.int64)[self._order]
            self._domains[topology_key] = known
        return known

    def spreads(self, pod: Pod, kind: PodClass) -> Iterator[Bound]:
        """Hard constraints: as long as pods stay in their domains, no count changes."""
        known = self._hard.get(kind)
        if known is None:
            hard = constraints_of(kind, self._trial.state.cluster, hard=True)
            keys = [(one.topology_key, selector) for one, selector in hard]
            known = self._hard[kind] = [
                (self._number((kind.namespace, selector, key)), self._codes(key)) for key, selector in keys
            ]
        if known:
            here = int(self._trial.view.nodes.ranks[self._trial.state.node_index[pod.node]])
            for number, domains in known:
                yield Bound(number, domains, int(domains[here]))

    def spent(self, pod: Pod, policy: str) -> Iterator[int]:
        """The numbers of the PodDisruptionBudgets of which a move of the pod takes one."""
        for budget, left in self._budgets.spent_by(pod, policy):
            if budget not in self._budget_numbers:
                self._budget_numbers[budget] = len(self.left)
                self.left.append(left)
            yield self._budget_numbers[budget]
