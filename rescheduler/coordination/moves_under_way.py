"""Moves that are under way, as those see them that are placed beside them: their pods may be there or not. Pure.

The placeholder of a move has none of the labels and rules of the replacement that will stand there. So whoever is placed must fit
beside the old pods and the replacements of all moves that count for it (``planning.transient_pods``), and must not take away
what one of them relies on. Of two moves that are in each other's way exactly one goes on (``_goes_before``). A pending pod for which
others step aside counts like the replacement of a move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from rescheduler.coordination.assumed import AssumedRoom, Written
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import ObjectKey, Pod, PodState
from rescheduler.model.reservation import ReservationPhase
from rescheduler.model.room_of_move import controller_of_move, room_of_move
from rescheduler.model.room_pod import (
    decision_of,
    hypothetical_pod,
    keeps_its_distance,
    made_for_pod,
    waiting_pod,
)
from rescheduler.model.selectors import NO_LABELS
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.single_pod import weightless
from rescheduler.planning.transient_pods import TransientPods
from rescheduler.planning.trial import holds_disks
from rescheduler.policies.planned_moves import PlannedMove
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.template import name_of_reservation
from rescheduler.scheduling.state import SchedulingState

IntentOf = Callable[[PodMigration], float]
"""When a move requested its eviction, maybe a moment ago, as another one in the same round; 0.0: it has not."""


class MoveUnderWay(NamedTuple):
    """A move whose replacement neither stands nor has claimed its room."""

    migration: PodMigration
    pod: Pod
    """It stands, is terminating, or is gone."""
    replacement: Pod
    """As it is to stand on ``node``."""
    node: str
    room: str
    """Name of its Reservation."""
    held: bool
    """That Reservation is there; in mode StartFirst the replacement itself is bound, or refused."""


def intent_shown_s(migration: PodMigration) -> float:
    """When the eviction was requested, as the snapshot shows it."""
    return migration.status.eviction_requested_at_s


class MovesUnderWay:
    """Those of one round, for which a node was chosen, maybe a moment ago."""

    def __init__(
        self, replacements: Replacements, state: SchedulingState, written: Written, intent_s: IntentOf
    ) -> None:
        """``state``: with their old pods, and without their replacements. ``written``: as for ``assumed_rooms``."""
        self._state, self._index = state, state.node_index
        self._intent_s = intent_s
        self.moves = [move for move in _begun(replacements, written) if move.node in self._index]
        self._passing = TransientPods(replacements.snapshot, state, done=False)
        self._counted: list[tuple[PodMigration | None, PlannedMove]] = []
        for move in self.moves:
            self._count(move.pod, move.replacement, move.migration)
        for pod in _awaited(replacements.snapshot):
            self._count(pod.with_state(deleting=True), pod)

    def add(self, pod: Pod, replacement: Pod) -> None:
        """A node was chosen for one more, or another one than before. ``replacement``: as it is to stand."""
        while self._counted and self._counted[-1][1].pod.uid == pod.uid:
            self._counted.pop()
            self._passing.pop()
        self._count(pod, replacement)

    def _count(self, pod: Pod, replacement: Pod, migration: PodMigration | None = None) -> None:
        if pod.node in self._index and replacement.node in self._index:
            move = PlannedMove(pod, replacement, self._index[pod.node], self._index[replacement.node])
            self._counted.append((migration, move))
            self._passing.add(move)

    def assumed_rooms(self) -> Iterator[AssumedRoom]:
        """Of moves that have begun, and whose capacity nothing holds yet."""
        for move in self.moves:
            if not move.held and move.migration.status.phase in (
                MigrationPhase.PENDING,
                MigrationPhase.RESERVING,
            ):
                yield AssumedRoom(move.pod.uid, room_of_replacement(move.replacement), move.node)

    @contextmanager
    def beside(self, pod: Pod | None, expected: Iterable[Pod]) -> Iterator[TransientPods]:
        """The pods of the moves that count for the replacement of ``pod``; None: for one that replaces none. Meanwhile the state has their volumes.

        ``expected``: pods of the state on which its required affinity must not rely, because they are not bound yet.
        """
        uid = pod.uid if pod is not None else ""
        own = next((move for move, one in self._counted if one.pod.uid == uid), None)
        left_out = [
            one
            for move, one in self._counted
            if one.pod.uid == uid or (own and move and self._goes_before(own, move))
        ]
        without = {id(one) for one in left_out}
        counted = [one.replacement for _, one in self._counted if id(one) not in without]
        with self._passing.without(left_out), self._passing.beside(expected), self._attached(counted):
            yield self._passing

    @contextmanager
    def _attached(self, replacements: Iterable[Pod]) -> Iterator[None]:
        """Meanwhile the volumes of these count on their nodes: a placeholder has none, and a node takes so many only."""
        mark = self._state.checkpoint()
        try:
            for one in replacements:
                if holds_disks(one):
                    volumes = room_of_replacement(weightless(one))
                    self._state.place(msgspec.structs.replace(volumes, name=f"{one.name}+"), one.node)
            yield
        finally:
            self._state.rollback(mark)

    def _goes_before(self, move: PodMigration, other: PodMigration) -> bool:
        """By intent, then by their start: a total order, so that of two that are in each other's way one goes on."""
        one, two = (
            (self._intent_s(m) or math.inf, m.status.started_at_s or math.inf, m.key) for m in (move, other)
        )
        return one < two


