"""The cheapest moves that make room for a pod that has no node. Pure search in a trial.

The pod fits on a node if some pods there stood elsewhere. Each of them goes where there is room by the rules of every move, as
tightly as it fits; where there is none, others make room for it in turn, as deep as it is allowed. The rooms that pods leave
are used only after they have left (``Trial.landed``).

Promises: the trial is left as it was; the same input gives the same way; no rule is broken more, all moves of a way together;
ways with fewer moves are found first; the work is bounded whatever the size of the cluster. A way may be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.bounds import MOST_EARLIER_MOVES
from rescheduler.model.records import Pod
from rescheduler.planning.chains import ChainStep, fewest, part_of
from rescheduler.planning.room_levels import NEVER
from rescheduler.planning.targets import Target, Targets
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.planning.victim_sets import Arrival, VictimSets
from rescheduler.policies.objective import Tier, nothing
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray, FloatArray, NodeIndices
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.node_ports import NodePorts
from rescheduler.scheduling.node_resources_fit import NodeResourcesFit
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread

_ABOUT_PODS: Final = (NodeResourcesFit.name, NodePorts.name, InterPodAffinity.name, PodTopologySpread.name)
"""Filters of the scheduler that may refuse a node because of the pods that stand there."""
_NODES: Final = (48, 16, 8)
"""Nodes on which room is made for the pod that waits, for one that steps aside for it, and so on."""
_SETS: Final = (12, 5, 3)
"""Sets of pods of such a node that are tried."""
_TARGETS: Final = 6
"""Nodes with room that are compared for a pod that steps aside: those where least is left."""
LOOK: Final = 6_000
"""Each look at all nodes counts as so many nodes more."""
_LOOK_AT_NODE: Final = 1_500
"""What it counts to look for sets of pods on one node."""


@dataclass(slots=True)
class SearchWork:
    """What is left of the work of a decision, in nodes that are looked at."""

    left: int


class Reach(NamedTuple):
    """How far a search goes."""

    moves: int
    """Pods that step aside at most."""
    depth: int
    """1: they go where there is room; 2: for one of them another one makes room; and so on."""


class Way(NamedTuple):
    """How a pod gets room."""

    node: str
    steps: tuple[ChainStep, ...]
    """In an order in which they can be carried out."""
    after: tuple[Pod, ...]
    """Pods that leave the node for it, of these steps or planned before."""
    last: Target | None = None
    """Of a pod that stands: its own move to the node."""


def _nobody(_: Pod) -> bool:
    return False


@dataclass(slots=True)
class RoomSearch:
    """Looks for ways in one trial."""

    trial: Trial
    objective: Objective
    replacement: Callable[[Pod], Pod]
    policy: str
    """For which hints to avoid nodes are looked at."""
    sets: VictimSets
    work: SearchWork
    _may_leave: Callable[[Pod], bool] = _nobody
    _may: dict[str, bool] = field(default_factory=dict)
    """Its answers, of one search."""
    _stop: int = 0
    """What is to be left of the work of the decision after this search."""
    _asking: set[str] = field(default_factory=set)
    _large_enough: BoolArray = field(init=False)
    """Nodes that would have room for the pod that is looked for if no other one stood there."""
    _possible: dict[PodClass, BoolArray] = field(default_factory=dict)
    """By class: nodes that nothing but pods there keeps it off."""
    _nowhere: dict[PodClass, int] = field(default_factory=dict)
    """Classes for which no node had free resources enough, by the version of the cluster of that time."""
    _failed: dict[tuple[PodClass, int, int, bool], int] = field(default_factory=dict)
    """What was looked for in vain, by the version of the cluster of that time."""

    def __post_init__(self) -> None:
        """Nothing is looked for yet."""
        self._large_enough = np.zeros(self.trial.state.nodes.size, dtype=np.bool_)

    def find(self, pod: Pod, reach: Reach, may_leave: Callable[[Pod], bool], share: int) -> Way | None:
        """A way within this reach. ``may_leave``: whether a pod may be moved for this one. ``share``: of the work."""
        self._may_leave = may_leave
        self._may.clear()
        self._stop = max(0, self.work.left - share)
        self._asking = {pod.uid}
        offered = [self.trial.state.allocatable(name) >= needed for name, needed in self.trial.needs(pod)]
        self._large_enough = np.logical_and.reduce(offered)
        mark = self.trial.mark()
        try:
            return next(self._ways(pod, *reach, frozenset()), None)
        finally:
            self.trial.rollback(mark)

    def nodes_without(self, pod: Pod) -> BoolArray:
        """Nodes that would take the pod as far as nothing but pods there keeps it off."""
        kind = self.trial.state.cluster.kind_of(pod)
        known = self._possible.get(kind)
        if known is None:
            result = self.trial.state.filter(pod)
            codes = [-1, *(code for code, name in enumerate(result.plugins) if name in _ABOUT_PODS)]
            known = np.isin(result.refused_by, codes) & self.trial.view.nodes.usable
            if result.everywhere is not None:
                known = np.zeros_like(known)
            self._possible[kind] = known
        return known

    def _ways(self, pod: Pod, moves: int, depth: int, kept: frozenset[int]) -> Iterator[Way]:
        """While one is given, its steps stand in the trial; the pod itself does not."""
        kind = self.trial.state.cluster.kind_of(pod)
        first = not kept
        key = kind, moves, depth, first
        if self._failed.get(key) == self.trial.version:
            return
        coming = self.replacement(pod) if pod.node else pod
        wanted = Arrival(coming, self.trial.needs(coming), moves, depth)
        level = min(len(kept), len(_NODES) - 1)
        version = self.trial.version
        for node in self._nodes(pod, wanted, kept, _NODES[level]):
            if self.work.left <= self._stop:
                return
            self.work.left -= _LOOK_AT_NODE
            for leaving, domain in self.sets.of(wanted, node, self._may_go)[: _SETS[level]]:
                if self.work.left <= self._stop:
                    return
                mark = self.trial.mark()
                steps = self._step_aside(leaving, moves, depth, kept | {node} | domain)
                if steps is not None:
                    after = self._after(wanted, node, leaving)
                    way = self._arrive(pod, coming, node, steps, after)
                    if way is not None:
                        yield way
                self.trial.rollback(mark)
        self._failed[key] = version

    def _nodes(self, pod: Pod, wanted: Arrival, kept: frozenset[int], most: int) -> list[int]:
        """Nodes on which so many moves may be enough, first where least is missing; so many at most."""
        enough = self.sets.levels.within(wanted.needs, wanted.moves)
        enough[[node for node, pods in self.sets.leavers.items() if pods]] = True
        possible = self.nodes_without(wanted.coming) & enough
        if pod.node:
            possible[self.trial.state.node_index[pod.node]] = False
        for node in kept:
            possible[node] = False
        nodes = np.flatnonzero(possible)
        missing = self._missing(wanted, nodes)
        if nodes.size > most:
            few = np.flatnonzero(missing <= np.partition(missing, most - 1)[most - 1])
            nodes, missing = nodes[few], missing[few]
        found: list[int] = nodes[np.lexsort((self.trial.view.nodes.ranks[nodes], missing))][:most].tolist()
        return found

    def _missing(self, wanted: Arrival, nodes: NodeIndices) -> FloatArray:
        """How much of what it needs each of these nodes lacks, as shares of its needs."""
        missing = np.zeros(len(nodes))
        for name, needed in wanted.needs:
            missing += np.maximum(needed - self.sets.levels.free.of(name)[nodes], 0) / needed
        return missing

    def _after(self, wanted: Arrival, node: int, leaving: Sequence[Pod]) -> tuple[Pod, ...]:
        """Those that a pod waits for that comes to the node: of those that leave it anyway the fewest that are enough."""
        leavers = self.sets.leavers.get(node, ())
        missing = [
            (name, needed - free)
            for name, needed in wanted.needs
            if (free := self.sets.levels.free.at(name, node)) < needed
        ]
        ordered = sorted(leavers, key=lambda pod: (-part_of(pod, missing), pod.key))
        return (*fewest(ordered, missing, tuple(leaving)), *leaving)

    def _may_go(self, pod: Pod) -> bool:
        # Of pods that only the trial puts there none steps aside, whoever asks.
        if (
            pod.uid in self._asking
            or pod.uid in self.trial.hypothetical
            or self.sets.levels.level(pod) >= NEVER
        ):
            return False
        known = self._may.get(pod.uid)
        if known is None:
            known = self._may[pod.uid] = self._may_leave(pod)
        return known

    def _step_aside(
        self, leaving: Sequence[Pod], moves: int, depth: int, kept: frozenset[int]
    ) -> list[ChainStep] | None:
        """Each of these pods goes elsewhere, the largest first; None if one of them cannot."""
        left = moves - len(leaving)
        steps: list[ChainStep] = []
        for pod in sorted(leaving, key=lambda p: (-p.held.cpu_milli, -p.held.memory_bytes, p.key)):
            made = self._elsewhere(pod, left, depth, kept)
            if not made:
                return None
            left -= len(made) - 1
            steps += made
        return steps

    def _elsewhere(self, pod: Pod, left: int, depth: int, kept: frozenset[int]) -> list[ChainStep]:
        """The moves that bring a pod off its node: planned in the trial. ``left``: moves of others for it."""
        coming = self.replacement(pod)
        target = self._target(pod, coming, kept)
        if target is not None:
            self.trial.move(pod, coming, target.node)
            return [ChainStep(pod, target)]
        if left <= 0 or depth <= 1:
            return []
        self._asking.add(pod.uid)
        way = next(self._ways(pod, left, depth - 1, kept), None)
        self._asking.discard(pod.uid)
        if way is None:
            return []
        self.trial.move(pod, coming, way.node, way.after)
        return [*way.steps, ChainStep(pod, way.last, way.after)] if way.last is not None else []

    def _target(self, pod: Pod, coming: Pod, kept: frozenset[int]) -> Target | None:
        """Where the pod goes by the rules of every move: where least is left, if that breaks no rule more and no wish."""
        trial, kind = self.trial, self.trial.state.cluster.kind_of(pod)
        if self._nowhere.get(kind) == trial.version:
            return None
        if not trial.with_free_resources(coming).any():
            self._nowhere[kind] = trial.version
            return None
        self._spend()
        allowed = Targets(trial).allowed(pod, coming, self.policy) & self._near_others(pod, coming)
        for node in (*kept, *trial.planned.left_for(trial.state.node_index[pod.node], pod)):
            allowed[node] = False
        nodes = np.flatnonzero(allowed)
        if not nodes.size:
            return None
        left = np.zeros(len(nodes))
        for name, needed in trial.needs(coming):
            free = self.sets.levels.free.of(name)[nodes]
            left += (free - needed) / np.maximum(trial.state.allocatable(name)[nodes], 1)
        best: tuple[tuple[int, int], Target] | None = None
        # Nodes that are large enough for the one that waits come last: the next one that waits may need them.
        order = np.lexsort((trial.view.nodes.ranks[nodes], np.round(left, 6), self._large_enough[nodes]))
        for node in nodes[order][:_TARGETS].tolist():
            name = trial.state.node_names[node]
            change = self.objective.change_at(pod, coming, node)
            harm = int(change.total[Tier.HARD]), max(int(change.total[Tier.SOFT]), 0)
            if harm[0] > 0 or (best is not None and harm >= best[0]):
                continue
            with trial.without(pod):
                relied_on = trial.leaning_on(pod, coming, name) is not None
            if not relied_on:
                best = harm, Target(name, 0.0, change.total, effects=change.effects())
                if not harm[1]:
                    break
        return best[1] if best is not None else None

    def _near_others(self, pod: Pod, coming: Pod) -> BoolArray:
        """Nodes where it is still near the pods that stay and require it."""
        with self.trial.without(pod):
            required = self.trial.required_near(pod, coming)
        return self.trial.view.nodes.all if required is None else required.nodes

    def _arrive(
        self, pod: Pod, coming: Pod, node: int, steps: Sequence[ChainStep], after: tuple[Pod, ...]
    ) -> Way | None:
        """The way, if the node takes the pod once those have left, and no rule is broken more."""
        if len(after) > MOST_EARLIER_MOVES:
            return None
        self._spend()
        trial, name = self.trial, self.trial.state.node_names[node]
        change = sum((step.target.change for step in steps), start=nothing())
        last: Target | None = None
        with trial.landed({one.uid for one in after}):
            if not pod.node:
                takes = bool(trial.arrivals(coming)[node])
            else:
                with trial.without(pod):
                    takes = bool(trial.feasible_targets(pod, coming)[node])
                    takes = takes and trial.leaning_on(pod, coming, name) is None
                takes = takes and bool(self._near_others(pod, coming)[node])
                if takes:
                    at = self.objective.change_at(pod, coming, node)
                    change = change + at.total
                    last = Target(name, 0.0, at.total, effects=at.effects())
        return Way(name, tuple(steps), after, last) if takes and change[Tier.HARD] <= 0 else None

    def _spend(self) -> None:
        """One look at all nodes."""
        self.work.left -= self.trial.state.nodes.size + LOOK
