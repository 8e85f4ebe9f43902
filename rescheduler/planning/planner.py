"""Candidates -> Plan. One decision is a function of one snapshot, the policies and the inputs; no clock.

Policies are asked in the order of their tiers, in rounds, until a round moves nothing. Each candidate passes, in this
order: protections, moves under way, the least gain, cool-down and back-off, disruption budgets, our own limits,
the availability of workloads without a budget, the gain in the current what-if state, the scheduler's rules, hints to
avoid. The first refusal is reported; the same input gives the same bytes. In the end others make room for pods without a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from rescheduler.model.migration import MoveMode
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_timestamp
from rescheduler.planning.availability import AvailabilityLedger, OwnedPods
from rescheduler.planning.budgets import Blocked, BudgetLedger, LimitLedger, evictions_to_come
from rescheduler.planning.chain_moves import MAKES_ROOM, ChainPlanner
from rescheduler.planning.decided import Decided
from rescheduler.planning.emptying import Emptying, Wanted
from rescheduler.planning.groups import Groups
from rescheduler.planning.history import History
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.pending_rooms import ROOMS, PendingRooms
from rescheduler.planning.plan import Plan, PlanMetadata, PolicySummary, SkipReason
from rescheduler.planning.present import apply_present
from rescheduler.planning.protections import Protectors
from rescheduler.planning.refusals import Refusals, closed_windows
from rescheduler.planning.relieving import Relieving
from rescheduler.planning.repair_drafts import PODS_PER_PASS, RepairDraft, RepairDrafts, wanting
from rescheduler.planning.skipped import SkippedPods
from rescheduler.planning.start_first_mode import StartFirst
from rescheduler.planning.steps import FirstProposals, PlannedStep, Value, early_steps, record_of, value_of
from rescheduler.planning.summary import Figures, gathered, summarise, waits, warnings_of
from rescheduler.planning.targets import Target, Targets
from rescheduler.planning.total_change import Objective, TotalChange
from rescheduler.planning.trial import Trial
from rescheduler.planning.views import Movable, Views
from rescheduler.policies.framework import (
    Policy,
    PolicyView,
    PolicyWarning,
    by_tier,
)
from rescheduler.policies.low_node_utilization import LowNodeUtilization
from rescheduler.policies.objective import Tier, worsens_wishes
from rescheduler.policies.pending_pods import PendingPods
from rescheduler.policies.planned_moves import PlannedMoves
from rescheduler.policies.proposals import Batch, Candidate, ProposalQueue
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.framework import FloatArray, IntArray
from rescheduler.scheduling.state import SchedulingState

ROUNDS: Final = 4
"""More rounds than this never helped: later ones only fill what earlier moves opened."""
_STUCK: Final = (SkipReason.NO_TARGET, SkipReason.NO_BETTER_TARGET)
"""Why a badly placed pod stays for which others may make room."""


def plan(
    snapshot: Snapshot, policies: Sequence[Policy], inputs: PlanningInputs, state: SchedulingState
) -> Plan:
    """Decide, and write out everything that is skipped. The arguments are those of ``decide``.

    What is kept in ``state`` for another decision is released before the records need memory.
    """
    decided = decide(snapshot, policies, inputs, state, looks_ahead=True, explains=True)
    state.forget_answers()
    return decided.plan(last=True)


def decide(
    snapshot: Snapshot,
    policies: Sequence[Policy],
    inputs: PlanningInputs,
    state: SchedulingState,
    *,
    looks_ahead: bool = False,
    explains: bool = False,
) -> Decided:
    """Decide. ``state`` follows the snapshot and is left without trial moves.

    ``looks_ahead``: the plan tells what the policies would find after it, and how bad the placement is before and after it;
    that takes as long as to ask them once more. ``explains``: it is said what stands in the way of pods that get no room.
    To decide again on the same cluster costs less with the same state, and gives the same plan.
    """
    state.sync(snapshot)
    policies = by_tier(policies)
    inputs = msgspec.structs.replace(inputs, limits=inputs.limits.at(snapshot.taken_at_s))
    planner = _Planner(snapshot, policies, inputs, state, looks_ahead=looks_ahead, explains=explains)
    figures = Figures.of(state)
    pending = sum(map(waits, state.unplaced.values()))
    try:
        planner.run()
        after = planner.summaries_after() if looks_ahead else []
    finally:
        planner.trial.end()
    summary_before = summarise(snapshot, state, figures, planner.before, pending)
    figures.follow(planner.steps, planner.rooms.arrivals(), state.node_index)
    said = planner.said
    if said is None:
        said = warnings_of(
            policies, planner.views.another(planner.view, planned=PlannedMoves(state.nodes.size))
        )
    closer = gathered(snapshot, [(s.pod, s.move.target) for s in planner.steps]) if looks_ahead else ()
    names = sorted({step.move.policy for step in planner.steps}) if inputs.unlimited else ()
    shut = closed_windows(inputs.limits.windows, names, snapshot.taken_at_s)
    moving = Plan(
        metadata=PlanMetadata(
            generated_at=format_timestamp(snapshot.taken_at_s),
            aggressiveness=inputs.aggressiveness,
            warnings=(*shut, *(one.message for one in said), *closer),
        ),
        moves=tuple(step.move for step in planner.steps),
        skipped=(),
        rooms=planner.rooms.records(),
        before=summary_before,
        after=summarise(snapshot, state, figures, after, pending - planner.rooms.pods()),
    )
    unmeasured = (one.unmeasured for one in said if one.unmeasured is not None)
    emptying = planner.groups.emptying(snapshot, planner.asked, planner.steps)
    return Decided(moving, planner.skipped, next(unmeasured, None), emptying, planner.end)


class _Planner:
    """The course of one decision."""

    def __init__(
        self,
        snapshot: Snapshot,
        policies: Sequence[Policy],
        inputs: PlanningInputs,
        state: SchedulingState,
        *,
        looks_ahead: bool,
        explains: bool,
    ) -> None:
        self._snapshot = snapshot
        self._looks_ahead = looks_ahead
        self._policies = policies
        self._inputs = inputs
        self._history = History(snapshot)
        owned = OwnedPods(state)
        self._replacements = Replacements(snapshot, alike=owned.alike)
        self._start_first = StartFirst(snapshot, inputs.mode, inputs.modes)
        self._budgets = BudgetLedger(snapshot, inputs.limits.budget_buffer, self._start_first.keeps_budgets)
        self._limits = LimitLedger(
            snapshot,
            inputs.limits,
            unlimited=inputs.unlimited,
            max_moves=inputs.max_moves,
            this_hour=self._history.begun_within_hour(),
        )
        self._availability = AvailabilityLedger(
            snapshot,
            owned,
            covered=lambda pod: bool(self._budgets.of(pod)),
            starts_first=self._start_first.takes,
            leaving=self._history.moving - self._history.starting_first.keys(),
            unlimited=inputs.unlimited,
        )
        protectors = Protectors(
            self._replacements,
            inputs.protections,
            inputs.profiles,
            covered=lambda pod: bool(self._budgets.of(pod)),
            judges=state.profile.judges,
        )
        self._hypothetical: set[str] = set()
        self._refusals = Refusals(snapshot, inputs, self._history, protectors, self._budgets)
        self.views = Views(
            replace(PolicyView.of(snapshot, state), disruption=self._refusals.disruption),
            policies,
            protectors,
            lambda some: Movable(state, self._history, some, self._hypothetical),
            inputs.echoes,
        )
        self.view = self.views.any
        at_once, namespace = not inputs.unlimited, inputs.namespace
        self.trial = Trial(snapshot, self.view, self._hypothetical, at_once=at_once, namespace=namespace)
        self._targets = Targets(self.trial, told=True)
        self._objective = Objective(self.views.counting(policies), self.view)
        self._began_at = state.cluster.version
        self.steps: list[PlannedStep] = []
        self._moved: dict[str, PlannedStep] = {}
        """The same by uid of the pod."""
        self._counted: set[str] = set()
        """Uids of those whose moves the limits count."""
        self.skipped = SkippedPods(self._why_left, self._hypothetical, self._moved.keys())
        self._stuck: list[tuple[Policy, Candidate]] = []
        """Those that break a rule or miss a wish, and for which no node is better as the others stand."""
        emptying = Emptying(
            trial=self.trial,
            targets=self._targets,
            budgets=self._budgets,
            replacement=self._replacements.coming,
            passes=inputs.passes,
        )
        self.groups = Groups(self, self._limits, self._refusals, emptying)
        self._relieving = Relieving(
            plan=self,
            limits=self._limits,
            availability=self._availability,
            refusals=self._refusals,
            trial=self.trial,
            targets=self._targets,
            budgets=self._budgets,
            replacement=self._replacements.coming,
            passes=inputs.passes,
            few=not inputs.unlimited,
        )
        self._drafts = RepairDrafts(
            trial=self.trial,
            targets=self._targets,
            objective=self._objective,
            budgets=self._budgets,
            replacement=self._replacements.coming,
            disruption=self._refusals.disruption,
            passes=inputs.passes,
            most_pods=inputs.effort * PODS_PER_PASS,
        )
        self.rooms = PendingRooms(
            plan=self,
            limits=self._limits,
            refusals=self._refusals,
            budgets=self._budgets,
            drafts=replace(self._drafts, refused=set(), passes=max(1, self._drafts.passes // ROOMS)),
            comes_back=lambda pod: self._replacements.of(pod).pod is not None,
            explains=explains,
        )
        self._chains = ChainPlanner(
            plan=self,
            limits=self._limits,
            refusals=self._refusals,
            budgets=self._budgets,
            drafts=self._drafts,
        )
        self.before: list[PolicySummary] = []
        self.asked: list[FirstProposals] = []
        self.said: list[PolicyWarning] | None = None

    def end(self) -> None:
        """Its parts refer to one another, and kept answers to their view: without this they wait for the garbage collector."""
        self.views.end()
        vars(self).clear()

    def run(self) -> None:
        """Plan until a round moves nothing or no more may be moved."""
        # Moves under way spend first: what is planned now must fit beside them.
        for pod in evictions_to_come(self._snapshot, [f.pod for f in self._history.in_flight]):
            mover = self._history.starting_first.get(pod.uid, "")
            self._budgets.take_under_way(pod, mover, reserves_first=pod.uid in self._history.reserving_first)
        for spent in self._history.spent:
            self._limits.take_under_way(spent)
        apply_present(self.trial, self._history.in_flight, self._replacements, self._inputs.namespace)
        self.asked = asked = self._ask_all()
        if self.trial.version == self._began_at:
            # Nothing is under way: what was found just now serves them, too.
            self.said = warnings_of(self._policies, self.view)
        self._began_at = self.trial.version
        self._repair(asked)
        self._chains.repair_rest(self._stuck)

    def _repair(self, asked: Sequence[FirstProposals]) -> None:
        """Plan one by one; and where that leaves badly placed pods without a place, all of them anew by a search, if that is better."""
        first = self._attempt(asked, RepairDraft())
        drafted = wanting(self._policies, asked) if self._stuck and not self._limits.exhausted else ()
        if not drafted:
            return
        early, steps, touched = early_steps(self.steps), self.steps.copy(), self.rooms.touched()
        repaired = {step.pod.uid for step in early if step.move.reason != MAKES_ROOM}
        answers = self.skipped, self._stuck, self.groups.stay, self.rooms.left
        self._start_again()
        draft = self._chains.draft(drafted)
        if draft.promises_more(repaired, len(early)) and self._attempt(asked, draft) < first:
            return
        if touched:
            self._attempt(asked, RepairDraft())
            return
        self._start_again()
        for step in steps:
            self._plan(step._replace(mark=self.trial.take_off(step.pod)))
            self.take(step.pod)
        self.skipped, self._stuck, self.groups.stay, self.rooms.left = answers

    def _attempt(self, asked: Sequence[FirstProposals], draft: RepairDraft) -> Value:
        """Plan anew. ``asked``: what the policies propose before anything is planned."""
        self._start_again()
        self._chains.repair(draft)
        self._forget_answers()
        for number in range(ROUNDS):
            done = len(self.steps)
            for policy, found in zip(self._policies, asked, strict=True):
                self._run_policy(policy, found if number == 0 else None)
            if len(self.steps) == done or self._limits.exhausted:
                break
            # Moves may have opened room or removed reasons, so the next round asks everything again. The last round's
            # answers stay: they are what the plan reports.
            if number < ROUNDS - 1:
                self._forget_answers()
        return value_of(self.steps)

    def _start_again(self) -> None:
        self.groups.stay = set()
        self.undo(0)
        self.rooms.start_again()
        self._forget_answers()

    def _forget_answers(self) -> None:
        self._targets.forget()
        self.skipped = SkippedPods(self._why_left, self._hypothetical, self._moved.keys())
        self._stuck = []

    def _ask_all(self) -> list[FirstProposals]:
        """All policies at once, before anything is planned: that is what the plan says of the cluster before it."""
        asked = self.views.all_asked(self._policies, self._limits.left if self._inputs.unlimited else 0)
        answers = zip(self._policies, asked, strict=True)
        view = self.view if self._looks_ahead else None
        self.before = [self.views.summary(policy, answer.found, view) for policy, answer in answers]
        return asked

    def summaries_after(self) -> list[PolicySummary]:
        """What the next decision would find, if nothing but the planned moves happened."""
        return self.views.after(self._policies) if self.steps else self.before

    def _run_policy(self, policy: Policy, asked: FirstProposals | None) -> None:
        """``asked``: what the policy proposed before anything was planned; None in later rounds."""
        found = asked.found if asked is not None and self._still_good(asked) else self.views.asked(policy)
        if isinstance(policy, PendingPods):
            self.rooms.run(policy, found)
        elif found.grouped and not self._limits.exhausted:
            self.groups.run(policy, found)
        else:
            if isinstance(policy, LowNodeUtilization):
                found = self._relieving.run(policy, found)
            self._plan_each(policy, found.queue())

    def _still_good(self, asked: FirstProposals) -> bool:
        # Once nothing more may be moved, it does not matter what earlier moves have changed.
        return self._limits.exhausted or (asked.complete and self.trial.version == self._began_at)

    def _plan_one(self, policy: Policy, candidate: Candidate) -> None:
        if self.is_planned(candidate.pod):
            return
        match self._refusals.of(candidate) or self.limit(candidate) or self.find(policy, candidate):
            case Target() as found:
                self.move(candidate, found)
                self.take(candidate.pod)
            case Blocked() as found:
                self.skipped.add(candidate, found)
                if found.reason in _STUCK and candidate.tier < Tier.BALANCE:
                    self._stuck.append((policy, candidate))

    def _plan_each(self, policy: Policy, queue: ProposalQueue) -> None:
        candidates = iter(queue)
        while not self._limits.exhausted:
            if (candidate := next(candidates, None)) is None:
                return
            self._plan_one(policy, candidate)
        self.skipped.leave(queue.rest())

    def _why_left(self, batch: Batch, pods: Sequence[Pod]) -> list[tuple[Blocked, Sequence[Pod]]]:
        """Why pods of a batch are skipped once nothing more may be moved: these for that reason."""
        found = [(why or self._limits.full, some) for why, some in self._refusals.of_many(batch, pods)]
        return [(why, some) for why, some in found if why is not None]

    def limit(self, candidate: Candidate, *, follows: bool = False) -> Blocked | None:
        """Which of our own limits the move would pass, or None. ``follows``: it begins after another move of the plan."""
        pod = candidate.pod
        return self._limits.refusal(pod, follows=follows) or self._availability.refusal(pod, candidate.policy)

    def take(self, pod: Pod) -> None:
        """Spend what the limits count of its planned move."""
        step = self._moved[pod.uid]
        self._limits.take(pod, follows=bool(step.after))
        self._availability.take(pod, step.move.policy)
        self._counted.add(pod.uid)

    def find(self, policy: Policy, candidate: Candidate, wanted: Wanted | None = None) -> Target | Blocked:
        """A target, or why there is none; ``wanted``: where it is to go, if the rules allow it."""
        pod, replacement = candidate.pod, self._replacements.coming(candidate.pod)
        unadopted = self._start_first.unadopted(pod, candidate.policy, replacement)
        refused = self._targets.known_refusal(pod, replacement, unadopted)
        if refused is not None and unadopted is None:
            return refused
        change = self._objective.change(pod, replacement)
        gains = self._objective.gains(policy, candidate, replacement, change)
        if refused is None and wanted is not None:
            first = self._choose_at(policy, candidate, wanted.node, (change, gains), unadopted)
            if first is not None and not worsens_wishes(first.change):
                return first
            gains = wanted.others(gains)
        found = refused or self._choose(policy, candidate, (change, gains), unadopted)
        if unadopted is None or isinstance(found, Target):
            return found
        # No node takes it beside the old pod, and none ever may: it reserves first, as pods do that cannot start first.
        return (
            self._budgets.refusal(pod, candidate.policy, reserves_first=True)
            or self._targets.known_refusal(pod, replacement, None)
            or self._choose(policy, candidate, (change, gains), None)
        )

    def move_to(self, policy: Policy, candidate: Candidate, nodes: IntArray) -> int | None:
        """Plan a move to the best of these nodes (indices), if it is better and all rules allow it; gives which."""
        pod, replacement = candidate.pod, self._replacements.coming(candidate.pod)
        unadopted = self._start_first.unadopted(pod, candidate.policy, replacement)
        if self._targets.known_refusal(pod, replacement, unadopted) is not None:
            return None
        change = self._objective.change(pod, replacement)
        gains = self._objective.gains(policy, candidate, replacement, change)
        found = self._choose_at(policy, candidate, nodes, (change, gains), unadopted)
        if found is None:
            return None
        self.move(candidate, found)
        return self.view.state.node_index[found.node]

    def _choose_at(
        self,
        policy: Policy,
        candidate: Candidate,
        nodes: IntArray | int,
        judged: tuple[TotalChange, FloatArray],
        unadopted: Pod | None,
    ) -> Target | None:
        """The best of these nodes (indices) that the rules allow and that is better."""
        change, gains = judged
        only = np.zeros_like(gains)
        only[nodes] = gains[nodes]
        found = self._choose(policy, candidate, (change, only), unadopted)
        return found if isinstance(found, Target) else None

    def _choose(
        self,
        policy: Policy,
        candidate: Candidate,
        judged: tuple[TotalChange, FloatArray],
        unadopted: Pod | None,
    ) -> Target | Blocked:
        (change, gains), pod, replacement = judged, candidate.pod, self._replacements.coming(candidate.pod)
        return self._targets.choose(
            pod,
            replacement,
            gains,
            least_gain=self._refusals.least_gain(pod),
            reason=policy.name,
            in_group=bool(candidate.group),
            unadopted=unadopted,
            change=change,
        )

    def move(self, candidate: Candidate, target: Target, after: Sequence[Pod] = ()) -> None:
        """Plan it. ``after``: pods whose moves must have landed before."""
        pod, replacement = candidate.pod, self._replacements.coming(candidate.pod)
        mark = self.trial.take_off(pod)
        move = record_of(candidate, target, self._refusals.disruption(pod), after)
        self.skipped.drop(pod.uid)
        self._plan(PlannedStep(move, pod, replacement, mark, target.change, tuple(after), target.unadopted))

    def _plan(self, step: PlannedStep) -> None:
        """Of a pod that was taken off."""
        pod, move = step.pod, step.move
        self.trial.land(pod, step.replacement, move.target, step.after, step.unadopted)
        self._budgets.take(pod, move.policy, reserves_first=move.mode is MoveMode.RESERVE_FIRST)
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
                self._limits.give_back(step.pod, follows=bool(step.after))
                self._availability.give_back(step.pod, step.move.policy)
            reserves_first = step.move.mode is MoveMode.RESERVE_FIRST
            self._budgets.give_back(step.pod, step.move.policy, reserves_first=reserves_first)

    def is_planned(self, pod: Pod) -> bool:
        """True if the plan has moved the pod already."""
        return pod.uid in self._hypothetical or pod.uid in self._moved
