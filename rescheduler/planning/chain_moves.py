"""Plans the chains of a draft for badly placed pods, within budgets and limits.

Moves that are planned after a chain do not count on its later stages (``Trial``). A chain is planned as a whole or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.model.room_pod import room_of_pod
from rescheduler.planning.chains import AsideTo, Chains, ChainStep, Wish
from rescheduler.planning.plan import Blocked
from rescheduler.planning.repair_drafts import (
    MOST_PODS,
    DraftedMove,
    Extent,
    RepairDraft,
    RepairDrafts,
    Wanting,
)
from rescheduler.planning.targets import Target, TargetWish
from rescheduler.planning.total_change import TotalChange
from rescheduler.planning.unfinished_plan import UnfinishedPlan
from rescheduler.policies.framework import Policy
from rescheduler.policies.objective import Tier, falls
from rescheduler.policies.proposals import Candidate
from rescheduler.scheduling.framework import IntArray

MAKES_ROOM: Final = "MakesRoom"
"""``reason`` of a move whose pod steps aside for another one."""
_MOST_SEARCHES: Final = 4
"""For pods that are left: in each what the rules refused before is forbidden."""


@dataclass(slots=True, kw_only=True)
class PlansDrafts:
    """Plans moves of a draft in one decision, within budgets and limits."""

    plan: UnfinishedPlan
    drafts: RepairDrafts

    def held(self, mover: Candidate, *, follows: bool = False) -> Blocked | None:
        """Why a pod may not be moved now with its room reserved first. ``follows``: its move begins after others."""
        return (
            self.plan.refusals.of(mover)
            or self.plan.budgets.refusal(mover.pod, mover.policy, reserves_first=True)
            or self.plan.limit(mover, follows=follows)
        )

    def take_all(self, wanting: Candidate, steps: Sequence[ChainStep]) -> Pod | None:
        """Plan all these moves, made for that pod, or none; gives the first that may not be moved beside those before it."""
        before = self.plan.number()
        for step in steps:
            itself = step.pod is wanting.pod
            mover = wanting if itself else makes_room(step.pod, wanting)
            if self.held(mover, follows=bool(step.after)) is not None:
                self.plan.undo(before)
                return step.pod
            self.plan.move(mover, step.target if itself else step.target._replace(gain=0.0), step.after)
            self.plan.take(step.pod)
        return None


class ChainPlanner(PlansDrafts):
    """Plans chains."""

    def draft(self, wanting: Wanting, extent: Extent | None = None) -> RepairDraft:
        """Of those of the badly placed pods that nothing holds back."""
        free = [one for one in wanting[:MOST_PODS] if self.plan.refusals.of(one[1]) is None]
        return self.drafts.draft(free, extent)

    def repair(self, draft: RepairDraft) -> None:
        """Plan what a draft says, as far as all rules allow it; what they refuse is searched again without that."""
        refused = self._follow_all(draft)
        if refused:
            self.drafts.refused.update(refused)
            self.repair_rest([(one.policy, one.candidate) for one in draft.moves])

    def repair_rest(self, stuck: Wanting) -> None:
        """Others make room for some of these, beside what is planned, as long as anything comes of it."""
        fruitless = 0
        while fruitless < _MOST_SEARCHES:
            number = self.plan.number()
            left = [one for one in stuck if not self.plan.is_planned(one[1].pod)]
            if not left or self.plan.limits.exhausted:
                return
            refused = self._follow_all(self.draft(left, self.drafts.of_rest(fruitless)))
            if number == self.plan.number():
                if not refused:
                    return
                fruitless += 1
            self.drafts.refused.update(refused)

    def _follow_all(self, draft: RepairDraft) -> Collection[tuple[str, int]]:
        """Gives what the rules refuse: uids, each with a node (an index)."""
        refused = set[tuple[str, int]]()
        aside = draft.by_node(self.plan.trial.state.node_index)
        waiting, number, sent = list(draft.moves), -1, self._sent(draft)
        # Topology spread may refuse a move until others of the draft are planned.
        while waiting and number < self.plan.number():
            number = self.plan.number()
            refused.clear()
            waiting = [one for one in waiting if not self._follow(one, aside, refused, sent)]
        return refused

    def _sent(self, draft: RepairDraft) -> Mapping[str, IntArray]:
        """By resource and node, what a draft sends there."""
        found = defaultdict[str, IntArray](lambda: np.zeros(self.plan.view.nodes.size, dtype=np.int64))
        for pod, node, _ in (*(move.to for move in draft.moves), *draft.aside):
            for name, needed in self.plan.trial.needs(
                self.plan.replacements.coming(pod) if pod.node else pod
            ):
                found[name][node] += needed
        return found

    def _follow(
        self,
        one: DraftedMove,
        aside: Mapping[int, Sequence[AsideTo]],
        refused: set[tuple[str, int]],
        sent: Mapping[str, IntArray],
    ) -> bool:
        """True if there is nothing more to do about it. ``sent``: what the whole draft sends to each node."""
        policy, candidate, to = one
        wanted = None if self.plan.limits.exhausted else self._wish(policy, candidate)
        if wanted is None:
            return True
        wish, change = wanted
        if wish.gains[to.node] <= 0:
            return False
        chains = Chains(
            self.plan.trial,
            self.plan.objective,
            self.plan.replacements.coming,
            self.plan.refusals.cost,
            refused,
        )
        leavers = self._leavers()
        may_leave = partial(self._may_step_aside, candidate)
        found = chains.follow(wish, to, aside, may_leave, leavers)
        if len(found) == 1 and not found[0].after:
            better = self._better_target(wish, change, to.node, sent)
            found = found if better is None else [found[0]._replace(target=better)]
        if found:
            self.take_all(candidate, found)
        return bool(found)

    def _better_target(
        self, wish: Wish, change: TotalChange, node: int, sent: Mapping[str, IntArray]
    ) -> Target | None:
        """A node that repairs as much as the one (an index) that the draft names, which knows of rules only, and is better by later tiers.

        It has room for all that the draft sends there besides, and is in the same domains: others of the draft count on that. None: there is none.
        """
        replacement = self.plan.replacements.coming(wish.pod)
        less = change.total - change.total[:, [node]]
        alike = (wish.gains > 0) & falls(less) & ~less[: Tier.BALANCE].any(axis=0)
        spec = replacement.spec
        keys = {one.topology_key for one in spec.spread} | {
            one.topology_key for one in spec.pod_anti_affinity
        }
        for key in keys:
            codes = self.plan.view.nodes.column(key).codes
            alike &= codes == codes[node]
        if not alike.any():
            return None
        for name, left, needed in self.plan.trial.left_for(replacement):
            alike &= left - sent[name] >= needed
        gains = np.where(alike, wish.gains, 0.0)
        asked = TargetWish(wish.pod, replacement, gains, change, wish.least_gain, wish.reason)
        found = self.plan.targets.choose(asked)
        return found if isinstance(found, Target) else None

    def _leavers(self) -> dict[int, list[Pod]]:
        """By node, the pods that leave it by this plan: a chain may wait for them."""
        found: dict[int, list[Pod]] = {}
        for move in self.plan.trial.planned.moves:
            # Those that are under way are no part of the plan.
            if self.plan.is_planned(move.pod):
                found.setdefault(move.source, []).append(move.pod)
        return found

    def _wish(self, policy: Policy, candidate: Candidate) -> tuple[Wish, TotalChange] | None:
        """What the pod still wants, and what its moves change; None: it is held, or nothing."""
        if self.plan.is_planned(candidate.pod) or self.held(candidate, follows=True) is not None:
            return None
        objective, replacement = self.plan.objective, self.plan.replacements.coming(candidate.pod)
        change = objective.change(candidate.pod, replacement)
        gains = objective.gains(policy, candidate, change)
        if not (gains > 0).any():
            return None
        least_gain = self.plan.refusals.least_gain(candidate.pod)
        return Wish(candidate.pod, gains, least_gain, policy.name, candidate.tier), change

    def _may_step_aside(self, wanting: Candidate, pod: Pod) -> bool:
        if self.plan.is_planned(pod) or not self.plan.trial.view.movable(pod):
            return False
        return self.held(makes_room(pod, wanting), follows=True) is None


def makes_room(pod: Pod, wanting: Candidate) -> Candidate:
    """A pod that steps aside, as the planner takes candidates: it need not be badly placed."""
    room = room_of_pod(wanting.pod)
    message = f"makes room for {f'Reservation {room}' if room else wanting.pod.key}"
    # It moves for what it leaves, not for where it stands.
    return Candidate(
        pod=pod, policy=wanting.policy, reason=MAKES_ROOM, message=message, gain=1.0, tier=Tier.EMPTYING
    )
