"""Nodes to be emptied as numbers for ``consolidation``: what their pods need, where those may go, what must not meet.

What the numbers say is necessary, not sufficient: they are made of the scheduler's own answers at the moment of asking
(room, taints, affinity, ports, volumes: ``Targets.allowed``), and of what planned moves change for each other (room,
required anti-affinity, host ports, hard topology spread). Each pod that the search moves is judged again by all rules before
it is planned. Budgets are not looked at: what they do not allow at once goes later (``groups``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.conditions import PLENTY, Conditions
from rescheduler.planning.consolidation import consolidate
from rescheduler.planning.consolidation_problem import ConsolidationProblem, Occupant, Source
from rescheduler.planning.targets import Targets
from rescheduler.planning.trial import Trial
from rescheduler.policies.emptying import EmptyingPolicy
from rescheduler.policies.proposals import Candidate
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray


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

    def in_order(self, order: Sequence[int]) -> Chosen:
        """The same node, its members in another order."""
        members = tuple(self.members[i] for i in order)
        return Chosen(members, tuple(self.targets[i] for i in order), self.going)


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
        self._filling = policy.left(self._trial.view)
        self._claims: dict[object, int] = {}
        self._resources: dict[str, int] = {"pods": 0}
        self._limits: dict[str, int] = {}
        """Rows of resources of which pods take something else by the policy than they request."""
        self._conditions = Conditions(emptying.trial, emptying.targets, emptying.budgets, order)
        self._free: list[IntArray] = []
        self._capacities: list[IntArray] = []
        self._weights: list[float] = []
        """By resource: one unit as a share of what is free altogether."""
        self._add(self._free_of("pods"), "pods")
        for name, filling in self._filling.items():
            if filling.takes is not None:
                self._limits[name] = len(self._free)
                self._add(filling.left[order], name)

    def source(self, members: Sequence[Candidate]) -> tuple[Source, tuple[Candidate, ...]]:
        """The node of these candidates; and they in the order of its items, the largest first."""
        items = [self._item(one) for one in members]
        ranked = sorted(range(len(items)), key=lambda i: -items[i].size)
        node = self._trial.state.node_index[members[0].pod.node]
        worth = self._policy.worth(members, self._trial.view)
        at = int(self._trial.view.nodes.ranks[node])
        claims: list[object] = [*((at, part) for part in worth.parts), *(one.pod.uid for one in members)]
        source = Source(
            at,
            tuple(items[i] for i in ranked),
            worth.price,
            takes=None
            if worth.takes is None
            else tuple((self._resource(name), amount) for name, amount in worth.takes.items()),
            claims=tuple(self._claims.setdefault(claim, len(self._claims)) for claim in claims),
        )
        return source, tuple(members[i] for i in ranked)

    def cluster(self, sources: Sequence[Source], most_moves: int | None) -> ConsolidationProblem:
        """What is searched in."""
        free = np.stack(self._free)
        capacity = np.stack(self._capacities)
        return ConsolidationProblem(
            free=free,
            shares=np.clip(free, 0, None) / np.maximum(capacity, 1),
            receives=self._policy.receives(self._trial.view)[self._order],
            sources=tuple(sources),
            most_moves=most_moves,
        )

    def _item(self, candidate: Candidate) -> Occupant:
        pod = candidate.pod
        replacement = self._emptying.replacement(pod)
        needs = [(self._resource(name), amount) for name, amount in self._trial.needs(replacement)]
        for name, row in self._limits.items():
            takes = self._filling[name].takes
            if takes is not None and (amount := takes(replacement.spec)):
                needs.append((row, amount))
        kind = self._trial.state.cluster.kind_of(replacement)
        bears, minds = self._conditions.marks(kind)
        return Occupant(
            needs=tuple(needs),
            size=sum(amount * self._weights[at] for at, amount in needs),
            allowed=lambda: self._conditions.allowed(pod, replacement, candidate.policy),
            bears=bears,
            minds=minds,
            spreads=tuple(self._conditions.spreads(pod, kind)),
        )

    def _resource(self, name: str) -> int:
        if name not in self._resources:
            self._resources[name] = len(self._free)
            self._add(self._free_of(name), name)
        return self._resources[name]

    def _add(self, free: IntArray, resource: str) -> None:
        self._free.append(free)
        self._capacities.append(self._capacity(free, resource))
        self._weights.append(1.0 / max(float(np.clip(free, 0, None).sum()), 1.0))

    def _free_of(self, resource: str) -> IntArray:
        free = self._conditions.free(resource)
        filling = self._filling.get(resource)
        if filling is not None and filling.takes is None:
            free = np.minimum(free, filling.left[self._order])
        return free

    def _capacity(self, free: IntArray, resource: str) -> IntArray:
        held = self._trial.state.allocatable(resource)[self._order]
        ordered: IntArray = np.where(free < PLENTY // 2, held, PLENTY)
        return ordered
