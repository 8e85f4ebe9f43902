"""Carries out the steps of machines, one at a time for each machine, and remembers what they wrote and were answered.

What a step writes is noted when it is sent, because later machines must count it before its answer is there; the answer
confirms it, or takes it back. Between the two the machine takes no further step. Nothing here decides what is right:
the calls come from the machines, and one that failed is decided on again after a backoff.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from rescheduler.calls.call import AnyCall, Call, CreationTrial, GateProbe, ReadThenCall
from rescheduler.controller.call_pool import OWN_LANE, CallPool, own_lane
from rescheduler.controller.effects import Effect, NotLeaderError
from rescheduler.controller.recording import MoveRecorder
from rescheduler.controller.sender import Sender
from rescheduler.coordination.expectations import Noted
from rescheduler.coordination.memory import Memory
from rescheduler.kube.answers import may_have_happened
from rescheduler.kube.errors import ApiError, ForbiddenError, RejectedError, StaleError
from rescheduler.kube.transport import TransportError
from rescheduler.model.event import Event
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.outcomes import EvictionOutcome
from rescheduler.model.records import ObjectKey
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.model.room_pod import home_of, home_of_owners
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.model.snapshot import Snapshot

FRESH_S: Final = 2.0
"""How old a step may be when one of its calls is sent: after a slow call the rest is decided anew."""

Listener = Callable[[AnyCall, Effect], None]


@dataclass(slots=True, kw_only=True)
class SentStep:
    """The calls of one machine in order, as a ``call_pool.Work``. If one fails, the rest is dropped: it depends on it."""

    machine: ObjectKey
    calls: tuple[AnyCall, ...]
    lane: str
    keep_failure: bool
    """The backoff of the machine goes on, whatever these calls achieve."""
    snapshot: Snapshot
    """That which the step was decided on."""
    sent_at_s: float
    before: Noted
    """What was noted of the machine before."""
    send: Callable[[AnyCall], Effect]
    age_s: Callable[[], float]
    landed: Callable[[SentStep, float], None]
    effects: list[Effect] = field(default_factory=list)
    error: Exception | None = None

    def call(self) -> bool:
        """Send the next one."""
        call = self.calls[len(self.effects)]
        if self.effects and self.age_s() > FRESH_S and not isinstance(call, Event):
            return False
        try:
            self.effects.append(self.send(call))
        except Exception as error:  # noqa: BLE001 - the core thread raises what it does not expect
            self.error = error
            return False
        return len(self.effects) < len(self.calls)

    def land(self, now_s: float) -> None:
        """Remember what it achieved."""
        self.landed(self, now_s)


@dataclass(slots=True, kw_only=True)
class Dispatcher:
    """Used by the core thread only, except for the calls themselves."""

    sender: Sender
    pool: CallPool
    memory: Memory
    recorder: MoveRecorder
    listeners: tuple[Listener, ...] = ()
    crashed: Callable[[ObjectKey, Exception, float], None]
    """Called with what a call raised if it is neither an answer nor the lack of one."""
    wake: Callable[[float], None]
    """Called with when the next round must be at the latest because of an answer."""
    clock: Callable[[], float]
    """Monotonic seconds: the age of steps."""
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
        calls: Sequence[AnyCall],
        snapshot: Snapshot,
        now_s: float,
        *,
        keep_failure: bool = False,
    ) -> bool:
        """Send the calls in order. False if all workers of their namespace are busy: the step is decided anew later."""
        if self.carries(machine):
            return False
        if not calls:
            self._done(machine, keep_failure=keep_failure)
            return True
        lane = lane_of(calls) or own_lane(_home_of(machine, snapshot))
        if not self.pool.accepts(lane):
            return False
        began_s = self.clock()
        step = SentStep(
            machine=machine,
            calls=tuple(calls),
            lane=lane,
            keep_failure=keep_failure,
            snapshot=snapshot,
            sent_at_s=now_s,
            before=self.memory.expectations.noted(machine),
            send=self.sender.send,
            age_s=lambda: self.clock() - began_s,
            landed=self._land,
        )
        self._under_way[machine] = step
        self._asked.update(_asked_by(step))
        for call in calls:
            self._note(machine, call, written=False)
            if isinstance(call, GateProbe):
                self.memory.proofs.asks(call.owner, call.namespace, now_s)
        self.pool.begin(step, now_s)
        return True

    def failed(self, machine: ObjectKey, what: str, error: Exception, now_s: float) -> None:
        """A call failed: the machine goes into backoff."""
        if what == "delete_placeholder":
            self.memory.creations.deletion_failed()
        # Our cache was behind another writer: expected, and over once the cache has caught up. No reason to warn.
        stale = isinstance(error, StaleError)
        least_s = (error.retry_after_s or 0.0) if isinstance(error, ApiError) else 0.0
        refused = isinstance(error, ForbiddenError | RejectedError)
        failure = self.memory.backoff.failed(
            machine, str(error), now_s, stale=stale, refused=refused, least_s=least_s
        )
        self.wake(failure.until_s)
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
        for call, effect in zip(step.calls, step.effects, strict=False):
            self._remember(step, call, effect, now_s)
            for listener in self.listeners:
                listener(call, effect)
        if step.error is None:
            self._done(machine, keep_failure=step.keep_failure)
            return
        call = step.calls[len(step.effects)]
        if isinstance(step.error, NotLeaderError):
            raise step.error
        if not isinstance(step.error, ApiError | TransportError):
            self.crashed(machine, step.error, now_s)
            return
        if may_have_happened(step.error):
            # It may have been written, so its pods must not be assigned again, and the eviction counts.
            self._note(machine, call, written=True)
        if isinstance(call, GateProbe) and isinstance(step.error, ForbiddenError | RejectedError):
            self.memory.proofs.refused(call.owner, call.namespace, str(step.error))
        self.failed(machine, call.does, step.error, now_s)

    def _done(self, machine: ObjectKey, *, keep_failure: bool) -> None:
        if not keep_failure:
            self.memory.backoff.succeeded(machine)

    def _remember(self, step: SentStep, call: AnyCall, effect: Effect, now_s: float) -> None:
        """``now_s``: of the answer."""
        machine = step.machine
        expectations, answers = self.memory.expectations, self.memory.answers
        expectations.wrote(machine, effect.touched, now_s)
        self.memory.lag.wrote(effect.touched, now_s)
        self._note(machine, call, written=True)
        self._note_status(step.snapshot, call)
        match call:
            case Call(does="measure_watch") if effect.refused:
                self.memory.lag.cannot_be_measured(now_s)
                self.wake(now_s)
            case Call(does="delete_placeholder") | ReadThenCall(does="delete_placeholder"):
                expectations.nodes.pop(machine, None)
            # An answer that is no object comes with no event, so the machine is stepped again at once to read it.
            case Call(does="try_template", seen=Reservation() as room):
                self.memory.templates.answered(room.template_raw, effect.refused, now_s)
                self.wake(now_s)
            case ReadThenCall(does="start_replacement") if effect.refused:
                answers.start_refused(machine, effect.refused)
                self.wake(now_s)
            case CreationTrial(_, pod, template, changes) if effect.creation is not None:
                # With the time of the question: what has changed since then, the answer does not know.
                creations, asked_s = self.memory.creations, step.sent_at_s
                took_s = now_s - asked_s
                creations.answered(
                    step.snapshot,
                    template,
                    pod,
                    effect.creation,
                    asked_s,
                    took_s=took_s,
                    read=effect.read,
                    changes=changes,
                )
                self.wake(now_s)
            case Call() if effect.request_withdrawn:
                answers.withdrawn(machine, now_s)
            case Call() if effect.eviction is not None:
                answered = answers.dry_run if call.dry_run else answers.eviction
                answered(machine, effect.eviction, now_s)
                if effect.eviction.outcome is EvictionOutcome.EVICTED and not call.dry_run:
                    expectations.evicted[call.uid] = now_s
                self.wake(now_s)
            case GateProbe(owner, namespace) if effect.gate_proven is not None:
                self.memory.proofs.answered(
                    owner, namespace, now_s, proven=effect.gate_proven, single=effect.single_api_server
                )
                self.wake(now_s)
            case _:
                pass

    def _note(self, machine: ObjectKey, call: AnyCall, *, written: bool) -> None:
        """Remember what is about to be written, or was: other machines must see it, and the cache does not show it yet.

        Until it is ``written``, what it replaces counts, too: either may be what is stored.
        """
        if not isinstance(call, Call):
            return
        expectations, status, node = self.memory.expectations, call.status, call.holds_on
        if isinstance(status, ReservationStatus | MigrationStatus):
            before = () if written else expectations.statuses.get(machine, ())
            expectations.statuses[machine] = (*before, status)
        if isinstance(status, MigrationStatus):
            node = status.node_name if status.phase is MigrationPhase.RESERVING else node
            if written and status.phase is MigrationPhase.FAILED and status.evicted_at_s:
                self.memory.lag.failed(status.finished_at_s)
        if node:
            expectations.nodes[machine] = node

    def _note_status(self, snapshot: Snapshot, call: AnyCall) -> None:
        match call:
            case Call(key=key, seen=PodMigration(uid=uid), status=MigrationStatus() as status):
                migration = snapshot.migrations.get(key)
                if migration is not None and migration.uid == uid:
                    self.recorder.history.wrote(migration, status)
            case _:
                pass


def _home_of(machine: ObjectKey, snapshot: Snapshot) -> str:
    """The namespace for whose pods a Reservation, a window or a move is; "" for other machines, and for several namespaces."""
    if machine in snapshot.migrations:
        return machine.namespace
    if machine.namespace == ReservationWindow.__name__:
        window = snapshot.windows.get(machine.name)
        return home_of_owners(window.owners) if window is not None else ""
    reservation = None if machine.namespace else snapshot.reservations.get(machine.name)
    return home_of(reservation) if reservation is not None else ""


def lane_of(calls: Sequence[AnyCall]) -> str:
    """The namespace of people whose admission the calls of a step may wait for."""
    return next(filter(None, (call.lane for call in calls)), OWN_LANE)


def _asked_by(step: SentStep) -> Iterable[TemplateKey]:
    return (call.template for call in step.calls if isinstance(call, CreationTrial))
