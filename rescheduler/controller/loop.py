"""The core thread: it takes events of the informers, reconciles moves that have begun, and decides about new ones.

No other thread changes this state. The order of a turn is that of Ray's reconciler: first take the queued events and the
answers to calls under way, then reconcile what has begun, then decide. A turn reconciles and decides only while the caches
are complete and fresh and this process is the leader. An error of the API server ends the turn, never the loop; a defect
of this program ends the round, the decision or the event in which it shows, and is tried again.

``turn`` never blocks on the queue, and ``due_s`` returns when the next turn has something to do. So the same loop runs
on threads in real time (``run``) and, driven by a simulation, in virtual time.
"""

from __future__ import annotations

import dataclasses
import math
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from rescheduler.configuration.live import LiveConfiguration, Reload, ReloadOutcome
from rescheduler.controller.crashes import CrashReports, Step
from rescheduler.controller.cycle import Cycle, Decision
from rescheduler.controller.decision_inputs import DecisionInputs
from rescheduler.controller.effects import NotLeaderError
from rescheduler.controller.failed_pods import FailedPodCleaner
from rescheduler.controller.issuing import Issue
from rescheduler.controller.marks_memory import MarksMemory
from rescheduler.controller.ports import Ports
from rescheduler.controller.reconcile import Reconciler
from rescheduler.controller.seen_replacements import SeenReplacements
from rescheduler.controller.server import HealthReport
from rescheduler.controller.wakeups import concerns_moves, matters
from rescheduler.coordination.usage_window import LEAST, UsageWindow
from rescheduler.kube.errors import ApiError
from rescheduler.kube.reflector import ChangeType, InformerEvent
from rescheduler.kube.transport import TransportError
from rescheduler.model.cluster import ClusterState, RecordChange
from rescheduler.model.decode import Record
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MoveMode
from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import doubling_s
from rescheduler.model.usage import MeasuredUsage

