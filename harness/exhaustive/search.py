"""Every placement that moves can reach from where pods stand, with its badness: a search without any cunning.

A move takes one pod to another node; it must be allowed by the scheduler's rules with the old pod gone, and while it still ends. Pods
of one workload are alike, so placements that differ only in their names are one. The planner takes no part in this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from harness.exhaustive.clusters import TinyCluster
from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, TIERS, Tier
from rescheduler.replacements.identity import keeps_name
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.amounts import held_amount
from rescheduler.scheduling.framework import FloatArray, IntArray
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.state import SchedulingState

Placement = tuple[tuple[int, ...], ...]
"""By workload that moves, the nodes of its pods in order."""
Column = tuple[int, ...]
"""Badness by tier."""
_TOLERANCES: Final = {Tier.SOFT: ONE // 100, Tier.BALANCE: ONE // 1000}
"""Differences that are none."""


class Step(NamedTuple):
    """One move from a placement to another."""

    to: Placement
    keeps_company: bool
    """False: a pod that stays and requires the moved one near would find no node if it were started again."""
    kept_up: frozenset[Tier]
    """Tiers that no move lowers by this step, by the rules of the policies there about nodes that give and receive."""


@dataclass(frozen=True)
class Reached:
    """All placements."""

    start: Placement
    badness: Mapping[Placement, Column]
    steps: Mapping[Placement, tuple[Step, ...]]

    def distances(self, *, documented: bool) -> dict[Placement, int]:
        """The fewest moves to each placement.

        ``documented``: only moves of which none breaks more rules or meets fewer wishes in sum, that take no required company away
        unless they repair a rule (docs/design/05-objective.md), and that begin and end at nodes that the policies name (docs/policies.md).
        """
        found, queue = {self.start: 0}, deque([self.start])
        while queue:
            here = queue.popleft()
            for step in self.steps[here]:
                if step.to not in found and (not documented or self._documented(here, step)):
                    found[step.to] = found[here] + 1
                    queue.append(step.to)
        return found

    def _documented(self, here: Placement, step: Step) -> bool:
        (hard, _, soft, *_), (hard_there, _, soft_there, *_) = self.badness[here], self.badness[step.to]
        change = (b - a for a, b in zip(self.badness[here], self.badness[step.to], strict=True))
        falls = next((tier for tier, value in zip(Tier, change, strict=True) if value), None)
        if falls in step.kept_up:
            return False
        worse = hard_there > hard or (hard_there == hard and soft_there > soft)
        return not worse and (step.keeps_company or hard_there < hard)


def worse_in(one: Column, other: Column) -> Tier | None:
    """The tier in which ``one`` is worse than ``other``; None: in none. How far nodes are on the way to be empty does not count."""
    for tier in tuple(Tier)[: Tier.EMPTYING]:
        difference = one[tier] - other[tier]
        if abs(difference) > _TOLERANCES.get(tier, 0):
            return tier if difference > 0 else None
    return None


def reached(cluster: TinyCluster) -> Reached:
    """Look at all of them."""
    search = _Search(cluster)
    badness: dict[Placement, Column] = {}
    steps: dict[Placement, tuple[Step, ...]] = {}
    queue, seen = deque([search.start]), {search.start}
    while queue:
        here = queue.popleft()
        badness[here], steps[here] = search.look(here)
        for step in steps[here]:
            if step.to not in seen:
                seen.add(step.to)
                queue.append(step.to)
    return Reached(search.start, badness, steps)


@dataclass
class _Search:
    cluster: TinyCluster
    start: Placement = ()
    _workloads: list[list[Pod]] = field(default_factory=list)
    """By workload, what comes back for its pods."""

    def __post_init__(self) -> None:
        snapshot = self.cluster.snapshot
        self._state = SchedulingState(snapshot)
        self._view = PolicyView.of(snapshot, self._state)
        comes = Replacements(snapshot)
        nodes: dict[str, list[int]] = {}
        pods: dict[str, list[Pod]] = {}
        for pod in sorted(snapshot.pods.values(), key=lambda pod: pod.key):
            new = comes.of(pod).pod if pod.name not in self.cluster.staying else None
            if new is not None and pod.controller is not None:
                nodes.setdefault(pod.controller.uid, []).append(self._state.node_index[pod.node])
                pods.setdefault(pod.controller.uid, []).append(new)
                self._state.remove(pod)
        self._workloads = list(pods.values())
        self.start = tuple(tuple(sorted(some)) for some in nodes.values())
        self._staying = [
            pod
            for pod in snapshot.pods.values()
            if pod.name in self.cluster.staying and pod.spec.pod_affinity
        ]

    def look(self, here: Placement) -> tuple[Column, tuple[Step, ...]]:
        """The badness of a placement, and the moves from there."""
        state, mark = self._state, self._state.checkpoint()
        placed = [
            [state.place(pod, state.node_names[node]) for pod, node in zip(pods, nodes, strict=True)]
            for pods, nodes in zip(self._workloads, here, strict=True)
        ]
        total: IntArray = np.zeros(TIERS, dtype=np.int64)
        for policy in self.cluster.policies:
            total += policy.badness(self._view)
        steps = tuple(self._steps(here, placed))
        state.rollback(mark)
        return tuple(total.tolist()), steps

    def _steps(self, here: Placement, placed: list[list[Pod]]) -> Iterator[Step]:
        state = self._state
        for number, nodes in enumerate(here):
            for source in sorted(set(nodes)):
                at = nodes.index(source)
                old, new, mark = placed[number][at], self._workloads[number][at], state.checkpoint()
                others = [one for some in placed for one in some if one is not old and one.spec.pod_affinity]
                others += self._staying
                kept = [one for one in others if self._has_company(one)]
                state.remove(old)
                allowed = state.feasible(new).copy() & state.nodes.usable
                if not keeps_name(old):
                    state.place_terminating(old)
                    allowed &= state.feasible(new)
                state.rollback(mark)
                allowed[source] = False
                for target in np.flatnonzero(allowed).tolist():
                    state.remove(old)
                    state.place(new, state.node_names[target])
                    keeps = all(map(self._has_company, kept))
                    state.rollback(mark)
                    moved = tuple(sorted((*nodes[:at], *nodes[at + 1 :], target)))
                    to = (*here[:number], moved, *here[number + 1 :])
                    yield Step(to, keeps, frozenset(self._kept_up(old, source, target)))

    def _kept_up(self, old: Pod, source: int, target: int) -> Iterator[Tier]:
        """While the pod still stands on its source."""
        cluster, state = self.cluster, self._state
        if cluster.receives_below and not self._receives(target, old):
            yield Tier.BALANCE
        if cluster.empties_below_cpu is not None:
            gives = (
                self._share("cpu")[source] * 100 < cluster.empties_below_cpu and state.nodes.usable[source]
            )
            if not gives or state.requested("pods")[target] == state.cluster.pods_of_nodes()[target]:
                yield from (Tier.CONSOLIDATION, Tier.EMPTYING)
        if cluster.room and self._rooms(target, old) < self._rooms(target, None):
            yield Tier.FRAGMENTATION

    def _receives(self, node: int, pod: Pod) -> bool:
        """True if it is below all thresholds, and with the pod above no target threshold."""
        for name, percent in self.cluster.receives_below.items():
            shares, most = self._share(name) * 100, self.cluster.fills_up_to[name]
            mean = float(shares.mean())
            below, most = (mean - percent, mean + most) if self.cluster.even else (percent, most)
            comes = 100 * held_amount(pod, name) / max(int(self._state.allocatable(name)[node]), 1)
            if shares[node] >= below or shares[node] + comes > most:
                return False
        return True

    def _share(self, resource: str) -> FloatArray:
        return self._state.requested(resource) / np.maximum(self._state.allocatable(resource), 1)

    def _rooms(self, node: int, beside: Pod | None) -> int:
        """How many the node holds, perhaps beside one more pod."""
        state = self._state
        return min(
            (
                int(state.allocatable(name)[node] - state.requested(name)[node])
                - (held_amount(beside, name) if beside else 0)
            )
            // size
            for name, size in {**self.cluster.room, "pods": 1}.items()
        )

    def _has_company(self, pod: Pod) -> bool:
        """True unless its required affinity would keep it off the node where it stands."""
        state, mark = self._state, self._state.checkpoint()
        state.remove(pod)
        refusals = state.refusals(pod, pod.node, state.filter(pod))
        state.rollback(mark)
        return all(refusal.plugin != InterPodAffinity.name for refusal in refusals)
