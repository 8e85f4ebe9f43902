"""The world in which a plan is tried out: the what-if state, the index, and the room that is not free yet.

Capacity accumulates. A planned move occupies its target at once; the room that its old pod leaves is **not**
used by later moves of the same plan, because several moves run at once and none may depend on how fast
another pod ends. Constraints (spread, affinity) are judged as if the old pods were gone, and anti-affinity,
which counts terminating pods, also as if they still stood. So the moves can be carried out one after the
other, and also all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from rescheduler.model.records import Pod, VolumeKind
from rescheduler.model.selectors import Operator
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.both_moments import claims_alone, may_stand_in_the_way
from rescheduler.policies.framework import View
from rescheduler.policies.index import AntiTerm, PodIndex, matches
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.state import SchedulingState

_CLAIMS = (VolumeKind.CLAIM, VolumeKind.EPHEMERAL)
_PLENTY = 2**62


class Mark(NamedTuple):
    """A point to roll back to."""

    state: int
    moves: int


class Leaving(NamedTuple):
    """A pod whose move is planned or under way: it still holds its room on this node (index)."""

    pod: Pod
    node: int


class Trial:
    """The what-if world of one plan; undo with ``rollback`` (planned moves) and ``end`` (everything)."""

    def __init__(self, snapshot: Snapshot, view: View, imagined: set[str]) -> None:
        """``imagined``: filled with the uids of pods that do not really stand where the trial puts them."""
        self.snapshot = snapshot
        self.view = view
        self.state: SchedulingState = view.state
        self.index: PodIndex = view.index
        self.leaving: list[Leaving] = []
        self.imagined = imagined
        self._start = self.state.checkpoint()
        self._planned: list[Pod] = []
        self._rest: dict[str, IntArray] = {}
        """By resource, what a node would have left if leaving pods still stood; a lot where none leaves."""
        self._labelled: dict[tuple[str, str], list[Leaving]] = {}
        self._owning: dict[AntiTerm, list[Leaving]] = {}

    def mark(self) -> Mark:
        """A point to roll back to."""
        return Mark(self.state.checkpoint(), len(self._planned))

    def rollback(self, mark: Mark) -> None:
        """Undo the moves planned since ``mark``."""
        while len(self._planned) > mark.moves:
            self.imagined.discard(self._planned.pop().uid)
            self.index.unshift()
            self._return(self.leaving[-1])
        self.state.rollback(mark.state)
        self._rest.clear()

    def end(self) -> None:
        """Leave the state as it was before the trial."""
        self.state.rollback(self._start)

    def expect(self, pod: Pod, node: str) -> None:
        """A pending pod is taken as bound to the node."""
        self.state.remove(pod)
        placed = self.state.place(pod, node)
        self.imagined.add(placed.uid)
        self.index.enter(placed, self.state.node_index[node])

    def dismiss(self, pod: Pod) -> None:
        """A bound pod is taken as gone, and its room as free (the placeholder of a room already handed on)."""
        self.state.remove(pod)
        self.index.leave(pod, self.state.node_index[pod.node])

    def move(self, pod: Pod, replacement: Pod, target: str) -> None:
        """Plan a move: the replacement takes its place, the old pod keeps holding its room."""
        source = self.state.node_index[pod.node]
        self.state.remove(pod)
        placed = self.state.place(replacement, target)
        self.index.shift(pod, placed, source, self.state.node_index[target])
        self._leave(Leaving(pod, source))
        self._follow(replacement, (source, self.state.node_index[target]))
        self.imagined.add(placed.uid)
        self._planned.append(placed)

    @contextmanager
    def without(self, pod: Pod) -> Iterator[None]:
        """Meanwhile the pod is taken as gone."""
        mark = self.state.checkpoint()
        self.state.remove(pod)
        try:
            yield
        finally:
            self.state.rollback(mark)

    def roomy(self, replacement: Pod) -> BoolArray:
        """Nodes that may be targets and have enough free resources; cheap, and necessary for every target."""
        state = self.state
        free = self.view.nodes.targetable.copy()
        for name, needed in _needs(replacement):
            free &= state.allocatable(name) - state.requested(name) >= needed
        if self.leaving:
            self._beside_leaving(replacement, free)
        return free

    def roomy_at(self, replacement: Pod, node: int) -> bool:
        """``roomy`` of one node that may be a target."""
        state = self.state
        for name, needed in _needs(replacement):
            left = state.allocatable(name)[node] - state.requested(name)[node]
            if left - self.index.departed(name)[node] < needed:
                return False
        return True

    def takers(self, pod: Pod, replacement: Pod) -> BoolArray:
        """Nodes that take the replacement by the scheduler's rules, now and once the old pod, taken off, is gone."""
        feasible = self.state.feasible(replacement)
        feasible &= self.view.nodes.targetable
        feasible[self.state.node_index[pod.node]] = False
        if self.leaving:
            self._beside_leaving(replacement, feasible)
            self._beside_ports_and_claims(replacement, feasible)
        if feasible.any():
            self._while_standing(pod, replacement, feasible)
        return feasible

    def _leave(self, old: Leaving) -> None:
        self.leaving.append(old)
        for item in old.pod.labels.items():
            self._labelled.setdefault(item, []).append(old)
        for term in old.pod.spec.pod_anti_affinity:
            self._owning.setdefault(self.index.resolve(term, old.pod.namespace), []).append(old)

    def _return(self, old: Leaving) -> None:
        self.leaving.pop()
        for item in old.pod.labels.items():
            self._labelled[item].pop()
        for term in old.pod.spec.pod_anti_affinity:
            self._owning[self.index.resolve(term, old.pod.namespace)].pop()

    def _beside_leaving(self, replacement: Pod, feasible: BoolArray) -> None:
        """Rooms that pods are about to leave are not free yet."""
        for name, needed in _needs(replacement):
            rest = self._rest.get(name)
            feasible &= (self._left(name) if rest is None else rest) >= needed

    def _beside_ports_and_claims(self, replacement: Pod, feasible: BoolArray) -> None:
        """Neither are their ports and volumes."""
        spec = replacement.spec
        if spec.host_ports or any(v.kind in _CLAIMS for v in spec.volumes):
            for old in self.leaving:
                if old.pod.spec.host_ports or old.pod.spec.volumes:
                    feasible[old.node] = False

    def _left(self, resource: str) -> IntArray:
        state, leaving = self.state, self.index.departed(resource)
        left = state.allocatable(resource) - state.requested(resource) - leaving
        return np.where(leaving == 0, _PLENTY, left)

    def _follow(self, replacement: Pod, touched: tuple[int, int]) -> None:
        """A move to or from these nodes was planned."""
        state = self.state
        for resource, rest in self._rest.items():
            leaving = self.index.departed(resource)
            for node in touched:
                left = state.allocatable(resource)[node] - state.requested(resource)[node] - leaving[node]
                rest[node] = left if leaving[node] else _PLENTY
        for resource, _ in _needs(replacement):
            if resource not in self._rest:
                self._rest[resource] = self._left(resource)

    def _while_standing(self, pod: Pod, replacement: Pod, feasible: BoolArray) -> None:
        """Pods about to leave may still stand, terminating, when the replacement comes.

        They count for required anti-affinity and claims, not for topology spread; room was judged with them already.
        """
        standing: dict[str, Leaving] = {}
        for old, key in self._kept_off_by(replacement):
            self._keep_out_of_domain(old.node, key, feasible)
            standing[old.pod.uid] = old
        if may_stand_in_the_way(self.snapshot, pod, replacement):
            own = Leaving(pod, self.state.node_index[pod.node])
            keys = list(self._keys_apart(pod, replacement))
            for key in keys:
                self._keep_out_of_domain(own.node, key, feasible)
            if keys or claims_alone(self.snapshot, replacement):
                standing[pod.uid] = own
        # With affinity to pods that leave, or claims that they use, all rules are asked again.
        if standing and (replacement.spec.pod_affinity or replacement.spec.volumes):
            mark = self.state.checkpoint()
            for old in standing.values():
                self.state.linger(old.pod)
            feasible &= self.state.feasible(replacement)
            self.state.rollback(mark)

    def _keep_out_of_domain(self, node: int, key: str, feasible: BoolArray) -> None:
        """No node in the domain of this one; a node without the label is in no domain."""
        codes, _ = self.view.nodes.domains(key)
        if codes[node] >= 0:
            feasible &= codes != codes[node]

    def _kept_off_by(self, replacement: Pod) -> Iterator[tuple[Leaving, str]]:
        """Leaving pods that required anti-affinity of either side keeps out of the replacement's domain of a key."""
        if not self.leaving:
            return
        for anti in self.index.terms_against(replacement):
            for old in self._owning.get(anti, ()):
                yield old, anti.term.topology_key
        for term in replacement.spec.pod_anti_affinity:
            anti = self.index.resolve(term, replacement.namespace)
            for old in self._labelled_like(anti):
                if matches(anti, old.pod):
                    yield old, term.topology_key

    def _labelled_like(self, anti: AntiTerm) -> Iterable[Leaving]:
        requirements = anti.term.selector.requirements if anti.term.selector is not None else ()
        by_label = next((r for r in requirements if r.operator is Operator.IN), None)
        if by_label is None:
            return self.leaving
        return (old for value in by_label.values for old in self._labelled.get((by_label.key, value), ()))

    def _keys_apart(self, one: Pod, other: Pod) -> Iterator[str]:
        """Topology keys of required anti-affinity of either that matches the other."""
        for owner, match in ((one, other), (other, one)):
            for term in owner.spec.pod_anti_affinity:
                if matches(self.index.resolve(term, owner.namespace), match):
                    yield term.topology_key


def _needs(replacement: Pod) -> list[tuple[str, int]]:
    """What a pod needs of each resource, a place among the pods of the node included."""
    wanted = replacement.spec.requests.items()
    return [("pods", 1), *((name, amount) for name, amount in wanted if amount > 0 and name != "pods")]
