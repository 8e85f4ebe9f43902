"""The world in which a plan is tried out: the what-if state, and what later moves must not count on.

Room accumulates. A planned move occupies its target at once; the room, ports and volumes that its old pod leaves are
**not** used by later moves of the same plan, because several moves run at once and none may depend on how fast
another pod ends. Rules about other pods are judged after the earlier moves of the plan and without them, and those
that count terminating pods also while old pods still end (see ``transient_pods``). So the moves can be carried out one
after the other, and also all at once: none relies on a pod that another one brings or takes away. (Topology spread
relies on the order where ``at_once`` is not asked for.)

A move that begins after others (``Move.after``) is judged with those as done (``landed``): it may use the rooms that they leave.
It is of a later stage than they are, and no move relies on one of a later stage than its own (``PlannedSpread``).
One that only waits for its turn in a budget uses no such room (``following``).

In mode StartFirst the replacement is judged beside the running old pod, as it is before its adoption, and once more as
the pod that stays when the old one is gone; both whichever of the other moves have begun. Later moves are judged beside both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import msgspec
import numpy as np

from rescheduler.model.names import DEFAULT_NAMESPACE
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import Pod
from rescheduler.model.resources import Resources
from rescheduler.model.room_pod import pinned
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.avoid import RefusedTargets
from rescheduler.planning.expected_pods import ExpectedPods
from rescheduler.planning.placeholder_rules import PlaceholderRules, PlannedHolders
from rescheduler.planning.platforms import Platforms
from rescheduler.planning.priorities import HigherPriorityWaits, higher_priority_waits
from rescheduler.planning.required_affinity import Required, required_near
from rescheduler.planning.start_first_mode import may_start_beside
from rescheduler.planning.transient_pods import Relying, TransientPods
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.planned_moves import PlannedMove
from rescheduler.replacements.identity import keeps_name
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.node_ports import NodePorts
from rescheduler.scheduling.node_resources_fit import NodeResourcesFit, checked_requests
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread
from rescheduler.scheduling.state import SchedulingState

_HOLD_NOTHING = (VolumeKind.EMPTY_DIR, VolumeKind.HOST_PATH, VolumeKind.INLINE_CSI)
_ALL_NODES = slice(None)
_ABOUT_PODS = (NodeResourcesFit.name, NodePorts.name, InterPodAffinity.name, PodTopologySpread.name)
"""Filters of the scheduler that refuse a node because of the pods that stand there."""


class TrialMark(NamedTuple):
    """A point to roll back to."""

    state: int
    moves: int
    expected: int


class Trial:
    """The what-if world of one plan; undo with ``rollback`` (planned moves) and ``end`` (everything)."""

    def __init__(
        self,
        snapshot: Snapshot,
        view: PolicyView,
        hypothetical: set[str],
        *,
        at_once: bool = True,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> None:
        """``hypothetical``: filled with the uids of pods that do not really stand where the trial puts them.

        ``at_once``: False for a plan that shows what would follow as time passes: its order is kept.
        ``namespace``: that of placeholders.
        """
        self.snapshot = snapshot
        self.view = view
        self.state: SchedulingState = view.state
        self.planned = view.planned
        """Moves that are planned or under way: their old pods still hold their rooms."""
        self.hypothetical = hypothetical
        self.holders: dict[str, Pod] = {}
        """Nominated placeholders of rooms that want others to step aside, by uid of the pod that stands for the room."""
        self._start = self.state.checkpoint()
        self._expected = ExpectedPods(view.state)
        self._needs: dict[Resources, list[tuple[str, int]]] = {}
        self._passing = TransientPods(snapshot, view.state, at_once=at_once)
        self._contended_up_to: int | None = None
        """No pending pod has a higher priority; None: not asked yet. Pending pods only become fewer in a trial."""
        self._holders = PlannedHolders(PlaceholderRules(view.state, namespace))
        self.platforms = Platforms(view.nodes, snapshot.pods.values())
        self.refused = RefusedTargets(view.nodes, snapshot, view.state.ended.values())
        self._stage = 1
        """In which a move would be that is planned now."""

    @property
    def version(self) -> int:
        """Another number after every change; what is taken back brings the old number back."""
        return self.state.cluster.version

    def mark(self) -> TrialMark:
        """A point to roll back to."""
        return TrialMark(self.state.checkpoint(), len(self.planned.moves), len(self._expected))

    def rollback(self, mark: TrialMark) -> None:
        """Undo what was planned since ``mark``."""
        while len(self._expected) > mark.expected:
            self.hypothetical.discard(self._expected.pop().uid)
        while len(self.planned.moves) > mark.moves:
            self._passing.pop()
            self._holders.pop()
            self.hypothetical.discard(self.planned.pop().replacement.uid)
        self.state.rollback(mark.state)

    def end(self) -> None:
        """Leave the state as it was before the trial."""
        self.state.rollback(self._start)

    def assume(self, pod: Pod, node: str) -> None:
        """A pending pod is taken as bound to the node."""
        self.arrive(pod, node)
        if not belongs_to_node(pod):
            self.planned.expected[self.state.node_index[node]] += 1

    def arrive(self, pod: Pod, node: str) -> None:
        """A pending pod stands on the node, where room was made for it."""
        self.state.remove(pod)
        placed = self.state.place(pod, node)
        self._expected.add(pod, placed)
        self.hypothetical.add(placed.uid)

    def take_off(self, pod: Pod) -> TrialMark:
        """A bound pod is taken as gone, and its room as free (the placeholder of a room already handed on); gives the point before."""
        mark = self.mark()
        self.state.remove(pod)
        return mark

    def move(
        self,
        pod: Pod,
        replacement: Pod,
        target: str,
        after: Collection[Pod] = (),
        unadopted: Pod | None = None,
    ) -> None:
        """Plan a move: the replacement takes its place, the old pod keeps holding its room.

        ``after``: pods whose moves are planned already and must have landed before.
        ``unadopted``: the replacement as mode StartFirst creates it.
        """
        self.state.remove(pod)
        self.land(pod, replacement, target, after, unadopted)

    def land(
        self,
        pod: Pod,
        replacement: Pod,
        target: str,
        after: Collection[Pod] = (),
        unadopted: Pod | None = None,
    ) -> None:
        """``move`` of a pod that was taken off."""
        nodes = self.state.node_index
        placed = self.state.place(replacement, target)
        stage = self._stage_after({one.uid for one in after}) if after else 1
        move = PlannedMove(pod, placed, nodes[pod.node], nodes[target], stage, unadopted)
        self.planned.add(move)
        self._passing.add(move)
        self._holders.add(move)
        self.hypothetical.add(placed.uid)

    @contextmanager
    def landed(self, pods: Collection[str]) -> Iterator[None]:
        """Meanwhile the planned moves of pods with these uids are taken as done: the old pods are gone, and their rooms are free.

        For a move that begins after them. No move may be planned meanwhile.
        """
        moves = [move for move in self.planned.moves if move.pod.uid in pods]
        with (
            self.following(pods),
            self.planned.without(moves),
            self._passing.without(moves),
            self._holders.without(moves),
        ):
            yield

    @contextmanager
    def following(self, pods: Collection[str]) -> Iterator[None]:
        """Meanwhile a target is looked for that a pod goes to after the planned moves of pods with these uids; the rooms they leave are not used."""
        self._stage = self._stage_after(pods)
        try:
            yield
        finally:
            self._stage = 1

    @contextmanager
    def without(self, pod: Pod) -> Iterator[None]:
        """Meanwhile the pod is taken as gone."""
        mark = self.state.checkpoint()
        self.state.remove(pod)
        try:
            yield
        finally:
            self.state.rollback(mark)

    def with_free_resources(self, replacement: Pod) -> BoolArray:
        """Nodes that may be targets and have enough free resources; cheap, and necessary for every target."""
        free = self.view.nodes.usable.copy()
        # Several moves run at once, so none may count on room that another one's old pod still holds.
        for _, left, needed in self.left_for(replacement):
            free &= left >= needed
        return free

    def has_free_resources(self, replacement: Pod, node: int) -> bool:
        """``with_free_resources`` of one node that may be a target."""
        return all(left >= needed for _, left, needed in self.left_for(replacement, node))

    def feasible_targets(self, pod: Pod, replacement: Pod) -> BoolArray:
        """Nodes that take the replacement by the scheduler's rules, now and once the old pod, taken off, is gone."""
        feasible = self.state.feasible(replacement)
        self._restrict(pod, replacement, feasible)
        held = self.takes_holder(pod, replacement)
        if held is not None:
            feasible &= held
        self._restrict_whoever_is_there(replacement, feasible, None if keeps_name(pod) else pod)
        return feasible

    def elsewhere(self, pod: Pod, replacement: Pod) -> BoolArray | None:
        """Nodes to which the pod may move by what is known of the pod and them, whatever stands there; None: all."""
        built_for, willing = self.platforms.allowed(pod, replacement), self.refused.allowed(pod)
        return built_for if willing is None else willing if built_for is None else built_for & willing

    def kind(self, pod: Pod) -> tuple[object, ...]:
        """The same for pods with equal replacements for which ``elsewhere`` is the same."""
        return self.platforms.kind(pod), self.refused.kind(pod)

    def takes_holder(self, pod: Pod, replacement: Pod) -> BoolArray | None:
        """Nodes where anti-affinity refuses neither the placeholder for the replacement nor, for placeholders there, itself; None: all."""
        return self._holders.allowed(pod, self.state.node_index[pod.node], replacement)

    def arrivals(self, pod: Pod) -> BoolArray:
        """Nodes that take a pending pod now, and whichever pods of moves are there already."""
        feasible = self.state.feasible(pod)
        self._restrict_arrival(pod, feasible)
        held = self._holders.arrivals(pod)
        if held is not None:
            feasible &= held
        self._restrict_whoever_is_there(pod, feasible, None)
        return feasible

    def large_enough(self, coming: Pod) -> BoolArray:
        """Nodes that would have room for it if no other pod stood there."""
        enough = (self.state.allocatable(name) >= needed for name, needed in self.needs(coming))
        found: BoolArray = np.logical_and.reduce(list(enough))
        return found

    def without_others(self, coming: Pod) -> BoolArray:
        """Nodes that may be targets and that nothing but pods there keeps it off, as far as the first refusal tells."""
        result = self.state.filter(coming)
        if result.everywhere is not None:
            return np.zeros(self.state.nodes.size, dtype=np.bool_)
        codes = [-1, *(code for code, plugin in enumerate(result.plugins) if plugin in _ABOUT_PODS)]
        found: BoolArray = np.isin(result.refused_by, codes) & self.view.nodes.usable
        return found

    def left_for(self, replacement: Pod, at: int | slice = _ALL_NODES) -> Iterator[tuple[str, IntArray, int]]:
        """For each resource that it asks for: the name, what these nodes have left beside pods that leave, and what it asks for."""
        state, leaving = self.state, self.planned.departed
        for name, needed in self.needs(replacement):
            yield name, state.allocatable(name)[at] - state.requested(name)[at] - leaving(name)[at], needed

    def targets_beside(self, pod: Pod, unadopted: Pod) -> BoolArray:
        """Nodes that may take the replacement of mode StartFirst while the old pod, which stands, runs; see ``starts_beside``."""
        feasible = may_start_beside(self.state, unadopted)
        self._restrict(pod, unadopted, feasible)
        if feasible.any():
            self._passing.restrict_affinity(unadopted, feasible)
        return feasible

    def may_stay(self, replacement: Pod) -> BoolArray:
        """Nodes on which the adopted replacement of mode StartFirst keeps its rules once the old pod, taken off, is gone.

        It keeps them without pods that are not bound yet, too: what they would make good may never come. And beside the
        old pods of other moves: it has labels by then on which no rule was asked when it was bound (see ``start_first_mode``).
        """
        feasible = self.state.feasible(replacement)
        self._restrict_whoever_is_there(replacement, feasible, None)
        return feasible

    def starts_beside(self, unadopted: Pod, target: str) -> bool:
        """True if a node of ``targets_beside`` takes the replacement, pinned to it; the old pod stands."""
        asked = pinned(unadopted, target)
        feasible = self.state.feasible(asked)
        self._expected.restrict(asked, feasible)
        return bool(feasible[self.state.node_index[target]])

    def leaning_on(self, pod: Pod, replacement: Pod, target: str) -> Relying | None:
        """A planned move whose replacement could be refused if the pod, taken off, moves to ``target`` as well."""
        return self._passing.leaning_on(pod, replacement, target, self._stage)

    def taken_at(self, replacement: Pod, target: str) -> HigherPriorityWaits | None:
        """A pending pod of higher priority that would take what the replacement gets on ``target``; the old pod is taken off."""
        if self._contended_up_to is None:
            waiting = (pod.spec.priority for pod in self.state.unplaced.values() if not pod.spec.gates)
            self._contended_up_to = max(waiting, default=replacement.spec.priority)
        if replacement.spec.priority >= self._contended_up_to:
            return None
        mark = self.state.checkpoint()
        newest = msgspec.structs.replace(replacement, created_at_s=self.snapshot.taken_at_s)
        placed = self.state.place(newest, target)
        found = higher_priority_waits(self.state, (placed,), target, self.snapshot.budgets)
        self.state.rollback(mark)
        return found

    def required_near(self, pod: Pod, replacement: Pod) -> Required | None:
        """A pod that stays and requires the pod, taken off, near it; None: nobody does."""
        return required_near(pod, replacement, self.state.node_index[pod.node], self.state.cluster)

    def _stage_after(self, pods: Collection[str]) -> int:
        """Of a move that begins after the planned moves of pods with these uids."""
        return 1 + max(map(self.planned.stage_of, pods), default=0)

    def _restrict(self, pod: Pod, replacement: Pod, feasible: BoolArray) -> None:
        """Only nodes that may be targets, with what pods that leave still hold there."""
        feasible[self.state.node_index[pod.node]] = False
        elsewhere = self.elsewhere(pod, replacement)
        if elsewhere is not None:
            feasible &= elsewhere
        self._restrict_arrival(replacement, feasible)

    def _restrict_whoever_is_there(self, coming: Pod, feasible: BoolArray, ending: Pod | None) -> None:
        """Only nodes where the rules about other pods hold whichever pods that leave, come or are expected are there.

        ``ending``: the old pod, taken off, which may still end; None: it is gone.
        """

        def while_pods_end(nodes: BoolArray) -> None:
            if nodes.any():
                self._passing.restrict(coming, nodes, ending, self._stage)

        while_pods_end(feasible)
        # Both at once: an expected pod may be missing while an old pod still ends.
        self._expected.restrict(coming, feasible, while_pods_end)

    def _restrict_arrival(self, coming: Pod, feasible: BoolArray) -> None:
        feasible &= self.view.nodes.usable
        if self.planned.moves:
            self._without_leaving_rooms(coming, feasible)

    def _without_leaving_rooms(self, coming: Pod, feasible: BoolArray) -> None:
        """Rooms, ports and volumes that pods are about to leave are not free yet."""
        for name, left, needed in self.left_for(coming):
            feasible &= (left >= needed) | (self.planned.departed(name) == 0)
        if _holds_more(coming):
            for move in self.planned.moves:
                if _holds_more(move.pod):
                    feasible[move.source] = False

    def needs(self, replacement: Pod) -> Sequence[tuple[str, int]]:
        """What the scheduler asks a node for, a place among its pods included; not what its profile ignores."""
        requests = replacement.spec.requests
        found = self._needs.get(requests)
        if found is None:
            found = self._needs[requests] = [("pods", 1), *checked_requests(requests, self.state.profile)]
        return found


def _holds_more(pod: Pod) -> bool:
    """True if the pod holds host ports, disks or attached volumes on its node, besides resources."""
    return bool(pod.spec.host_ports) or holds_disks(pod)


def holds_disks(pod: Pod) -> bool:
    """True if it holds disks or attached volumes on its node."""
    return any(volume.kind not in _HOLD_NOTHING for volume in pod.spec.volumes)
