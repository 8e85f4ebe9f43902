"""Where a pod fits, by our own scheduling rules on a ``SchedulingState`` that is updated from each snapshot.

The answers are predictions: kube-scheduler decides about every placeholder and every replacement.
A claimant in hand-over is counted on its target as if it were bound: the scheduler ignores nominations of lower
priority, and a new placeholder on that node would take the room (4 of 5 moves were lost in this way). Assumed rooms are
counted, too: those chosen in this round, written a moment ago, or not bound by the scheduler yet. The placeholder of a
Reservation that users created is counted as the pod that will use it, with its labels, so that rooms obey the
anti-affinity and spread constraints of their pods. That of a move holds room only: whoever is placed beside it must fit whether
the old pod and the replacement of that move are there or not. All trial changes are rolled back before an answer is returned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import msgspec
import numpy as np

from rescheduler.coordination.assumed import (
    NOTHING_WRITTEN,
    Written,
    assumed_rooms,
    in_hand_over,
)
from rescheduler.coordination.holders_apart import Holders, holders_of, or_apart
from rescheduler.coordination.key_stores import avoided_by
from rescheduler.coordination.landing_order import Flight, landable, minds_others
from rescheduler.coordination.moves_under_way import (
    IntentOf,
    MovesUnderWay,
    intent_shown_s,
    room_of_replacement,
)
from rescheduler.coordination.open_domains import open_domains
from rescheduler.coordination.protection import Protection, movable_by_nature
from rescheduler.migrations.observed_migration import ALLOWED, Permission
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_of_move import made_for
from rescheduler.model.room_pod import (
    hypothetical_pod,
    keeps_its_distance,
    made_for_pod,
    pod_of_room,
    priority_of_pods,
)
from rescheduler.model.selectors import NodeSelector
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.placeholder_rules import HOLDER_APART
from rescheduler.planning.priorities import HigherPriorityWaits, higher_priority_waits
from rescheduler.planning.protections import Lifted
from rescheduler.planning.single_pod import (
    Choice,
    choose_preallocation,
    choose_room,
    choose_target,
    move_refusal,
    pod_refusal,
    start_first_refusal,
    take_off,
    weightless,
)
from rescheduler.planning.transient_pods import TransientPods
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.handover import as_released
from rescheduler.reservations.placeholder import placeholder_name
from rescheduler.scheduling.framework import BoolArray, Profile, Refusal
from rescheduler.scheduling.state import SchedulingState, SharedSchedulingState


@dataclass(slots=True, kw_only=True)
class Placement:
    """Answers for the snapshot of one round. ``protection``: further reasons not to move a pod."""

    namespace: str
    """Of placeholders."""
    profile: Profile | None = None
    states: SharedSchedulingState = field(default_factory=SharedSchedulingState)
    """The scheduling state of each round; decisions use the same one between rounds."""
    protection: Protection = movable_by_nature
    _replacements: Replacements = field(default_factory=lambda: Replacements(Snapshot(taken_at_s=0.0)))
    _state: SchedulingState | None = None
    _written: Written = field(default_factory=dict)
    _intent_s: IntentOf = intent_shown_s
    _behind: bool = True
    _assumed: dict[str, Pod] = field(default_factory=dict)
    """Name of a Reservation, or uid of a pod that is moved -> the pod that stands for its assumed room in the state."""
    _moves: MovesUnderWay | None = None
    _claimants: list[Pod] = field(default_factory=list)
    """Claimants in hand-over, as they are placed in the state."""
    _hypothetical: dict[str, Pod] = field(default_factory=dict)
    """Uid of a placeholder -> the pod of the template that replaces it in the state."""
    _holders: Holders | None = None
    """The placeholders of this round, for the rules that keep them and other pods apart."""

    def begin(
        self,
        replacements: Replacements,
        written: Written = NOTHING_WRITTEN,
        intent_s: IntentOf = intent_shown_s,
    ) -> None:
        """A new round, to whose snapshot ``written`` is still to be added, and what ``intent_s`` tells (``MovesUnderWay``).

        The state is updated only at the first question, which many rounds do not have.
        """
        self._replacements = replacements
        self._written, self._intent_s = written, intent_s
        self._behind = True

    def for_reservation(self, reservation: Reservation, *, waits_on: str = "") -> Choice:
        """The node that the template names, if it is feasible; else the feasible node with the best score.

        Never one whose only free room is being handed over. With preAllocation: a node that could take it once other pods
        have left. ``waits_on``: the node that its placeholder waits on; chosen again, nothing more counts as taken there.
        """
        if reservation.template is None:
            return Choice(message="spec.template cannot be read")
        pod = hypothetical_pod(reservation)
        with self._trial(reservation.name) as state:
            self._take_off(state, self._placeholder(reservation))
            held = self._holder_rules(state).for_room(reservation, pod)
            # Who chose the node of a move or of a pending pod has looked at what is under way already.
            chosen = made_for(reservation) or made_for_pod(reservation)
            with nullcontext() if chosen else self._under_way(pod, None, reservation.name) as passing:
                choice = self._room(reservation, state, pod, held, passing)
        if choice.node and choice.node != waits_on:
            self._take(reservation.name, pod, choice.node)
        return choice

    def _room(
        self,
        reservation: Reservation,
        state: SchedulingState,
        pod: Pod,
        held: BoolArray | None,
        under_way: TransientPods | None,
    ) -> Choice:
        named, waits = reservation.template_node, reservation.pre_allocation
        snapshot = self._replacements.snapshot
        taken = partial(self._taken_from_room, reservation, state)
        if named:
            refusal = pod_refusal(state, weightless(pod) if waits else pod, named, under_way)
            if refusal is not None:
                return Choice(message=f"node/{named}: {refusal.reason}")
            if held is not None and not waits and not held[state.node_index[named]]:
                return Choice(message=f"node/{named}: {HOLDER_APART}")
            higher = "" if waits else taken(named)
            if higher:
                return Choice(message=higher)
            return choose_preallocation(state, snapshot, pod, named) if waits else Choice(node=named)
        unfit = or_apart(state, held, taken)
        choice = choose_room(state, pod, partial(avoided_by, reservation, snapshot), unfit, under_way)
        if choice.node or not waits:
            return choice
        return choose_preallocation(state, snapshot, pod)

    def has_room(self, holder: Pod, node: str, behind: Sequence[Pod]) -> bool:
        """Whether this pending placeholder would fit on ``node`` now without the nominations of those ``behind`` it."""
        admitted = msgspec.structs.replace(holder, spec=msgspec.structs.replace(holder.spec, gates=()))
        with self._trial() as state:
            self._take_off(state, holder, *behind)
            at = state.node_index.get(node)
            return at is not None and bool(state.filter(admitted).feasible[at])

    def would_take(self, pod: Pod, node: str, holder: Pod | None) -> Permission:
        """Whether the scheduler would bind this pod, pending without a gate, to ``node`` once ``holder`` is gone.

        It is judged with the toleration that it gets. Placeholders that are nominated there do not count: their nominations
        are withdrawn for a hand-over. Pods of schedulers whose rules are not known are not judged.
        """
        if not (self.profile or Profile()).judges(pod.spec.scheduler_name):
            words = f"scheduler {pod.spec.scheduler_name} is none whose rules are known"
            return Permission(ok=False, message=words)
        with self._trial() as state:
            if node not in state.node_index:
                return Permission(ok=False, message=f"node/{node} does not exist any more")
            self._hand_on(state, node, holder, pod)
            refusal = pod_refusal(state, as_released(pod, node), node)
            if refusal is None and holder is not None:
                refusal = self._holder_rules(state).refusal(pod, node, besides=holder)
        return _permission(refusal)

    def overtaking(
        self, pods: Sequence[Pod], others: Sequence[Pod], node: str, holder: Pod | None
    ) -> Pod | None:
        """The first of ``others``, pending too, that would be bound to ``node`` instead of one of ``pods`` once ``holder`` is gone."""
        with self._trial() as state:
            if node not in state.node_index:
                return None
            self._hand_on(state, node, holder, *pods, *others)
            first: Pod | None = None
            for other in others:
                if pod_refusal(state, as_released(other, node), node) is None:
                    first = first or other
                    self._bind(state, other, node)
            for pod in pods if first is not None else ():
                if pod_refusal(state, as_released(pod, node), node) is not None:
                    return first
                self._bind(state, pod, node)
        return None

    def _hand_on(self, state: SchedulingState, node: str, holder: Pod | None, *pods: Pod) -> None:
        """As the node is once ``holder`` is deleted for one of these: nominations of placeholders there are withdrawn."""
        nominated = [one for one in state.nominated_to(node) if one.namespace == self.namespace]
        for one in (*self._placed(*pods), *nominated):
            take_off(state, one)
        self._take_off(state, holder)

    @staticmethod
    def _bind(state: SchedulingState, pod: Pod, node: str, bound: Pod | None = None) -> Pod:
        if state.unplaced.get(pod.key) is pod:
            state.remove(pod)
        return state.place(bound or pod, node)

    def blocked_by_nominated(self, claimant: Pod, node: str) -> bool:
        """True if the scheduler would refuse the claimant on ``node`` only because of pods that are nominated there.

        It counts nominated pods of the same or higher priority as if they were bound, while they wait for victims to end.
        Other claimants are left out: ``handover_order`` decides about those.
        """
        released = as_released(claimant, node)
        with self._trial() as state:
            for pod in self._claimants:
                take_off(state, pod)
            at = state.node_index.get(node)
            if at is None or state.filter(released).feasible[at]:
                return False
            for pod in state.nominated_to(node):
                take_off(state, pod)
            # True only if it fits without them: a claimant that other rules refuse as well would wait in vain.
            return bool(state.filter(released).feasible[at])

    def landable(self, rooms: Sequence[Reservation], claimed: Sequence[Reservation]) -> frozenset[str]:
        """Names of the ``rooms`` that may be assigned now, so that no pod is refused because of the order of binding.

        These are rooms whose pods have no rules about other pods, and those that ``landing_order`` allows. ``claimed``: rooms
        that were assigned a moment ago, which the snapshot does not show yet.
        """
        minding = [
            room for room in rooms if keeps_its_distance(room) and minds_others(hypothetical_pod(room))
        ]
        if not minding:
            return frozenset(room.name for room in rooms)
        # Only pods that are really bound count; pods in flight are added by ``landing_order``, in every order.
        with self._trial() as state:
            flights = [*(Flight("", pod, pod.node) for pod in self._claimants), *map(_flight, claimed)]
            for pod in (*self._assumed.values(), *self._hypothetical.values(), *self._claimants):
                take_off(state, pod)
            found = landable(state, self._replacements.snapshot.nodes, map(_flight, minding), flights)
        return found | {room.name for room in rooms} - {room.name for room in minding}

    def for_migration(self, pod: Pod, *, starts_first: bool = False) -> Choice:
        """A node to move the pod to, for a move that names none; with ``starts_first`` beside the running pod."""

        def taken(node: str) -> str:
            found = self.taken_from_replacement(pod, node, None)
            return found.message if found is not None else ""

        replacements, held = self._replacements, None
        with self._trial(pod.uid) as state:
            replacement = replacements.of(pod).pod
            if replacement is not None and not starts_first:
                held = self._holder_rules(state).for_move(pod, replacement)
            unfit = or_apart(state, held, taken)
            with self._under_way(replacement, pod) as passing:
                choice = choose_target(
                    replacements, state, pod, starts_first=starts_first, under_way=passing, taken=unfit
                )
        if choice.node:
            self.take(pod, choice.node)
        return choice

    def take(self, pod: Pod, node: str) -> None:
        """Count a move of ``pod`` to ``node`` until the next round, as ``for_migration`` does with what it chose."""
        replacement = self._replacements.of(pod).pod
        if replacement is not None:
            self._take(pod.uid, room_of_replacement(replacement), node)
            self._opened()[1].add(pod, msgspec.structs.replace(replacement, node=node))

    def open_domains(self, coming: Pod, pod: Pod | None) -> NodeSelector | None:
        """Where a node would have to be that is added for ``coming``, which may be the replacement of ``pod``; None: anywhere."""
        with self._trial(pod.uid if pod is not None else "") as state:
            return open_domains(state, self._replacements.snapshot.nodes, pod, coming)

    def movable(self, pod: Pod, *, lifted: Lifted = Lifted.NOTHING, policy: str = "") -> Permission:
        """Whether this pod may be moved at all: by ``movable_by_nature``, then by the protections.

        ``policy``: that planned the move; the protections of its profile count.
        """
        replacements = self._replacements
        by_nature = movable_by_nature(pod, replacements)
        return by_nature if not by_nature.ok else self.protection(pod, replacements, lifted, policy)

    def comes_back(self, pod: Pod) -> bool:
        """Whether its controller creates another pod in its place."""
        return self._replacements.of(pod).pod is not None

    def fits(self, pod: Pod, node: str, reservation: Reservation | None) -> Permission:
        """Whether the replacement fits on ``node`` without its placeholder, both while the old pod ends and once it is gone."""
        room = reservation.name if reservation is not None else ""
        with self._trial(pod.uid, room) as state:
            placeholder = self._placeholder(reservation)
            holder = self._standing(placeholder) if placeholder is not None else None
            replacement = self._replacements.of(pod).pod
            with self._under_way(replacement, pod, room) as passing:
                refusal = move_refusal(self._replacements, state, pod, node, holder, under_way=passing)
            if refusal is None and replacement is not None:
                rules = self._holder_rules(state)
                refusal = rules.move_refusal(pod, replacement, node, room=room, holder=placeholder)
        return _permission(refusal)

    def fits_beside(self, pod: Pod, node: str) -> Permission:
        """Whether the replacement of mode StartFirst fits on ``node`` while ``pod`` runs, and may stay once it is gone."""
        coming = self._replacements.of(pod).pod
        with self._trial(pod.uid) as state, self._under_way(coming, pod) as passing:
            return _permission(start_first_refusal(self._replacements, state, pod, node, passing))

    def taken_from_replacement(
        self, pod: Pod, node: str, reservation: Reservation | None
    ) -> HigherPriorityWaits | None:
        """The pending pod of higher priority that would take the capacity on ``node`` from the replacement of ``pod``.

        Judged with the replacement landed, the old pod gone and the move's own placeholder deleted.
        """
        replacement = self._replacements.of(pod).pod
        with self._trial(pod.uid, reservation.name if reservation is not None else "") as state:
            if replacement is None or node not in state.node_index:
                return None
            self._take_off(state, self._placeholder(reservation))
            take_off(state, pod)
            return self._taken(state, (replacement,), node, ())

    def taken_from_owners(
        self, pods: Sequence[Pod], node: str, holder: Pod | None, served: Collection[str]
    ) -> HigherPriorityWaits | None:
        """The same for owners that take the capacity which ``holder`` holds. ``served``: uids of pods with capacity of their own."""
        with self._trial() as state:
            if node not in state.node_index:
                return None
            for pod in self._placed(*pods):
                take_off(state, pod)
            self._take_off(state, holder)
            return self._taken(state, pods, node, served)

    def _taken(
        self, state: SchedulingState, pods: Sequence[Pod], node: str, served: Collection[str]
    ) -> HigherPriorityWaits | None:
        snapshot = self._replacements.snapshot
        landed = []
        for pod in pods:
            if pod.node == node:
                landed.append(pod)
                continue
            # The newest pod of its priority: of equal ones kube-scheduler deletes it first.
            newest = max(pod.created_at_s, snapshot.taken_at_s)
            landed.append(self._bind(state, pod, node, msgspec.structs.replace(pod, created_at_s=newest)))
        return higher_priority_waits(state, landed, node, snapshot.budgets, own=self.namespace, served=served)

    def _taken_from_room(self, reservation: Reservation, state: SchedulingState, node: str) -> str:
        """Judged by the priority of the owners, because the room is theirs once the placeholder is deleted."""
        template = reservation.template
        if template is None:
            return ""
        priority = priority_of_pods(template, self._replacements.snapshot.priority_classes)
        mark = state.checkpoint()
        found = self._taken(state, (pod_of_room(reservation, priority),), node, ())
        state.rollback(mark)
        return found.message if found is not None else ""

    def other_node(self, pod: Pod, node: str) -> str:
        """A usable node other than ``node`` that would take the gated ``pod`` now, once it is released; "": there is none."""
        spec, nodes = msgspec.structs.replace(pod.spec, gates=()), self._replacements.snapshot.nodes
        with self._trial() as state:
            for one in self._placed(pod):
                take_off(state, one)
            found = state.feasible(msgspec.structs.replace(pod, nominated_node="", spec=spec))
            names = (state.node_names[i] for i in np.flatnonzero(found).tolist())
            return next((name for name in names if name != node and nodes[name].usable), "")

    @contextmanager
    def _trial(self, *besides: str) -> Iterator[SchedulingState]:
        """``_open``, and all that is changed is taken back afterwards."""
        state, mark = self._open(*besides)
        try:
            yield state
        finally:
            state.rollback(mark)

    def _placed(self, *pods: Pod) -> list[Pod]:
        """Those of the claimants in hand-over that are one of ``pods``, as they are placed in the state."""
        return [placed for placed in self._claimants if any(placed.uid == pod.uid for pod in pods)]

    def _take_off(self, state: SchedulingState, *holders: Pod | None) -> None:
        for holder in holders:
            if holder is not None:
                take_off(state, self._standing(holder))

    def _open(self, *besides: str) -> tuple[SchedulingState, int]:
        """The state of this round, with rooms in hand-over and assumed rooms counted.

        ``besides``: uids of pods, names of Reservations whose own assumed rooms are not counted in this question.
        """
        state, _ = self._opened()
        mark = state.checkpoint()
        for asker in besides:
            if asker in self._assumed:
                take_off(state, self._assumed[asker])
        return state, mark

    def _opened(self) -> tuple[SchedulingState, MovesUnderWay]:
        if self._state is None or self._moves is None or self._behind:
            self._state, self._moves = self._renewed(self._replacements.snapshot)
            self._behind = False
            self._holders = None
        return self._state, self._moves

    def _under_way(
        self, coming: Pod | None, pod: Pod | None, *besides: str
    ) -> AbstractContextManager[TransientPods]:
        """The moves that count for ``coming``, which replaces ``pod`` (or none), and the pods that are not bound yet.

        ``besides``: names of Reservations whose own assumed rooms are not counted in this question.
        """
        expected: list[Pod] = []
        if coming is not None and coming.spec.pod_affinity:
            own = (pod.uid if pod is not None else "", *besides)
            rooms = [room for asker, room in self._assumed.items() if asker not in own]
            expected = [*rooms, *self._claimants, *self._hypothetical.values()]
        return self._opened()[1].beside(pod, expected)

    def _take(self, asker: str, pod: Pod, node: str) -> None:
        """Count ``pod`` on ``node`` until the next round, in place of the assumed room of the same ``asker``."""
        state, _ = self._open(asker)
        self._assumed[asker] = state.place(pod, node)

    def _renewed(self, snapshot: Snapshot) -> tuple[SchedulingState, MovesUnderWay]:
        """The scheduling state at the beginning of a round, and the moves that it does not show as done."""
        state = self.states.at(snapshot, self.profile)
        self._claimants.clear()
        # kube-scheduler ignores nominations of lower priority, and placeholders have a higher priority than most claimants:
        # if claimants were counted as nominated only, their rooms would be chosen again.
        handed_over: set[str] = set()
        for reservation, claimant in in_hand_over(snapshot):
            node = reservation.status.node_name
            if node not in state.node_index:
                continue
            take_off(state, claimant)
            self._claimants.append(state.place(claimant, node))
            # Its placeholder is deleted for the claimant: both together would make the room twice as large.
            holder = self._placeholder(reservation) if reservation.allocate_once else None
            if holder is not None and holder.node == node:
                take_off(state, holder)
                handed_over.add(reservation.name)
        self._hypothetical.clear()
        # A placeholder has no labels of the workload, so spread constraints and anti-affinity would not count it.
        for reservation in snapshot.reservations.values():
            apart = keeps_its_distance(reservation) and reservation.name not in handed_over
            holder = self._placeholder(reservation) if apart else None
            if holder is not None and holder.node in state.node_index and not holder.terminal:
                take_off(state, holder)
                self._hypothetical[holder.uid] = state.place(hypothetical_pod(reservation), holder.node)
        self._assumed.clear()
        # Last, because a room that is handed over is counted by its claimant, not as an assumed room.
        holders = {
            r.name: p for r in snapshot.reservations.values() if (p := self._placeholder(r)) is not None
        }
        under_way = MovesUnderWay(self._replacements, state, self._written, self._intent_s)
        of_reservations = assumed_rooms(snapshot, holders, self._written)
        for asker, pod, node in chain(of_reservations, under_way.assumed_rooms()):
            if node in state.node_index:
                self._assumed[asker] = state.place(pod, node)
        return state, under_way

    def _holder_rules(self, state: SchedulingState) -> Holders:
        if self._holders is None:
            snapshot, moves = self._replacements.snapshot, self._opened()[1].moves
            self._holders = holders_of(state, snapshot, self.namespace, self._assumed, moves)
        return self._holders

    def _standing(self, pod: Pod) -> Pod:
        return self._hypothetical.get(pod.uid, pod)

    def _placeholder(self, reservation: Reservation | None) -> Pod | None:
        """The pod that holds the room: its placeholder, or what stands for Koordinator's Reservation."""
        if reservation is None:
            return None
        pods, name = self._replacements.snapshot.pods, placeholder_name(reservation)
        return pods.get(ObjectKey(self.namespace, name)) or pods.get(ObjectKey("", name))


def _flight(reservation: Reservation) -> Flight:
    return Flight(reservation.name, hypothetical_pod(reservation), reservation.status.node_name)


def _permission(refusal: Refusal | None) -> Permission:
    return ALLOWED if refusal is None else Permission(ok=False, message=f"{refusal.plugin}: {refusal.reason}")
