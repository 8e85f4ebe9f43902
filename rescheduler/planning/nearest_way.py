"""The nearest way for a pod that fits on no node: who on one node would have to stand elsewhere. Pure; nothing is planned.

Promises: by kube-scheduler's rules the pod fits on the node without the pods that are named, and each of them fits on its new node after
those before it, beside the pending pod. Of all ways that are found, one in which nothing holds the pods comes first, then the fewest
pods. What holds one (a budget, a protection, a higher priority) is said. The work is bounded, so a way may be missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple

from rescheduler.model.records import Pod
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.protections import Protector
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState

_MOST_NODES: Final = 64
_MOST_PODS: Final = 12
"""Pods of a node that are tried: the smallest."""
_MOST_TOGETHER: Final = 2
_MOST_TRIALS: Final = 300
"""Of one pod: each asks the scheduling rules about the whole cluster, which takes milliseconds where there are thousands of nodes."""


class StepAside(NamedTuple):
    """A pod that would stand elsewhere."""

    pod: Pod
    target: str
    held: str
    """What keeps it from being moved; "" if nothing does."""


class NearestWay(NamedTuple):
    """A node that would take the pod."""

    node: str
    steps: tuple[StepAside, ...]

    @property
    def held(self) -> int:
        """How many of the pods are kept from being moved."""
        return sum(bool(step.held) for step in self.steps)


class NearestWays:
    """Looks for ways in one state, which is left as it was."""

    def __init__(
        self, state: SchedulingState, replacements: Replacements, protector: Protector, budgets: BudgetLedger
    ) -> None:
        self._state, self._replacements = state, replacements
        self._protector, self._budgets = protector, budgets
        self._trials = 0

    def of(self, pod: Pod) -> NearestWay | None:
        """The nearest way of a pending pod; None if none is found, or if it fits already."""
        result = self._state.filter(pod)
        if result.any() or result.everywhere is not None:
            return None
        self._trials = 0
        found = (way for node in self._nodes(pod) for way in self._ways(pod, node))
        return min(found, key=_rank, default=None)

    def _nodes(self, pod: Pod) -> list[str]:
        """Nodes that refuse it because of what stands there, those with the fewest pods first."""
        open_nodes = [
            verdict.node
            for verdict in self._state.explain(pod)
            if not verdict.feasible and not any(refusal.unresolvable for refusal in verdict.refusals)
        ]
        return sorted(open_nodes, key=lambda node: (len(self._state.pods_on(node)), node))[:_MOST_NODES]

    def _ways(self, pod: Pod, node: str) -> Iterator[NearestWay]:
        standing = [one for one in self._state.pods_on(node) if self._replacements.of(one).pod is not None]
        standing.sort(key=lambda one: (one.spec.priority, one.held.cpu_milli, one.key))
        for number in range(1, _MOST_TOGETHER + 1):
            ways = [
                way
                for pods in combinations(standing[:_MOST_PODS], number)
                if (way := self._way(pod, node, pods)) is not None
            ]
            yield from ways
            if any(not way.held for way in ways):
                return

    def _way(self, pod: Pod, node: str, pods: tuple[Pod, ...]) -> NearestWay | None:
        state, at = self._state, self._state.node_index[node]
        left = int(state.allocatable("cpu")[at] - state.requested("cpu")[at])
        too_small = pod.spec.requests.cpu_milli > left + sum(one.held.cpu_milli for one in pods)
        if too_small or self._trials >= _MOST_TRIALS:
            return None
        self._trials += 1
        mark = state.checkpoint()
        try:
            for one in pods:
                state.remove(one)
            if not state.feasible(pod)[at]:
                return None
            state.place(pod, node)
            steps = [self._step(pod, one) for one in pods]
            return NearestWay(node, tuple(step for step in steps if step)) if all(steps) else None
        finally:
            state.rollback(mark)

    def _step(self, pod: Pod, leaving: Pod) -> StepAside | None:
        replacement = self._replacements.of(leaving).pod
        if replacement is None:
            return None
        feasible = self._state.feasible(replacement) & self._state.nodes.usable
        feasible[self._state.node_index[leaving.node]] = False
        at = int(feasible.argmax())
        if not feasible[at]:
            return None
        target = self._state.nodes.names[at]
        self._state.place(replacement, target)
        return StepAside(leaving, target, self._held(pod, leaving))

    def _held(self, pod: Pod, leaving: Pod) -> str:
        if leaving.spec.priority > pod.spec.priority:
            return "has a higher priority"
        protected = self._protector.refusal(leaving)
        if protected is not None:
            return protected.message
        blocked = self._budgets.refusal(leaving)
        return f"is held by budget {blocked.by}" if blocked is not None else ""


def _rank(way: NearestWay) -> tuple[object, ...]:
    return (
        way.held,
        len(way.steps),
        max(s.pod.spec.priority for s in way.steps),
        way.node,
        [s.pod.key for s in way.steps],
    )
