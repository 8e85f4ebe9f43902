"""Placement by our own scheduling rules: a ``SchedulingState`` that follows the snapshots.

A claimant in hand-over is counted on its target as if it were bound: the scheduler ignores nominations of
lower priority, and a placeholder that goes there takes the room (4 of 5 moves were lost so). So are rooms that
are under way: chosen in this round, written a moment ago, or not looked at by the scheduler yet. A placeholder
that people reserved is counted as the pod that will come, labels and all, so that rooms keep apart and spread as
their pods must. Trial moves are rolled back before every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from rescheduler.controller.landing import Flight, landable, minds_others
from rescheduler.controller.promising import promising_node, weightless
from rescheduler.controller.under_way import NOTHING_WRITTEN, Written, rooms_under_way
from rescheduler.migrations.observed import YES, Verdict
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.recheck import recheck, recheck_beside, recheck_room, take_off
from rescheduler.planning.replacement import replacement_of
from rescheduler.planning.target import Choice, choose_room, choose_target
from rescheduler.reservations.handover import HAND_OVER_TOLERATION
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.placeholder import placeholder_name
from rescheduler.reservations.stand_in import imagined, keeps_its_distance
from rescheduler.scheduling.framework import Profile, Refusal
from rescheduler.scheduling.state import SchedulingState

Protection = Callable[[Pod, Snapshot], Verdict]
"""Why a pod may not be moved for reasons of taste (priority, local storage, ...)."""

_IMMOVABLE = frozenset({"DaemonSet", "Node"})


def movable_by_nature(pod: Pod, _snapshot: Snapshot) -> Verdict:
    """What no configuration can change: a controller makes a replacement, and it may land elsewhere."""
    if pod.controller is None:
        return Verdict(ok=False, message="no controller would replace the pod")
    if pod.controller.kind in _IMMOVABLE or "kubernetes.io/config.mirror" in pod.annotations:
        return Verdict(ok=False, message=f"pods of a {pod.controller.kind} belong to their node")
    if pod.controller.kind == "Reservation":
        return Verdict(ok=False, message="the pod is a placeholder")
    if pod.spec.resource_claims:
        return Verdict(ok=False, message="the pod has device claims, which cannot be reserved")
    return YES


@dataclass(slots=True, kw_only=True)
class RulesPlacement:
    """Answers with the scheduler's own rules. ``protection``: further reasons not to move a pod."""

    namespace: str
    profile: Profile | None = None
    protection: Protection = movable_by_nature
    _snapshot: Snapshot | None = None
    _state: SchedulingState | None = None
    _written: Written = field(default_factory=dict)
    _behind: bool = True
    _taken: dict[str, Pod] = field(default_factory=dict)
    """Name of a Reservation or uid of a pod that moves -> what stands in the state where its room is under way."""
    _claimants: list[Pod] = field(default_factory=list)
    """Those in hand-over, as they stand in the state."""
    _stand_ins: dict[str, Pod] = field(default_factory=dict)
    """Uid of a placeholder -> the pod of the template that stands in the state in its place."""

    def begin(self, snapshot: Snapshot, written: Written = NOTHING_WRITTEN) -> None:
        """A new round; the state follows only when something is asked."""
        self._snapshot = snapshot
        self._written = written
        self._behind = True

    def for_reservation(self, reservation: Reservation) -> Choice:
        """The feasible node with the best score for a pod of the template; the node that it names, if that is feasible."""
        if reservation.template is None:
            return Choice(message="spec.template cannot be read")
        state, mark = self._open(reservation.name)
        pod = imagined(reservation)
        placeholder = self._placeholder(reservation)
        if placeholder is not None:
            take_off(state, self._standing(placeholder))
        choice = self._room(reservation, state, pod)
        state.rollback(mark)
        if choice.node:
            self._take(reservation.name, pod, choice.node)
        return choice

    def _room(self, reservation: Reservation, state: SchedulingState, pod: Pod) -> Choice:
        named, waits = reservation.template_node, reservation.pre_allocation
        if named:
            refusal = recheck_room(state, weightless(pod) if waits else pod, named)
            if refusal is not None:
                return Choice(message=f"node {named}: {refusal.reason}")
            return promising_node(state, pod, named, self._nominated()) if waits else Choice(node=named)
        choice = choose_room(self._known(), state, pod)
        if choice.node or not waits:
            return choice
        return promising_node(state, pod, "", self._nominated())

    def has_room(self, holder: Pod, node: str, behind: Sequence[Pod]) -> bool:
        """By the scheduler's own filters, its gate, its nomination and those behind it taken off."""
        state, mark = self._open()
        at = state.node_index.get(node)
        for pod in (holder, *behind):
            take_off(state, self._standing(pod))
        admitted = msgspec.structs.replace(holder, spec=msgspec.structs.replace(holder.spec, gates=()))
        free = at is not None and bool(state.filter(admitted).feasible[at])
        state.rollback(mark)
        return free

    def crowded_out(self, claimant: Pod, node: str) -> bool:
        """By the scheduler's own filters; other claimants are left out, for they take turns (``neighbours``)."""
        state, mark = self._open()
        for pod in self._claimants:
            take_off(state, pod)
        tolerations = (*claimant.spec.tolerations, HAND_OVER_TOLERATION)
        spec = msgspec.structs.replace(claimant.spec, gates=(), tolerations=tolerations)
        let_go = msgspec.structs.replace(claimant, spec=spec)
        at = state.node_index.get(node)
        refused = at is not None and not state.filter(let_go).feasible[at]
        if refused:
            for pod in state.nominated_to(node):
                take_off(state, pod)
            refused = bool(state.filter(let_go).feasible[at])  # without them it is not
        state.rollback(mark)
        return refused

    def landable(self, rooms: Sequence[Reservation], claimed: Sequence[Reservation]) -> frozenset[str]:
        """Those whose pods mind no others, and those that ``landing`` finds; judged without any room's stand-in."""
        minding = [room for room in rooms if keeps_its_distance(room) and minds_others(imagined(room))]
        if not minding:
            return frozenset(room.name for room in rooms)
        state, mark = self._open()
        for pod in (*self._taken.values(), *self._stand_ins.values(), *self._claimants):
            take_off(state, pod)
        flights = [Flight("", pod, pod.node) for pod in self._claimants]
        flights += map(_flight, claimed)
        found = landable(state, self._known().nodes, map(_flight, minding), flights)
        state.rollback(mark)
        return found | {room.name for room in rooms} - {room.name for room in minding}

    def for_migration(self, pod: Pod) -> Choice:
        """The feasible node with the best score, other than the pod's own."""
        state, mark = self._open(pod.uid)
        choice = choose_target(self._known(), state, pod)
        state.rollback(mark)
        if choice.node:
            self._take(pod.uid, replacement_of(pod, self._known()), choice.node)
        return choice

    def movable(self, pod: Pod) -> Verdict:
        """By nature, and by what the configuration protects."""
        snapshot = self._known()
        by_nature = movable_by_nature(pod, snapshot)
        return by_nature if not by_nature.ok else self.protection(pod, snapshot)

    def fits(self, pod: Pod, node: str, reservation: Reservation | None) -> Verdict:
        """The replacement on ``node``, with the move's own placeholder gone; the old pod ending, and gone."""
        state, mark = self._open(pod.uid, reservation.name if reservation is not None else "")
        placeholder = self._placeholder(reservation) if reservation is not None else None
        holder = self._standing(placeholder) if placeholder is not None else None
        refusal = recheck(self._known(), state, pod, node, holder)
        state.rollback(mark)
        return _verdict(refusal)

    def fits_beside(self, pod: Pod, node: str) -> Verdict:
        """One pod more on ``node``, with everything as it is."""
        state, mark = self._open(pod.uid)
        refusal = recheck_beside(self._known(), state, pod, node)
        state.rollback(mark)
        return _verdict(refusal)

    def _open(self, *besides: str) -> tuple[SchedulingState, int]:
        """The state of this round, with rooms in hand-over and rooms under way taken.

        ``besides``: uid of the pod, name of the Reservation that is asked for; what is under way for them stands free.
        """
        if self._state is None or self._behind:
            self._state = self._renewed(self._known())
            self._behind = False
        mark = self._state.checkpoint()
        for asker in besides:
            if asker in self._taken:
                take_off(self._state, self._taken[asker])
        return self._state, mark

    def _take(self, asker: str, pod: Pod, node: str) -> None:
        """Counted until the next round, in place of what was counted for the same asker."""
        state, _ = self._open(asker)
        self._taken[asker] = state.place(pod, node)

    def _renewed(self, snapshot: Snapshot) -> SchedulingState:
        """The state of this round as every question finds it."""
        state = self._state
        if state is None:
            state = SchedulingState(snapshot, self.profile)
        else:
            state.sync(snapshot)
        self._claimants.clear()
        for claimant, node in _in_hand_over(snapshot):
            if node in state.node_index:
                take_off(state, claimant)
                self._claimants.append(state.place(claimant, node))
        self._stand_ins.clear()
        for reservation in snapshot.reservations.values():
            holder = self._placeholder(reservation) if keeps_its_distance(reservation) else None
            if holder is not None and holder.node in state.node_index and not holder.terminal:
                take_off(state, holder)
                self._stand_ins[holder.uid] = state.place(imagined(reservation), holder.node)
        self._taken.clear()
        holders = {
            r.name: p for r in snapshot.reservations.values() if (p := self._placeholder(r)) is not None
        }
        for asker, pod, node in rooms_under_way(snapshot, holders, self._written):
            if node in state.node_index:
                self._taken[asker] = state.place(pod, node)
        return state

    def _standing(self, pod: Pod) -> Pod:
        return self._stand_ins.get(pod.uid, pod)

    def _placeholder(self, reservation: Reservation) -> Pod | None:
        """The pod that holds the room: its placeholder, or what stands for Koordinator's Reservation."""
        pods = self._snapshot.pods if self._snapshot else {}
        name = placeholder_name(reservation)
        return pods.get(ObjectKey(self.namespace, name)) or pods.get(ObjectKey("", name))

    def _nominated(self) -> list[Pod]:
        pods = self._snapshot.pods.values() if self._snapshot else ()
        return [pod for pod in pods if pod.nominated_node and not pod.node and not pod.terminal]

    def _known(self) -> Snapshot:
        return self._snapshot or Snapshot(taken_at_s=0.0)


def _in_hand_over(snapshot: Snapshot) -> list[tuple[Pod, str]]:
    result: list[tuple[Pod, str]] = []
    for reservation in snapshot.reservations.values():
        status = reservation.status
        if status.phase in FINISHED or not status.current_owners or not status.node_name:
            continue
        for owner in status.current_owners:
            pod = snapshot.pods.get(ObjectKey(owner.namespace, owner.name))
            if pod is not None and pod.uid == owner.uid and not pod.node:
                result.append((pod, status.node_name))
    return result


def _flight(reservation: Reservation) -> Flight:
    return Flight(reservation.name, imagined(reservation), reservation.status.node_name)


def _verdict(refusal: Refusal | None) -> Verdict:
    return YES if refusal is None else Verdict(ok=False, message=f"{refusal.plugin}: {refusal.reason}")
