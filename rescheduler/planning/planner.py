"""Candidates -> Plan. One decision is a function of one snapshot, the policies and the inputs; no clock.

Policies are asked in their order, in rounds, until a round moves nothing. Each candidate passes, in this
order: protections, moves under way, the least gain, cool-down and back-off, our own limits, disruption
budgets, the gain in the current what-if state, the scheduler's rules, hints to avoid. The first refusal is
reported; the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np

from rescheduler.model.migration import MoveMode
from rescheduler.model.names import LABEL_PLACEHOLDER, SCHEDULER_PROBE
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.timestamps import format_timestamp
from rescheduler.planning.budgets import Blocked, BudgetLedger, LimitLedger, evictions_to_come
from rescheduler.planning.history import History
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.memory import Memory
from rescheduler.planning.plan import (
    Move,
    OwnerName,
    Plan,
    PlanMetadata,
    PodRef,
    PolicySummary,
    SkipReason,
)
from rescheduler.planning.present import apply_present
from rescheduler.planning.protections import Protector
from rescheduler.planning.refusals import Refusals
from rescheduler.planning.replacement import Replacements
from rescheduler.planning.side_by_side import StartFirst
from rescheduler.planning.stays import Stays
from rescheduler.planning.summary import Figures, policy_summary, summarise
from rescheduler.planning.targets import Target, Targets
from rescheduler.planning.trial import Mark, Trial
from rescheduler.policies.classes import PodClass
from rescheduler.policies.framework import UNWANTED, Policy, Shedding
from rescheduler.policies.wanted import Batch, Candidate, Queue
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.state import SchedulingState

ROUNDS: Final = 4
"""More rounds than this never helped: later ones only fill what earlier moves opened."""


def plan(
    snapshot: Snapshot,
    policies: Sequence[Policy],
    inputs: PlanningInputs,
    state: SchedulingState,
    *,
    source: str = "",
    warnings: tuple[str, ...] = (),
    memory: Memory | None = None,
) -> Plan:
    """Decide, and write out everything that stays. The arguments are those of ``decide``."""
    return decide(snapshot, policies, inputs, state, source=source, warnings=warnings, memory=memory).plan()


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided. ``moving``: the plan without what is skipped, which is in ``stays``."""

    moving: Plan
    stays: Stays

    def plan(self) -> Plan:
        """The whole plan, with a record for every pod that stays."""
        return msgspec.structs.replace(self.moving, skipped=self.stays.skipped())


def decide(
    snapshot: Snapshot,
    policies: Sequence[Policy],
    inputs: PlanningInputs,
    state: SchedulingState,
    *,
    source: str = "",
    warnings: tuple[str, ...] = (),
    memory: Memory | None = None,
) -> Decided:
    """Decide. ``state`` follows the snapshot and is left without trial moves. ``source``: where it was read.

    ``memory``: kept by callers that decide again and again on one cluster; the plan is the same without it.
    """
    state.sync(snapshot)
    planner = _Planner(snapshot, policies, inputs, state, memory or Memory())
    index = planner.trial.index
    figures = Figures.of(state, index.fixed)
    pending = sum(map(_waits, index.loose.values()))
    try:
        planner.run()
        before, after = planner.before, planner.after
    finally:
        planner.trial.end()
        if memory is not None:
            memory.rest()
    summary_before = summarise(snapshot, state, figures, before, pending)
    for step in planner.steps:
        figures.move(
            step.pod, step.replacement, state.node_index[step.pod.node], state.node_index[step.move.target]
        )
    moving = Plan(
        metadata=PlanMetadata(
            generated_at=format_timestamp(snapshot.taken_at_s),
            aggressiveness=inputs.aggressiveness,
            source=source,
            warnings=warnings,
        ),
        moves=tuple(step.move for step in planner.steps),
        skipped=(),
        before=summary_before,
        after=summarise(snapshot, state, figures, after, pending),
    )
    return Decided(moving, planner.stays)


def _waits(pod: Pod) -> bool:
    """True for a pod that somebody wants to see placed."""
    return not pod.node and not pod.deleting and pod.labels.get(LABEL_PLACEHOLDER) != SCHEDULER_PROBE


class _Step(NamedTuple):
    """A planned move with the records that it is about."""

    move: Move
    pod: Pod
    replacement: Pod
    wanted: float
    """The gain that its policy hoped for."""


