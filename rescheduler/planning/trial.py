"""The world in which a plan is tried out: the what-if state, the index, and the room that is not free yet.

Capacity accumulates. A planned move occupies its target at once; the room that its old pod leaves is **not**
used by later moves of the same plan, because several moves run at once and none may depend on how fast
another pod ends. Constraints (spread, affinity) are judged as if the old pods were gone, and anti-affinity,
which counts terminating pods, also as if they still stood. So the moves can be carried out one after the
other, and also all at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import numpy as np

from rescheduler.model.records import Pod, PodSpec, VolumeKind
from rescheduler.model.selectors import Operator
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.both_moments import claims_alone, reaches_other_nodes, without_spread
from rescheduler.planning.replacement import starts_after_the_old_ended
from rescheduler.policies.framework import View
from rescheduler.policies.index import AntiTerm, PodIndex, matches
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.state import SchedulingState

_CLAIMS = (VolumeKind.CLAIM, VolumeKind.EPHEMERAL)


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
        self._labelled: dict[tuple[str, str], list[Leaving]] = {}
        self._owning: dict[AntiTerm, list[Leaving]] = {}
        self._unspread: dict[int, tuple[PodSpec, PodSpec]] = {}

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
        self.imagined.add(placed.uid)
        self._planned.append(placed)

    def roomy(self, replacement: Pod) -> BoolArray:
        """Nodes with enough free resources; cheap, and necessary for every target."""
        state, request = self.state, replacement.spec.requests
        free = state.allocatable("pods") - state.requested("pods") >= 1
        for name, needed in request.items():
            if needed > 0 and name != "pods":
                free = free & (state.allocatable(name) - state.requested(name) >= needed)
        self._beside_leaving(replacement, free)
        return free

    def takers(self, pod: Pod, replacement: Pod) -> BoolArray:
        """Nodes that take the replacement by the scheduler's rules, now and once the old pod is gone."""
        mark = self.state.checkpoint()
        self.state.remove(pod)
        feasible: BoolArray = self.state.filter(replacement).feasible.copy()
        self.state.rollback(mark)
        feasible &= self.view.nodes.targetable
        feasible[self.state.node_index[pod.node]] = False
        if feasible.any():
            self._beside_leaving(replacement, feasible)
        if feasible.any():
            self._while_standing(pod, replacement, feasible)
        return feasible

    def score(
        self, pod: Pod, replacement: Pod, feasible: BoolArray
    ) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The scheduler's own points for the feasible nodes."""
        mark = self.state.checkpoint()
        self.state.remove(pod)
        total = self.state.score(replacement, feasible).total
        self.state.rollback(mark)
        return total

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
        if not self.leaving:
            return
        spec, state, index = replacement.spec, self.state, self.index
        for name, needed in (*spec.requests.items(), ("pods", 1)):
            leaving = index.departed(name)
            if needed > 0:
                feasible &= (leaving == 0) | (
                    state.requested(name) + leaving + needed <= state.allocatable(name)
                )
        if spec.host_ports or any(v.kind in _CLAIMS for v in spec.volumes):
            for old in self.leaving:
                if old.pod.spec.host_ports or old.pod.spec.volumes:
                    feasible[old.node] = False

    def _while_standing(self, pod: Pod, replacement: Pod, feasible: BoolArray) -> None:
        """Pods about to leave may still stand, terminating, when the replacement comes."""
        own = [Leaving(pod, self.state.node_index[pod.node])]
        others = self._kept_off_by(replacement)
        stays = not starts_after_the_old_ended(pod) and self._matters_while_it_stands(pod, replacement)
        if not others and not stays:
            return
        mark = self.state.checkpoint()
        if not stays:
            self.state.remove(own[0].pod)
        for old in others:
            self.state.place(old.pod, self.state.node_names[old.node])
        # Terminating pods do not count for topology spread, which was judged without them already; room
        # was judged with them already.
        bare = msgspec.structs.replace(replacement, spec=self._without_spread(replacement.spec))
        feasible &= self.state.filter(bare).feasible
        self.state.rollback(mark)

    def _kept_off_by(self, replacement: Pod) -> list[Leaving]:
        """Leaving pods that required anti-affinity keeps apart from the replacement, in either direction."""
        if not self.leaving:
            return []
        found: dict[str, Leaving] = {}
        for anti in self.index.terms_against(replacement):
            found.update((old.pod.uid, old) for old in self._owning.get(anti, ()))
        for term in replacement.spec.pod_anti_affinity:
            anti = self.index.resolve(term, replacement.namespace)
            for old in self._labelled_like(anti):
                if matches(anti, old.pod):
                    found[old.pod.uid] = old
        return sorted(found.values(), key=lambda old: old.pod.uid)

    def _labelled_like(self, anti: AntiTerm) -> Iterable[Leaving]:
        requirements = anti.term.selector.requirements if anti.term.selector is not None else ()
        by_label = next((r for r in requirements if r.operator is Operator.IN), None)
        if by_label is None:
            return self.leaving
        return (old for value in by_label.values for old in self._labelled.get((by_label.key, value), ()))

    def _matters_while_it_stands(self, pod: Pod, replacement: Pod) -> bool:
        keeps_off = reaches_other_nodes(pod, replacement) and self._keeps_off(pod, replacement)
        return keeps_off or claims_alone(self.snapshot, replacement)

    def _keeps_off(self, one: Pod, other: Pod) -> bool:
        """True if required anti-affinity of either matches the other."""
        return any(
            matches(self.index.resolve(term, owner.namespace), match)
            for owner, match in ((one, other), (other, one))
            for term in owner.spec.pod_anti_affinity
        )

    def _without_spread(self, spec: PodSpec) -> PodSpec:
        if not spec.spread:
            return spec
        kept = self._unspread.get(id(spec))
        if kept is None:
            kept = self._unspread[id(spec)] = spec, without_spread(spec)
        return kept[1]
