"""Plans chains for the badly placed pods that found no place: what the search finds, within budgets and limits.

Chains are planned last, when no single move helps any more: so no other move of the plan is judged after one. A chain is
planned as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from rescheduler.model.records import Pod
from rescheduler.planning.availability import AvailabilityLedger
from rescheduler.planning.budgets import Blocked, BudgetLedger, LimitLedger
from rescheduler.planning.chains import STAGES, ChainSearch, ChainStep, Wish
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.refusals import Refusals
from rescheduler.planning.targets import Target
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.proposals import Candidate

WITHOUT_PLACE: Final = (SkipReason.NO_TARGET, SkipReason.NO_BETTER_TARGET)
"""Why a badly placed pod stays for which others may make room."""
MAKES_ROOM: Final = "MakesRoom"
"""``reason`` of a move whose pod steps aside for another one."""


class Course(Protocol):
    """The plan so far."""

    def move(self, candidate: Candidate, target: Target, after: Sequence[Pod] = ()) -> None:
        """Plan one move, and spend what its eviction takes from a budget."""
        ...

    def number(self) -> int:
        """Of the moves planned so far."""
        ...

    def undo(self, number: int) -> None:
        """Take back all but the first ``number`` moves, and give back what they took from budgets."""
        ...


class ChainPlanner:
    """Plans chains in one decision."""

    def __init__(
        self,
        course: Course,
        view: PolicyView,
        refusals: Refusals,
        *,
        budgets: BudgetLedger,
        limits: LimitLedger,
        availability: AvailabilityLedger,
    ) -> None:
        self._course = course
        self._view = view
        self._refusals = refusals
        self._budgets = budgets
        self._limits = limits
        self._availability = availability

    def plan(self, stuck: Sequence[tuple[Policy, Candidate]], search: ChainSearch) -> None:
        """Chains for pods without a place, in their order, until none is found or search or limits are exhausted."""
        if not stuck or search.hopeless():
            return
        for stage in STAGES:
            search.allow(stage)
            planned = -1
            while planned < self._course.number():
                planned = self._course.number()
                self._plan_each(stuck, search)

    def _plan_each(self, stuck: Iterable[tuple[Policy, Candidate]], search: ChainSearch) -> None:
        for policy, candidate in stuck:
            if search.exhausted or self._limits.exhausted:
                return
            pod = candidate.pod
            if not search.worth_a_look(pod) or self._refusal(candidate, follows=True) is not None:
                continue
            gains = policy.gains(candidate, self._view)
            if not (gains > 0).any():
                continue
            least = self._refusals.least_gain(pod)
            wish = Wish(pod, gains, least, policy.name)
            found = search.find(wish, partial(self._may_step_aside, candidate))
            if found:
                self._take(candidate, found, search)

    def _may_step_aside(self, wanting: Candidate, pod: Pod) -> bool:
        return self._view.movable(pod) and self._refusal(makes_room(pod, wanting), follows=True) is None

    def _take(self, candidate: Candidate, steps: Sequence[ChainStep], search: ChainSearch) -> None:
        before = self._course.number()
        taken: list[tuple[Candidate, bool]] = []
        for step in steps:
            last = step.pod is candidate.pod
            mover = candidate if last else makes_room(step.pod, candidate)
            follows = bool(step.after)
            if self._refusal(mover, follows=follows) is not None:
                self._course.undo(before)
                for one, after in taken:
                    self._limits.give_back(one.pod, follows=after)
                    self._availability.give_back(one.pod, one.policy)
                return
            self._course.move(mover, step.target if last else step.target._replace(gain=0.0), step.after)
            self._limits.take(step.pod, follows=follows)
            self._availability.take(step.pod, mover.policy)
            taken.append((mover, follows))
        search.planned(steps)

    def _refusal(self, candidate: Candidate, *, follows: bool) -> Blocked | None:
        pod, policy = candidate.pod, candidate.policy
        return (
            self._refusals.of(candidate)
            or self._budgets.refusal(pod, policy, reserves_first=True)
            or self._limits.refusal(pod, follows=follows)
            or self._availability.refusal(pod, policy)
        )


def makes_room(pod: Pod, wanting: Candidate) -> Candidate:
    """A pod that steps aside, as the planner takes candidates: it need not be badly placed."""
    message = f"makes room for {wanting.pod.key}"
    return Candidate(pod=pod, policy=wanting.policy, reason=MAKES_ROOM, message=message, gain=1.0)