class _Planner:
    """The course of one decision."""

    def __init__(
        self,
        snapshot: Snapshot,
        policies: Sequence[Policy],
        inputs: PlanningInputs,
        state: SchedulingState,
        memory: Memory,
    ) -> None:
        self._snapshot = snapshot
        self._policies = policies
        self._inputs = inputs
        self._history = History(snapshot)
        self._start_first = StartFirst(snapshot, inputs.mode, inputs.modes)
        self._budgets = BudgetLedger(snapshot, inputs.limits.budget_buffer, self._start_first.spares_budgets)
        self._limits = LimitLedger(
            snapshot,
            inputs.limits,
            unlimited=inputs.unlimited,
            max_moves=inputs.max_moves,
            this_hour=self._history.begun_within_hour(),
        )
        self._shedding = [policy for policy in policies if isinstance(policy, Shedding)]
        self._protector = Protector(
            snapshot,
            inputs.protections,
            covered=lambda pod: bool(self._budgets.of(pod)),
            judges=state.profile.judges,
        )
        self._imagined: set[str] = set()
        self._refusals = Refusals(snapshot, inputs, self._history, self._protector, self._budgets)
        self._view = memory.view(snapshot, state, self._movable, self._movable_class)
        self._mixed = frozenset(self._view.index.class_of(f.pod) for f in self._history.in_flight)
        """Classes of pods that a migration moves right now."""
        self._answers: dict[PodClass, bool | None] = {}
        self._replacements = Replacements(snapshot)
        self.trial = Trial(snapshot, self._view, self._imagined)
        self._targets = Targets(self.trial)
        self._asked_at = self.trial.index.moment
        self.steps: list[_Step] = []
        self.stays = Stays(self._why_left, self._imagined)
        self.before: list[PolicySummary] = []
        self.after: list[PolicySummary] = []

    def run(self) -> None:
        """Plan until a round moves nothing or no more may be moved."""
        under_way = [f.pod for f in self._history.in_flight]
        for pod in evictions_to_come(self._snapshot, under_way):
            self._budgets.take(pod, self._history.starting_first.get(pod.uid, ""))
        for pod in under_way:
            self._limits.take(pod, counted_this_hour=True)
        apply_present(self.trial, self._history.in_flight)
        for number in range(ROUNDS):
            done = len(self.steps)
            seen = [self._ask(policy) for policy in self._policies]
            if number == 0:
                self.before = seen
            if len(self.steps) == done:
                self.after = self.before if number == 0 else seen
                return
            if self._limits.exhausted:
                self.after = [self._less_moved(summary) for summary in seen]
                return
            if number < ROUNDS - 1:
                self.stays.clear()
                self._targets.forget()
        self.after = [policy_summary(p.name, p.candidates(self._view)) for p in self._policies]

    def _less_moved(self, summary: PolicySummary) -> PolicySummary:
        """Within limits the rest of the cluster is not judged again: what was moved is taken off, no more."""
        gains = [step.wanted for step in self.steps if step.move.policy == summary.name]
        return PolicySummary(
            name=summary.name,
            badly_placed=max(0, summary.badly_placed - len(gains)),
            gain=round(max(0.0, summary.gain - sum(gains)), 4),
        )

    def _ask(self, policy: Policy) -> PolicySummary:
        view = replace(self._view, spares=False) if self._limits.exhausted else self._view
        self._asked_at = self.trial.index.moment
        wanted = policy.candidates(view)
        if wanted.grouped:
            self.stays.settle()
            for _, members in groupby(wanted, key=attrgetter("group")):
                self._together(policy, list(members))
        else:
            self._one_by_one(policy, wanted.queue())
        return policy_summary(policy.name, wanted)

    def _alone(self, policy: Policy, candidate: Candidate) -> None:
        if candidate.pod.uid in self._imagined:
            return
        blocked = self._refusals.of(candidate)
        found = blocked or self._limits.refusal(candidate.pod) or self._find(policy, candidate)
        match found:
            case Target():
                self._move(candidate, found)
                self._limits.take(candidate.pod)
            case Blocked():
                self.stays.add(candidate, found)
            case None:
                pass

    def _one_by_one(self, policy: Policy, queue: Queue) -> None:
        candidates = iter(queue)
        while not self._limits.exhausted:
            candidate = next(candidates, None)
            if candidate is None:
                return
            self._alone(policy, candidate)
        self.stays.leave(queue.rest())

    def _why_left(self, batch: Batch, pods: Sequence[Pod]) -> list[tuple[Blocked, Sequence[Pod]]]:
        """Why pods of a batch stay once nothing more may be moved: these for that reason."""
        found = [(why or self._limits.full, some) for why, some in self._refusals.of_many(batch, pods)]
        return [(why, some) for why, some in found if why is not None]

    def _together(self, policy: Policy, members: list[Candidate]) -> None:
        """All members find room, or none is moved; what the limits leave for later follows in later cycles."""
        start = self.trial.mark()
        first = len(self.steps)
        marks: list[Mark] = []
        for candidate in members:
            if candidate.pod.uid in self._imagined:
                self._undo(start, first)
                return
            marks.append(self.trial.mark())
            found = self._refusals.of(candidate) or self._find(policy, candidate)
            if not isinstance(found, Target):
                self._undo(start, first)
                if found is not None:
                    self._skip_group(members, candidate, found)
                return
            self._move(candidate, found)
        for i, candidate in enumerate(members):
            limit = self._limits.refusal(candidate.pod)
            if limit is not None:
                self._undo(marks[i], first + i)
                for late in members[i:]:
                    self.stays.add(late, limit)
                return
            self._limits.take(candidate.pod)

    def _find(self, policy: Policy, candidate: Candidate) -> Target | Blocked | None:
        """A target; None if the candidate need not move any more, which only moves since the policy was asked can bring."""
        pod = candidate.pod
        replacement = self._replacements.of(pod)
        hopeless = self._targets.hopeless(pod, replacement)
        if hopeless is not None and self.trial.index.moment == self._asked_at:
            return hopeless
        gains = policy.gains(candidate, self._view)
        if not gains.size or gains.max() <= UNWANTED:
            return None
        if hopeless is not None:
            return hopeless
        return self._targets.choose(
            pod,
            replacement,
            gains,
            least_gain=self._refusals.least_gain(pod),
            reason=policy.name,
            last=lambda: self._wanted_elsewhere(policy, pod),
        )

    def _wanted_elsewhere(self, policy: Policy, pod: Pod) -> BoolArray:
        """Nodes from which another policy would at once want a pod moved again."""
        over = np.zeros(len(self._view.nodes), dtype=np.bool_)
        for other in self._shedding:
            if other is not policy:
                over |= other.overfull_with(pod, self._view)
        return over

    def _move(self, candidate: Candidate, target: Target) -> None:
        pod = candidate.pod
        replacement = self._replacements.of(pod)
        self.trial.move(pod, replacement, target.node)
        self._budgets.take(pod, candidate.policy)
        self.stays.drop(pod.uid)
        owner = pod.controller
        move = Move(
            pod=_ref(pod),
            controller=OwnerName(owner.kind, owner.name) if owner is not None else None,
            source=pod.node,
            target=target.node,
            policy=candidate.policy,
            reason=candidate.reason,
            message=candidate.message,
            gain=round(target.gain, 4),
            disruption=round(self._refusals.disruption(pod), 4),
            mode=self._mode(candidate),
        )
        self.steps.append(_Step(move, pod, replacement, candidate.gain))

    def _mode(self, candidate: Candidate) -> MoveMode:
        starts_first = self._start_first.takes(candidate.pod, candidate.policy)
        return MoveMode.START_FIRST if starts_first else MoveMode.RESERVE_FIRST

    def _undo(self, mark: Mark, steps: int) -> None:
        self.trial.rollback(mark)
        while len(self.steps) > steps:
            step = self.steps.pop()
            self._budgets.give_back(step.pod, step.move.policy)

    def _skip_group(self, members: list[Candidate], failed: Candidate, why: Blocked) -> None:
        self.stays.add(failed, why)
        name = f"{failed.pod.namespace}/{failed.pod.name}"
        for member in _others(members, failed):
            self.stays.add(
                member,
                Blocked(
                    SkipReason.GROUP, f"node {failed.pod.node} cannot be emptied because of {name}", name
                ),
            )

    def _movable_class(self, known: PodClass) -> bool | None:
        """``_movable`` of all pods of a class; None if they differ."""
        if known.expected or known in self._mixed:
            return None
        if known not in self._answers:
            one = known.pods[0]
            same = self._protector.same_for_class(one)
            self._answers[known] = self._protector.movable(one) if same else None
        return self._answers[known]

    def _movable(self, pod: Pod) -> bool:
        return (
            pod.uid not in self._imagined
            and pod.uid not in self._history.moving
            and self._protector.movable(pod)
        )


def _others(members: Sequence[Candidate], failed: Candidate) -> Iterator[Candidate]:
    return (member for member in members if member is not failed)


def _ref(pod: Pod) -> PodRef:
    return PodRef(pod.namespace, pod.name, pod.uid)
