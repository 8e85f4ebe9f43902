"""The cluster as numbers for a search: what is free, which nodes take a pod, who may not meet whom.

Everything is in the order of the names of nodes, so that the result of a search does not depend on the order of reading.
The answers are necessary, not sufficient: they are the scheduler's own at the moment of asking (room, taints, affinity,
ports, volumes: ``Targets.allowed``), and what planned moves change for each other (required anti-affinity, host ports,
hard topology spread). Each pod that a search moves is judged again by all rules before it is planned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from rescheduler.model.names import ZONE
from rescheduler.model.records import ObjectKey, OwnerRef, Pod, SpreadConstraint
from rescheduler.model.selectors import LabelSelector
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.problem import Amounts, Mark, MovablePod, Spread
from rescheduler.planning.targets import Targets
from rescheduler.planning.trial import Trial
from rescheduler.policies.spread_groups import Domains
from rescheduler.scheduling.classes import PodClass, TermKind
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray
from rescheduler.scheduling.matching import Matcher, NamespaceScope, matcher_of
from rescheduler.scheduling.node_affinity import preferred_weights
from rescheduler.scheduling.pod_topology_spread import constraints_of
from rescheduler.scheduling.taint_toleration import untolerated_wishes

PLENTY: Final = 2**62
"""What is free of a resource that a node does not count."""


class Conditions:
    """The numbers of one moment. Rows are those of the resources that were named so far."""

    def __init__(
        self,
        trial: Trial,
        targets: Targets,
        budgets: BudgetLedger | None,
        order: IntArray,
        *,
        apart: bool = False,
        others: bool = False,
    ) -> None:
        """``budgets`` None: they are not looked at. ``order``: the nodes by name.

        ``apart``: no node that a pod may leave takes any, so that is not asked for.
        ``others``: pods are counted that constraints of others count, and that are not bound by them.
        """
        self._others = others
        self._apart = apart
        self._trial = trial
        self._targets = targets
        self._budgets = budgets
        self._order = order
        self.places: IntArray = np.full(trial.state.nodes.size, -1, dtype=np.int64)
        """By node, its place in the order; -1: it takes no part."""
        self.places[order] = np.arange(len(order))
        self.left: list[int] = []
        """What is left of each budget of the pods so far."""
        self._budget_numbers: dict[ObjectKey, int] = {}
        self._masks: dict[object, BoolArray] = {}
        self._domains: dict[str, IntArray] = {}
        self._marks: dict[PodClass, tuple[tuple[Mark, ...], tuple[Mark, ...]]] = {}
        self._hard: dict[PodClass, tuple[Spread, ...]] = {}
        self._spreads: dict[object, Spread] = {}
        self._kept: dict[OwnerRef | None, tuple[Spread, ...]] = {}
        self._selected: list[tuple[str, LabelSelector, Spread]] = []
        """Whom each of them counts."""
        self._counts: dict[PodClass, tuple[Spread, ...]] = {}
        self._rows: dict[str, int] = {}
        self._free: list[IntArray] = []
        self._whole: list[IntArray] = []
        self._needs: dict[PodClass, Amounts] = {}
        self._alive: list[Pod] = []
        self._numbers: dict[object, int] = {}
        self._topologies: dict[int, str] = {}
        """Topology key of a mark by its number; "": each node is a domain."""

    @property
    def free(self) -> FloatArray:
        """What may still come, by row: of each resource that was named so far. Shape (rows, nodes)."""
        return np.vstack([np.zeros((0, len(self._order))), *self._free])

    @property
    def whole(self) -> FloatArray:
        """What each node can hold of each row."""
        return np.vstack([np.zeros((0, len(self._order))), *self._whole])

    @property
    def zones(self) -> IntArray:
        """The zone of each node; below 0: it has none."""
        return self._codes(ZONE)

    def row(self, resource: str) -> int:
        """The row of a resource."""
        known = self._rows.get(resource)
        if known is None:
            free = self.free_of(resource)
            held = self._trial.state.allocatable(resource)[self._order]
            known = self._rows[resource] = self.add_row(free, np.where(free < PLENTY // 2, held, PLENTY))
        return known

    def limit(self, resource: str, left: IntArray) -> None:
        """No more than so much of it may come to each node."""
        row = self.row(resource)
        self._free[row] = np.minimum(self._free[row], left[self._order])

    def add_row(self, free: IntArray, whole: IntArray) -> int:
        """Another row: what may still come of it, and what nodes can hold."""
        self._free.append(free)
        self._whole.append(whole)
        return len(self._free) - 1

    def needs(self, replacement: Pod, kind: PodClass) -> Amounts:
        """What a node must have free for it."""
        known = self._needs.get(kind)
        if known is None:
            needs = self._trial.needs(replacement)
            known = self._needs[kind] = tuple((self.row(name), float(amount)) for name, amount in needs)
        return known

    def movable(
        self,
        pod: Pod,
        replacement: Pod,
        policy: str,
        *,
        allowed: Callable[[], BoolArray] | None = None,
        more: Amounts = (),
        cost: float = 1.0,
        takes: Sequence[float] = (),
        kept: tuple[Spread, ...] = (),
    ) -> MovablePod:
        """A pod that ``policy`` may move. ``more``: what it needs besides. ``allowed``: in place of that of this moment. ``kept``: spreads besides those that it demands."""
        kind = self._trial.view.cluster.kind_of(replacement)
        bears, minds = self.marks(kind)
        spreads = (*self.spreads(kind), *kept)
        return MovablePod(
            source=int(self.places[self._trial.state.node_index[pod.node]]) if pod.node else -1,
            needs=(*self.needs(replacement, kind), *more),
            allowed=allowed or (lambda: self.allowed(pod, replacement, policy)),
            cost=cost,
            takes=takes,
            bears=bears,
            minds=minds,
            spreads=spreads,
            counted=self._counted(kind, spreads),
            budgets=tuple(self._spent(pod, policy)) if pod.node else (),
        )

    def free_of(self, resource: str) -> IntArray:
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

    def liked(self, pod: Pod, replacement: Pod) -> BoolArray | None:
        """Nodes with no more untolerated PreferNoSchedule taints and no less preferred node affinity than its own; None: all."""
        nodes, spec = self._trial.view.nodes, replacement.spec
        here = nodes.index[pod.node]
        found: BoolArray | None = None
        disliked = untolerated_wishes(spec.tolerations, nodes)
        if disliked.any():
            found = disliked <= disliked[here]
        if spec.node_affinity_preferred:
            weights = preferred_weights(spec.node_affinity_preferred, nodes)
            found = weights >= weights[here] if found is None else found & (weights >= weights[here])
        return None if found is None else found[self._order]

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
            if key not in near and not self._trial.view.nodes.column(key).distinct
        ]
        here = self._trial.state.node_index[pod.node]
        domains = tuple(self._trial.view.nodes.column(key).code_list[here] for key in (*near, *far))
        claims = pod.name if spec.volumes else ""
        elsewhere = self._trial.kind(pod)
        return pod.namespace, id(spec), id(pod.spec), id(replacement.labels), domains, claims, elsewhere

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

    def standing(self, pods: Iterable[MovablePod]) -> Mapping[tuple[int, int], int]:
        """By number of a mark and domain, how many pods bear it there now: of the marks that any of these pods minds."""
        minded = {mark.key for pod in pods for mark in pod.minds}
        nodes, places, found = self._trial.view.nodes, self.places, Counter[tuple[int, int]]()
        for kind in self._trial.state.cluster.classes if minded else ():
            for mark in self.marks(kind)[0]:
                if mark.key in minded:
                    # Nodes that take no part are in domains of those that do.
                    key = self._topologies[mark.key]
                    domains = nodes.column(key).codes[kind.where] if key else places[kind.where]
                    found.update((mark.key, domain) for domain in domains.tolist() if domain >= 0)
        return found

    def _terms(self, side: str, terms: list[tuple[Matcher, str]]) -> Iterable[Mark]:
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

    def spreads(self, kind: PodClass) -> tuple[Spread, ...]:
        """Hard constraints that count the pod itself; the others are met or not by where others stand."""
        known = self._hard.get(kind)
        if known is None:
            hard = constraints_of(kind, self._trial.state.cluster, hard=True)
            own = (
                (one, by) for one, by in hard if by is not None and not by.empty and by.matches(kind.labels)
            )
            known = self._hard[kind] = tuple(self._spread(kind, *one) for one in own)
        return known

    def kept(self, owner: OwnerRef | None, replicas: Mapping[int, int]) -> tuple[Spread, ...]:
        """The spread over zones that the replicas of a controller have, as a constraint that it must not get worse.

        ``replicas``: how many are on each node. None in one zone, where there is nothing to lose.
        """
        known = self._kept.get(owner)
        if known is None:
            codes, counts = self._trial.view.nodes.column(ZONE).code_list, Counter[int]()
            for node, number in replicas.items():
                counts[codes[node]] += number
            valid = np.flatnonzero(np.bincount(self.zones[self.zones >= 0])).tolist()
            each = [counts[zone] for zone in range(max(valid, default=-1) + 1)]
            skew = max(each, default=0) - min((each[zone] for zone in valid), default=0)
            spread = (Spread(self.zones, each, valid, max(1, skew)),)
            known = self._kept[owner] = spread if sum(map(bool, each)) > 1 else ()
        return known

    def _counted(self, kind: PodClass, own: Collection[Spread]) -> tuple[Spread, ...]:
        """Of the constraints that were named so far those of others that count its pods."""
        known = self._counts.get(kind)
        if known is None:
            found = (
                one
                for namespace, selector, one in self._selected
                if one not in own and namespace == kind.namespace and selector.matches(kind.labels)
            )
            known = self._counts[kind] = tuple(found)
        return known

    def _spread(self, kind: PodClass, constraint: SpreadConstraint, selector: LabelSelector) -> Spread:
        domains = Domains.of(kind.spec, constraint, self._trial.view.nodes)
        key = kind.namespace, constraint, selector, domains.digest
        known = self._spreads.get(key)
        if known is None:
            matcher = Matcher(NamespaceScope(frozenset((kind.namespace,))), selector)
            known = self._spreads[key] = Spread(
                domains=domains.codes[self._order].astype(np.int64),
                counts=domains.counts(self._trial.view.cluster.group((matcher,), living=True)).tolist(),
                valid=np.flatnonzero(domains.valid).tolist(),
                max_skew=constraint.max_skew,
            )
            if self._others:
                self._selected.append((kind.namespace, selector, known))
        return known

    def _spent(self, pod: Pod, policy: str) -> Iterable[int]:
        """The numbers of the PodDisruptionBudgets of which a move of the pod takes one."""
        for budget, left in self._budgets.spent_by(pod, policy) if self._budgets is not None else ():
            if budget not in self._budget_numbers:
                self._budget_numbers[budget] = len(self.left)
                self.left.append(left)
            yield self._budget_numbers[budget]
