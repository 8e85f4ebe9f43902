"""The last move of a chain: a badly placed pod goes where others have made room, and the draft's chains. Pure, in a trial.

A badly placed pod fits on a node once others there have left: those that step aside for it (``RoomSearch`` finds them, or a draft names
them), and those whose moves are planned anyway. The rooms that they leave are used only by the move that begins after theirs
(``Trial.landed``).

Promises: of each chain the badness of the whole falls, all moves of it together, and its last move
lowers it by itself. Protections, budgets and limits are asked of each pod that steps aside, and once more of all together when
the planner takes the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rescheduler.model.bounds import MOST_EARLIER_MOVES
from rescheduler.model.records import Pod
from rescheduler.planning.targets import Target, Targets
from rescheduler.planning.total_change import Objective, TotalChange
from rescheduler.planning.trial import Trial
from rescheduler.policies.objective import lowers, nothing, worsens_wishes
from rescheduler.policies.planned_moves import cover, taken_of
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
    """A pod that is to step aside, and the node (an index) that it is to go to."""

    pod: Pod
    node: int


class Wish(NamedTuple):
    """A badly placed pod for which no node has room."""

    pod: Pod
    gains: FloatArray
    """Of a move to each node; nodes at or below 0 are no better."""
    least_gain: float
    reason: str


@dataclass(frozen=True, slots=True)
class Chains:
    """Judges chains in one trial."""

    trial: Trial
    objective: Objective
    replacement: Callable[[Pod], Pod]
    cost: Callable[[Pod], float]
    """What a move of a pod costs, as part of the least gain."""

    def last(
        self, wish: Wish, node: int, steps: Sequence[ChainStep], after: tuple[Pod, ...]
    ) -> ChainStep | None:
        """The move of the pod to the node (an index), after those ``steps`` that stand in the trial, if it and the whole chain lower the badness.

        ``after``: the pods whose leaving it waits for.
        """
        if len(after) > MOST_EARLIER_MOVES:
            return None
        costs = sum(self.cost(step.pod) for step in steps) if wish.least_gain else 0.0
        gains = np.zeros_like(wish.gains)
        gains[node] = wish.gains[node]
        asked = wish._replace(gains=gains, least_gain=wish.least_gain + costs)
        with self.trial.landed({pod.uid for pod in after}):
            replacement = self.replacement(wish.pod)
            target = self._target(asked, replacement, self.objective.change(wish.pod, replacement))
        if target is None:
            return None
        whole = sum((step.target.change for step in steps), start=nothing()) + target.change
        # A last move that gains nothing would be undone: then those that step aside do better without it.
        return ChainStep(wish.pod, target, after) if lowers(whole) and lowers(target.change) else None

    def follow(
        self, wish: Wish, node: int, aside: Sequence[AsideTo], leavers: Sequence[Pod]
    ) -> list[ChainStep]:
        """A chain to one node (an index), where these pods step aside, as many as are needed: the first ones; empty: there is none.

        ``leavers``: pods that leave the node by this plan. The moves of those that step aside stand in the trial afterwards.
        """
        replacement = self.replacement(wish.pod)
        left = self.trial.left_for(replacement)
        missing = [(name, needed - int(free[node])) for name, free, needed in left if free[node] < needed]
        planned = sorted(leavers, key=lambda pod: (-part_of(pod, missing), pod.key))
        steps: list[ChainStep] = []
        waiting = list(aside)
        while not (enough := cover((*planned, *(step.pod for step in steps)), missing)) and waiting:
            step = self._aside_to(waiting.pop(0))
            if step is not None:
                steps.append(step)
        if not enough or len(steps) > MOST_EARLIER_MOVES:
            return []
        standing = tuple(step.pod for step in steps)
        earlier = fewest(planned[: MOST_EARLIER_MOVES - len(steps)], missing, standing) if missing else ()
        last = self.last(wish, node, steps, (*earlier, *standing))
        if last is None and not missing and planned:
            last = self.last(wish, node, steps, fewest(planned, missing))
        return [*steps, last] if last is not None else []

    def _aside_to(self, one: AsideTo) -> ChainStep | None:
        """Its move there, planned in the trial, if all rules allow it."""
        pod, replacement = one.pod, self.replacement(one.pod)
        change = self.objective.change(pod, replacement)
        gains = np.zeros(self.trial.state.nodes.size)
        gains[one.node] = float(not worsens_wishes(change.total)[one.node])
        target = self._target(Wish(pod, gains, 0.0, ""), replacement, change)
        if target is None:
            return None
        self.trial.move(pod, replacement, target.node)
        return ChainStep(pod, target)

    def _target(self, wish: Wish, replacement: Pod, change: TotalChange) -> Target | None:
        """Where the pod goes, by the rules of every move, but that the whole must get better: that is asked of the chain."""
        found = Targets(self.trial).choose(
            wish.pod,
            replacement,
            wish.gains,
            least_gain=wish.least_gain,
            reason=wish.reason,
            change=lambda: change,
            in_group=True,
        )
        return found if isinstance(found, Target) else None


def fewest(planned: Sequence[Pod], missing: Missing, besides: tuple[Pod, ...] = ()) -> tuple[Pod, ...]:
    """The fewest of the planned ones, from the first, that leave enough with those besides; empty: they do not, or need not.

    Where no room is missing, it is a rule about the pods there that keeps the other one away: then all of them.
    """
    if not missing:
        return tuple(planned) if len(planned) <= MOST_EARLIER_MOVES else ()
    for number in range(min(len(planned), MOST_EARLIER_MOVES) + 1):
        if cover((*planned[:number], *besides), missing):
            return tuple(planned[:number])
    return ()


def part_of(pod: Pod, missing: Missing) -> float:
    """How much more than necessary the pod leaves, or how much less."""
    return sum(taken_of(pod.held, name) / amount for name, amount in missing)
