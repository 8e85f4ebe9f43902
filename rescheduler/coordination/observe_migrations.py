"""Collects from the index of a round what the PodMigration machine needs of each move. No decisions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.memory import Memory
from rescheduler.coordination.move_history import MoveHistory
from rescheduler.coordination.move_order import ConcurrentMoves, evicts_first
from rescheduler.coordination.node_requests import request_machine
from rescheduler.coordination.observe_reservations import new_pods, replacement_to_come
from rescheduler.coordination.observe_start_first import StartFirstObserver
from rescheduler.coordination.placement import Placement
from rescheduler.coordination.unbudgeted import UnbudgetedWorkloads
from rescheduler.migrations.draft import available
from rescheduler.migrations.migration_lifecycle import MigrationReason
from rescheduler.migrations.observed_migration import (
    ALLOWED,
    Calls,
    MigrationSettings,
    ObservedCreation,
    ObservedMigration,
    ObservedStartFirst,
    ObservedWatchLag,
    Permission,
)
from rescheduler.model import names
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import Node, ObjectKey, OwnerRef, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_of_move import controller_of_move, refusal
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.beginning import HeldBack
from rescheduler.planning.priorities import HigherPriorityWaits
from rescheduler.planning.protections import Lifted
from rescheduler.planning.single_pod import Choice
from rescheduler.replacements.controllers import JOB, LONGEST_BACK_OFF_S, group_kind, none_comes
from rescheduler.replacements.identity import has_all_pods
from rescheduler.replacements.replacement import Replacements
from rescheduler.reservations.node_request import request_key
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.owners import any_owner_matches
from rescheduler.reservations.template import name_of_reservation

_NOT_EVICTING = (MigrationPhase.PENDING, MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
_Judged = tuple[Choice, Permission, Permission]
"""Target, movable, fits."""


class _Case(NamedTuple):
    """What is judged of a move."""

    migration: PodMigration
    pod: Pod | None
    """The pod that was asked for, if it is still there."""
    reservation: Reservation | None
    """The one that the move may use."""
    waits: bool
    """A limit keeps the move from beginning, so no target is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationObserver:
    """Collects the input of each PodMigration's step."""

    index: RoundIndex
    placement: Placement
    memory: Memory
    concurrent_moves: ConcurrentMoves
    start_first: StartFirstObserver
    replacements: Replacements
    unbudgeted: UnbudgetedWorkloads
    rooms: Mapping[str, ObservedReservation]
    history: MoveHistory
    settings: MigrationSettings
    now_s: float

    def of(self, migration: PodMigration) -> ObservedMigration:
        """One move."""
        snapshot = self.index.snapshot
        name = name_of_reservation(migration)
        named = snapshot.reservations.get(name)
        refused = refusal(migration, named) if named is not None else ""
        reservation = None if refused else named
        pod = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
        same = pod is not None and migration.pod_uid in ("", pod.uid)
        seen = self.start_first.observe(migration, pod if same else None)
        recorded = self.history.recorded(migration)
        held_back = self._held_back(migration, pod) if pod is not None and not recorded.begun else None
        waiting = self.index.waiting_room.of_move(migration, self.rooms)
        waits = held_back is not None or bool(waiting.begins_after)
        now = self._as_evicting(migration)
        case = _Case(now, pod if same else None, reservation, waits)
        seen, judged = self._modes_judged(case, seen)
        choice, movable, fits = judged
        replacement = self.replacements.of(pod) if pod else None
        key = migration.key
        calls = self.memory.answers.of(key)
        handing_over = migration.status.phase is MigrationPhase.HANDING_OVER or (
            migration.status.phase is MigrationPhase.EVICTING and calls.evicted_for(migration.status)
        )
        gone_s = self.memory.sightings.since("pod gone", key, self.now_s, state=handing_over and not same)
        room = self.rooms.get(name) if reservation is not None else None
        owner = controller_of_move(migration, snapshot)
        claimant = self.index.pod(migration.status.replacement) if migration.status.replacement else None
        budgets = self.index.budgets_of(pod) if pod else ()
        return ObservedMigration(
            migration=migration,
            reservation_name=name,
            pod=pod,
            movable=movable,
            target=choice.node,
            target_message=choice.message,
            node_request=snapshot.pods.get(asks := request_key(migration, self.placement.namespace)),
            node_request_refused=self.memory.backoff.message(request_machine(asks)),
            target_node=snapshot.nodes.get(choice.node) if choice.node else None,
            fits=fits,
            higher_waits=None if waits else self._higher_waits(case, seen, judged),
            replacement=replacement,
            creation=self.memory.creations.observed(snapshot, pod) if pod else ObservedCreation(),
            volumes=self.index.volumes_of(pod.namespace, pod.name, pod.spec).affinities if pod else (),
            reservation=reservation,
            refused=self.memory.backoff.refusal(key) or self.memory.backoff.refusal(ObjectKey("", name)),
            reservation_refused=refused,
            room_held=reservation is not None and self._room_held(name),
            room_ready_since_s=self.memory.sightings.since(
                "room ready", key, self.now_s, state=now is not migration
            ),
            owner_of_reservation=self._owns((replacement and replacement.pod) or pod, reservation),
            budgets=budgets,
            availability=self.unbudgeted.of(now, pod, budgeted=bool(budgets)) if same else None,
            claimant=claimant or (room.claimant if room else None),
            ungated=self._ungated_replacement(migration, reservation) if handing_over and not same else None,
            evicts_first=self._evicts_first(now, pod) if same and pod else "",
            none_comes=self._none_comes(migration, owner) if handing_over and not same else "",
            complete=self._complete(migration, reservation, owner) if handing_over and not same else "",
            replacement_delay_s=_delay_s(owner),
            waits=waiting,
            another=self.concurrent_moves.before(migration, pod) if same else "",
            controller=owner,
            source=self._left_behind(migration, owner),
            stands_on=snapshot.nodes.get(pod.node) if pod else None,
            start_first=seen,
            held_back=held_back,
            recorded=recorded,
            watch_lag=self._watch_lag(room),
            calls=self._with_gate(dataclasses.replace(calls, pod_gone_at_s=gone_s), pod),
        )

    def _as_evicting(self, migration: PodMigration) -> PodMigration:
        """As it will be written together with its intent, if its room is held: it is about to evict already."""
        status, name = migration.status, name_of_reservation(migration)
        reservation = self.index.snapshot.reservations.get(name)
        reserves = status.phase is MigrationPhase.RESERVING and status.mode is not MoveMode.START_FIRST
        if not reserves or reservation is None or not (available(reservation) and self._room_held(name)):
            return migration
        node, phase, reason = reservation.status.node_name, MigrationPhase.EVICTING, MigrationReason.CHECKING
        later = msgspec.structs.replace(status, phase=phase, reason=str(reason), node_name=node)
        return msgspec.structs.replace(migration, status=later)

    def _room_held(self, name: str) -> bool:
        """A claim that was written and is not in the cache yet takes the room away from the move."""
        room = self.rooms.get(name)
        claimed = self.memory.expectations.claimed(name)
        return room is not None and room.held and not room.changed and not claimed

    def _watch_lag(self, room: ObservedReservation | None) -> ObservedWatchLag:
        holder = room.placeholder if room is not None else None
        # A room that Koordinator holds has no pod behind it.
        measured = holder if holder is not None and holder.namespace else None
        return dataclasses.replace(self.memory.lag.observed(self.now_s), placeholder=measured)

    def _with_gate(self, calls: Calls, pod: Pod | None) -> Calls:
        if pod is None or pod.controller is None:
            return calls
        gate = self.memory.proofs.of(pod.controller, pod.namespace, self.now_s)
        return dataclasses.replace(
            calls,
            gate_proven_at_s=gate.since_s,
            gate_failed_at_s=gate.failed_at_s,
            gate_single=gate.single,
            gate_problem=gate.problem,
        )

    def _modes_judged(
        self, case: _Case, seen: ObservedStartFirst | None
    ) -> tuple[ObservedStartFirst | None, _Judged]:
        """By mode StartFirst if that serves the move; a move that leaves its mode open may reserve first instead.

        A rule that refuses the replacement beside the running old pod may never accept it, so it is not waited for.
        """
        mode = case.migration.mode
        pending = case.migration.status.phase is MigrationPhase.PENDING
        changes = seen is not None and seen.deployment is not None and seen.deployment.changes_pods
        if seen is not None and pending and changes and self._at_last(case.migration):
            words = "its Deployment is rolling out, and its eviction cannot wait for that"
            seen = dataclasses.replace(seen, eligible=Permission(ok=False, message=words))
        if seen is None or not seen.serves(mode):
            return seen, self._judged(case, starts_first=False)
        beside = choice, movable, fits = self._judged(case, starts_first=True)
        if case.waits or mode is not MoveMode.AUTO or not movable.ok or (choice.node and fits.ok):
            return seen, beside
        instead = self._judged(case, starts_first=False)
        if not instead[0].node or not instead[2].ok:
            return seen, beside
        words = f"node/{choice.node}: {fits.message}" if choice.node else choice.message
        return dataclasses.replace(seen, eligible=Permission(ok=False, message=words)), instead

    def _judged(self, case: _Case, *, starts_first: bool) -> _Judged:
        """Target, movable and fits: computed only in the phases that use them, because they are expensive.

        With ``starts_first`` the replacement must fit beside the old pod; in phase Evicting it is bound already.
        """
        migration, pod, reservation, waits = case
        phase = migration.status.phase
        settled = migration.status.node_name
        if pod is None or phase not in (MigrationPhase.PENDING, MigrationPhase.EVICTING) or migration.paused:
            return Choice(node=settled), ALLOWED, ALLOWED
        if phase is MigrationPhase.EVICTING and migration.status.mode is MoveMode.START_FIRST:
            return Choice(node=settled), ALLOWED, ALLOWED
        if phase is MigrationPhase.EVICTING:
            return Choice(node=settled), ALLOWED, self.placement.fits(pod, settled, reservation)
        movable = self.placement.movable(
            pod,
            lifted=self._lifted(migration, pod),
            policy="" if migration.requested else migration.policy,
        )
        if waits or not movable.ok:
            return Choice(), movable, ALLOWED
        choice = self._target(migration, pod, reservation, starts_first=starts_first)
        if not choice.node or choice.node == pod.node or choice.node not in self.index.snapshot.nodes:
            return choice, movable, ALLOWED
        if starts_first:
            return choice, movable, self.placement.fits_beside(pod, choice.node)
        return choice, movable, self.placement.fits(pod, choice.node, reservation)

    def _lifted(self, migration: PodMigration, pod: Pod) -> Lifted:
        drained = Lifted.CONFIGURED if drains(migration, self.index.snapshot, pod) else Lifted.NOTHING
        return drained | (Lifted.ROLLOUT if self._at_last(migration) else Lifted.NOTHING)

    def _at_last(self, migration: PodMigration) -> bool:
        return self.now_s >= self.settings.at_last_s(migration)

    def _higher_waits(
        self, case: _Case, seen: ObservedStartFirst | None, judged: _Judged
    ) -> HigherPriorityWaits | None:
        """Asked wherever ``_judged`` finds that the replacement fits the target, and of a replacement that was started first."""
        (migration, pod, reservation, _), (choice, movable, fits) = case, judged
        phase = migration.status.phase
        if pod is None or phase not in (MigrationPhase.PENDING, MigrationPhase.EVICTING) or migration.paused:
            return None
        node = choice.node
        if not (movable.ok and fits.ok) or node not in self.index.snapshot.nodes or node == pod.node:
            return None
        if phase is MigrationPhase.EVICTING and migration.status.mode is MoveMode.START_FIRST:
            started = seen.replacement if seen is not None else None
            if started is None or started.node != node:
                return None
            return self.placement.taken_from_owners((started,), node, None, ())
        return self.placement.taken_from_replacement(pod, node, reservation)

    def _held_back(self, migration: PodMigration, pod: Pod) -> HeldBack | None:
        """Asked only of moves that could begin now, because the answer looks at all past moves."""
        pending = migration.status.phase is MigrationPhase.PENDING
        if not pending or migration.paused:
            return None
        return self.history.held_back(migration, pod, self.settings.at_last_s(migration))

    def _target(
        self, migration: PodMigration, pod: Pod, reservation: Reservation | None, *, starts_first: bool
    ) -> Choice:
        if migration.reservation_ref:
            return Choice(node=reservation.status.node_name if reservation else "")
        if migration.target_node:
            return Choice(node=migration.target_node)
        return self.placement.for_migration(pod, starts_first=starts_first)

    def _evicts_first(self, migration: PodMigration, pod: Pod) -> str:
        status = migration.status
        evicting = status.phase is MigrationPhase.EVICTING and not status.eviction_requested_at_s
        if not evicting or status.mode is MoveMode.START_FIRST or pod.controller is None:
            return ""
        uid = pod.controller.uid
        begun = (m for m in self.index.view.migrations.values() if m.status.phase not in _NOT_EVICTING)
        others = (self._as_evicting(m) for m in begun if self._controller_uid(m) == uid)
        return evicts_first(migration, others, self.index.pods_of(uid), self.now_s)

    def _controller_uid(self, migration: PodMigration) -> str:
        owner = controller_of_move(migration, self.index.snapshot)
        return owner.uid if owner is not None else ""

    def _none_comes(self, migration: PodMigration, owner: OwnerRef | None) -> str:
        snapshot = self.index.snapshot
        namespace = snapshot.namespaces.get(migration.namespace)
        if namespace is not None and namespace.deleting:
            return f"namespace/{migration.namespace} is being deleted, so no replacement comes"
        if owner is None:
            return ""
        workload = snapshot.workloads.get(owner.uid)
        return none_comes(owner, workload, migration.pod_name, snapshot.replacement_rules, self.now_s)

    def _complete(
        self, migration: PodMigration, reservation: Reservation | None, owner: OwnerRef | None
    ) -> str:
        if owner is None or reservation is None or self._unclaimed_new_pods(reservation, migration):
            return ""
        workload = self.index.snapshot.workloads.get(owner.uid)
        pods = (pod for pod in self.index.pods_of(owner.uid) if pod.uid != migration.pod_uid)
        return has_all_pods(workload, pods)

    def _left_behind(self, migration: PodMigration, owner: OwnerRef | None) -> Node | None:
        """The node that the pod leaves; None also if the controller is gone, because its hints would be deleted at once."""
        if owner is not None and owner.uid and owner.uid not in self.index.snapshot.workloads:
            return None
        return self.index.snapshot.nodes.get(migration.status.source_node)

    def _owns(self, pod: Pod | None, reservation: Reservation | None) -> bool:
        if pod is None or reservation is None:
            return True
        return any_owner_matches(reservation.owners, pod, self.index.controllers(pod))

    def _unclaimed_new_pods(self, reservation: Reservation, migration: PodMigration) -> list[Pod]:
        pods = new_pods(self.index, reservation, migration)
        if not pods:
            return []
        claimed = (r.status.current_owners for r in self.index.snapshot.reservations.values())
        served = {owner.uid for owners in claimed for owner in owners}
        return [pod for pod in pods if pod.uid not in served]

    def _ungated_replacement(self, migration: PodMigration, reservation: Reservation | None) -> Pod | None:
        if reservation is None or reservation.status.current_owners:
            return None
        pods = self._unclaimed_new_pods(reservation, migration)
        # A gated pod will claim the room, so the move has not lost its replacement to an ungated one. Nor has it while the
        # controller is about to create one more: the ungated pod may be a sibling from right before the intent.
        if any(map(holds_gate, pods)):
            return None
        if not pods or replacement_to_come(self.index, reservation, migration):
            return None
        return pods[0]


def drains(migration: PodMigration, snapshot: Snapshot, pod: Pod) -> bool:
    """True if the move was asked for to empty the pod's node, which is cordoned, or from which a node autoscaler evicts it.

    The protections of the configuration are about moves to better nodes. Who may cordon a node has decided that it is emptied.
    """
    node = snapshot.nodes.get(pod.node)
    if node is None:
        return False
    if migration.requested_by:
        return node.emptied_by_others
    asked = migration.requested and migration.annotations.get(names.ANNOTATION_EVICT) == "true"
    return asked and node.unschedulable


def _delay_s(owner: OwnerRef | None) -> float:
    return LONGEST_BACK_OFF_S if owner is not None and group_kind(owner) == JOB else 0.0