def room_of_replacement(replacement: Pod) -> Pod:
    """What holds its room: nothing that rules about other pods count, as in a placeholder."""
    spec = msgspec.structs.replace(
        replacement.spec,
        pod_affinity=(),
        pod_affinity_preferred=(),
        pod_anti_affinity=(),
        pod_anti_affinity_preferred=(),
        spread=(),
    )
    return msgspec.structs.replace(replacement, labels=NO_LABELS, spec=spec)


def _begun(replacements: Replacements, written: Written) -> Iterator[MoveUnderWay]:
    snapshot = replacements.snapshot
    for migration in snapshot.migrations.values():
        pending = migration.status.phase is MigrationPhase.PENDING
        node = migration.status.node_name or (written.get(migration.key, "") if pending else "")
        started = _started(migration, snapshot)
        if not node or migration.status.phase in FINISHED or _replaced(migration, started):
            continue
        pod = _old_pod(migration, snapshot, node)
        if pod is None or pod.terminal or not pod.node:
            continue
        name = name_of_reservation(migration)
        room = room_of_move(migration, snapshot.reservations, name)
        claimed = room is not None and room.allocate_once and bool(room.status.current_owners)
        coming = replacements.of(pod).pod
        if coming is not None and not claimed:
            there = msgspec.structs.replace(coming, node=node)
            bound = started is not None and bool(started.node or started.unschedulable_message)
            yield MoveUnderWay(migration, pod, there, node, name, room is not None or bound)


def _awaited(snapshot: Snapshot) -> Iterator[Pod]:
    """Pods for which others step aside, where they are to stand: what holds their room, if anything does, has none of their rules."""
    for reservation in snapshot.reservations.values():
        making, status = decision_of(reservation), reservation.status
        if making is None or status.current_owners or reservation.deleting:
            continue
        found = waiting_pod(reservation, snapshot.pods)
        held = status.phase is ReservationPhase.AVAILABLE  # ``Placement`` counts its pod
        if made_for_pod(reservation) is None and keeps_its_distance(reservation) and not held:
            found = hypothetical_pod(reservation)
        if found is not None:
            yield msgspec.structs.replace(found, node=making.node)


def _old_pod(migration: PodMigration, snapshot: Snapshot, node: str) -> Pod | None:
    """The pod that is moved; once it was evicted and is gone, one as its controller creates them, as if it ended on the target."""
    pod = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
    if pod is not None and migration.pod_uid in ("", pod.uid):
        return pod
    owner = controller_of_move(migration, snapshot)
    workload = snapshot.workloads.get(owner.uid) if owner is not None else None
    if not migration.status.eviction_requested_at_s or workload is None or workload.template is None:
        return None
    return Pod(
        namespace=migration.namespace,
        name=migration.pod_name,
        uid=migration.pod_uid,
        node=node,
        spec=workload.template,
        labels=workload.template_labels,
        controller=owner,
        state=PodState(deleting=True),
    )


def _started(migration: PodMigration, snapshot: Snapshot) -> Pod | None:
    """The replacement that the move has seen."""
    named = migration.status.replacement
    return snapshot.pods.get(ObjectKey(named.namespace, named.name)) if named is not None else None


def _replaced(migration: PodMigration, started: Pod | None) -> bool:
    """True if its replacement is there and is the pod of its controller that it will be."""
    if migration.status.mode is not MoveMode.START_FIRST:
        return migration.status.replacement is not None
    return started is not None and started.controller is not None
