"""The last move of a chain: a badly placed pod goes where others have made room, and the draft's chains. Pure, in a trial.

A badly placed pod fits on a node once others there have left: those that step aside for it, as a draft names
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
from rescheduler.planning.targets import Target, Targets
from rescheduler.planning.total_change import Objective, TotalChange
from rescheduler.planning.trial import Trial
from rescheduler.policies.objective import Tier, lowers, nothing, worsens_wishes
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


Aside = Callable[[int], list[AsideTo]]
"""Of the node that they leave; those that do are taken out."""


class Wish(NamedTuple):
    """A badly placed pod for which no node has room."""

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
        self, wish: Wish, node: int, aside: Aside, leavers: Mapping[int, Sequence[Pod]]
    ) -> list[ChainStep]:
        """A chain to one node (an index), where as many pods step aside as are needed: the first ones; empty: there is none.

        ``leavers``: by node, pods that leave it by this plan. The moves of those that step aside stand in the trial afterwards.
        """
        replacement, steps = self.replacement(wish.pod), list[ChainStep]()
        after = self._make_room(wish, replacement, node, aside, leavers, steps=steps)
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
        node: int,
        aside: Aside,
        leavers: Mapping[int, Sequence[Pod]],
        *,
        steps: list[ChainStep],
    ) -> tuple[Pod, ...] | None:
        """The pods that the replacement waits for on the node; None: they do not leave room enough. ``steps``: gets their moves."""
        left = self.trial.left_for(replacement)
        missing = [(name, needed - int(free[node])) for name, free, needed in left if free[node] < needed]
        planned = sorted(leavers.get(node, ()), key=lambda pod: (-part_of(pod, missing), pod.key))
        standing: list[Pod] = []
        waiting = aside(node)
        while not (enough := cover((*planned, *standing), missing)) and waiting:
            one = waiting.pop(0)
            if self._step_aside(wish, one, aside, leavers, steps=steps):
                standing.append(one.pod)
        if not enough or len(standing) > MOST_EARLIER_MOVES:
            return None
        besides = tuple(standing)
        earlier = fewest(planned[: MOST_EARLIER_MOVES - len(besides)], missing, besides) if missing else ()
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
        after = self._make_room(wish, replacement, one.node, aside, leavers, steps=steps)
        if after is None:
            return False
        with self.trial.landed({earlier.uid for earlier in after}):
            change = self.objective.change(pod, replacement)
            gains = np.zeros(self.trial.state.nodes.size)
            at = change.total[:, one.node]
            # For a wish nobody goes where it is worse for any tier: what brought it where it is would bring it back.
            worse = worsens_wishes(at) if wish.tier is Tier.HARD else lowers(-at)
            gains[one.node] = float(not worse)
            target = self._target(Wish(pod, gains, 0.0, ""), replacement, change)
        if target is None:
            self.refused.add((pod.uid, one.node))
            return False
        self.trial.move(pod, replacement, target.node, after)
        steps.append(ChainStep(pod, target, after))
        return True

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
