"""Placement by our own scheduling rules: a ``SchedulingState`` that follows the snapshots.

A claimant in hand-over is counted on its target as if it were bound: the scheduler ignores nominations of
lower priority, and a placeholder that goes there takes the room (4 of 5 moves were lost so). Trial moves
are rolled back before every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from rescheduler.controller.promising import promising_node
from rescheduler.migrations.observed import YES, Verdict
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.replacement import replacement_of
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.observed import Choice
from rescheduler.reservations.placeholder import placeholder_name
from rescheduler.scheduling.framework import FilterResult, Profile
from rescheduler.scheduling.state import SchedulingState

Protection = Callable[[Pod, Snapshot], Verdict]
"""Why a pod may not be moved for reasons of taste (priority, local storage, ...)."""

_IMMOVABLE = frozenset({"DaemonSet", "Node"})
_PLACEHOLDER_PRIORITY = 1_000_000_000


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
    _behind: bool = True
    _chosen: dict[str, tuple[Pod, str]] = field(default_factory=dict)

    def begin(self, snapshot: Snapshot) -> None:
        """A new round; the state follows only when something is asked."""
        self._snapshot = snapshot
        self._behind = True
        self._chosen.clear()

    def for_reservation(self, reservation: Reservation) -> Choice:
        """The feasible node with the best score for a pod of the template."""
        if reservation.template is None:
            return Choice(message="spec.template cannot be read")
        state, mark = self._open()
        pod = _imagined(reservation)
        self._take_off(state, self._placeholder(reservation))
        choice = _best(state, pod)
        if reservation.pre_allocation and reservation.template_node not in ("", choice.node):
            choice = Choice(message=choice.message)
        if reservation.pre_allocation and not choice.node:
            choice = promising_node(state, pod, reservation.template_node, self._nominated())
        state.rollback(mark)
        if choice.node:
            self._chosen[reservation.name] = (pod, choice.node)
        return choice

    def has_room(self, promise: Pod, node: str, behind: Sequence[Pod]) -> bool:
        """By the scheduler's own filters, its gate, its nomination and those behind it taken off."""
        state, mark = self._open()
        at = state.node_index.get(node)
        for pod in (promise, *behind):
            self._take_off(state, pod)
        admitted = msgspec.structs.replace(promise, spec=msgspec.structs.replace(promise.spec, gates=()))
        free = at is not None and bool(state.filter(admitted).feasible[at])
        state.rollback(mark)
        return free

    def for_migration(self, migration: PodMigration, pod: Pod) -> Choice:
        """The feasible node with the best score, other than the pod's own."""
        state, mark = self._open()
        replacement = self._replacement(pod)
        self._take_off(state, pod)
        choice = _best(state, replacement, avoid=pod.node)
        state.rollback(mark)
        if choice.node:
            self._chosen[str(migration.key)] = (replacement, choice.node)
        return choice

    def movable(self, pod: Pod) -> Verdict:
        """By nature, and by what the configuration protects."""
        snapshot = self._snapshot or Snapshot(taken_at_s=0.0)
        by_nature = movable_by_nature(pod, snapshot)
        return by_nature if not by_nature.ok else self.protection(pod, snapshot)

    def fits(self, pod: Pod, node: str, reservation: Reservation | None) -> Verdict:
        """The replacement on ``node``, with the old pod and the move's own placeholder gone."""
        state, mark = self._open()
        at = state.node_index.get(node)
        if at is None:
            return Verdict(ok=False, message="there is no such node")
        self._take_off(state, pod)
        if reservation is not None:
            self._take_off(state, self._placeholder(reservation))
        result = state.filter(self._replacement(pod))
        state.rollback(mark)
        return YES if bool(result.feasible[at]) else Verdict(ok=False, message=_why(result, at))

    def fits_beside(self, pod: Pod, node: str) -> Verdict:
        """One pod more on ``node``, with everything as it is."""
        state, mark = self._open()
        at = state.node_index.get(node)
        if at is None:
            return Verdict(ok=False, message="there is no such node")
        result = state.filter(self._replacement(pod))
        state.rollback(mark)
        return YES if bool(result.feasible[at]) else Verdict(ok=False, message=_why(result, at))

    def _open(self) -> tuple[SchedulingState, int]:
        """The state of this round, with rooms in hand-over and rooms chosen in this round taken."""
        snapshot = self._snapshot or Snapshot(taken_at_s=0.0)
        if self._state is None:
            self._state = SchedulingState(snapshot, self.profile)
        elif self._behind:
            self._state.sync(snapshot)
        self._behind = False
        mark = self._state.checkpoint()
        for claimant, node in _in_hand_over(snapshot):
            if node in self._state.node_index:
                self._take_off(self._state, claimant)
                self._state.place(claimant, node)
        for pod, node in self._chosen.values():
            self._state.place(pod, node)
        return self._state, mark

    def _take_off(self, state: SchedulingState, pod: Pod | None) -> None:
        if pod is None:
            return
        try:
            state.remove(pod)
        except LookupError:
            return  # it stands nowhere: nothing to take off

    def _placeholder(self, reservation: Reservation) -> Pod | None:
        """The pod that holds the room: its placeholder, or what stands for Koordinator's Reservation."""
        pods = self._snapshot.pods if self._snapshot else {}
        name = placeholder_name(reservation)
        return pods.get(ObjectKey(self.namespace, name)) or pods.get(ObjectKey("", name))

    def _nominated(self) -> list[Pod]:
        pods = self._snapshot.pods.values() if self._snapshot else ()
        return [pod for pod in pods if pod.nominated_node and not pod.node and not pod.terminal]

    def _replacement(self, pod: Pod) -> Pod:
        """The pod that the controller would make now, as kube-scheduler will see it."""
        return replacement_of(pod, self._snapshot or Snapshot(taken_at_s=0.0))


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


def _imagined(reservation: Reservation) -> Pod:
    """A pod of the template, for questions; its priority is a placeholder's."""
    template = reservation.template
    if template is None:
        raise ValueError(f"Reservation {reservation.name} has no template")
    return Pod(
        namespace=reservation.template_namespace or "default",
        name=f"{reservation.name}+",
        uid=f"{reservation.uid}+",
        spec=msgspec.structs.replace(template, priority=_PLACEHOLDER_PRIORITY),
        labels=reservation.template_labels,
        held=template.requests,
    )


def _best(state: SchedulingState, pod: Pod, avoid: str = "") -> Choice:
    result = state.filter(pod)
    feasible = result.feasible.copy()
    if avoid in state.node_index:
        feasible[state.node_index[avoid]] = False
    if not feasible.any():
        return Choice(message=_summary(state, result))
    total = np.where(feasible, state.score(pod, feasible).total, -1)
    return Choice(node=state.node_names[int(total.argmax())])


def _why(result: FilterResult, at: int) -> str:
    if result.everywhere is not None:
        return f"{result.everywhere.plugin}: {result.everywhere.reason}"
    plugin = int(result.refused_by[at])
    return f"{result.plugins[plugin]} refuses it" if plugin >= 0 else "refused"


def _summary(state: SchedulingState, result: FilterResult) -> str:
    """In the manner of kube-scheduler: how many nodes each plugin refuses."""
    if result.everywhere is not None:
        return f"0/{len(state.node_names)} nodes are available: {result.everywhere.reason}"
    counts = np.bincount(result.refused_by[result.refused_by >= 0], minlength=len(result.plugins))
    parts = [f"{n} {plugin}" for plugin, n in zip(result.plugins, counts, strict=True) if n]
    return f"0/{len(state.node_names)} nodes are available by our own rules: {', '.join(parts) or 'none is left'}"
