"""Plans chains for the badly placed pods that found no place: what a search or a draft finds, within budgets and limits.

Chains that are searched for one by one are planned last, when no single move helps any more; those of a draft before all else. Moves
that are planned after a chain do not count on its later stages (``Trial``). A chain is planned as a whole or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from rescheduler.model.records import Pod
from rescheduler.model.room_pod import room_of_pod
from rescheduler.planning.budgets import Blocked, BudgetLedger, LimitLedger
from rescheduler.planning.chains import AsideTo, Chains, ChainStep, Wish
from rescheduler.planning.groups import MakesMoves
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.refusals import Refusals
from rescheduler.planning.repair_drafts import DraftedMove, RepairDraft
from rescheduler.planning.room_levels import RoomLevels
from rescheduler.planning.room_search import LOOK, Reach, RoomSearch, SearchWork
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.planning.victim_sets import VictimSets
from rescheduler.policies.framework import Policy
from rescheduler.policies.objective import Tier
from rescheduler.policies.proposals import Candidate

WITHOUT_PLACE: Final = (SkipReason.NO_TARGET, SkipReason.NO_BETTER_TARGET)
"""Why a badly placed pod stays for which others may make room."""
MAKES_ROOM: Final = "MakesRoom"
"""``reason`` of a move whose pod steps aside for another one."""
MOST_WORK: Final = 1_200_000
"""Nodes that are looked at for all chains of one decision, as ``SearchWork`` counts: about 0.2 s."""
WORK_OF_A_PLAN: Final = 6
"""A plan that shows all moves looks so many times longer, in all attempts together: nobody waits for it every few seconds."""
_LOOKS_PER_POD: Final = 150
"""Times that all nodes are looked at, so that one badly placed pod finds its place."""


_REACHES: Final = ((2, Reach(1, 1)), (2, Reach(2, 1)), (2, Reach(4, 1)), (3, Reach(4, 2)), (4, Reach(6, 3)))
"""In which stage of the plan chains end at the latest, and how far they are looked for: what costs least and ends early first."""
_DRAFTED_STAGE: Final = 2


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

    def plan(self, stuck: Sequence[tuple[Policy, Candidate]], work: int) -> None:
        """Chains for pods without a place, in their order, until none is found or search or limits are exhausted.

        ``work``: as ``SearchWork``.
        """
        if not stuck or self.limits.exhausted:
            return
        view = self.trial.view
        levels = RoomLevels(
            self.trial, self.replacement, view.movable, _REACHES[-1][1].depth, view.movable_class
        )
        if levels.hopeless and not self.trial.planned.moves:
            return
        sets = VictimSets(trial=self.trial, levels=levels, cost=self.refusals.cost)
        search = RoomSearch(
            self.trial, self.objective, self.replacement, "", sets, SearchWork(work), self._chains()
        )
        share = _LOOKS_PER_POD * (self.trial.state.nodes.size + LOOK)
        for stage, reach in _REACHES:
            sets.leavers = self._leavers(stage)
            planned = -1
            while planned < self.made.number():
                planned = self.made.number()
                for policy, candidate in stuck:
                    if search.work.left <= 0 or self.limits.exhausted:
                        return
                    wish = None if search.in_vain(candidate.pod, reach) else self._wish(policy, candidate)
                    may = partial(self._may_step_aside, candidate)
                    way = wish and search.find(candidate.pod, reach, may, share, wish)
                    if way:
                        self._take(candidate, way.steps)
                        sets.leavers = self._leavers(stage)

    def follow(self, draft: RepairDraft) -> None:
        """Plan what a draft says, as far as all rules allow it."""
        aside: defaultdict[str, list[AsideTo]] = defaultdict(list)
        for pod, node in draft.aside:
            aside[pod.node].append(AsideTo(pod, node))
        waiting, number = list(draft.moves), -1
        # Topology spread may refuse a move until others of the draft are planned.
        while waiting and number < self.made.number():
            number = self.made.number()
            waiting = [one for one in waiting if not self._follow(one, aside)]

    def _follow(self, one: DraftedMove, aside: Mapping[str, Sequence[AsideTo]]) -> bool:
        """True if there is nothing more to do about it."""
        policy, candidate, node = one
        wish = None if self.limits.exhausted else self._wish(policy, candidate)
        if wish is None:
            return True
        if wish.gains[node] <= 0:
            return False
        there = aside[self.trial.state.node_names[node]]
        free = (to for to in there if not self.made.is_planned(to.pod))
        asked = [to for to in free if self._may_step_aside(candidate, to.pod)]
        mark = self.trial.mark()
        found = self._chains().follow(wish, node, asked, self._leavers(_DRAFTED_STAGE).get(node, ()))
        self.trial.rollback(mark)
        if found:
            self._take(candidate, found)
        return bool(found)

    def _chains(self) -> Chains:
        return Chains(self.trial, self.objective, self.replacement, self.refusals.cost)

    def _leavers(self, stage: int) -> dict[int, list[Pod]]:
        """By node, the pods that leave it by this plan before that stage: a chain may wait for them."""
        found: dict[int, list[Pod]] = {}
        for move in self.trial.planned.moves:
            # Those that are under way are no part of the plan.
            if move.stage < stage and self.made.is_planned(move.pod):
                found.setdefault(move.source, []).append(move.pod)
        return found

    def _wish(self, policy: Policy, candidate: Candidate) -> Wish | None:
        """What the pod still wants; None: it is held, or nothing."""
        if self.made.is_planned(candidate.pod) or self._refusal(candidate, follows=True) is not None:
            return None
        gains = policy.gains(candidate, self.trial.view)
        if not (gains > 0).any():
            return None
        return Wish(candidate.pod, gains, self.refusals.least_gain(candidate.pod), policy.name)

    def _may_step_aside(self, wanting: Candidate, pod: Pod) -> bool:
        return self.trial.view.movable(pod) and self._refusal(makes_room(pod, wanting), follows=True) is None

    def _take(self, candidate: Candidate, steps: Sequence[ChainStep]) -> None:
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
