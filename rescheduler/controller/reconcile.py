"""One round over all live Reservations and PodMigrations: observe, step, send the calls, remember what was written.

The result of ``Reconciler.reconcile`` depends on the snapshot, the time and a memory that may be lost. Order within a
round: switches (gate keys, hand-over taints) first, then Reservations, then pods to release, then moves, so that a
gate key is written before it is proven. ``dispatcher`` sends the steps and remembers what comes of them. If the step
of an object crashes or its call fails, only that object goes into backoff; the others go on. What a stage over all objects
raises ends the round, which the loop tries again. A machine does not act again before its calls are answered and the
cache shows what it wrote.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final

from rescheduler.calls.call import AnyCall, Call, CreationTrial, GateProbe, writes_status
from rescheduler.calls.nodes import taint_node, untaint_node
from rescheduler.calls.pods import release, tolerate
from rescheduler.controller.call_pool import CallPool
from rescheduler.controller.crashes import CrashReports, whose_step, words_of
from rescheduler.controller.dispatcher import Dispatcher, Listener
from rescheduler.controller.effects import NotLeaderError
from rescheduler.controller.gathering import Gathered, Gatherer
from rescheduler.controller.mirror import Mirror
from rescheduler.controller.node_requests import NodeRequestKeeper
from rescheduler.controller.own_config_maps import AVOID, GATE, HISTORY, OwnConfigMaps
from rescheduler.controller.periodic_steps import EmptiedNodeKeeper
from rescheduler.controller.probing import SchedulerProbes
from rescheduler.controller.recording import MoveRecorder
from rescheduler.controller.room_sets import RoomSetKeeper
from rescheduler.controller.sender import Sender
from rescheduler.controller.settings import Settings, SettingsInForce
from rescheduler.coordination.deferred_status import DeferredStatus
from rescheduler.coordination.dry_run_creations import creation_refused
from rescheduler.coordination.gate_proofs import proof_machine
from rescheduler.coordination.handover_order import NO_LAG
from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.kept_index import KeptIndex
from rescheduler.coordination.key_stores import avoid_keys
from rescheduler.coordination.leftovers import Leftover, leftovers, release_machine
from rescheduler.coordination.memory import Memory
from rescheduler.coordination.move_order import ConcurrentMoves
from rescheduler.coordination.node_hints import hints_machine
from rescheduler.coordination.node_order import taint_machine
from rescheduler.coordination.observe_migrations import MigrationObserver
from rescheduler.coordination.placement import Placement
from rescheduler.coordination.round_objects import Chooser, RoundObjects
from rescheduler.coordination.unbudgeted import UnbudgetedWorkloads
from rescheduler.coordination.unchanged_moves import MoveMarks, UnchangedMoves
from rescheduler.migrations import migration_machine
from rescheduler.model.event import Event, about
from rescheduler.model.gated_pods import why_gated
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import ANNOTATION_RESERVATION
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_of_move import controller_of_move
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import earliest
from rescheduler.planning.decided import BeingEmptied
from rescheduler.reservations import reservation_machine
from rescheduler.reservations.assignment import Assignment
from rescheduler.reservations.handover import as_released, hand_over_taint
from rescheduler.reservations.observed_reservation import ObservedReservation

_GATED_TOLD_AFTER_S: Final = 10.0
_MOST_TOLD: Final = 20


@dataclass(slots=True, kw_only=True)
class Reconciler:
    """Runs all machines. ``settings`` and ``placement`` may be replaced between rounds; nothing else may."""

    sender: Sender
    gate: Mirror
    hints: Mirror
    """Of ConfigMap ``avoid-nodes``."""
    recorder: MoveRecorder
    placement: Placement
    settings: Settings = field(default_factory=Settings)
    pool: CallPool = field(default_factory=CallPool)
    clock: Callable[[], float] = time.monotonic
    """Monotonic seconds: the age of steps under way."""
    listeners: tuple[Listener, ...] = ()
    crashes: CrashReports = field(default_factory=CrashReports)
    probes: SchedulerProbes | None = None
    """None: every scheduler is taken to know of the present nominations."""
    memory: Memory = field(default_factory=Memory)
    _dispatcher: Dispatcher = field(init=False)
    _config_maps: OwnConfigMaps = field(init=False)
    _quiet: UnchangedMoves = field(default_factory=UnchangedMoves)
    _kept: KeptIndex = field(default_factory=KeptIndex)
    _awaited: dict[str, Reservation] = field(default_factory=dict)
    """Schedulers that hand-overs wait for in this round, each with one of the Reservations that wait."""
    _told_gated: set[str] = field(default_factory=set)
    _emptied_nodes: EmptiedNodeKeeper = field(default_factory=EmptiedNodeKeeper)
    _room_sets: RoomSetKeeper = field(default_factory=RoomSetKeeper)
    _node_requests: NodeRequestKeeper = field(default_factory=NodeRequestKeeper)
    _index: RoundIndex = field(default_factory=lambda: RoundIndex.of(Snapshot(taken_at_s=0.0)))
    _now_s: float = 0.0
    _in_force: SettingsInForce = field(default_factory=SettingsInForce)
    _settings: Settings = field(default_factory=Settings)
    """Those in force in this round."""
    _wake_at_s: float | None = None

    def __post_init__(self) -> None:
        self._dispatcher = Dispatcher(
            sender=self.sender,
            pool=self.pool,
            memory=self.memory,
            recorder=self.recorder,
            listeners=self.listeners,
            crashed=self._crashed,
            wake=self._wake,
            clock=self.clock,
        )
        self._config_maps = OwnConfigMaps(
            gate=self.gate,
            hints=self.hints,
            recorder=self.recorder,
            backoff=self.memory.backoff,
            proofs=self.memory.proofs,
            failed=self._dispatcher.failed,
            crashed=self._crashed,
        )

    def reconcile(self, snapshot: Snapshot, now_s: float) -> float | None:
        """Take every machine one step further.

        Returns when to reconcile again at the latest; None: only when something changes.

        Raises:
            NotLeaderError: leadership was lost right before a call; it was not sent.
        """
        objects, found = self._begin(snapshot, now_s)
        self._index, rooms = found.index, found.rooms
        # Before what relies on a key: a proof, and a status that says Available, wait until the keys are stored.
        self._config_maps.follow_gate(found.gate_keys, now_s)
        self._prove_prepared_gates()
        self._switch_taints(found)
        for name, observed in rooms.items():
            pods = found.assignment.claims.get(name, ())
            room = dataclasses.replace(observed, assigned=pods) if pods else observed
            self._alone(ObjectKey("", name), partial(self._step_reservation, room))
        self._release(found.assignment)
        self._prepare(found)
        observer = self._migrations(found)
        marks = self._quiet.begin_round(found.index, self.memory, self._settings.migrations, now_s)
        # Oldest first: of several moves of one pod, or of one ReplicaSet, the older one begins.
        for migration in (move for move in objects.moves if move.key in found.index.view.migrations):
            self._alone(migration.key, partial(self._step_migration, migration, observer, marks))
        self._end(objects, found)
        return self._wake_at_s

    def release_overdue(self, snapshot: Snapshot, now_s: float) -> None:
        """While no round can tell which pods get their rooms: nothing holds a pod for longer than its limit.

        Of the snapshot it reads the gates of the pods alone: rounds may crash of the rest.
        """
        self._now_s, self._index = now_s, dataclasses.replace(self._index, snapshot=snapshot, view=snapshot)
        limit_s = self.settings.reservations.gate_limit_s
        for pod in snapshot.pods.values():
            if holds_gate(pod) and now_s >= pod.created_at_s + limit_s and not pod.deleting:
                why = f"held for {limit_s:g} s, and its room is unknown"
                self._do(release_machine(pod.uid), release(pod, why))

    def _begin(self, snapshot: Snapshot, now_s: float) -> tuple[RoundObjects, Gathered]:
        """A new round: what has happened since the last one is taken in, and what it is about is chosen and gathered."""
        self._wake_at_s, self._now_s = None, now_s
        self._settings = self._in_force.at(self.settings, now_s)
        self.pool.begin_round()
        self._awaited = {}
        self._index = self._indexed(self.informed(snapshot, now_s))
        self.memory.lag.follow(self._index.version, now_s)
        # Before the moves: what has begun or ended is stored before a move goes on because of it.
        self._config_maps.store_history(now_s)
        settings = self._settings
        chooser = Chooser(memory=self.memory, under_way=self._dispatcher.under_way)
        objects = chooser.of(
            self._index,
            self.recorder.history.counts,
            migrations=settings.migrations,
            limits=settings.limits,
            now_s=now_s,
        )
        return objects, self._gather(objects.index)

    def _indexed(self, snapshot: Snapshot) -> RoundIndex:
        try:
            index = RoundIndex.of(snapshot, self._kept)
            self.recorder.history.follow(snapshot, self._settings.limits)
        except BaseException:
            self._kept = KeptIndex()  # what was followed half way is not known any more
            raise
        return index

    def _end(self, objects: RoundObjects, found: Gathered) -> None:
        """What belongs to no Reservation and no move, and when the next round must be."""
        sightings, settings = self.memory.sightings, self._settings.reservations
        left = leftovers(self._index, sightings, settings, self._now_s)
        self._tend_leftovers(left)
        self._alone(ObjectKey("gated", ""), self._tell_gated)
        self._alone(hints_machine(""), self._tend_hints)
        self._alone(ObjectKey("periodic steps", ""), partial(self._keep, found))
        self._record()
        if self.probes is not None:
            for machine, call in self.probes.due(self._awaited, self._kept.pods.probes.values(), settings):
                self._do(machine, call)
        self.memory.forget(self._kept.names.known.union(self._helpers(left, found)))
        for at_s in (*objects.wake_at_s, self._config_maps.again_s(self._now_s)):
            self._wake(at_s)

    def follow_emptying(self, nodes: frozenset[BeingEmptied]) -> None:
        """What the last decision empties: these nodes are held from the first eviction on."""
        self._emptied_nodes.emptying = nodes

    @property
    def gated(self) -> tuple[Pod, ...]:
        """Pods at the gate, as of the last round."""
        return self._index.gated

    @property
    def node_requests(self) -> int:
        """Pods that ask the node autoscaler for a node, as of the last round."""
        return len(self._index.kept.pods.node_requests)

    def informed(self, snapshot: Snapshot, now_s: float) -> Snapshot:
        """The snapshot with the answers to dry-run creations, for rounds and for decisions alike."""
        return self.memory.creations.informed(snapshot, now_s)

    # Gathering

    def _gather(self, index: RoundIndex) -> Gathered:
        settings, limit_s = self._settings.reservations, self.settings.reservations.gate_limit_s
        for pod in index.gated:
            released_s = max(pod.created_at_s + limit_s, self._in_force.until_s)
            if self._now_s < released_s:
                self._wake(released_s)
        lag = NO_LAG
        if self.probes is not None:
            lag = self.probes.lag(index.snapshot, self.memory, settings.namespace, self._now_s)
        return Gatherer(
            index=index,
            placement=self.placement,
            migrations=self._settings.migrations,
            memory=self.memory,
            lag=lag,
            unseen=self._unseen,
            releasing=lambda pod: self._dispatcher.carries(release_machine(pod.uid)),
            resting=lambda pod: self._backs_off(release_machine(pod.uid)),
            crashed=self._crashed,
            now_s=self._now_s,
        ).all()

    def _migrations(self, found: Gathered) -> MigrationObserver:
        expectations = self.memory.expectations
        return MigrationObserver(
            index=found.index,
            placement=self.placement,
            memory=self.memory,
            concurrent_moves=ConcurrentMoves.of(found.index.view.migrations.values(), expectations.begun),
            start_first=found.start_first,
            replacements=found.replacements,
            unbudgeted=UnbudgetedWorkloads(index=found.index, expectations=expectations, now_s=self._now_s),
            rooms=found.rooms,
            history=self.recorder.history,
            settings=self._settings.migrations,
            now_s=self._now_s,
        )

    def _helpers(self, left: Iterable[Leftover], found: Gathered) -> Iterable[ObjectKey]:
        """Machines that are neither a Reservation nor a PodMigration."""
        index = self._index
        yield from (GATE, AVOID, HISTORY)
        yield from self.probes.machines if self.probes is not None else ()
        for pod in (*index.gated, *(pod for pod, _ in found.assignment.preparing)):
            yield release_machine(pod.uid)
        yield from self.memory.proofs.machines()
        yield from (leftover.machine for leftover in left)
        for node in (*index.kept.nodes.shut, *found.taints.on):
            yield taint_machine(node.name)
        for keeper in (self._emptied_nodes, self._room_sets, self._node_requests):
            yield from keeper.machines
        yield from map(
            hints_machine, (*(node.name for node in index.kept.nodes.hinted), *self.memory.hints.left)
        )

    # Switches

    def _record(self) -> None:
        """Store what this round has changed; a move that begins waits for it, so the next round follows at once."""
        if self.recorder.behind and self._config_maps.store_history(self._now_s):
            self._wake(self._now_s)

    def _tend_leftovers(self, left: Iterable[Leftover]) -> None:
        for leftover in left:
            if self._now_s >= leftover.due_s:
                self._do(leftover.machine, *leftover.calls)
            else:
                self._wake(leftover.due_s)

    def _tell_gated(self) -> None:
        """An Event on each pod that waits at the gate for longer than a hand-over takes; a few in each round, beside all others."""
        gated = self._index.gated
        self._told_gated &= {pod.uid for pod in gated}
        untold = [pod for pod in gated if pod.uid not in self._told_gated and not pod.deleting]
        due = [pod for pod in untold if self._now_s >= pod.created_at_s + _GATED_TOLD_AFTER_S]
        for pod in untold:
            self._wake(max(pod.created_at_s + _GATED_TOLD_AFTER_S, self._now_s + 1.0))
        for pod in due[:_MOST_TOLD]:
            why = self._refused_to(pod) or why_gated(pod, self._index.snapshot.reservations)
            event = Event(about(pod), "WaitsAtGate", why)
            if self._carry_out(ObjectKey("gated", pod.uid), (event,), keep_failure=True):
                self._told_gated.add(pod.uid)

    def _tend_hints(self) -> None:
        hinted, snapshot = self._index.kept.nodes.hinted, self._index.snapshot

        def refused(uid: str) -> bool:
            workload = snapshot.workloads.get(uid)
            return workload is not None and bool(creation_refused(snapshot, workload))

        self._config_maps.follow_hints(avoid_keys(hinted, self._now_s, refused), self._now_s)
        for call in self.memory.hints.changes(snapshot.nodes, hinted, snapshot.workloads, self._now_s):
            self._do(hints_machine(call.key.name), call)

    def _refused_to(self, pod: Pod) -> str:
        """What the API server says to who would take the gate off, or nominate the pod; "": it does not refuse."""
        room = ObjectKey("", pod.annotations.get(ANNOTATION_RESERVATION) or "")
        words = map(self.memory.backoff.refusal, (release_machine(pod.uid), room))
        refused = next(filter(None, words), "")
        return f"the API server refuses what its hand-over needs: {refused}" if refused else ""

    def _keep(self, found: Gathered) -> None:
        index, now_s, nodes = self._index, self._now_s, self._emptied_nodes
        wanting = (*index.unbound(), *index.kept.pods.node_requests.values())
        kept = nodes.steps(index.snapshot, wanting, self._settings.keeping, now_s)
        asks = self._node_requests.steps(found, self.placement, self._settings.reservations, now_s)
        for step in chain(kept, self._room_sets.steps(index, now_s), asks):
            if not self._unseen(step.machine) and not self._backs_off(step.machine):
                self._alone(step.machine, partial(self._keep_one, step.machine, step.calls))
        for keeper in (nodes, self._room_sets, self._node_requests):
            self._wake(keeper.again_s)

    def _keep_one(self, machine: ObjectKey, calls: Callable[[], Iterable[AnyCall]]) -> None:
        self._carry_out(machine, calls())

    def _switch_taints(self, found: Gathered) -> None:
        settle_s = self._settings.reservations.taint_settle_s
        # A preallocation keeps the taint until the scheduler has seen its nomination again, and no event tells when.
        if any(observed.needs_taint and not observed.in_flight for observed in found.rooms.values()):
            self._wake(self._now_s + settle_s)
        for node in found.taints.on:
            self._switch_node(node, taint_node(node, hand_over_taint(node.name)))
        for node in found.taints.off:
            self._switch_node(node, untaint_node(node))

    def _switch_node(self, node: Node, call: Call) -> None:
        machine = taint_machine(node.name)
        if not self._backs_off(machine):  # a patch of a node that the cache shows too late is refused
            self._alone(machine, partial(self._carry_out, machine, (call,)))

    # Machines

    def _step_reservation(self, observed: ObservedReservation) -> None:
        machine = ObjectKey("", observed.reservation.name)
        if self._unseen(machine):
            return
        backs_off = self._backs_off(machine)
        if self.memory.backoff.crashed(machine, self._now_s):
            return
        step = reservation_machine.step(observed, self._now_s, self._settings.reservations)
        step = DeferredStatus(self.memory).reservation(observed.reservation, step, self._now_s)
        if self._config_maps.gate_is_late(step.calls, self._now_s, observed):
            return
        self._wake(step.wake_at_s)
        if observed.wait is not None:
            self._awaited.update(dict.fromkeys(observed.wait.schedulers, observed.reservation))
        calls = step.calls
        if backs_off:  # only the status is written: it has the message of the call that failed
            calls = tuple(filter(writes_status, calls))
            if observed.placeholder is not None:
                return
        self.memory.rooms.stepped(observed.reservation, step, self._now_s)
        if not self._carry_out(machine, calls, keep_failure=backs_off):
            self.memory.rooms.turns.again(machine)

    def _step_migration(self, migration: PodMigration, observer: MigrationObserver, marks: MoveMarks) -> None:
        machine = migration.key
        if self._unseen(machine) or self._backs_off(machine):
            return
        mark = marks.of(migration, self.recorder.history.recorded(migration))
        if (rests_until_s := self._quiet.until_s(machine, mark, self._now_s)) is not None:
            self._wake(rests_until_s)
            return
        observed = observer.of(migration)
        step = migration_machine.step(observed, self._now_s, self._settings.migrations)
        step = DeferredStatus(self.memory).migration(migration, step, self._now_s)
        self._quiet.stepped(machine, mark, step, self._now_s)
        self.memory.moves.stepped(migration, step, self._now_s)
        if step.hint is not None:
            self.memory.hints.leave(step.status.source_node, step.hint, self._now_s)
        if self.memory.prepares(machine, step.gate_until_s):
            self._wake(self._now_s)  # the next round writes the key
        for proof in (proofs := [a for a in step.calls if isinstance(a, GateProbe)]):
            self._prove_gate(proof)
        calls = [a for a in step.calls if a not in proofs]
        if self._config_maps.gate_is_late(calls, self._now_s):
            return
        self._wake(step.wake_at_s)
        if any(isinstance(a, CreationTrial) and self._dispatcher.asks(a.template) for a in calls):
            return
        if step.begins:
            self.recorder.history.begin(observed.migration, observed.pod.uid if observed.pod else "")
        if not self._carry_out(machine, calls):
            self.memory.moves.turns.again(machine)

    def _prove_prepared_gates(self) -> None:
        """As soon as a key is stored, whether or not its move takes a step now: the gate settles from then on."""
        snapshot = self._index.snapshot
        moves = (snapshot.migrations[key] for key in self.memory.preparing if key in snapshot.migrations)
        for move in moves:
            owner = controller_of_move(move, snapshot)
            gate = self.memory.proofs.of(owner, move.namespace, self._now_s) if owner is not None else None
            if owner is not None and gate is not None and gate.stored and not gate.since_s:
                self._prove_gate(GateProbe(owner, move.namespace))

    def _prove_gate(self, proof: GateProbe) -> None:
        """One proof at a time for each controller, beside the steps of its moves: all of them may rely on it."""
        if not self._config_maps.gate_is_late((proof,), self._now_s):
            self._do(proof_machine(proof.owner, proof.namespace), proof)

    def _release(self, assignment: Assignment) -> None:
        for pod, why in assignment.released:
            if holds_gate(pod):
                self._do(release_machine(pod.uid), release(pod, why))

    def _prepare(self, found: Gathered) -> None:
        for pod, room in found.assignment.preparing:
            tolerations = as_released(pod, found.rooms[room].reservation.status.node_name).spec.tolerations
            self._do(release_machine(pod.uid), tolerate(pod, room, tolerations))

    # Carrying out

    def _do(self, machine: ObjectKey, *calls: AnyCall) -> None:
        if not self._unseen(machine) and not self._backs_off(machine):
            self._alone(machine, partial(self._carry_out, machine, calls))

    def _alone(self, machine: ObjectKey, take: Callable[[], object]) -> None:
        """Take one step. Whatever it raises rests this machine alone, except lost leadership."""
        try:
            take()
        except NotLeaderError:
            raise
        except Exception as error:  # noqa: BLE001 - a defect in the step of one object must not stop the others
            self._crashed(machine, error, self._now_s)

    def _carry_out(self, machine: ObjectKey, calls: Iterable[AnyCall], *, keep_failure: bool = False) -> bool:
        return self._dispatcher.begin(
            machine, tuple(calls), self._index.snapshot, self._now_s, keep_failure=keep_failure
        )

    def _unseen(self, machine: ObjectKey) -> bool:
        """True while a step of this machine is under way, or the cache does not show what it wrote last.

        Until then it takes no further step.
        """
        if self._dispatcher.carries(machine):
            return True
        until_s = self.memory.expectations.unseen_until(machine, self._index.version, self._now_s)
        self._wake(until_s)
        return until_s is not None

    def _backs_off(self, machine: ObjectKey) -> bool:
        failure = self.memory.backoff.pausing(machine, self._now_s)
        self._wake(failure.until_s if failure is not None else None)
        return failure is not None

    def _crashed(self, machine: ObjectKey, error: Exception, now_s: float) -> None:
        """This object goes into backoff, and a Reservation or a move gets an Event; the others go on.

        What the calls of a step, or their answers, made of it is found when it lands, maybe between two rounds.
        """
        self._now_s = now_s
        step, uid = whose_step(machine, self._index.snapshot)
        failure = self.memory.crashed(machine, words_of(error), now_s)
        self._wake(failure.until_s)
        self.crashes.tell(step, machine, error, failure.count)
        if uid:
            event = self.crashes.event(step, machine, uid, error)
            self._carry_out(machine, (event,), keep_failure=True)

    def _wake(self, at_s: float | None) -> None:
        self._wake_at_s = earliest(self._wake_at_s, at_s)
