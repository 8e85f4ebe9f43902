"""The chains of a draft: a badly placed or pending pod goes where others have made room. Pure, in a trial.

It fits on a node once others there have left: those that step aside for it, as a draft names
them, and those whose moves are planned anyway. The rooms that they leave are used only by the move that begins after theirs
(``Trial.landed``).

Promises: of each chain the badness of the whole falls, all moves of it together, and its last move
lowers it by itself. Protections, budgets and limits are asked of each pod that steps aside, and once more of all together when
the planner takes the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rescheduler.model.bounds import MOST_EARLIER_MOVES
from rescheduler.model.records import Pod
from rescheduler.planning.targets import Target, Targets, TargetWish
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.policies.objective import Tier, lowers, nothing, worsens_wishes
from rescheduler.policies.planned_moves import cover
from rescheduler.scheduling.amounts import held_amount
from rescheduler.scheduling.framework import FloatArray

Missing = Sequence[tuple[str, int]]
"""Resources of which a node has too little left, and how much is missing."""


class ChainStep(NamedTuple):
    """One move of a chain, behind those that it begins after."""

    pod: Pod
    target: Target
    after: tuple[Pod, ...] = ()
    """Pods whose moves must have landed before, of this chain or planned before it."""


class AsideTo(NamedTuple):
    """A pod, and the node (an index) that it is to go to."""

    pod: Pod
    node: int
    rules: tuple[Pod, ...] = ()
    """Those that must have left before because rules keep it away from them."""


Aside = Callable[[int], list[AsideTo]]
"""Of the node that they leave; those that do are taken out."""


class Wish(NamedTuple):
    """A badly placed or pending pod for which no node has room."""

    pod: Pod
    gains: FloatArray
    """Of a move to each node; nodes at or below 0 are no better."""
    least_gain: float
    reason: str
    tier: Tier = Tier.HARD
    """Where it counts that the pod is badly placed."""


@dataclass(frozen=True, slots=True)
class Chains:
    """Judges chains in one trial."""

    trial: Trial
    objective: Objective
    replacement: Callable[[Pod], Pod]
    cost: Callable[[Pod], float]
    """What a move of a pod costs, as part of the least gain."""
    refused: set[tuple[str, int]] = field(default_factory=set)
    """Uids and nodes of drafted moves that the rules refused."""

    def last(
        self, wish: Wish, node: int, steps: Sequence[ChainStep], after: tuple[Pod, ...]
    ) -> ChainStep | None:
        """The move of the pod to the node (an index), after those ``steps`` that stand in the trial, if it and the whole chain lower the badness.

        ``after``: the pods whose leaving it waits for.
        """
        if len(after) > MOST_EARLIER_MOVES:
            return None
        if not wish.pod.node:
            return self._arrival(wish.pod, node, steps, after)
        costs = sum(self.cost(step.pod) for step in steps) if wish.least_gain else 0.0
        with self.trial.landed({pod.uid for pod in after}):
            replacement = self.replacement(wish.pod)
            change = self.objective.change(wish.pod, replacement)
            least_gain = wish.least_gain + costs
            asked = TargetWish(wish.pod, replacement, wish.gains, change, least_gain, wish.reason)
            target = self._target(asked.at(node))
        if target is None:
            return None
        whole = sum((step.target.change for step in steps), start=nothing()) + target.change
        # A last move that gains nothing would be undone: then those that step aside do better without it.
        return ChainStep(wish.pod, target, after) if lowers(whole) and lowers(target.change) else None

    def _arrival(
        self, pod: Pod, node: int, steps: Sequence[ChainStep], after: tuple[Pod, ...]
    ) -> ChainStep | None:
        """A pod without a node does not move: it is bound there, if the moves break no rule more."""
        with self.trial.landed({one.uid for one in after}):
            takes = bool(self.trial.arrivals(pod)[node])
        if not takes or sum(step.target.change[Tier.HARD] for step in steps) > 0:
            return None
        placed = nothing()
        placed[Tier.PENDING] = -1
        return ChainStep(pod, Target(self.trial.state.node_names[node], 0.0, placed), after)

    def follow(
        self,
        wish: Wish,
        to: AsideTo,
        drafted: Mapping[int, Sequence[AsideTo]],
        may_leave: Callable[[Pod], bool],
        leavers: Mapping[int, Sequence[Pod]],
    ) -> list[ChainStep]:
        """A chain to one node, where as many pods step aside as are needed: the first ones; empty: there is none.

        ``drafted``: by the node that they leave, who may step aside, as far as they ``may_leave``. ``leavers``: by node, pods that
        leave it by this plan. Nothing is planned.
        """
        free: dict[int, list[AsideTo]] = {}

        def aside(at: int) -> list[AsideTo]:
            if at not in free:
                free[at] = [one for one in drafted.get(at, ()) if may_leave(one.pod)]
            return free[at]

        mark = self.trial.mark()
        found = self._follow(wish, to, aside, leavers)
        self.trial.rollback(mark)
        return found

    def room(
        self,
        to: AsideTo,
        drafted: Mapping[int, Sequence[AsideTo]],
        leavers: Mapping[int, Sequence[Pod]],
        most_moves: int,
    ) -> list[ChainStep]:
        """How a pending pod gets room on a node: the moves of those that step aside, at most so many, and its own arrival; empty: it gets none.

        ``leavers``: by node, pods that leave it for rooms that were planned before.
        """
        wish = Wish(to.pod, np.zeros(0), 0.0, "", Tier.PENDING)
        stands = self.trial.planned.stage_of
        found = self.follow(wish, to, drafted, lambda other: not stands(other.uid), leavers)
        return found if len(found) - 1 <= most_moves else []

    def _follow(
        self, wish: Wish, to: AsideTo, aside: Aside, leavers: Mapping[int, Sequence[Pod]]
    ) -> list[ChainStep]:
        """The moves of those that step aside stand in the trial afterwards."""
        node, steps = to.node, list[ChainStep]()
        replacement = self.replacement(wish.pod) if wish.pod.node else wish.pod
        after = self._make_room(wish, replacement, to, aside, leavers, steps=steps)
        if after is None:
            return []
        last = self.last(wish, node, steps, after)
        if last is None and not after and leavers.get(node):
            last = self.last(wish, node, steps, fewest(leavers[node], ()))
        if last is None:
            self.refused.add((wish.pod.uid, node))
            return []
        return [*steps, last]

    def _make_room(
        self,
        wish: Wish,
        replacement: Pod,
        to: AsideTo,
        aside: Aside,
        leavers: Mapping[int, Sequence[Pod]],
        *,
        steps: list[ChainStep],
    ) -> tuple[Pod, ...] | None:
        """The pods that the replacement waits for on the node; None: they do not leave room enough. ``steps``: gets their moves."""
        node, apart = to.node, list[Pod]()
        for pod in to.rules:
            there = aside(self.trial.state.node_index[pod.node])
            one = next((one for one in there if one.pod is pod), None)
            if one is not None:
                there.remove(one)
                if not self._step_aside(wish, one, aside, leavers, steps=steps):
                    return None
            elif not self.trial.planned.stage_of(pod.uid):
                return None
            apart.append(pod)
        left = self.trial.left_for(replacement)
        missing = [(name, needed - int(free[node])) for name, free, needed in left if free[node] < needed]
        here = self.trial.state.node_names[node]
        lacking = _less(missing, [pod for pod in apart if pod.node == here])
        planned = [pod for pod in leavers.get(node, ()) if pod not in apart]
        stage_of = self.trial.planned.stage_of
        planned.sort(key=lambda pod: (stage_of(pod.uid), -part_of(pod, lacking), pod.key))
        standing: list[Pod] = []
        waiting = aside(node)
        while not (enough := cover((*planned, *standing), lacking)) and waiting:
            one = waiting.pop(0)
            if self._step_aside(wish, one, aside, leavers, steps=steps):
                standing.append(one.pod)
        if not enough or len(standing) + len(apart) > MOST_EARLIER_MOVES:
            return None
        besides = (*apart, *standing)
        earlier = fewest(planned[: MOST_EARLIER_MOVES - len(besides)], lacking, standing) if lacking else ()
        return (*earlier, *besides)

    def _step_aside(
        self,
        wish: Wish,
        one: AsideTo,
        aside: Aside,
        leavers: Mapping[int, Sequence[Pod]],
        *,
        steps: list[ChainStep],
    ) -> bool:
        """Plan its move in the trial, and those of pods that step aside for it, if all rules allow it."""
        pod, replacement = one.pod, self.replacement(one.pod)
        after = self._make_room(wish, replacement, one, aside, leavers, steps=steps)
        if after is None:
            return False
        with self.trial.landed({earlier.uid for earlier in after}):
            change = self.objective.change(pod, replacement)
            gains = np.zeros(self.trial.state.nodes.size)
            at = change.total[:, one.node]
            match wish.tier:
                case Tier.HARD:
                    worse = bool(worsens_wishes(at))
                case Tier.PENDING:
                    worse = bool(at[Tier.HARD] > 0)
                case _:  # Nobody goes where it is worse for any tier: what brought it where it is would bring it back.
                    worse = lowers(-at)
            gains[one.node] = float(not worse)
            target = self._target(TargetWish(pod, replacement, gains, change))
        if target is None:
            self.refused.add((pod.uid, one.node))
            return False
        self.trial.move(pod, replacement, target.node, after)
        steps.append(ChainStep(pod, target, after))
        return True

    def _target(self, wish: TargetWish) -> Target | None:
        """Where the pod goes, by the rules of every move, but that the whole must get better: that is asked of the chain."""
        found = Targets(self.trial).choose(wish._replace(in_group=True))
        return found if isinstance(found, Target) else None


def fewest(planned: Sequence[Pod], missing: Missing, besides: Sequence[Pod] = ()) -> tuple[Pod, ...]:
    """The fewest of the planned ones, from the first, that leave enough with those besides; empty: they do not, or need not.

    Where no room is missing, it is a rule about the pods there that keeps the other one away: then all of them.
    """
    if not missing:
        return tuple(planned) if len(planned) <= MOST_EARLIER_MOVES else ()
    for number in range(min(len(planned), MOST_EARLIER_MOVES) + 1):
        if cover((*planned[:number], *besides), missing):
            return tuple(planned[:number])
    return ()


def _less(missing: Missing, leaving: Sequence[Pod]) -> Missing:
    """What is missing beside what these leave."""
    rest = [(name, amount - sum(held_amount(pod, name) for pod in leaving)) for name, amount in missing]
    return [(name, amount) for name, amount in rest if amount > 0]


def part_of(pod: Pod, missing: Missing) -> float:
    """How much more than necessary the pod leaves, or how much less."""
    return sum(held_amount(pod, name) / amount for name, amount in missing)
