"""The plan while it is made: what judges its moves, and the moves so far. Every search of the decision is handed it.

A move is planned only by ``move``, ``move_to`` and ``put``, and taken back only by ``undo``: they keep trial, budgets and limits in step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rescheduler.model.migration import MoveMode
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.availability import AvailabilityLedger, OwnedPods
from rescheduler.planning.budgets import BudgetLedger, LimitLedger
from rescheduler.planning.history import History
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import Blocked
from rescheduler.planning.protections import Protectors
from rescheduler.planning.refusals import Refusals
from rescheduler.planning.skipped import SkippedPods
from rescheduler.planning.start_first_mode import StartFirst
from rescheduler.planning.steps import PlannedStep, record_of
from rescheduler.planning.targets import Target, Targets, TargetWish
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.planning.views import Movable, Views
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.objective import worsens_wishes
from rescheduler.policies.proposals import Batch, Candidate
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray
from rescheduler.scheduling.state import SchedulingState


class Wanted(NamedTuple):
    """Where one pod is to go."""

    node: int
    going: BoolArray
    """Nodes that are to be emptied as well."""

    def others(self, gains: FloatArray) -> FloatArray:
        """Gains of the nodes to take where the rules do not allow that node."""
        return np.where(self.going, 0.0, gains)


class UnfinishedPlan:
    """What judges the moves of one decision, and those planned."""

    skipped: SkippedPods

    def __init__(
        self, snapshot: Snapshot, policies: Sequence[Policy], inputs: PlanningInputs, state: SchedulingState
    ) -> None:
        self.snapshot = snapshot
        self.inputs = inputs
        self.history = History(snapshot)
        owned = OwnedPods(state)
        self.replacements = Replacements(snapshot, alike=owned.alike)
        self._start_first = StartFirst(snapshot, inputs.mode, inputs.modes)
        self.budgets = budgets = BudgetLedger(
            snapshot, inputs.limits.budget_buffer, self._start_first.keeps_budgets
        )
        self.limits = LimitLedger(
            snapshot,
            inputs.limits,
            unlimited=inputs.unlimited,
            max_moves=inputs.max_moves,
            this_hour=self.history.begun_within_hour(),
        )
        self.availability = AvailabilityLedger(
            snapshot,
            owned,
            covered=lambda pod: bool(budgets.of(pod)),
            starts_first=self._start_first.takes,
            leaving=self.history.moving - self.history.starting_first.keys(),
            unlimited=inputs.unlimited,
        )
        protectors = Protectors(
            self.replacements,
            inputs.protections,
            inputs.profiles,
            covered=lambda pod: bool(budgets.of(pod)),
            judges=state.profile.judges,
        )
        self.hypothetical: set[str] = set()
        self.refusals = Refusals(snapshot, inputs, self.history, protectors, self.budgets)
        self.views = Views(
            replace(PolicyView.of(snapshot, state), disruption=self.refusals.disruption),
            policies,
            protectors,
            lambda some: Movable(state, self.history, some, self.hypothetical),
            inputs.echoes,
        )
        self.view = self.views.any
        at_once, namespace = not inputs.unlimited, inputs.namespace
        self.trial = Trial(snapshot, self.view, self.hypothetical, at_once=at_once, namespace=namespace)
        self.targets = Targets(self.trial, told=True)
        self.objective = Objective(self.views.counting(policies), self.view)
        self.steps: list[PlannedStep] = []
        self._moved: dict[str, PlannedStep] = {}
        """The same by uid of the pod."""
        self._counted: set[str] = set()
        """Uids of those whose moves the limits count."""
        self.forget_answers()

    def end(self) -> None:
        """Its parts refer to one another, and kept answers to their view: without this they wait for the garbage collector."""
        self.views.end()
        vars(self).clear()

    def forget_answers(self) -> None:
        """Of why pods are skipped, and of where none of a class fits: moves may change them."""
        self.targets.forget()
        self.skipped = SkippedPods(self._why_left, self.hypothetical, self._moved.keys())

    def _why_left(self, batch: Batch, pods: Sequence[Pod]) -> list[tuple[Blocked, Sequence[Pod]]]:
        """Why pods of a batch are skipped once nothing more may be moved: these for that reason."""
        found = [(why or self.limits.full, some) for why, some in self.refusals.of_many(batch, pods)]
        return [(why, some) for why, some in found if why is not None]

    def limit(self, candidate: Candidate, *, follows: bool = False) -> Blocked | None:
        """Which of our own limits the move would pass, or None. ``follows``: it begins after another move of the plan."""
        pod = candidate.pod
        return self.limits.refusal(pod, follows=follows) or self.availability.refusal(pod, candidate.policy)

    def take(self, pod: Pod) -> None:
        """Spend what the limits count of its planned move."""
        step = self._moved[pod.uid]
        self.limits.take(pod, follows=bool(step.after))
        self.availability.take(pod, step.move.policy)
        self._counted.add(pod.uid)

    def find(self, policy: Policy, candidate: Candidate, wanted: Wanted | None = None) -> Target | Blocked:
        """A target, or why there is none; ``wanted``: where it is to go, if the rules allow it."""
        pod, replacement = candidate.pod, self.replacements.coming(candidate.pod)
        unadopted = self._start_first.unadopted(pod, candidate.policy, replacement)
        refused = self.targets.known_refusal(pod, replacement, unadopted)
        if refused is not None and unadopted is None:
            return refused
        wish = self._wish(policy, candidate, replacement, unadopted)
        if refused is None and wanted is not None:
            first = self.targets.choose(wish.at(wanted.node))
            if isinstance(first, Target) and not worsens_wishes(first.change):
                return first
            wish = wish._replace(gains=wanted.others(wish.gains))
        found = refused or self.targets.choose(wish)
        if unadopted is None or isinstance(found, Target):
            return found
        # No node takes it beside the old pod, and none ever may: it reserves first, as pods do that cannot start first.
        return (
            self.budgets.refusal(pod, candidate.policy, reserves_first=True)
            or self.targets.known_refusal(pod, replacement, None)
            or self.targets.choose(wish._replace(unadopted=None))
        )

    def move_to(self, policy: Policy, candidate: Candidate, nodes: IntArray) -> int | None:
        """Plan a move to the best of these nodes (indices), if it is better and all rules allow it; gives which."""
        pod, replacement = candidate.pod, self.replacements.coming(candidate.pod)
        unadopted = self._start_first.unadopted(pod, candidate.policy, replacement)
        if self.targets.known_refusal(pod, replacement, unadopted) is not None:
            return None
        found = self.targets.choose(self._wish(policy, candidate, replacement, unadopted).at(nodes))
        if not isinstance(found, Target):
            return None
        self.move(candidate, found)
        return self.view.state.node_index[found.node]

    def _wish(
        self, policy: Policy, candidate: Candidate, replacement: Pod, unadopted: Pod | None
    ) -> TargetWish:
        change = self.objective.change(candidate.pod, replacement)
        return TargetWish(
            candidate.pod,
            replacement,
            self.objective.gains(policy, candidate, change),
            change,
            least_gain=self.refusals.least_gain(candidate.pod),
            reason=policy.name,
            in_group=bool(candidate.group),
            unadopted=unadopted,
        )

    def move(self, candidate: Candidate, target: Target, after: Sequence[Pod] = ()) -> None:
        """Plan it. ``after``: pods whose moves must have landed before."""
        pod, replacement = candidate.pod, self.replacements.coming(candidate.pod)
        mark = self.trial.take_off(pod)
        move = record_of(candidate, target, self.refusals.disruption(pod), after)
        self.skipped.drop(pod.uid)
        self.put(PlannedStep(move, pod, replacement, mark, target.change, tuple(after), target.unadopted))

    def put(self, step: PlannedStep) -> None:
        """Plan this move of a pod that was taken off."""
        pod, move = step.pod, step.move
        self.trial.land(pod, step.replacement, move.target, step.after, step.unadopted)
        self.budgets.take(pod, move.policy, reserves_first=move.mode is MoveMode.RESERVE_FIRST)
        self._moved[pod.uid] = step
        self.steps.append(step)

    def number(self) -> int:
        """Of the moves planned so far."""
        return len(self.steps)

    def undo(self, number: int) -> None:
        """Take back all but the first ``number`` moves."""
        while len(self.steps) > number:
            step = self.steps.pop()
            self.trial.rollback(step.mark)
            del self._moved[step.pod.uid]
            if step.pod.uid in self._counted:
                self._counted.remove(step.pod.uid)
                self.limits.give_back(step.pod, follows=bool(step.after))
                self.availability.give_back(step.pod, step.move.policy)
            reserves_first = step.move.mode is MoveMode.RESERVE_FIRST
            self.budgets.give_back(step.pod, step.move.policy, reserves_first=reserves_first)

    def is_planned(self, pod: Pod) -> bool:
        """True if the plan has moved the pod already."""
        return pod.uid in self.hypothetical or pod.uid in self._moved
