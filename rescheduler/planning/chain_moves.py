"""Plans chains for the badly placed pods that found no place: what the search finds, within budgets and limits.

Chains that are searched for one by one are planned last, when no single move helps any more; those of a draft before all else. Moves
that are planned after a chain do not count on its later stages (``Trial``). A chain is planned as a whole or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from rescheduler.model.records import Pod
from rescheduler.model.room_pod import room_of_pod
from rescheduler.planning.budgets import Blocked, BudgetLedger, LimitLedger
from rescheduler.planning.chains import REACHES, AsideTo, ChainSearch, ChainStep, Wish
from rescheduler.planning.groups import MakesMoves
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.refusals import Refusals
from rescheduler.planning.repair_drafts import DraftedMove, RepairDraft
from rescheduler.planning.stages import stages_of
from rescheduler.planning.steps import PlannedStep
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import Policy
from rescheduler.policies.objective import Tier
from rescheduler.policies.proposals import Candidate

WITHOUT_PLACE: Final = (SkipReason.NO_TARGET, SkipReason.NO_BETTER_TARGET)
"""Why a badly placed pod stays for which others may make room."""
MAKES_ROOM: Final = "MakesRoom"
"""``reason`` of a move whose pod steps aside for another one."""


@dataclass(frozen=True, slots=True)
class ChainPlanner:
    """Plans chains in one decision."""

    made: MakesMoves
    trial: Trial
    objective: Objective
    refusals: Refusals
    replacement: Callable[[Pod], Pod]
    budgets: BudgetLedger
    limits: LimitLedger

    def plan(
        self,
        stuck: Sequence[tuple[Policy, Candidate]],
        steps: Sequence[PlannedStep],
        work: int,
    ) -> None:
        """Chains for pods without a place, in their order, until none is found or search or limits are exhausted.

        ``steps``: planned so far. ``work``: as ``ChainSearch.work``.
        """
        search = self._search(steps, work)
        if not stuck or search.hopeless():
            return
        for reach in REACHES:
            search.allow(reach)
            planned = -1
            while planned < self.made.number():
                planned = self.made.number()
                self._plan_each(stuck, search)

    def follow(self, draft: RepairDraft, steps: Sequence[PlannedStep], work: int) -> None:
        """Plan what a draft says, as far as all rules allow it."""
        search = self._search(steps, work)
        aside: defaultdict[str, list[AsideTo]] = defaultdict(list)
        for pod, node in draft.aside:
            aside[pod.node].append(AsideTo(pod, node))
        waiting, number = list(draft.moves), -1
        # Topology spread may refuse a move until others of the draft are planned.
        while waiting and number < self.made.number():
            number = self.made.number()
            waiting = [one for one in waiting if not self._follow(one, aside, search)]

    def _follow(self, one: DraftedMove, aside: Mapping[str, Sequence[AsideTo]], search: ChainSearch) -> bool:
        """True if there is nothing more to do about it."""
        policy, candidate, node = one
        if search.exhausted or self.limits.exhausted:
            return True
        wish = self._wish(policy, candidate)
        if wish is None:
            return True
        if wish.gains[node] <= 0:
            return False
        there = aside[self.trial.state.node_names[node]]
        found = search.follow(wish, node, there, partial(self._may_step_aside, candidate))
        if found:
            self._take(candidate, found, search)
        return bool(found)

    def _search(self, steps: Sequence[PlannedStep], work: int) -> ChainSearch:
        stages = stages_of([step.move for step in steps])
        return ChainSearch(
            self.trial,
            self.objective,
            self.replacement,
            self.refusals.cost,
            {step.pod.uid: stage for step, stage in zip(steps, stages, strict=True)},
            work=work,
        )

    def _wish(self, policy: Policy, candidate: Candidate) -> Wish | None:
        """What the pod still wants; None: it is held, or nothing."""
        if self.made.is_planned(candidate.pod) or self._refusal(candidate, follows=True) is not None:
            return None
        gains = policy.gains(candidate, self.trial.view)
        if not (gains > 0).any():
            return None
        return Wish(candidate.pod, gains, self.refusals.least_gain(candidate.pod), policy.name)

    def _plan_each(self, stuck: Iterable[tuple[Policy, Candidate]], search: ChainSearch) -> None:
        for policy, candidate in stuck:
            if search.exhausted or self.limits.exhausted:
                return
            wish = self._wish(policy, candidate) if search.worth_a_look(candidate.pod) else None
            found = wish and search.find(wish, partial(self._may_step_aside, candidate))
            if found:
                self._take(candidate, found, search)

    def _may_step_aside(self, wanting: Candidate, pod: Pod) -> bool:
        return self.trial.view.movable(pod) and self._refusal(makes_room(pod, wanting), follows=True) is None

    def _take(self, candidate: Candidate, steps: Sequence[ChainStep], search: ChainSearch) -> None:
        before = self.made.number()
        taken: list[tuple[Candidate, bool]] = []
        for step in steps:
            last = step.pod is candidate.pod
            mover = candidate if last else makes_room(step.pod, candidate)
            follows = bool(step.after)
            if self._refusal(mover, follows=follows) is not None:
                self.made.undo(before)
                for one, after in taken:
                    self.made.give_back(one, follows=after)
                return
            self.made.move(mover, step.target if last else step.target._replace(gain=0.0), step.after)
            self.made.take(mover, follows=follows)
            taken.append((mover, follows))
        search.planned(steps)

    def _refusal(self, candidate: Candidate, *, follows: bool) -> Blocked | None:
        return held(candidate, self.made, self.refusals, self.budgets, follows=follows)


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
    # It moves for what it leaves, not for where it stands.
    return Candidate(
        pod=pod, policy=wanting.policy, reason=MAKES_ROOM, message=message, gain=1.0, tier=Tier.EMPTYING
    )
