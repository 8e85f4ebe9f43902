"""Carries out the steps of machines, one at a time for each machine, and remembers what they wrote and were answered.

What a step writes is noted when it is sent, because later machines must count it before its answer is there; the answer
confirms it, or takes it back. Between the two the machine takes no further step. Nothing here decides what is right:
the actions come from the machines, and an action that failed is decided on again after a backoff.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from rescheduler.controller.call_pool import OWN_LANE, CallPool, own_lane
from rescheduler.controller.effects import Action, Effect, NotLeaderError
from rescheduler.controller.recording import MoveRecorder
from rescheduler.controller.sender import Executor
from rescheduler.coordination.expectations import Noted
from rescheduler.coordination.memory import Memory
from rescheduler.kube.answers import may_have_happened
from rescheduler.kube.errors import ApiError, StaleError
from rescheduler.kube.transport import TransportError
from rescheduler.migrations import actions as moves
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.records import ObjectKey
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.room_pod import home_of
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations import actions as rooms

FRESH_S: Final = 2.0
"""How old a step may be when one of its calls is sent: after a slow call the rest is decided anew."""

Listener = Callable[[Action, Effect], None]


def silent(_action: Action, _effect: Effect) -> None:
    """A listener that does nothing."""


@dataclass(slots=True, kw_only=True)
class SentStep:
    """The actions of one machine in order, as a ``call_pool.Work``. If one fails, the rest is dropped: it depends on it."""

    machine: ObjectKey
    actions: tuple[Action, ...]
    lane: str
    keep_failure: bool
    """The backoff of the machine goes on, whatever these actions achieve."""
    snapshot: Snapshot
    """That which the step was decided on."""
    sent_at_s: float
    before: Noted
    """What was noted of the machine before."""
    execute: Callable[[Action], Effect]
    age_s: Callable[[], float]
    landed: Callable[[SentStep, float], None]
    effects: list[Effect] = field(default_factory=list)
    error: Exception | None = None

    def call(self) -> bool:
        """Carry the next action out."""
        action = self.actions[len(self.effects)]
        if self.effects and self.age_s() > FRESH_S and not isinstance(action, rooms.RecordEvent):
            return False
        try:
            self.effects.append(self.execute(action))
        except Exception as error:  # noqa: BLE001 - the core thread raises what it does not expect
            self.error = error
            return False
        return len(self.effects) < len(self.actions)

    def land(self, now_s: float) -> None:
        """Remember what it achieved."""
        self.landed(self, now_s)


@dataclass(slots=True, kw_only=True)
class Dispatcher:
    """Used by the core thread only, except for the calls themselves."""

    executor: Executor
    pool: CallPool
    memory: Memory
    recorder: MoveRecorder
    listener: Listener = silent
    crashed: Callable[[ObjectKey, Exception, float], None]
    """Called with what a call raised if it is neither an answer nor the lack of one."""
    clock: Callable[[], float]
    """Monotonic seconds: the age of steps."""
    wake_at_s: float | None = None
    """When the next round must be at the latest, as far as answers that landed in this one are concerned."""
    _under_way: dict[ObjectKey, SentStep] = field(default_factory=dict)
    _asked: Counter[TemplateKey] = field(default_factory=Counter)
    """How many dry-run creations from each template are under way."""

    def carries(self, machine: ObjectKey) -> bool:
        """True while a step of the machine is under way: until it has landed, the machine takes no further step."""
        return machine in self._under_way

    @property
    def under_way(self) -> Collection[ObjectKey]:
        """The machines that ``carries`` is true for; changes with each step."""
        return self._under_way.keys()

    def asks(self, template: TemplateKey) -> bool:
        """True while a dry-run creation from this template is under way: its answer serves all moves of the workload."""
        return template in self._asked

    def begin(
        self,
        machine: ObjectKey,
        actions: Sequence[Action],
        snapshot: Snapshot,
        now_s: float,
        *,
        keep_failure: bool = False,
    ) -> bool:
        """Send the actions in order. False if all workers of their namespace are busy: the step is decided anew later."""
        if self.carries(machine):
            return False
        if not actions:
            self._done(machine, keep_failure=keep_failure)
            return True
        lane = lane_of(actions) or own_lane(_home_of(machine, snapshot))
        if not self.pool.accepts(lane):
            return False
        began_s = self.clock()
        step = SentStep(
            machine=machine,
            actions=tuple(actions),
            lane=lane,
            keep_failure=keep_failure,
            snapshot=snapshot,
            sent_at_s=now_s,
            before=self.memory.expectations.noted(machine),
            execute=self.executor.execute,
            age_s=lambda: self.clock() - began_s,
            landed=self._land,
        )
        self._under_way[machine] = step
        self._asked.update(_asked_by(step))
        for action in actions:
            self._note_sent(machine, action, now_s)
        self.pool.begin(step, now_s)
        return True

    def failed(self, machine: ObjectKey, what: str, error: Exception, now_s: float) -> None:
        """A call failed: the machine goes into backoff."""
        # Our cache was behind another writer: expected, and over once the cache has caught up. No reason to warn.
        stale = isinstance(error, StaleError)
        least_s = (error.retry_after_s or 0.0) if isinstance(error, ApiError) else 0.0
        failure = self.memory.backoff.failed(machine, str(error), now_s, stale=stale, least_s=least_s)
        self._wake(failure.until_s)
        log = structlog.get_logger("rescheduler.reconcile")
        say = log.debug if stale else log.warning
        say(
            "A call failed; it is tried again after a backoff",
            object=str(machine),
            action=what,
            error=str(error),
            tries=failure.count,
        )

    def _land(self, step: SentStep, now_s: float) -> None:
        machine = step.machine
        del self._under_way[machine]
        self._asked -= Counter(_asked_by(step))
        self.memory.expectations.restore(machine, step.before)
        for action, effect in zip(step.actions, step.effects, strict=False):
            self._remember(step, action, effect, now_s)
            self.listener(action, effect)
        if step.error is None:
            self._done(machine, keep_failure=step.keep_failure)
            return
        action = step.actions[len(step.effects)]
        if isinstance(step.error, NotLeaderError):
            raise step.error
        if not isinstance(step.error, ApiError | TransportError):
            self.crashed(machine, step.error, now_s)
            return
        if may_have_happened(step.error):
            # It may have been written, so its pods must not be assigned again, and the eviction counts.
            self._note_written(action)
        self.failed(machine, type(action).__name__, step.error, now_s)

    def _done(self, machine: ObjectKey, *, keep_failure: bool) -> None:
        if not keep_failure:
            self.memory.backoff.succeeded(machine)

    def _remember(self, step: SentStep, action: Action, effect: Effect, now_s: float) -> None:
        """``now_s``: of the answer."""
        machine = step.machine
        expectations, answers = self.memory.expectations, self.memory.answers
        expectations.wrote(machine, effect.touched, now_s)
        self.memory.lag.wrote(effect.touched, now_s)
        self._note_room(machine, action)
        self._note_written(action)
        self._note_status(step.snapshot, action)
        match action:
            case moves.MeasureWatch() if effect.refused:
                self.memory.lag.cannot_be_measured(now_s)
                self._wake(now_s)
            case rooms.DeletePlaceholder():
                expectations.nodes.pop(machine, None)
            case rooms.TryTemplate() if effect.template_refused is not None:
                trials, template = self.memory.templates, action.reservation.template_raw
                trials.answered(template, effect.template_refused, now_s)
                self._wake(now_s)
            # An answer that is no object comes with no event, so the machine is stepped again at once to read it.
            case moves.StartReplacement() if effect.refused:
                answers.start_refused(machine, effect.refused)
                self._wake(now_s)
            case moves.DryRunCreate() if effect.creation is not None:
                # With the time of the question: what has changed since then, the answer does not know.
                creations, asked_s = self.memory.creations, step.sent_at_s
                creations.answered(step.snapshot, action.template, action.pod, effect.creation, asked_s)
                self._wake(now_s)
            case moves.DryRunEvict() if effect.eviction is not None:
                answers.dry_run(machine, effect.eviction, now_s)
                self._wake(now_s)
            case moves.Evict() if effect.eviction is not None:
                answers.eviction(machine, effect.eviction, now_s)
                self._wake(now_s)
            case moves.ProveGate(controller=owner) if effect.gate_proven is not None:
                proofs = self.memory.proofs
                proofs.answered(owner, action.namespace, now_s, proven=effect.gate_proven)
                self._wake(now_s)
            case _:
                pass

    def _note_sent(self, machine: ObjectKey, action: Action, now_s: float) -> None:
        """Count what is about to be written, and also what it replaces: either may be what is stored."""
        expectations = self.memory.expectations
        self._note_room(machine, action)
        match action:
            case rooms.WriteReservationStatus():
                owners = frozenset(owner.uid for owner in action.status.current_owners)
                expectations.claims[action.name] = expectations.claims.get(action.name, frozenset()) | owners
            case moves.WriteMigrationStatus() if action.status.eviction_requested_at_s:
                expectations.intents.add(action.migration)
            case moves.ProveGate():
                self.memory.proofs.asks(action.controller, action.namespace, now_s)
            case _:
                pass

    def _note_room(self, machine: ObjectKey, action: Action) -> None:
        """Remember which node a room is on, and which moves have begun: the cache shows them as Pending for a while."""
        expectations = self.memory.expectations
        match action:
            case rooms.CreatePlaceholder() | rooms.CreateKoordinatorReservation():
                expectations.nodes[machine] = action.node
            case moves.WriteMigrationStatus() if action.status.phase is MigrationPhase.RESERVING:
                expectations.begun.add(machine)
                expectations.nodes[machine] = action.status.node_name
            case _:
                pass

    def _note_written(self, action: Action) -> None:
        """Remember claims and intents: other machines must see them, and the cache does not show them yet."""
        expectations = self.memory.expectations
        if isinstance(action, rooms.WriteReservationStatus):
            expectations.claims[action.name] = frozenset(owner.uid for owner in action.status.current_owners)
        elif isinstance(action, moves.WriteMigrationStatus):
            if action.status.phase is MigrationPhase.FAILED and action.status.evicted_at_s:
                self.memory.lag.failed(action.status.finished_at_s)
            if action.status.eviction_requested_at_s:
                expectations.intents.add(action.migration)
            else:
                expectations.intents.discard(action.migration)

    def _note_status(self, snapshot: Snapshot, action: Action) -> None:
        if isinstance(action, moves.WriteMigrationStatus):
            migration = snapshot.migrations.get(action.migration)
            if migration is not None and migration.uid == action.uid:
                self.recorder.history.wrote(migration, action.status)

    def _wake(self, at_s: float) -> None:
        self.wake_at_s = at_s if self.wake_at_s is None else min(self.wake_at_s, at_s)


def _home_of(machine: ObjectKey, snapshot: Snapshot) -> str:
    """The namespace for whose pods a Reservation or a move is; "" for other machines, and for several namespaces."""
    if machine in snapshot.migrations:
        return machine.namespace
    reservation = None if machine.namespace else snapshot.reservations.get(machine.name)
    return home_of(reservation) if reservation is not None else ""


def lane_of(actions: Sequence[Action]) -> str:
    """The namespace of people whose admission the calls of a step may wait for."""
    return next(filter(None, map(_namespace_of, actions)), OWN_LANE)


def _asked_by(step: SentStep) -> Iterable[TemplateKey]:
    return (action.template for action in step.actions if isinstance(action, moves.DryRunCreate))


def _namespace_of(action: Action) -> str:
    match action:
        case (
            rooms.Nominate()
            | rooms.TakeBackNomination()
            | rooms.Ungate()
            | rooms.Tolerate()
            | rooms.Steer()
            | rooms.Unsteer()
            | rooms.ReleasePod()
            | moves.DryRunCreate()
            | moves.DryRunEvict()
            | moves.Evict()
            | moves.LabelReplacement()
            | moves.MeasureWatch()
            | moves.RemoveReplacement()
        ):
            return action.pod.namespace
        case moves.StartReplacement():
            return action.namespace
        case moves.WriteMigrationStatus() | moves.AdoptPod() | moves.DeleteMigration():
            return action.migration.namespace
        case _:
            return OWN_LANE
