"""Plans chains for the badly placed pods that found no place: what the search finds, within budgets and limits.

Chains are planned last, when no single move helps any more: so no other move of the plan is judged after one. A chain is
planned as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from rescheduler.model.records import Pod
from rescheduler.model.room_pod import room_of_pod
from rescheduler.planning.budgets import Blocked, BudgetLedger, LimitLedger
from rescheduler.planning.chains import REACHES, ChainSearch, ChainStep, Wish
from rescheduler.planning.groups import MakesMoves
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.refusals import Refusals
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.proposals import Candidate

WITHOUT_PLACE: Final = (SkipReason.NO_TARGET, SkipReason.NO_BETTER_TARGET)
"""Why a badly placed pod stays for which others may make room."""
MAKES_ROOM: Final = "MakesRoom"
"""``reason`` of a move whose pod steps aside for another one."""


class ChainPlanner:
    """Plans chains in one decision."""

    def __init__(
        self,
        plan: MakesMoves,
        view: PolicyView,
        refusals: Refusals,
        *,
        budgets: BudgetLedger,
        limits: LimitLedger,
    ) -> None:
        self._plan = plan
        self._view = view
        self._refusals = refusals
        self._budgets = budgets
        self._limits = limits

    def plan(self, stuck: Sequence[tuple[Policy, Candidate]], search: ChainSearch) -> None:
        """Chains for pods without a place, in their order, until none is found or search or limits are exhausted."""
        if not stuck or search.hopeless():
            return
        for reach in REACHES:
            search.allow(reach)
            planned = -1
            while planned < self._plan.number():
                planned = self._plan.number()
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
        before = self._plan.number()
        taken: list[tuple[Candidate, bool]] = []
        for step in steps:
            last = step.pod is candidate.pod
            mover = candidate if last else makes_room(step.pod, candidate)
            follows = bool(step.after)
            if self._refusal(mover, follows=follows) is not None:
                self._plan.undo(before)
                for one, after in taken:
                    self._plan.give_back(one, follows=after)
                return
            self._plan.move(mover, step.target if last else step.target._replace(gain=0.0), step.after)
            self._plan.take(mover, follows=follows)
            taken.append((mover, follows))
        search.planned(steps)

    def _refusal(self, candidate: Candidate, *, follows: bool) -> Blocked | None:
        return held(candidate, self._plan, self._refusals, self._budgets, follows=follows)


def held(
    mover: Candidate, plan: MakesMoves, refusals: Refusals, budgets: BudgetLedger, *, follows: bool
) -> Blocked | None:
    """Why a pod may not be moved now with its room reserved first. ``follows``: its move begins after others."""
    return (
        refusals.of(mover)
        or budgets.refusal(mover.pod, mover.policy, reserves_first=True)
        or plan.limit(mover, follows=follows)
    )


def makes_room(pod: Pod, wanting: Candidate) -> Candidate:
    """A pod that steps aside, as the planner takes candidates: it need not be badly placed."""
    room = room_of_pod(wanting.pod)
    message = f"makes room for {f'Reservation {room}' if room else wanting.pod.key}"
    return Candidate(pod=pod, policy=wanting.policy, reason=MAKES_ROOM, message=message, gain=1.0)
