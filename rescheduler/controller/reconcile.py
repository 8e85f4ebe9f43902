"""One round over all live Reservations and PodMigrations: observe, step, carry out, remember.

``Reconciler.round`` is a function of the snapshot, the time and a memory that may be lost. Order within a
round: switches (gate keys, hand-over taints) first, then Reservations, then pods to release, then moves, so
that a gate is on before it is proven. One damaged object or failing call does not stop the others; it
rests. A machine does not act again before the cache shows what it wrote.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from rescheduler.controller.avoiding import avoid_keys, outdated
from rescheduler.controller.effects import Action, Effect
from rescheduler.controller.executor import Executor
from rescheduler.controller.index import RoundIndex
from rescheduler.controller.kept_index import KeptIndex
from rescheduler.controller.koordinator import led_astray, with_koordinator
from rescheduler.controller.mirror import Mirror
from rescheduler.controller.neighbours import with_neighbours
from rescheduler.controller.observe import Observer, links_of
from rescheduler.controller.patience import with_patience
from rescheduler.controller.placement import Placement
from rescheduler.controller.promises import Promises
from rescheduler.controller.recent import Recent
from rescheduler.controller.rivalry import Rivalry
from rescheduler.controller.swaps import KeptOrphans, Swaps
from rescheduler.controller.switches import gate_keys
from rescheduler.kube.errors import ApiError, StaleError
from rescheduler.kube.transport import TransportError
from rescheduler.migrations import actions as moves
from rescheduler.migrations import lifecycle as migration_lifecycle
from rescheduler.migrations import machine as migration_machine
from rescheduler.migrations.observed import MigrationSettings
from rescheduler.migrations.start_first_strays import stray_actions
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations import lifecycle as reservation_lifecycle
from rescheduler.reservations import machine as reservation_machine
from rescheduler.reservations.actions import (
    CreateKoordinatorReservation,
    CreatePlaceholder,
    DeletePlaceholder,
    RecordEvent,
    ReleasePod,
    WriteReservationStatus,
)
from rescheduler.reservations.allocation import Allotment, Room, allot
from rescheduler.reservations.handover import holds_gate, in_flight, tainted, tolerates_taint, wants_taint
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.observed import LinkedMigration, ObservedReservation, ReservationSettings
from rescheduler.reservations.shares import beyond_share

_GATE: Final = ObjectKey("config map", "live")
_AVOID: Final = ObjectKey("config map", "avoid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Both machines' settings."""

    reservations: ReservationSettings = field(default_factory=ReservationSettings)
    migrations: MigrationSettings = field(default_factory=MigrationSettings)


Listener = Callable[[Action, Effect], None]