_AT_A_TIME: Final = 5_000
"""The most events that one turn takes: a turn must end, however fast they come."""
_GATHERED_S: Final = 0.02
"""How long events gather at most between two rounds of less CPU time."""
_LONGEST_REST_S: Final = 30.0
"""Between two rounds, or two decisions, that crash."""
_FINISHED: Final = (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
_NOT_IN_FLIGHT: Final = (MigrationPhase.PENDING, *_FINISHED)

GATE_KEYS_CHANGED: Final = InformerEvent(Kind.CONFIG_MAP, ChangeType.MODIFIED, None)
"""The watch of the gate keys has shown a change: what relies on them is looked at."""
WAKE: Final = InformerEvent(Kind.CONFIG_MAP, ChangeType.SYNCED, None)
"""Wakes a loop that waits for events, and changes nothing."""


class Loop:
    """The loop of one controller process. ``run`` returns when ``stop`` is set or (``once``) when all is done."""

    def __init__(
        self,
        ports: Ports,
        *,
        reconciler: Reconciler,
        cycle: Cycle,
        configuration: LiveConfiguration,
        crashes: CrashReports,
        inputs: DecisionInputs,
        on_configuration: Callable[[Reload], None],
        cleaner: FailedPodCleaner,
    ) -> None:
        """``inputs``: what a decision needs besides the cluster's objects. ``cleaner``: of failed pods."""
        self._ports, self._informers, self._metrics = ports, ports.informers, ports.reports.metrics
        self._pool, self._once, self._timings = ports.pool, ports.once, ports.timings
        self._clock, self._wall = ports.clocks.monotonic, ports.clocks.server.now_s
        self._reconciler, self._cycle = reconciler, cycle
        self._configuration, self._inputs, self._crashes = configuration, inputs, crashes
        self._seen, self._marks = SeenReplacements(), MarksMemory()
        self._usage = UsageWindow(1 if self._once else LEAST)
        self._measured: MeasuredUsage | None = None
        """What was taken in last."""
        self._on_configuration, self._cleaner = on_configuration, cleaner
        self._state = ClusterState()
        self._log = structlog.get_logger("rescheduler.loop")
        began_s = self._clock()
        self._may_act = False
        self._look_at_s = began_s
        """While the loop may not act: when to check again whether it may. While rounds crash: when to look again at gated pods."""
        self._dirty = True
        """Something has changed since the last reconciliation."""
        self._reconcile_at_s = began_s
        """Reconcile then at the latest, even if nothing changes."""
        self._reconcile_after_s = began_s
        """Do not reconcile before, even if something changes."""
        self._decide_at_s = began_s
        self._decide_after_s = began_s
        """Events bring the next decision forward, but not to before this time."""
        self._taken_in = False
        """All events of the first lists are taken. Before that, objects that exist are not known."""
        self._put_off = False
        """The decision that is due is counted as ``not_ready`` already."""
        self._issue: Issue | None = None
        """The moves of the last decision, while they begin."""
        self._expected: set[ObjectKey] = set()
        """PodMigrations that the last decision created and the cache does not show yet."""
        self._expected_until_s = began_s
        self._crashed: dict[Step | Kind, int] = {}
        """Rounds or decisions in a row that crashed; events of a kind that crashed."""
        self.decision: Decision | None = None
        """The last one."""

    def run(self, stop: threading.Event) -> None:
        """Turn until stopped, or (``once``) until the moves of the first decision have ended.

        Raises:
            NotLeaderError: leadership was lost right before a call; it was not sent.
        """
        while not stop.is_set():
            self._wait()
            if self.turn():
                return

    def turn(self) -> bool:
        """Take the queued events and do what is due, without waiting; True if (``once``) nothing is left to do.

        Raises:
            NotLeaderError: leadership was lost right before a call; it was not sent.
        """
        self._ports.reports.heartbeat.beat()
        listed = self._informers.synced()  # a list that is complete a moment later is not taken below
        emptied = self._take_queued()
        self._taken_in = self._taken_in or (listed and emptied)
        self._attempt(Step.ANSWER, self._land, self._wall())
        self._attempt(Step.CONFIGURATION, self._reload, self._clock())
        now_s = self._clock()
        ready = self.ready().ok
        # Events and configuration are taken in any case: a process that becomes leader or ready can then act at once.
        self._may_act = ready and self._ports.leads()
        if not self._may_act:
            self._look_at_s = now_s + self._timings.turn_s
            if not ready:
                self._count_not_ready(now_s)
                self._attempt(Step.POD, self._release_overdue, now_s)
            return False
        try:
            return self._act(now_s)
        except (ApiError, TransportError) as error:
            self._log.warning(
                "A call to the API server failed; the rest of this turn is tried again", error=str(error)
            )
            self._metrics.cycles.labels("failed").inc()
            self._reconcile_at_s = self._clock() + self._timings.retry_s
            self._decide_at_s = max(self._decide_at_s, self._reconcile_at_s)
            return False

    def due_s(self) -> float:
        """When (monotonic clock) the next turn has something to do even if no event arrives."""
        if not self._may_act:
            return self._look_at_s
        due_s = min(self._reconcile_at_s, self._decision_due_s())
        if self._configuration.current.goes_by_measurement:
            due_s = min(due_s, self._inputs.usage.due_s)
        if Step.ROUND in self._crashed:
            due_s = min(due_s, self._look_at_s)
        return min(due_s, self._reconcile_after_s) if self._dirty or self._pool.answered else due_s

    def ready(self) -> HealthReport:
        """Whether all caches are complete and fresh."""
        if not self._informers.synced():
            waiting = ", ".join(self._informers.waiting_for())
            problems = "; ".join(f"{k}: {v}" for k, v in self._informers.problems().items())
            return HealthReport(
                ok=False, reason=f"not read yet: {waiting}" + (f" ({problems})" if problems else "")
            )
        # The lists are complete, but events of them are still queued: a part of the cluster is not known.
        if not self._taken_in:
            return HealthReport(ok=False, reason="the first lists are being taken in")
        unknown = "; ".join(f"{kind}: {why}" for kind, why in self._informers.unknown().items())
        if unknown:
            return HealthReport(ok=False, reason=f"unknown, so nothing is done: {unknown}")
        age_s = self._informers.stale_for_s()
        if age_s > self._timings.stale_s:
            return HealthReport(ok=False, reason=f"a cache has not been proven fresh for {age_s:.0f} s")
        return HealthReport(ok=True)

    def look(self, kind: Kind, key: str | ObjectKey) -> Record | None:
        """One object according to the events taken so far. Any thread may ask."""
        return self._state.get(kind, key)

    def all_of(self, kind: Kind) -> Sequence[Record]:
        """All objects of a kind. Any thread may ask."""
        return self._state.all_of(kind)

    def snapshot(self) -> Snapshot:
        """The cluster now, according to the events taken so far."""
        now_s = self._wall()
        rules = self._seen.rules(self._configuration.current.replacements)
        found = self._state.snapshot(now_s, rules)
        if not self._once:  # one look cannot tell how long anything has lasted
            found = dataclasses.replace(found, node_marks_since=self._marks.known)
        return self._reconciler.informed(found, now_s)

    # Acting

    def _act(self, now_s: float) -> bool:
        """Reconcile and decide what is due; True if (``once``) nothing is left to do."""
        if (self._dirty and now_s >= self._reconcile_after_s) or now_s >= self._reconcile_at_s:
            self._attempt(Step.ROUND, self._reconcile, now_s)
        if Step.ROUND in self._crashed:
            self._look_at_s = now_s + self._timings.turn_s
            self._attempt(Step.POD, lambda _: self._release_held(), now_s)
        self._issue_moves(now_s)
        if self._once and self.decision is not None:
            return self._settled()
        if self._configuration.current.goes_by_measurement:
            self._sample(now_s)
        if not self._once:
            current = self._configuration.current
            self._cleaner.tend(current.failed_pods, current.protections, now_s)
        if now_s >= self._decide_at_s and not self._waits_for_own_writes(now_s):
            self._attempt(Step.DECISION, self._decide, now_s)
        return False

    def _release_overdue(self, _now_s: float) -> None:
        unknown = self._informers.unknown()
        if unknown and Kind.POD not in unknown and self._informers.synced() and self._ports.leads():
            self._release_held()

    def _release_held(self) -> None:
        self._reconciler.release_overdue(self.snapshot(), self._wall())

    def _land(self, now_s: float) -> None:
        if self._pool.land(now_s):
            self._dirty = True

    def _attempt(self, step: Step, do: Callable[[float], None], now_s: float) -> None:
        """One part of a turn. If it crashes, it is tried again after a rest; the other parts go on as before."""
        try:
            do(now_s)
        except (NotLeaderError, ApiError, TransportError):
            raise
        except Exception as error:
            if self._once:
                raise  # somebody waits for the outcome of this one decision
            tries = self._crashed[step] = self._crashed.get(step, 0) + 1
            self._crashes.tell(step, None, error, tries)
            again_s = self._clock() + doubling_s(self._timings.retry_s, tries, _LONGEST_REST_S)
            if step is Step.ROUND:
                self._reconcile_at_s = self._reconcile_after_s = again_s
            elif step is Step.DECISION:
                self._decide_at_s = self._decide_after_s = again_s
        else:
            self._crashed.pop(step, None)

    def _reconcile(self, now_s: float) -> None:
        self._dirty = False
        wall_s, cpu_s = self._wall(), self._ports.clocks.cpu()
        snapshot = self.snapshot()
        if self.decision is not None and (snapshot.migrations or snapshot.reservations):
            # They may ask it for a node, and the next decision may be far away.
            reports = self._inputs.node_autoscaler.current(now_s)
            if reports is not None:
                self._state.set_node_autoscaler(reports=reports)
        self._metrics.moves_in_flight.set(
            sum(move.status.phase not in _NOT_IN_FLIGHT for move in snapshot.migrations.values())
        )
        self._metrics.held(snapshot)
        self._show(snapshot, now_s)
        wake_s = self._reconciler.reconcile(snapshot, wall_s)
        gated = self._reconciler.gated
        self._metrics.gated(len(gated), max((wall_s - pod.created_at_s for pod in gated), default=0.0))
        self._metrics.node_requests.set(self._reconciler.node_requests)
        gap_s = self._timings.reconcile_gap_s
        # It runs now and then in any case, as a resync: a change may be missed, and no event tells what became of the
        # ConfigMaps of the controller.
        resync_s = self._timings.turn_s * 10
        wait_s = resync_s if wake_s is None else min(resync_s, max(gap_s, wake_s - wall_s))
        # A move takes a dozen rounds, one after the other: with few moves they follow fast, with many each takes more events in.
        # At most half of the thread's time, however fast events come.
        used_s = self._ports.clocks.cpu() - cpu_s
        self._reconcile_after_s = self._clock() + max(gap_s, min(2 * used_s, _GATHERED_S), used_s)
        self._reconcile_at_s = max(now_s + wait_s, self._reconcile_after_s)

    def _show(self, snapshot: Snapshot, now_s: float) -> None:
        """To the page: pods at the gate are those of the last round, which knows them without a look at every pod."""
        gated = self._reconciler.gated
        self._attempt(Step.PAGE, lambda _: self._ports.reports.show(snapshot, self.decision, gated), now_s)

    def _decide(self, now_s: float) -> None:
        first = self.decision is None
        gated = self._configuration.current.mode is not MoveMode.SOFT
        inputs = self._inputs.current(now_s, first=first, gated=gated)
        if inputs is None:
            return
        self._take_usage(inputs.usage)
        self._state.set_usage(self._usage.known, self._usage.pods, self._usage.samples)
        self._state.set_node_autoscaler(reports=inputs.node_autoscaler)
        self._state.set_past_moves(inputs.past_moves)
        with self._ports.deciding(first):
            snapshot = self.snapshot()
            self.decision = self._cycle.run(
                snapshot, self._configuration.current, gate_ready=inputs.gate_ready
            )
        self._show(snapshot, now_s)
        self._issue = self.decision.issue
        self._put_off = False
        rest_s = max(self._timings.rest_s, 5 * self.decision.seconds)
        self._decide_at_s = self._clock() + max(rest_s, self._configuration.current.interval_s)
        self._decide_after_s = self._clock() + rest_s
        self._issue_moves(now_s)

    def _sample(self, now_s: float) -> None:
        """Take in measurements as they come: decisions may be further apart than samples must be."""
        usage = self._inputs.usage.current(now_s)
        if usage is not None and usage is not self._measured:
            self._take_usage(usage)

    def _take_usage(self, usage: MeasuredUsage) -> None:
        window = self._usage.under(self._configuration.current.usage)
        new, taken = usage is not self._measured, window is self._usage
        self._usage, self._measured = window, usage
        for look in usage.day if new else ():
            window.recall(look)
        for look in usage.earlier if new else ():
            window.add(look.nodes, look.pods, self._wall())
        window.follow(self._state.all_of(Kind.POD_MIGRATION))
        if new or not taken:
            window.add(usage.nodes, usage.pods, self._wall())

    def _issue_moves(self, now_s: float) -> None:
        """Go on with creating the moves of the last decision, and take the outcome once all were answered."""
        issue = self._issue
        if issue is None:
            return
        issue.go_on(now_s)
        if not issue.done:
            return
        self._issue, self._expected = None, set(issue.keys)
        self._expected_until_s = self._clock() + self._timings.expectations_s
        self._metrics.moves_planned.inc(len(issue.keys))
        if issue.error is None:
            return
        self._log.warning("Some moves could not begin; it is decided again", error=str(issue.error))
        self._metrics.cycles.labels("failed").inc()
        self._decide_at_s = self._clock() + self._timings.retry_s
        if self._once and not issue.keys:
            self.decision = None

    def _waits_for_own_writes(self, now_s: float) -> bool:
        """True while the cache does not show all moves of the last decision: the next one would not count them in its limits."""
        self._expected = {key for key in self._expected if self._state.get(Kind.POD_MIGRATION, key) is None}
        return self._issue is not None or (bool(self._expected) and now_s < self._expected_until_s)

    def _decision_due_s(self) -> float:
        if self._once and self.decision is not None:  # there is no second decision
            return self._reconcile_at_s
        due_s = max(self._decide_at_s, self._inputs.awaited_until_s(first=self.decision is None))
        if self._issue is not None or due_s == math.inf:
            return self._reconcile_at_s
        return max(due_s, self._expected_until_s) if self._expected else due_s

    def _settled(self) -> bool:
        """True once every move of the decision has ended."""
        if self.decision is None or self._waits_for_own_writes(self._clock()):
            return False
        snapshot = self.snapshot()
        live = (snapshot.migrations.get(key) for key in self.decision.issued)
        return all(m is None or m.status.phase in _FINISHED for m in live)

    def _count_not_ready(self, now_s: float) -> None:
        """Count each decision that is put off once, however many turns pass meanwhile."""
        if now_s >= self._decide_at_s and not self._put_off:
            self._put_off = True
            self._metrics.cycles.labels("not_ready").inc()

    # Taking in

    def _wait(self) -> None:
        """Wait until something is due or an event arrives; the event is taken at once."""
        wait_s = min(self._timings.turn_s, max(0.001, self.due_s() - self._clock()))
        try:
            self._take(self._informers.events.get(timeout=wait_s))
        except queue.Empty:
            return

    def _take_queued(self) -> bool:
        """True if none is left."""
        try:
            for _ in range(_AT_A_TIME):
                self._take(self._informers.events.get_nowait())
        except queue.Empty:
            return True
        return False

    def _take(self, event: InformerEvent) -> None:
        if event.type is ChangeType.SYNCED:
            self._look_at_s = self._clock()  # a first list is complete: the loop may be ready now
            return
        if event.record is None:
            self._dirty = True
            return
        try:
            self._apply(event)
        except Exception as error:  # noqa: BLE001 - one object must not keep the changes of the others out
            tries = self._crashed[event.kind] = self._crashed.get(event.kind, 0) + 1
            self._crashes.tell(Step.WATCH_EVENT, _named(event), error, tries)

    def _apply(self, event: InformerEvent) -> None:
        if event.type is ChangeType.DELETED:
            change = self._state.remove(event.kind, event.record)
        elif event.type is ChangeType.LOST:
            change = self._state.lose(event.kind, event.record)
        else:
            change = self._state.apply(event.kind, event.record)
        if change is None:
            return
        if isinstance(event.record, Node):
            self._marks.take(change.before, change.after, self._wall())
        if isinstance(event.record, Pod) and event.type is not ChangeType.LOST:
            self._see(change)
        if concerns_moves(event.kind, change):
            self._dirty = True
        if matters(event.kind, change):
            soon_s = max(self._clock() + self._timings.settle_s, self._decide_after_s)
            self._decide_at_s = min(self._decide_at_s, soon_s)

    def _see(self, change: RecordChange) -> None:
        before, after = change.before, change.after
        pods = [pod if isinstance(pod, Pod) else None for pod in (before, after)]
        if self._seen.take(pods[0], pods[1], self._clock()):
            self._dirty = True

    def _reload(self, _now_s: float) -> None:
        found = self._configuration.reload()
        if found is None:
            return
        self._on_configuration(found)
        if found.outcome is ReloadOutcome.TAKEN:
            self._dirty = True  # limits and timeouts of moves in flight may have changed
            self._decide_at_s = self._clock()


def _named(event: InformerEvent) -> ObjectKey:
    return ObjectKey(
        getattr(event.record, "namespace", ""), f"{event.kind} {getattr(event.record, 'name', '?')}"
    )
