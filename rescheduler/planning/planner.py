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

from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_timestamp
from rescheduler.planning.budgets import evictions_to_come
from rescheduler.planning.chain_moves import MAKES_ROOM, ChainPlanner
from rescheduler.planning.decided import Decided
from rescheduler.planning.groups import Groups
from rescheduler.planning.limits import PlanningInputs, shorter
from rescheduler.planning.pending_rooms import PendingRooms
from rescheduler.planning.plan import Blocked, Plan, PlanMetadata, PolicySummary, SkipReason
from rescheduler.planning.present import apply_present
from rescheduler.planning.refusals import closed_windows
from rescheduler.planning.relieving import Relieving
from rescheduler.planning.repair_drafts import PODS_PER_PASS, RepairDraft, RepairDrafts, wanting
from rescheduler.planning.steps import FirstProposals, Value, value_of
from rescheduler.planning.summary import Figures, gathered, summarise, waits, warnings_of
from rescheduler.planning.targets import Target
from rescheduler.planning.unfinished_plan import UnfinishedPlan
from rescheduler.policies.framework import (
    Policy,
    PolicyWarning,
    by_tier,
)
from rescheduler.policies.low_node_utilization import LowNodeUtilization
from rescheduler.policies.objective import Tier
from rescheduler.policies.pending_pods import PendingPods
from rescheduler.policies.planned_moves import PlannedMoves
from rescheduler.policies.proposals import Candidate, ProposalQueue
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
        planner.plan.trial.end()
    summary_before = summarise(snapshot, state, figures, planner.before, pending)
    figures.follow(planner.plan.steps, planner.rooms.arrivals(), state.node_index)
    said = planner.said
    if said is None:
        said = warnings_of(
            policies,
            planner.plan.views.another(planner.plan.view, planned=PlannedMoves(state.nodes.size)),
        )
    closer = gathered(snapshot, [(s.pod, s.move.target) for s in planner.plan.steps]) if looks_ahead else ()
    names = sorted({step.move.policy for step in planner.plan.steps}) if inputs.unlimited else ()
    shut = closed_windows(inputs.limits.windows, names, snapshot.taken_at_s)
    moving = Plan(
        metadata=PlanMetadata(
            generated_at=format_timestamp(snapshot.taken_at_s),
            aggressiveness=inputs.aggressiveness,
            warnings=(*shut, *(one.message for one in said), *closer),
        ),
        moves=tuple(step.move for step in planner.plan.steps),
        skipped=(),
        rooms=planner.rooms.records(),
        before=summary_before,
        after=summarise(
            snapshot, state, figures, after, pending - planner.rooms.pods(), before=summary_before
        ),
    )
    unmeasured = (one.unmeasured for one in said if one.unmeasured is not None)
    emptying = planner.groups.emptying(snapshot, planner.asked, planner.plan.steps)
    return Decided(moving, planner.plan.skipped, next(unmeasured, None), emptying, planner.end)


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
        self._looks_ahead = looks_ahead
        self._policies = policies
        self.plan = made = UnfinishedPlan(snapshot, policies, inputs, state)
        self._began_at = state.cluster.version
        self._stuck: list[tuple[Policy, Candidate]] = []
        """Those that break a rule or miss a wish, and for which no node is better as the others stand."""
        self.groups = Groups(made)
        self._relieving = Relieving(made)
        drafts = RepairDrafts(
            trial=made.trial,
            targets=made.targets,
            objective=made.objective,
            budgets=made.budgets,
            replacement=made.replacements.coming,
            disruption=made.refusals.disruption,
            passes=inputs.passes,
            most_pods=inputs.effort * PODS_PER_PASS,
        )
        self.rooms = PendingRooms(
            plan=made,
            drafts=replace(drafts, refused=set(), passes=shorter(drafts.passes, 1)),
            comes_back=lambda pod: made.replacements.of(pod).pod is not None,
            explains=explains,
        )
        self._chains = ChainPlanner(plan=made, drafts=drafts)
        self.before: list[PolicySummary] = []
        self.asked: list[FirstProposals] = []
        self.said: list[PolicyWarning] | None = None

    def end(self) -> None:
        """As ``end`` of the plan."""
        self.plan.end()
        vars(self).clear()

    def run(self) -> None:
        """Plan until a round moves nothing or no more may be moved."""
        # Moves under way spend first: what is planned now must fit beside them.
        for pod in evictions_to_come(self.plan.snapshot, [f.pod for f in self.plan.history.in_flight]):
            mover = self.plan.history.starting_first.get(pod.uid, "")
            self.plan.budgets.take_under_way(
                pod, mover, reserves_first=pod.uid in self.plan.history.reserving_first
            )
        for spent in self.plan.history.spent:
            self.plan.limits.take_under_way(spent)
        apply_present(
            self.plan.trial,
            self.plan.history.in_flight,
            self.plan.replacements,
            self.plan.inputs.namespace,
        )
        self.asked = asked = self._ask_all()
        if self.plan.trial.version == self._began_at:
            # Nothing is under way: what was found just now serves them, too.
            self.said = warnings_of(self._policies, self.plan.view)
        self._began_at = self.plan.trial.version
        self._repair(asked)
        self._chains.repair_rest(self._stuck)

    def _repair(self, asked: Sequence[FirstProposals]) -> None:
        """Plan one by one; and where that leaves badly placed pods without a place, all of them anew by a search, if that is better."""
        first = self._attempt(asked, RepairDraft())
        drafted = wanting(self._policies, asked) if self._stuck and not self.plan.limits.exhausted else ()
        if not drafted:
            return
        steps, touched = self.plan.steps.copy(), self.rooms.touched()
        repaired = {step.pod.uid for step in steps if step.move.reason != MAKES_ROOM}
        answers = self.plan.skipped, self._stuck, self.groups.stay, self.rooms.left
        self._start_again()
        draft = self._chains.draft(drafted)
        if draft.promises_more(repaired, len(steps)) and self._attempt(asked, draft) < first:
            return
        if touched:
            self._attempt(asked, RepairDraft())
            return
        self._start_again()
        for step in steps:
            self.plan.put(step._replace(mark=self.plan.trial.take_off(step.pod)))
            self.plan.take(step.pod)
        self.plan.skipped, self._stuck, self.groups.stay, self.rooms.left = answers

    def _attempt(self, asked: Sequence[FirstProposals], draft: RepairDraft) -> Value:
        """Plan anew. ``asked``: what the policies propose before anything is planned."""
        self._start_again()
        self._chains.repair(draft)
        self._forget_answers()
        for number in range(ROUNDS):
            done = len(self.plan.steps)
            for policy, found in zip(self._policies, asked, strict=True):
                self._run_policy(policy, found if number == 0 else None)
            if len(self.plan.steps) == done or self.plan.limits.exhausted:
                break
            # Moves may have opened room or removed reasons, so the next round asks everything again. The last round's
            # answers stay: they are what the plan reports.
            if number < ROUNDS - 1:
                self._forget_answers()
        return value_of(self.plan.steps)

    def _start_again(self) -> None:
        self.groups.stay = set()
        self.plan.undo(0)
        self.rooms.start_again()
        self._forget_answers()

    def _forget_answers(self) -> None:
        self.plan.forget_answers()
        self._stuck = []

    def _ask_all(self) -> list[FirstProposals]:
        """All policies at once, before anything is planned: that is what the plan says of the cluster before it."""
        asked = self.plan.views.all_asked(
            self._policies, self.plan.limits.left if self.plan.inputs.unlimited else 0
        )
        answers = zip(self._policies, asked, strict=True)
        view = self.plan.view if self._looks_ahead else None
        self.before = [self.plan.views.summary(policy, answer.found, view) for policy, answer in answers]
        return asked

    def summaries_after(self) -> list[PolicySummary]:
        """What the next decision would find, if nothing but the planned moves happened."""
        return self.plan.views.after(self._policies) if self.plan.steps else self.before

    def _run_policy(self, policy: Policy, asked: FirstProposals | None) -> None:
        """``asked``: what the policy proposed before anything was planned; None in later rounds."""
        found = (
            asked.found if asked is not None and self._still_good(asked) else self.plan.views.asked(policy)
        )
        if isinstance(policy, PendingPods):
            self.rooms.run(policy, found)
        elif found.grouped and not self.plan.limits.exhausted:
            self.groups.run(policy, found)
        else:
            if isinstance(policy, LowNodeUtilization):
                self._relieving.run(policy, found)
            self._plan_each(policy, found.queue())

    def _still_good(self, asked: FirstProposals) -> bool:
        # Once nothing more may be moved, it does not matter what earlier moves have changed.
        return self.plan.limits.exhausted or (asked.complete and self.plan.trial.version == self._began_at)

    def _plan_one(self, policy: Policy, candidate: Candidate) -> None:
        if self.plan.is_planned(candidate.pod):
            return
        match (
            self.plan.refusals.of(candidate)
            or self.plan.limit(candidate)
            or self.plan.find(policy, candidate)
        ):
            case Target() as found:
                self.plan.move(candidate, found)
                self.plan.take(candidate.pod)
            case Blocked() as found:
                self.plan.skipped.add(candidate, found)
                if found.reason in _STUCK and candidate.tier < Tier.BALANCE:
                    self._stuck.append((policy, candidate))

    def _plan_each(self, policy: Policy, queue: ProposalQueue) -> None:
        candidates = iter(queue)
        while not self.plan.limits.exhausted:
            if (candidate := next(candidates, None)) is None:
                return
            self._plan_one(policy, candidate)
        self.plan.skipped.leave(queue.rest())
