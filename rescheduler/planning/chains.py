"""Chains: where no node has room for a badly placed pod, others make room first. Pure search in a trial.

A badly placed pod fits on a node if one pod there, or a few, had left; each of these goes elsewhere by the rules of every
move, and if it fits nowhere, one pod makes room for it in turn. The pods that step aside need not be badly placed. The
rooms that they leave are used only by the move that begins after theirs (``Trial.landed``).

Promises: the trial is left as it was; the same input gives the same chain; of each chain the badness of the whole falls, all
moves of it together, and its last move lowers it by itself; the work is bounded whatever the size of the cluster
(``MOST_WORK``). Protections, budgets and limits are asked of each pod that steps aside, and once more of all together when the
planner takes the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, islice
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.bounds import MOST_EARLIER_MOVES
from rescheduler.model.records import Pod
from rescheduler.model.resources import Resources
from rescheduler.planning.targets import Target, Targets
from rescheduler.planning.total_change import Objective, TotalChange
from rescheduler.planning.trial import Trial
from rescheduler.policies.objective import lowers, nothing, worsens_wishes
from rescheduler.policies.planned_moves import cover, taken_of
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import FloatArray

MOST_WORK: Final = 1_200_000
"""Nodes that are looked at for all chains of one decision, each look counted as ``_LEAST_WORK`` nodes more: about 0.2 s."""
WORK_OF_A_PLAN: Final = 6
"""A plan that shows all moves looks so many times longer, in all attempts together: nobody waits for it every few seconds."""
_LEAST_WORK: Final = 6_000
LOOKS_PER_POD: Final = 150
"""Pods for which a target is looked for, so that one badly placed pod finds its place."""
_CONFLICTS: Final = 12
"""Pods on a node of which it is asked whether a rule about them is all that keeps the badly placed pod away."""
_TOGETHER: Final = 6
"""Of so many pods some are tried together, where fewer are not enough."""


class Reach(NamedTuple):
    """How far chains are looked for."""

    stage: int
    """Of the plan, in which they end at the latest."""
    together: int
    """Pods that step aside together for the badly placed one."""
    nodes: tuple[int, int]
    """Nodes on which room is made for the badly placed pod, and for a pod that steps aside for it."""
    pods: tuple[int, int]
    """Pods, or sets of pods, on such a node that are tried."""


REACHES: Final = (
    Reach(stage=2, together=2, nodes=(12, 4), pods=(6, 3)),
    Reach(stage=2, together=4, nodes=(40, 12), pods=(12, 6)),
    Reach(stage=3, together=2, nodes=(12, 4), pods=(6, 3)),
)
"""For all pods one after the other: what costs least and ends early first."""


Missing = Sequence[tuple[str, int]]
"""Resources of which a node has too little left, and how much is missing."""


class ChainStep(NamedTuple):
    """One move of a chain, behind those that it begins after."""

    pod: Pod
    target: Target
    after: tuple[Pod, ...] = ()
    """Pods whose moves must have landed before, of this chain or planned before it."""


class Leaving(NamedTuple):
    """Pods without which a node takes another one."""

    planned: tuple[Pod, ...]
    """Their moves are planned already."""
    standing: tuple[Pod, ...]
    """They would have to step aside."""


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


def _nobody(_: Pod) -> bool:
    return False


@dataclass(slots=True)
class ChainSearch:
    """Looks for chains in one trial. ``find`` once for each badly placed pod."""

    trial: Trial
    objective: Objective
    replacement: Callable[[Pod], Pod]
    cost: Callable[[Pod], float]
    """What a move of a pod costs, as part of the least gain."""
    stages: dict[str, int] = field(default_factory=dict)
    """Uids of the pods that the plan moves, with the stages of their moves from 1."""
    reach: Reach = REACHES[0]
    may_step_aside: Callable[[Pod], bool] = _nobody
    """Of the chain that is looked for now."""
    work: int = MOST_WORK
    """What is left of it."""
    _looks: int = 0
    _asking: set[str] = field(default_factory=set)
    """Uids of the pods for which room is made now: none of them makes room for another."""
    _rooms: dict[Resources, tuple[tuple[int, int], bool]] = field(default_factory=dict)
    """By request: at which moment of the trial it was asked whether any node has room for it, and the answer."""
    _stuck: dict[PodClass, int] = field(default_factory=dict)
    """Classes for whose pods no chain was found, by the version of the cluster of that time."""

    @property
    def exhausted(self) -> bool:
        """True if no more chains are looked for in this decision."""
        return self.work <= 0

    def hopeless(self) -> bool:
        """True if no node has room for any pod that runs, and none leaves its room: then nobody can step aside."""
        kinds = (k for k in self.trial.state.cluster.classes if k.pods and not k.belongs_to_node)
        return not self.trial.planned.moves and not any(self._has_room(kind.pods[0]) for kind in kinds)

    def worth_a_look(self, pod: Pod) -> bool:
        """False if the pod is moved already, or none was found for its like since anything was planned. Counted as work."""
        kind = self.trial.state.cluster.kind_of(pod)
        if pod.uid in self.stages or self._stuck.get(kind) == self.trial.version:
            return False
        self._spend()
        return True

    def allow(self, reach: Reach) -> None:
        """From now on chains are looked for so far."""
        self.reach = reach
        self._stuck.clear()

    def planned(self, steps: Iterable[ChainStep]) -> None:
        """A chain was taken: later ones may begin after its moves."""
        for step in steps:
            earlier = (self.stages[pod.uid] for pod in step.after)
            self.stages[step.pod.uid] = 1 + max(earlier, default=0)

    def find(self, wish: Wish, may_step_aside: Callable[[Pod], bool]) -> list[ChainStep]:
        """The moves that bring the pod to a better node, in an order in which they can be carried out; empty: none are found.

        ``may_step_aside``: whether protections, budgets and limits let a pod be moved.
        """
        self.may_step_aside = lambda pod: pod.uid not in self._asking and may_step_aside(pod)
        kind = self.trial.state.cluster.kind_of(wish.pod)
        self._looks = LOOKS_PER_POD
        mark = self.trial.mark()
        self._asking = {wish.pod.uid}
        try:
            found = next(self._chains(wish), [])
        finally:
            self.trial.rollback(mark)
        if not found:
            self._stuck[kind] = self.trial.version
        return found

    def follow(
        self, wish: Wish, node: int, aside: Sequence[AsideTo], may_step_aside: Callable[[Pod], bool]
    ) -> list[ChainStep]:
        """``find`` for one node (an index), where these pods step aside, as many as are needed: the first ones."""
        self.may_step_aside = may_step_aside
        self._looks = LOOKS_PER_POD
        mark = self.trial.mark()
        try:
            return self._followed(wish, node, aside)
        finally:
            self.trial.rollback(mark)

    def _followed(self, wish: Wish, node: int, aside: Sequence[AsideTo]) -> list[ChainStep]:
        missing = self._missing(self.replacement(wish.pod), node)
        planned = self._planned_to_leave(node, 1, missing)
        steps: list[ChainStep] = []
        waiting = [one for one in aside if one.pod.uid not in self.stages]
        while not (enough := cover((*planned, *(step.pod for step in steps)), missing)) and waiting:
            step = self._aside_to(waiting.pop(0))
            if step is not None:
                steps.append(step)
        if not enough or len(steps) > MOST_EARLIER_MOVES:
            return []
        standing = tuple(step.pod for step in steps)
        earlier = _fewest(planned[: MOST_EARLIER_MOVES - len(steps)], missing, standing) if missing else ()
        last = self._arrive(wish, node, steps, Leaving(earlier, standing))
        if last is None and not missing and planned:
            last = self._arrive(wish, node, steps, Leaving(_fewest(planned, missing), ()))
        made = [*steps, last] if last is not None else []
        whole = sum((step.target.change for step in made), start=nothing())
        return made if last is not None and lowers(whole) and lowers(last.target.change) else []

    def _aside_to(self, one: AsideTo) -> ChainStep | None:
        """Its move there, planned in the trial, if all rules allow it."""
        pod, replacement = one.pod, self.replacement(one.pod)
        if not self.may_step_aside(pod):
            return None
        change = self.objective.change(pod, replacement)
        gains = np.zeros(self.trial.state.nodes.size)
        gains[one.node] = float(not worsens_wishes(change.total)[one.node])
        target = self._target(Wish(pod, gains, 0.0, ""), replacement, change)
        if target is None:
            return None
        self.trial.move(pod, replacement, target.node)
        return ChainStep(pod, target)

    def _missing(self, replacement: Pod, node: int) -> Missing:
        found = self.trial.left_for(replacement)
        return [(name, needed - int(left[node])) for name, left, needed in found if left[node] < needed]

    def _chains(self, wish: Wish) -> Iterator[list[ChainStep]]:
        """Those that move the fewest pods first: the room is left by planned moves, one pod steps aside for it, or several."""
        for together in range(self.reach.together + 1):
            for made in self._made(wish, self.reach.stage, together, frozenset()):
                whole = sum((step.target.change for step in made), start=nothing())
                # A last move that gains nothing would be undone: then those that step aside do better without it.
                if lowers(whole) and lowers(made[-1].target.change):
                    yield made

    def _made(self, wish: Wish, stage: int, together: int, kept: frozenset[str]) -> Iterator[list[ChainStep]]:
        """Ways to bring the pod to one of its nodes; while one is given, its moves but the last stand in the trial.

        ``stage``: that of its move, at the latest. ``kept``: nodes to which no pod may go, because room is made there.
        """
        level = min(len(kept), 1)
        for node in self._nodes(wish)[: self.reach.nodes[level]]:
            name = self.trial.state.node_names[node]
            for leaving in self._leaving(wish, node, stage - 1, together, self.reach.pods[level]):
                if self._looks <= 0 or self.exhausted:
                    return
                mark = self.trial.mark()
                steps = self._step_aside(leaving.standing, stage - 1, kept | {name})
                last = self._arrive(wish, node, steps, leaving) if steps is not None else None
                if steps is not None and last is not None:
                    yield [*steps, last]
                self.trial.rollback(mark)

    def _step_aside(self, leaving: Sequence[Pod], stage: int, kept: frozenset[str]) -> list[ChainStep] | None:
        """Each of these pods goes elsewhere; None if one of them cannot."""
        steps: list[ChainStep] = []
        for pod in leaving:
            elsewhere = self._elsewhere(pod, stage, kept)
            if not elsewhere:
                return None
            steps += elsewhere
        return steps

    def _elsewhere(self, pod: Pod, stage: int, kept: frozenset[str]) -> list[ChainStep]:
        """The moves that bring a pod off its node: planned in the trial."""
        trial, replacement = self.trial, self.replacement(pod)
        # Where no node has room for it, which costs little to see, no rule needs to be asked.
        roomy = self._has_room(replacement)
        if not roomy and stage <= 1:
            return []
        change = self.objective.change(pod, replacement)
        # What it would want back as soon as it could is undone later: it does not step aside at its own cost.
        gains = (~worsens_wishes(change.total)).astype(np.float64)
        for name in kept:
            gains[trial.state.node_index[name]] = 0.0
        wish = Wish(pod, gains, 0.0, "")
        target = self._target(wish, replacement, change) if roomy else None
        if isinstance(target, Target):
            trial.move(pod, replacement, target.node)
            return [ChainStep(pod, target)]
        if stage <= 1:
            return []
        self._asking.add(pod.uid)
        ways = chain.from_iterable(self._made(wish, stage, together, kept) for together in (0, 1))
        made = next(ways, [])
        self._asking.discard(pod.uid)
        if made:
            trial.move(pod, replacement, made[-1].target.node, made[-1].after)
        return made

    def _arrive(
        self, wish: Wish, node: int, steps: Sequence[ChainStep], leaving: Leaving
    ) -> ChainStep | None:
        """The last move, after those ``steps`` that stand in the trial, if its pod fits on the node by then."""
        costs = sum(self.cost(step.pod) for step in steps) if wish.least_gain else 0.0
        gains = np.zeros_like(wish.gains)
        gains[node] = wish.gains[node]
        asked = wish._replace(gains=gains, least_gain=wish.least_gain + costs)
        after = (*leaving.planned, *leaving.standing)
        with self.trial.landed({pod.uid for pod in after}):
            replacement = self.replacement(wish.pod)
            target = self._target(asked, replacement, self.objective.change(wish.pod, replacement))
        return ChainStep(wish.pod, target, after) if target is not None else None

    def _target(self, wish: Wish, replacement: Pod, change: TotalChange) -> Target | None:
        """Where the pod goes, by the rules of every move, but that the whole must get better: that is asked of the chain."""
        self._spend()
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

    def _has_room(self, replacement: Pod) -> bool:
        """True if any node has free resources enough: asked once for each request while nothing changes."""
        requests, moment = replacement.spec.requests, (self.trial.version, len(self.trial.planned.moves))
        known = self._rooms.get(requests)
        if known is None or known[0] != moment:
            known = self._rooms[requests] = moment, bool(self.trial.with_free_resources(replacement).any())
        return known[1]

    def _spend(self) -> None:
        """One look at all nodes."""
        self._looks -= 1
        self.work -= self.trial.state.nodes.size + _LEAST_WORK

    def _nodes(self, wish: Wish) -> list[int]:
        """Nodes on which room may be made: first where the pod repairs most, then where least is missing."""
        self._spend()
        trial, replacement = self.trial, self.replacement(wish.pod)
        with trial.without(wish.pod):
            kept_out = trial.kept_out_by_pods(replacement)
        kept_out[trial.state.node_index[wish.pod.node]] = False
        elsewhere = trial.elsewhere(wish.pod, replacement)
        if elsewhere is not None:
            kept_out &= elsewhere
        nodes = np.flatnonzero(kept_out & (wish.gains > 0))
        change = self.objective.change(wish.pod, replacement).total
        missing = np.zeros(trial.state.nodes.size)
        for _, left, needed in trial.left_for(replacement):
            missing += np.maximum(needed - left, 0) / needed
        tiers = [row[nodes] for row in change[::-1]]
        order = np.lexsort((trial.view.nodes.ranks[nodes], missing[nodes], *tiers))
        found: list[int] = nodes[order].tolist()
        return found

    def _leaving(self, wish: Wish, node: int, stage: int, together: int, most: int) -> Iterator[Leaving]:
        """Pods that make room enough if they leave: as few as possible that leave anyway, and so many others; the smallest first.

        ``stage``: they have to leave in this stage of the plan at the latest.
        """
        trial, replacement = self.trial, self.replacement(wish.pod)
        missing = self._missing(replacement, node)
        planned = self._planned_to_leave(node, stage, missing)
        if not together:
            enough = _fewest(planned, missing)
            if enough:
                yield Leaving(enough, ())
            return
        if not missing:
            if together == 1:
                yield from islice(self._in_conflict(wish, node), most)
            return
        pods = (p for p in trial.state.pods_on(trial.state.node_names[node]) if p.uid not in self._asking)
        # A pod that fits nowhere needs room that others leave before: that takes one stage more.
        some_fit = (pod for pod in pods if stage > 1 or self._has_room(pod))
        sized = sorted(some_fit, key=lambda pod: (_part(pod, missing), pod.key))
        anyway = tuple(planned[: MOST_EARLIER_MOVES - together])
        alone = [pod for pod in sized if cover((*anyway, pod), missing)]
        if together == 1:
            ways: Iterator[tuple[Pod, ...]] = ((pod,) for pod in alone if self.may_step_aside(pod))
        else:
            small = [pod for pod in reversed(sized) if pod not in alone]
            some = list(islice(filter(self.may_step_aside, small), _TOGETHER))
            ways = (two for two in combinations(some, together) if cover((*anyway, *two), missing))
        for way in islice(ways, most):
            yield Leaving(_fewest(anyway, missing, way), way)

    def _planned_to_leave(self, node: int, stage: int, missing: Missing) -> list[Pod]:
        """Pods that leave the node by this plan, no later than in this stage: those of which a chain may wait, largest first."""
        moves = [m for m in self.trial.planned.moves if m.source == node]
        # Those that are under way are no part of the plan.
        pods = [m.pod for m in moves if 0 < self.stages.get(m.pod.uid, 0) <= stage]
        return sorted(pods, key=lambda pod: (-_part(pod, missing), pod.key))

    def _in_conflict(self, wish: Wish, node: int) -> Iterator[Leaving]:
        """Pods that keep the pod away by a rule about them, where there is room."""
        pods = self.trial.state.pods_on(self.trial.state.node_names[node])
        asked = (pod for pod in pods if self.may_step_aside(pod))
        for pod in islice(asked, _CONFLICTS):
            if self._takes_without(wish, node, pod):
                yield Leaving((), (pod,))

    def _takes_without(self, wish: Wish, node: int, other: Pod) -> bool:
        self._spend()
        with self.trial.without(wish.pod), self.trial.without(other):
            return bool(self.trial.state.feasible(self.replacement(wish.pod))[node])


def _fewest(planned: Sequence[Pod], missing: Missing, besides: tuple[Pod, ...] = ()) -> tuple[Pod, ...]:
    """The fewest of the planned ones, from the first, that leave enough with those besides; empty: they do not, or need not.

    Where no room is missing, it is a rule about the pods there that keeps the other one away: then all of them.
    """
    if not missing:
        return tuple(planned) if len(planned) <= MOST_EARLIER_MOVES else ()
    for number in range(min(len(planned), MOST_EARLIER_MOVES) + 1):
        if cover((*planned[:number], *besides), missing):
            return tuple(planned[:number])
    return ()


def _part(pod: Pod, missing: Missing) -> float:
    """How much more than necessary the pod leaves, or how much less."""
    return sum(taken_of(pod.held, name) / amount for name, amount in missing)