def silent(_action: Action, _effect: Effect) -> None:
    """Nobody listens."""


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Drives all machines. ``settings`` may be exchanged between rounds; everything else stays."""

    executor: Executor
    gate: Mirror
    hints: Mirror
    placement: Placement
    settings: Settings = field(default_factory=Settings)
    listener: Listener = silent
    recent: Recent = field(default_factory=Recent)
    awaited: dict[str, Reservation] = field(default_factory=dict)
    """Schedulers that rooms were not given up for in the last round, each with one of these."""
    _kept: KeptIndex = field(default_factory=KeptIndex)
    _orphans: KeptOrphans = field(default_factory=KeptOrphans)
    _wake_at_s: float | None = None

    def round(self, snapshot: Snapshot, now_s: float) -> float | None:
        """Do everything that can be done now; when to look again at the latest (None: on events only).

        Raises:
            NotLeaderError: leadership was lost right before an eviction; nothing was evicted.
        """
        self._wake_at_s = None
        self.awaited = {}
        index = RoundIndex.of(snapshot, self._kept)
        written = self._written(index, now_s)
        self.placement.begin(snapshot, written)
        self._orphans.follow(snapshot)
        declared = self.settings.migrations
        swaps = Swaps(
            index=index,
            orphans=self._orphans,
            recent=self.recent,
            by_default=declared.default_mode is MoveMode.START_FIRST,
            policies=declared.start_first_policies,
        )
        links = links_of(index)
        observer = Observer(
            index=index,
            placement=self.placement,
            promises=Promises.of(index, self.settings.reservations.namespace, index.unbound()),
            rivalry=Rivalry.of(snapshot.migrations.values(), self.recent.begun),
            recent=self.recent,
            swaps=swaps,
            written=written,
            namespace=self.settings.reservations.namespace,
            settle_s=self.settings.reservations.taint_settle_s,
            beyond_share=beyond_share(
                snapshot.reservations.values(),
                self.settings.reservations.shares,
                exempt={name for name, link in links.items() if link.created},
            ),
            now_s=now_s,
        )
        rooms = with_neighbours(
            self._observe_rooms(observer, links), lambda name: self._blind(ObjectKey("", name), index, now_s)
        )
        swapping = swaps.gate_keys()
        rooms, patient_until_s = with_patience(
            rooms, self.placement, now_s, self.settings.reservations.gate_limit_s
        )
        self._wake(patient_until_s)
        dealt = self._deal(observer, rooms, swapping)
        self._follow(_GATE, self.gate, {**gate_keys(rooms.values(), index), **swapping}, now_s)
        self._switch_taints(rooms, index, now_s)
        for name, observed in rooms.items():
            offered = dealt.claims.get(name, ())
            self._step_reservation(dataclasses.replace(observed, offered=offered), index, now_s)
        self._release(dealt, index, now_s)
        for migration in sorted(snapshot.migrations.values(), key=lambda m: (m.created_at_s, m.key)):
            self._step_migration(migration, observer, rooms, index, now_s)
        self._tend_strays(index, now_s)
        self._tend_led_astray(index, now_s)
        self._tend_hints(index, now_s)
        self.recent.forget({*(ObjectKey("", n) for n in rooms), *snapshot.migrations, *self._helpers(index)})
        return self._wake_at_s

    def unbound(self) -> Iterable[Pod]:
        """Pods without a node, as the last round saw them."""
        return self._kept.pods.unbound.values()

    # Gathering

    def _written(self, index: RoundIndex, now_s: float) -> dict[ObjectKey, str]:
        """Rooms that were asked for, but not in this snapshot yet."""
        self.recent.aims = {m: n for m, n in self.recent.aims.items() if self._blind(m, index, now_s)}
        return self.recent.aims

    def _observe_rooms(
        self, observer: Observer, links: Mapping[str, LinkedMigration]
    ) -> dict[str, ObservedReservation]:
        """Every Reservation. A pod that two have claimed belongs to the first; the other claim is dropped."""
        reservations = observer.index.snapshot.reservations
        rooms: dict[str, ObservedReservation] = {}
        claimed: set[str] = set()
        for name in sorted(reservations):
            observed = with_koordinator(
                observer.reservation(reservations[name], links.get(name)),
                observer.index.snapshot,
                self.settings.reservations.koordinator_scheduler,
            )
            if reservations[name].status.phase not in FINISHED:
                own = tuple(pod for pod in observed.owners if pod.uid not in claimed)
                claimed.update(pod.uid for pod in own)
                if len(own) < len(observed.owners):
                    claimant = observed.claimant if observed.claimant in own else None
                    observed = dataclasses.replace(observed, owners=own, claimant=claimant)
            rooms[name] = observed
        return rooms

    def _deal(
        self, observer: Observer, rooms: dict[str, ObservedReservation], swapping: Mapping[str, str]
    ) -> Allotment:
        """What has been claimed is left out: a Reservation that has ended lets its pod go itself.

        ``swapping``: ReplicaSets that will remove a held pod of theirs, so that it is neither dealt nor let go.
        """
        taken = {pod.uid for observed in rooms.values() for pod in observed.owners}
        for name in rooms:
            if self._blind(ObjectKey("", name), observer.index, observer.now_s):
                taken |= self.recent.claims.get(name, frozenset())
        limit_s = self.settings.reservations.gate_limit_s
        free = [pod for pod in observer.index.gated if pod.uid not in taken and not pod.deleting]
        young = [pod for pod in free if observer.now_s < pod.created_at_s + limit_s]
        for pod in young:
            self._wake(pod.created_at_s + limit_s)
        dealable = [p for p in young if p.controller is None or p.controller.uid not in swapping]
        dealt = allot(dealable, self._rooms_to_give(observer, rooms), observer.index.controllers)
        overdue = [(pod, f"held for {limit_s:g} s") for pod in free if pod not in young]
        return dataclasses.replace(dealt, released=(*dealt.released, *overdue))

    def _rooms_to_give(self, observer: Observer, rooms: dict[str, ObservedReservation]) -> Iterable[Room]:
        """A room whose last write the cache does not show yet may be claimed already: it only holds.

        So does one whose pod would be refused until others have landed.
        """
        found = [room for observed in rooms.values() if (room := observer.room(observed)) is not None]
        names = (room.reservation.name for room in found)
        blind = {n for n in names if self._blind(ObjectKey("", n), observer.index, observer.now_s)}
        may_open = [r.reservation for r in found if r.open and r.reservation.name not in blind]
        if observer.index.gated and may_open:
            claimed = [rooms[name].reservation for name in blind if self.recent.claims.get(name)]
            open_now = self.placement.landable(may_open, claimed)
        else:
            open_now = frozenset()
        for room in found:
            yield dataclasses.replace(room, open=room.reservation.name in open_now)

    def _helpers(self, index: RoundIndex) -> Iterable[ObjectKey]:
        yield from (_GATE, _AVOID)
        for pod in index.gated:
            yield _pod_machine(pod)
        for orphan in self._orphans.pods.values():
            yield _stray_machine(orphan)
        for pod, _ in led_astray(index):
            yield _pod_machine(pod)
        for node in index.kept.nodes.shut:
            yield _node_machine(node)
        for node in index.kept.nodes.hinted:
            yield ObjectKey("hints", node.name)

    # Switches

    def _follow(self, machine: ObjectKey, mirror: Mirror, should: dict[str, str], now_s: float) -> None:
        if self._rests(machine, now_s):
            return
        try:
            mirror.follow(should, now_s)
        except (ApiError, TransportError) as error:
            self._failed(machine, "ConfigMap", error, now_s)
        else:
            self.recent.succeeded(machine)

    def _tend_strays(self, index: RoundIndex, now_s: float) -> None:
        """Replacements of mode StartFirst that no live move cares for."""
        snapshot, orphans = index.snapshot, self._orphans.pods.values()
        for orphan, action in stray_actions(orphans, snapshot.migrations, snapshot.workloads, index.pods_of):
            machine = _stray_machine(orphan)
            if not self._blind(machine, index, now_s) and not self._rests(machine, now_s):
                self._carry_out(machine, (action,), now_s)

    def _tend_led_astray(self, index: RoundIndex, now_s: float) -> None:
        """Pods that wait for a room of Koordinator's which is lost."""
        for pod, action in led_astray(index):
            machine = _pod_machine(pod)
            if not self._blind(machine, index, now_s) and not self._rests(machine, now_s):
                self._carry_out(machine, (action,), now_s)

    def _tend_hints(self, index: RoundIndex, now_s: float) -> None:
        self._follow(_AVOID, self.hints, avoid_keys(index.kept.nodes.hinted, now_s), now_s)
        for action in outdated(index.kept.nodes.hinted, index.snapshot.workloads, now_s):
            machine = ObjectKey("hints", action.node)
            if not self._blind(machine, index, now_s) and not self._rests(machine, now_s):
                self._carry_out(machine, (action,), now_s)

    def _switch_taints(self, rooms: dict[str, ObservedReservation], index: RoundIndex, now_s: float) -> None:
        """A node is not tainted while a claimant that would not tolerate it is on its way there."""
        snapshot = index.snapshot
        wanted = {o.node.name: o for o in rooms.values() if o.node is not None and _taintable(o)}
        if any(observed.stands_back for observed in wanted.values()):
            self._wake(now_s + self.settings.reservations.taint_settle_s)
        barred = {o.node.name for o in rooms.values() if o.node is not None and _would_shut_out(o)}
        for name, observed in wanted.items():
            node, reservation = snapshot.nodes[name], observed.reservation.name
            unsure = name in barred or self._blind(ObjectKey("", reservation), index, now_s)
            if not tainted(node) and not unsure:
                self._switch_node(node, partial(self.executor.taint, node, reservation), now_s)
        for node in index.kept.nodes.shut:
            if node.name not in wanted:
                self._switch_node(node, partial(self.executor.untaint, node), now_s)

    def _switch_node(self, node: Node, switch: Callable[[], Effect], now_s: float) -> None:
        machine = _node_machine(node)
        if self._rests(machine, now_s):
            return
        try:
            self.recent.wrote(machine, switch(), now_s)
        except (ApiError, TransportError) as error:
            self._failed(machine, "hand-over taint", error, now_s)

    # Machines

    def _step_reservation(self, observed: ObservedReservation, index: RoundIndex, now_s: float) -> None:
        machine = ObjectKey("", observed.reservation.name)
        if self._blind(machine, index, now_s):
            return
        resting = self._rests(machine, now_s)
        try:
            step = reservation_machine.step(observed, now_s, self.settings.reservations)
        except reservation_lifecycle.TransitionError as error:
            if not resting:
                self._defect(machine, "Reservation", observed.reservation.uid, error, now_s)
            return
        self._wake(step.wake_at_s)
        self.awaited.update(dict.fromkeys(step.awaits, observed.reservation))
        actions = step.actions
        if resting:  # after a refused call only the words about it are written
            actions = tuple(a for a in actions if isinstance(a, WriteReservationStatus))
            if observed.placeholder is not None:
                return
        self._carry_out(machine, actions, now_s, keep_failure=resting)

    def _step_migration(
        self,
        migration: PodMigration,
        observer: Observer,
        rooms: dict[str, ObservedReservation],
        index: RoundIndex,
        now_s: float,
    ) -> None:
        machine = migration.key
        if self._blind(machine, index, now_s) or self._rests(machine, now_s):
            return
        try:
            step = migration_machine.step(
                observer.migration(migration, rooms), now_s, self.settings.migrations
            )
        except migration_lifecycle.TransitionError as error:
            self._defect(machine, "PodMigration", migration.uid, error, now_s)
            return
        self._wake(step.wake_at_s)
        self._carry_out(machine, step.actions, now_s)

    def _release(self, dealt: Allotment, index: RoundIndex, now_s: float) -> None:
        for pod, why in dealt.released:
            machine = _pod_machine(pod)
            if holds_gate(pod) and not self._blind(machine, index, now_s) and not self._rests(machine, now_s):
                self._carry_out(machine, (ReleasePod(pod.key, pod.uid, why),), now_s)

    # Carrying out

    def _carry_out(
        self, machine: ObjectKey, actions: Iterable[Action], now_s: float, *, keep_failure: bool = False
    ) -> None:
        """All actions in order; the first that fails ends the step, for later ones build on it."""
        for action in actions:
            try:
                effect = self.executor.execute(action)
            except (ApiError, TransportError) as error:
                if isinstance(error, TransportError):
                    self._note_claims(action)  # it may have been written all the same
                self._failed(machine, type(action).__name__, error, now_s)
                return
            self._remember(machine, action, effect, now_s)
            self.listener(action, effect)
        if not keep_failure:
            self.recent.succeeded(machine)

    def _remember(self, machine: ObjectKey, action: Action, effect: Effect, now_s: float) -> None:
        self.recent.wrote(machine, effect, now_s)
        self._note_claims(action)
        if isinstance(action, CreatePlaceholder | CreateKoordinatorReservation):
            self.recent.aims[machine] = action.node
        elif isinstance(action, DeletePlaceholder):
            self.recent.aims.pop(machine, None)
        elif isinstance(action, moves.WriteMigrationStatus):
            if action.status.phase is MigrationPhase.RESERVING:
                self.recent.begun.add(machine)
                self.recent.aims[machine] = action.status.node_name
        elif isinstance(action, moves.StartReplacement) and effect.refused:
            self.recent.start_refused(machine, effect.refused)
            self._wake(now_s)
        elif isinstance(action, moves.DryRunEvict) and effect.eviction is not None:
            self.recent.dry_run(machine, effect.eviction, now_s)
            self._wake(now_s)
        elif isinstance(action, moves.Evict) and effect.eviction is not None:
            self.recent.eviction(machine, effect.eviction, now_s)
            self._wake(now_s)
        elif isinstance(action, moves.ProveGate) and effect.gate_proven is not None:
            self.recent.gate(machine, now_s, proven=effect.gate_proven)
            self._wake(now_s)

    def _note_claims(self, action: Action) -> None:
        if isinstance(action, WriteReservationStatus):
            self.recent.claims[action.name] = frozenset(o.uid for o in action.status.current_owners)

    def _blind(self, machine: ObjectKey, index: RoundIndex, now_s: float) -> bool:
        until_s = self.recent.blind_until(machine, index.version, now_s)
        self._wake(until_s)
        return until_s is not None

    def _rests(self, machine: ObjectKey, now_s: float) -> bool:
        failure = self.recent.failures.get(machine)
        if failure is None or now_s >= failure.until_s:
            return False
        self._wake(failure.until_s)
        return True

    def _failed(self, machine: ObjectKey, what: str, error: Exception, now_s: float) -> None:
        failure = self.recent.failed(machine, str(error), now_s, stale=isinstance(error, StaleError))
        self._wake(failure.until_s)
        log = structlog.get_logger("rescheduler.reconcile")
        say = log.debug if isinstance(error, StaleError) else log.warning
        say("A call failed", object=str(machine), action=what, error=str(error), tries=failure.count)

    def _defect(self, machine: ObjectKey, kind: str, uid: str, error: Exception, now_s: float) -> None:
        """A step that the table does not know: this object rests and says so; the others go on."""
        failure = self.recent.failed(machine, str(error), now_s, stale=False)
        self._wake(failure.until_s)
        structlog.get_logger("rescheduler.reconcile").error(
            "An object is in a state that it cannot leave", object=str(machine), error=str(error)
        )
        event = RecordEvent(
            kind=kind,
            namespace=machine.namespace,
            name=machine.name,
            uid=uid,
            reason="Damaged",
            message=str(error),
            warning=True,
        )
        self._carry_out(machine, (event,), now_s, keep_failure=True)

    def _wake(self, at_s: float | None) -> None:
        if at_s is not None:
            self._wake_at_s = at_s if self._wake_at_s is None else min(self._wake_at_s, at_s)


def _taintable(observed: ObservedReservation) -> bool:
    return observed.reservation.status.phase not in FINISHED and wants_taint(observed)


def _would_shut_out(observed: ObservedReservation) -> bool:
    if observed.reservation.status.phase in FINISHED:
        return False
    return any(not holds_gate(pod) and not tolerates_taint(pod) for pod in in_flight(observed))


def _stray_machine(orphan: Pod) -> ObjectKey:
    return ObjectKey("stray", orphan.uid)


def _pod_machine(pod: Pod) -> ObjectKey:
    return ObjectKey("release", pod.uid)


def _node_machine(node: Node) -> ObjectKey:
    return ObjectKey("taint", node.name)
