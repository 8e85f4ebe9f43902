"""Nodes to be emptied as numbers for ``empty``: what their pods need, where those may go, what must not meet.

What the numbers say is necessary, not sufficient: they are made of the scheduler's own answers at the moment of asking
(room, taints, affinity, ports, volumes: ``Targets.allowed``), and of what planned moves change for each other (room,
required anti-affinity, host ports, hard topology spread). Each pod that the search moves is judged again by all rules before
it is planned. Budgets are not looked at: what they do not allow at once goes later (``groups``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from rescheduler.model.records import OwnerRef, Pod, PodSpec, Toleration
from rescheduler.planning.conditions import Conditions
from rescheduler.planning.empty import Empty
from rescheduler.planning.problem import MovablePod, Replicas, SearchProblem, Source
from rescheduler.planning.replicas_apart import kept_apart
from rescheduler.planning.unfinished_plan import UnfinishedPlan, Wanted
from rescheduler.policies.framework import EmptyingPolicy
from rescheduler.policies.proposals import Candidate
from rescheduler.policies.workload_spread import most_together
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.taint_toleration import hard_taints_tolerated


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


def nodes_to_empty(
    plan: UnfinishedPlan, policy: EmptyingPolicy, groups: Sequence[Sequence[Candidate]]
) -> list[Chosen]:
    """Which of the nodes are emptied together within the limits, the fewest pods for their price first.

    ``groups``: the candidates of each node, none of which is known to be refused.
    """
    if not groups:
        return []
    problem = _Problem(plan, policy)
    sources = [problem.source(members) for members in groups]
    operator = Empty(problem.problem(sources, plan.limits.left))
    found = operator.search(plan.inputs.passes)
    found = kept_apart(operator, found, plan.inputs.passes)
    emptied = sorted(found.emptied, key=lambda number: len(groups[number]) / sources[number].price)
    order = problem.order
    going = np.zeros(len(order), dtype=np.bool_)
    going[[order[sources[number].node] for number in emptied]] = True
    chosen: list[Chosen] = []
    for number in emptied:
        members = dict(zip(sources[number].pods, groups[number], strict=True))
        pods = operator.members[number]
        targets = tuple(int(order[found.ways[pod].node]) for pod in pods)
        chosen.append(Chosen(tuple(members[pod] for pod in pods), targets, going))
    return chosen


class _Problem:
    """Everything in the order of the names of nodes, so that the result does not depend on the order of reading."""

    def __init__(self, plan: UnfinishedPlan, policy: EmptyingPolicy) -> None:
        self._plan = plan
        self._trial = plan.trial
        self._policy = policy
        self.order: IntArray = np.argsort(self._trial.view.nodes.ranks, kind="stable")
        self._claims: dict[object, int] = {}
        self._conditions = Conditions(plan.trial, plan.targets, None, self.order)
        self._limits: list[tuple[int, Callable[[PodSpec], int]]] = []
        """Rows of resources of which pods take something else by the policy than they request."""
        for name, filling in policy.left(self._trial.view).items():
            if filling.takes is None:
                self._conditions.limit(name, filling.left)
            else:
                whole = self._trial.state.allocatable(name)[self.order]
                self._limits.append(
                    (self._conditions.add_row(filling.left[self.order], whole), filling.takes)
                )
        self._pods: list[MovablePod] = []
        self._numbers: dict[str, int] = {}
        """By uid of a pod, which of these it is."""
        self._tolerations: set[tuple[Toleration, ...]] = set()
        self._replicas: dict[OwnerRef, Replicas] = {}

    def source(self, members: Sequence[Candidate]) -> Source:
        """The node of these candidates."""
        node = self._trial.state.node_index[members[0].pod.node]
        worth = self._policy.worth(members, self._trial.view)
        at = int(self._trial.view.nodes.ranks[node])
        claims: list[object] = [*((at, part) for part in worth.parts), *(one.pod.uid for one in members)]
        return Source(
            at,
            tuple(self._number(one) for one in members),
            worth.price,
            takes=None
            if worth.takes is None
            else tuple((self._conditions.row(name), float(some)) for name, some in worth.takes.items()),
            claims=tuple(self._claims.setdefault(claim, len(self._claims)) for claim in claims),
        )

    def problem(self, sources: Sequence[Source], most_moves: int | None) -> SearchProblem:
        """What is searched in. Nodes whose taints none of the pods tolerates receive nothing, so what is free there is no room."""
        view = self._trial.view
        tolerated = [hard_taints_tolerated(some, view.nodes) for some in self._tolerations]
        receives = self._policy.receives(view) & np.logical_or.reduce(tolerated)
        return SearchProblem(
            free=self._conditions.free,
            whole=self._conditions.whole,
            pods=self._pods,
            receives=receives[self.order],
            sources=sources,
            fault=0.0,
            most_moves=most_moves,
        )

    def _number(self, candidate: Candidate) -> int:
        pod = candidate.pod
        known = self._numbers.get(pod.uid)
        if known is None:
            known = self._numbers[pod.uid] = len(self._pods)
            replacement = self._plan.replacements.coming(pod)
            self._tolerations.add(replacement.spec.tolerations)
            more = ((row, takes(replacement.spec)) for row, takes in self._limits)
            movable = self._conditions.movable(
                pod, replacement, candidate.policy, more=tuple((row, some) for row, some in more if some)
            )
            liked, replicas = self._conditions.liked(pod, replacement), self._replicas_of(replacement)
            self._pods.append(replace(movable, liked=liked, replicas=replicas))
        return known

    def _replicas_of(self, replacement: Pod) -> Replicas | None:
        objective, owner = self._plan.objective, replacement.controller
        counts = objective.replicas(replacement)
        if owner is None or not counts:
            return None
        if owner not in self._replicas:
            places, number = self._conditions.places, sum(counts.values())
            by_node = {int(places[node]): some for node, some in counts.items()}
            most = most_together(number) if objective.keeps_spread else 0
            self._replicas[owner] = Replicas(by_node, self._conditions.zones, most)
        return self._replicas[owner]
