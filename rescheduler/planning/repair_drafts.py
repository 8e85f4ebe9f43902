"""Badly placed pods as numbers for ``repairing``, and what it finds as a draft that the planner follows.

Only faults of rules take part (``Tier.HARD``): wishes, balance and emptying are planned one by one. What the numbers say is
necessary, not sufficient; each move of the draft is judged by all rules when it is planned, and where they refuse one, its pod is
planned like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Pod
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.conditions import Conditions
from rescheduler.planning.placement_conflicts import Mark
from rescheduler.planning.refusals import Refusals
from rescheduler.planning.repairing import MovablePod, RepairProblem, repairs
from rescheduler.planning.staged_spread import Spread
from rescheduler.planning.steps import FirstProposals
from rescheduler.planning.targets import Targets
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import Policy
from rescheduler.policies.making_room import RoomMakingPolicy
from rescheduler.policies.objective import Tier, worsens_wishes
from rescheduler.policies.proposals import Candidate
from rescheduler.policies.spread_counts import domain_counts, self_matches
from rescheduler.policies.topology_spread import TopologySpread
from rescheduler.scheduling.framework import BoolArray, IntArray

MOST_PODS: Final = 300
"""Badly placed pods; where there are more, the first ones take part."""


class DraftedMove(NamedTuple):
    """A badly placed pod and the node (an index) that it is to go to."""

    policy: Policy
    candidate: Candidate
    node: int


class RepairDraft(NamedTuple):
    """Which badly placed pods are to go where, in this order, and who steps aside for them."""

    moves: tuple[DraftedMove, ...] = ()
    aside: tuple[tuple[Pod, int], ...] = ()
    """Pods that leave their nodes for others, with the nodes (indices) that they go to."""


@dataclass(frozen=True, slots=True)
class RepairDrafts:
    """Drafts repairs in a trial in which nothing is planned."""

    trial: Trial
    targets: Targets
    objective: Objective
    refusals: Refusals
    budgets: BudgetLedger
    replacement: Callable[[Pod], Pod]
    passes: int

    def draft(self, policies: Sequence[Policy], asked: Sequence[FirstProposals]) -> RepairDraft:
        """What a search over all badly placed pods finds. ``asked``: what each policy proposes; its spares are left out.

        A spare leaves in the place of one that has none: the search finds a place for that one itself, with fewer moves.
        """
        problem = _Problem(self, list(self._wanting(policies, asked)))
        return problem.draft(self.passes)

    def _wanting(
        self, policies: Sequence[Policy], asked: Sequence[FirstProposals]
    ) -> Iterator[tuple[Policy, Candidate]]:
        known: set[str] = set()
        for policy, answer in zip(policies, asked, strict=True):
            if isinstance(policy, RoomMakingPolicy) or answer.found.grouped:
                continue
            for candidate in answer.found.queue():
                uid = candidate.pod.uid
                if candidate.spare or candidate.tier is not Tier.HARD or uid in known:
                    continue
                if self.refusals.of(candidate) is None:
                    known.add(uid)
                    yield policy, candidate
                    if len(known) == MOST_PODS:
                        return


class _Problem:
    """Everything in the order of the names of nodes and pods, so that the result does not depend on the order of reading."""

    def __init__(self, drafts: RepairDrafts, wanting: Sequence[tuple[Policy, Candidate]]) -> None:
        self._drafts = drafts
        self._trial = trial = drafts.trial
        self._ranks = trial.view.nodes.ranks
        self._order: IntArray = np.argsort(self._ranks, kind="stable")
        self._conditions = Conditions(trial, drafts.targets, drafts.budgets, self._order)
        self._wanting = {candidate.pod.uid: (policy, candidate) for policy, candidate in wanting}
        self._spreads: dict[object, Spread] = {}
        self._owners: dict[str, int] = {}
        self._masks: dict[object, BoolArray] = {}
        self._alive: list[Pod] = []

    def draft(self, passes: int) -> RepairDraft:
        """The moves of the best solution."""
        gains = {uid: self._repairs(policy, candidate) for uid, (policy, candidate) in self._wanting.items()}
        wished = {
            self._trial.state.node_names[self._order[node]] for found in gains.values() for node in found
        }
        pods = [
            pod
            for name in sorted(wished | {candidate.pod.node for _, candidate in self._wanting.values()})
            for pod in sorted(self._trial.state.pods_on(name), key=lambda pod: pod.key)
            if gains.get(pod.uid) or (name in wished and self._may_step_aside(pod))
        ]
        if not wished:
            return RepairDraft()
        names = sorted({name for pod in pods for name, _ in self._trial.needs(self._drafts.replacement(pod))})
        problem = RepairProblem(
            free=np.vstack([self._conditions.free(name) for name in names]),
            pods=[self._occupant(pod, names, gains.get(pod.uid, {})) for pod in pods],
            standing=list(self._standing()),
            budgets=self._conditions.left,
        )
        moves: list[DraftedMove] = []
        aside: list[tuple[Pod, int]] = []
        for one in repairs(problem, passes):
            pod, node = pods[one.pod], int(self._order[one.node])
            if one.repairs:
                moves.append(DraftedMove(*self._wanting[pod.uid], node))
            else:
                aside.append((pod, node))
        return RepairDraft(tuple(moves), tuple(aside))

    def _repairs(self, policy: Policy, candidate: Candidate) -> dict[int, float]:
        pod, replacement = candidate.pod, self._drafts.replacement(candidate.pod)
        gains = policy.gains(candidate, self._trial.view)
        falls = -self._drafts.objective.change(pod, replacement).total[Tier.HARD]
        better = (gains > 0) & (falls > 0) & self._static(pod, replacement)
        better[self._trial.state.node_index[pod.node]] = False
        return {int(self._ranks[node]): float(falls[node]) for node in np.flatnonzero(better).tolist()}

    def _may_step_aside(self, pod: Pod) -> bool:
        # Who asks to be moved does not matter for what may hold it back.
        return not belongs_to_node(pod) and self._trial.view.movable(pod)

    def _static(self, pod: Pod, replacement: Pod) -> BoolArray:
        """Nodes that would take it, as far as other pods are not concerned."""
        key = (
            pod.namespace,
            id(replacement.spec),
            id(replacement.labels),
            pod.name if replacement.spec.volumes else "",
            self._trial.kind(pod),
        )
        known = self._masks.get(key)
        if known is None:
            with self._trial.without(pod):
                result = self._trial.state.filter(replacement)
                known = result.feasible & self._trial.view.nodes.usable | self._trial.kept_out_by_pods(
                    replacement
                )
            elsewhere = self._trial.elsewhere(pod, replacement)
            if elsewhere is not None:
                known &= elsewhere
            self._masks[key] = known
            self._alive.append(replacement)  # keys hold identities: their objects must live as long
        return known

    def _occupant(self, pod: Pod, names: Sequence[str], gains: dict[int, float]) -> MovablePod:
        replacement, trial = self._drafts.replacement(pod), self._trial
        needs = dict(trial.needs(replacement))
        kind = trial.view.cluster.kind_of(replacement)
        bears, minds = self._conditions.marks(kind)
        owner = pod.controller.uid if pod.controller is not None else ""
        policy = self._wanting[pod.uid][0].name if pod.uid in self._wanting else ""
        return MovablePod(
            source=int(self._ranks[trial.state.node_index[pod.node]]),
            needs=tuple(needs.get(name, 0) for name in names),
            holds=tuple(1 if name == "pods" else pod.held.amount(name) for name in names),
            places=self._places(pod, replacement),
            repairs=gains,
            owner=self._owners.setdefault(owner, len(self._owners)) if owner else -1,
            bears=bears,
            minds=minds,
            spreads=tuple(self._spreads_of(pod, replacement)),
            excess=policy == TopologySpread.name,
            budgets=tuple(self._conditions.spent(pod, policy)),
        )

    def _places(self, pod: Pod, replacement: Pod) -> Callable[[], BoolArray]:
        known: list[BoolArray] = []

        def places() -> BoolArray:
            if not known:
                change = self._drafts.objective.change(pod, replacement).total
                known.append((self._static(pod, replacement) & ~worsens_wishes(change))[self._order])
            return known[0]

        return places

    def _spreads_of(self, pod: Pod, replacement: Pod) -> Iterator[Spread]:
        view = self._trial.view
        for constraint in replacement.spec.spread:
            if not constraint.hard or not self_matches(replacement.labels, constraint):
                continue
            key = pod.namespace, constraint, replacement.labels
            found = self._spreads.get(key)
            if found is None:
                counts = domain_counts(pod.namespace, replacement.spec, replacement.labels, constraint, view)
                found = self._spreads[key] = Spread(
                    domains=counts.codes[self._order].tolist(),
                    counts=counts.counts.tolist(),
                    valid=np.flatnonzero(counts.valid).tolist(),
                    max_skew=constraint.max_skew,
                )
            yield found

    def _standing(self) -> Iterator[tuple[Mark, int]]:
        for kind in self._trial.state.cluster.classes:
            bears, _ = self._conditions.marks(kind)
            for mark in bears:
                for node in kind.nodes:
                    yield mark, int(self._ranks[node])
