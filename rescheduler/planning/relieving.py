"""Overloaded nodes as numbers for ``relieve``, and its moves one by one judged by all rules and planned.

What the numbers say is necessary, not sufficient (see ``conditions``). What the rules refuse stays, unless the pod goes elsewhere
when it is asked about by itself. Pods that ask to be left alone take no part in the search: the policy proposes them where
no others help.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.planning.conditions import Conditions
from rescheduler.planning.problem import MovablePod, SearchProblem, Strain
from rescheduler.planning.relieve import Relieve, strain
from rescheduler.planning.unfinished_plan import UnfinishedPlan
from rescheduler.policies.framework import Overload
from rescheduler.policies.low_node_utilization import LowNodeUtilization
from rescheduler.policies.proposals import Batch, Candidate, Proposals, reluctance
from rescheduler.scheduling.framework import BoolArray, IntArray

NODES_WITHIN_LIMITS: Final = 16
"""So many nodes, the worst ones, give the pods of a plan within limits."""
NODES_OF_ENDING_PLAN: Final = 256
"""A plan that ends after fewer moves than that has pods of so many nodes looked at; with more moves, of as many nodes."""
PODS: Final = 20_000
"""A search looks at no more pods of a node than its part of so many ..."""
LEAST_OF_NODE: Final = 8
"""... or at so many, if that is more."""


@dataclass(frozen=True, slots=True)
class Relieving:
    """Chooses pods and targets in one trial."""

    plan: UnfinishedPlan

    @property
    def _few(self) -> bool:
        """True: the plan is made within limits, of which a cycle uses up few moves. Then only the worst nodes are looked at."""
        return not self.plan.inputs.unlimited

    def run(self, policy: LowNodeUtilization, proposals: Proposals) -> None:
        """Plan what a search over all candidates finds."""
        overload = None if self.plan.limits.exhausted else policy.overload(self.plan.trial.view)
        if overload is None:
            return
        pods = self._taking_part(overload, proposals.queue().rest())
        problem = _Problem(self.plan, policy, overload, pods)
        for number, candidate in problem.moves(self.plan.limits.left, self.plan.inputs.passes):
            if self.plan.limits.exhausted:
                break
            if self.plan.limit(candidate) is not None:
                continue
            node = self.plan.move_to(policy, candidate, problem.places(number))
            if node is not None:
                problem.put(number, node)
                self.plan.take(candidate.pod)

    def _taking_part(self, overload: Overload, batches: Sequence[Batch]) -> list[tuple[Batch, Pod]]:
        """The pods that the search looks at, not all where there are very many."""
        nodes = self._nodes(overload)
        left = dict.fromkeys(nodes, max(LEAST_OF_NODE, PODS // max(len(nodes), 1)))
        willing = [batch for batch in batches if not reluctance(batch.kind)[0]]
        found: list[tuple[Batch, Pod]] = []
        # Of each node first those that are proposed to cover what it has too much of, then those that could help instead.
        for batch in sorted(willing, key=lambda batch: batch.spare):
            for pod in batch.pods:
                if left.get(pod.node, 0) > 0 and self._may_go(batch, pod):
                    left[pod.node] -= 1
                    found.append((batch, pod))
        return found

    def _may_go(self, batch: Batch, pod: Pod) -> bool:
        # What refuses most pods of a cluster in which much is wanting goes first.
        return (
            not self.plan.is_planned(pod)
            and self.plan.availability.refusal(pod, batch.policy) is None
            and self.plan.refusals.of_pod(pod, batch.policy, batch.gain, batch.tier) is None
            and self.plan.limits.refusal(pod) is None
        )

    def _nodes(self, overload: Overload) -> list[str]:
        """The nodes whose pods are looked at."""
        shares = strain(overload.above / np.maximum(overload.capacity, 1.0), np.array(overload.weights))
        number = int(np.count_nonzero(shares))
        worst = np.lexsort((self.plan.trial.view.nodes.ranks, -shares))
        left = number if self.plan.limits.left is None else max(NODES_OF_ENDING_PLAN, self.plan.limits.left)
        most = min(number, NODES_WITHIN_LIMITS if self._few else left)
        return [self.plan.trial.state.node_names[i] for i in worst[:most].tolist()]


class _Problem:
    """Everything in the order of the names of nodes and pods, so that the result does not depend on the order of reading."""

    def __init__(
        self,
        plan: UnfinishedPlan,
        policy: LowNodeUtilization,
        overload: Overload,
        pods: Sequence[tuple[Batch, Pod]],
    ) -> None:
        trial = plan.trial
        self._plan = plan
        self._policy = policy
        self._overload = overload
        self._view = trial.view
        self._order: IntArray = np.argsort(trial.view.nodes.ranks, kind="stable")
        self._conditions = Conditions(trial, plan.targets, plan.budgets, self._order, apart=True)
        keys = {id(pod): (reluctance(batch.kind), plan.refusals.disruption(pod)) for batch, pod in pods}
        ranks = {key: rank for rank, key in enumerate(sorted(set(keys.values())))}
        self._costs = {pod: 0.5 + 0.5 * ranks[key] / len(ranks) for pod, key in keys.items()}
        """By the identity of a pod, 0.5 to 1: of equal pods the least reluctant goes, then that whose move disrupts least."""
        by_name = sorted(pods, key=lambda one: (keys[id(one[1])], one[1].namespace, one[1].name))
        self._batches = _in_turn(by_name, keys)

    def moves(self, most_moves: int | None, passes: int) -> Iterator[tuple[int, Candidate]]:
        """Who goes, with a number, in an order in which each fits after those before it."""
        if not self._batches or not self._overload.receives.any():
            return
        order, overload, conditions = self._order, self._overload, self._conditions
        above, capacity = overload.above[:, order], overload.capacity[:, order]
        targets = [conditions.add_row(-some, most) for some, most in zip(above, capacity, strict=True)]
        pods = [self._movable(batch, pod, targets) for batch, pod in self._batches]
        problem = SearchProblem(
            free=conditions.free,
            whole=conditions.whole,
            pods=pods,
            receives=overload.receives[order],
            budgets=conditions.left,
            strain=Strain(above, capacity, overload.weights),
            fault=0.0,
            most_moves=most_moves,
        )
        operator = Relieve(problem, overload.least)
        ordered = operator.in_order(operator.search(passes))
        self._state = operator.state  # with all of them put
        for number in ordered:
            yield number, self._candidate(number)

    def places(self, number: int) -> IntArray:
        """Every node (an index) where it leaves room for all others that go; from now on it has none itself.

        The search looks at room only, so the one that it names need not be the best.
        """
        state = self._state
        state.remove(number)
        return self._order[np.flatnonzero(state.with_room(number, state.allowed(number)))]

    def put(self, number: int, node: int) -> None:
        """It goes to this node."""
        self._state.put(number, int(self._view.nodes.ranks[node]))

    def _candidate(self, number: int) -> Candidate:
        batch, pod = self._batches[number]
        return batch.candidate(pod)

    def _movable(self, batch: Batch, pod: Pod, targets: Sequence[int]) -> MovablePod:
        takes = self._policy.takes(pod, self._view)
        replacement = self._plan.replacements.coming(pod)
        objective = self._plan.objective
        replicas = objective.replicas(replacement) if objective.keeps_spread else {}
        return self._conditions.movable(
            pod,
            replacement,
            batch.policy,
            allowed=partial(_liked, self._conditions, pod, replacement, batch.policy),
            # What a pod takes beside what it requests brings no node above its target.
            more=tuple(zip(targets, takes, strict=True)),
            cost=self._costs[id(pod)],
            takes=takes,
            kept=self._conditions.kept(replacement.controller, replicas),
        )


def _in_turn(
    pods: Sequence[tuple[Batch, Pod]], keys: Mapping[int, tuple[object, ...]]
) -> list[tuple[Batch, Pod]]:
    """Of pods with equal keys first one that shares its node with most replicas of its controller, then one of another controller.

    Otherwise names would decide, and two replicas of one controller would meet on the emptiest node.
    """
    owners = [pod.controller or pod.uid for _, pod in pods]
    together = Counter((owner, pod.node) for owner, (_, pod) in zip(owners, pods, strict=True))
    turns: Counter[object] = Counter()
    ranks = []
    for owner, (_, pod) in zip(owners, pods, strict=True):
        ranks.append((*keys[id(pod)], -together[owner, pod.node], turns[owner]))
        together[owner, pod.node] -= 1
        turns[owner] += 1
    return [pods[i] for i in sorted(range(len(pods)), key=ranks.__getitem__)]


def _liked(conditions: Conditions, pod: Pod, replacement: Pod, policy: str) -> BoolArray:
    """Nodes that take the pod and that it likes no less than its own.

    Mostly others can relieve its node instead. Where none can, the pods are asked about one by one after the search, and may go anywhere.
    """
    allowed, liked = conditions.allowed(pod, replacement, policy), conditions.liked(pod, replacement)
    return allowed if liked is None else allowed & liked
