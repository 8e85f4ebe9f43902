"""The one core thread: events -> ClusterState -> Snapshot -> steps of moves under way, and new decisions.

Nothing else changes state. Order of a turn, after Ray's reconciler: first mirror the world (drain the
queue), then finish what is under way, then decide anew. It decides and acts only while the caches are
complete and fresh and this process leads; a fault of the API server ends a turn, never the loop.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from rescheduler.config import ConfigurationError
from rescheduler.controller.configuration import LiveConfiguration
from rescheduler.controller.cycle import Cycle, Decision
from rescheduler.controller.memory import give_back
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.server import Heartbeat, Verdict
from rescheduler.controller.wakeups import concerns_moves, matters
from rescheduler.kube.errors import ApiError
from rescheduler.kube.gcpause import PROCESS_PAUSE
from rescheduler.kube.informers import Informers
from rescheduler.kube.reflector import ChangeType, InformerEvent
from rescheduler.kube.transport import TransportError
from rescheduler.model.cluster import ClusterState
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase
from rescheduler.model.records import NodeUsage, ObjectKey
from rescheduler.model.snapshot import Snapshot

_AT_A_TIME: Final = 5_000
_BACKLOG: Final = 1_000
_FINISHED: Final = (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)


class Rounds(Protocol):
    """Takes every Reservation and PodMigration one step further."""

    def round(self, snapshot: Snapshot, now_s: float) -> float | None:
        """One round; when to look again at the latest, None: only when something happens."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the loop turns, in seconds.

    ``settle``: after an event that matters, so that its companions arrive. ``rest``: between two decisions, at
    least; a decision that takes long is followed by a rest five times as long. ``turn``: longest wait for events.
    ``stale``: older caches decide nothing. ``round_gap``: between two rounds, at least; after a round that
    computes long, four times as long as that; what it waits for answers of the API server does not count.
    """

    settle: float = 1.0
    rest: float = 2.0
    turn: float = 1.0
    stale: float = 120.0
    round_gap: float = 0.02
    unseen: float = 5.0
    retry: float = 1.0
    usage: float = 30.0


class Loop:
    """See the module. ``run`` returns when ``stop`` is set, leadership is lost, or (``once``) all is done."""

    def __init__(
        self,
        *,
        informers: Informers,
        rounds: Rounds,
        cycle: Cycle,
        configuration: LiveConfiguration,
        leads: Callable[[], bool],
        metrics: Metrics,
        heartbeat: Heartbeat,
        read_usage: Callable[[], Sequence[NodeUsage]],
        on_configuration: Callable[[ConfigurationError | None], None] = lambda _: None,
        once: bool = False,
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._informers, self._rounds, self._cycle = informers, rounds, cycle
        self._configuration = configuration
        self._leads, self._metrics, self._heartbeat = leads, metrics, heartbeat
        self._read_usage = read_usage
        self._on_configuration = on_configuration
        self._once = once
        self._pace = pace or Pace()
        self._clock, self._wall, self._cpu = clock, wall, cpu
        self._state = ClusterState()
        self._log = structlog.get_logger("rescheduler.loop")
        self._dirty = True
        self._round_at_s = clock()
        self._round_after_s = clock()
        self._cycle_at_s = clock()
        self._usage_at_s = clock()
        self._unseen: set[ObjectKey] = set()
        self._unseen_until_s = 0.0
        self._earliest_s = 0.0
        self.decision: Decision | None = None
        """The last one."""

    def run(self, stop: threading.Event) -> None:
        """Turn until stopped, or (once) until what the first decision began has ended."""
        while not stop.is_set():
            self._heartbeat.beat()
            self._drain()
            self._reload()
            if not self.ready().ok or not self._leads():
                continue
            try:
                if self._turn(self._clock()):
                    return
            except (ApiError, TransportError) as error:
                self._log.warning("A turn was cut short", error=str(error))
                self._metrics.cycles.labels("failed").inc()
                self._round_at_s = self._clock() + self._pace.retry
                self._cycle_at_s = max(self._cycle_at_s, self._round_at_s)

    def ready(self) -> Verdict:
        """All caches complete and fresh?"""
        if not self._informers.synced():
            waiting = ", ".join(self._informers.waiting_for())
            problems = "; ".join(f"{k}: {v}" for k, v in self._informers.problems().items())
            return Verdict(
                ok=False, reason=f"not read yet: {waiting}" + (f" ({problems})" if problems else "")
            )
        if not self._informers.events.empty() and not self._caught_up():
            return Verdict(ok=False, reason="the first lists are being taken in")
        age_s = self._informers.stale_for_s()
        if age_s > self._pace.stale:
            return Verdict(ok=False, reason=f"a cache has not been proven fresh for {age_s:.0f} s")
        return Verdict(ok=True)

    def _caught_up(self) -> bool:
        return self.decision is not None or self._informers.events.qsize() < _BACKLOG

    def _turn(self, now_s: float) -> bool:
        """One turn of a leader with fresh caches; True if there is nothing left to do for ``once``."""
        if (self._dirty and now_s >= self._round_after_s) or now_s >= self._round_at_s:
            self._advance(now_s)
        if self._once and self.decision is not None:
            return self._settled()
        if now_s >= self._cycle_at_s and not self._waits_for_own_writes(now_s):
            self._decide(now_s)
        return False

    def _advance(self, now_s: float) -> None:
        self._dirty = False
        wall_s, cpu_s = self._wall(), self._cpu()
        wake_s = self._rounds.round(self._state.snapshot(wall_s), wall_s)
        wait_s = self._pace.turn * 10 if wake_s is None else max(self._pace.round_gap, wake_s - wall_s)
        self._round_at_s = now_s + wait_s
        self._round_after_s = self._clock() + max(self._pace.round_gap, 4 * (self._cpu() - cpu_s))

    def _decide(self, now_s: float) -> None:
        configuration = self._configuration.current
        self._look_at_usage(now_s)
        with PROCESS_PAUSE.during():
            if self.decision is None:
                PROCESS_PAUSE.settle()  # what the first decision builds will stay
            self.decision = self._cycle.run(self._state.snapshot(self._wall()), configuration)
        give_back()
        self._unseen = set(self.decision.issued)
        self._unseen_until_s = self._clock() + self._pace.unseen
        rest_s = max(self._pace.rest, 5 * self.decision.seconds)
        self._cycle_at_s = self._clock() + max(rest_s, configuration.interval_s)
        self._earliest_s = self._clock() + rest_s

    def _look_at_usage(self, now_s: float) -> None:
        if now_s >= self._usage_at_s:
            self._state.set_usage(self._read_usage())
            self._usage_at_s = now_s + self._pace.usage

    def _waits_for_own_writes(self, now_s: float) -> bool:
        """Read your writes: what was begun must be in the cache before the next decision counts it."""
        self._unseen = {key for key in self._unseen if self._state.get(Kind.POD_MIGRATION, key) is None}
        return bool(self._unseen) and now_s < self._unseen_until_s

    def _settled(self) -> bool:
        """True once every move that the one decision began has ended."""
        if self.decision is None or self._waits_for_own_writes(self._clock()):
            return False
        snapshot = self._state.snapshot(self._wall())
        live = (snapshot.migrations.get(key) for key in self.decision.issued)
        return all(m is None or m.status.phase in _FINISHED for m in live)

    def _drain(self) -> None:
        """Wait for an event until the next thing is due, then take all that is there."""
        due_s = min(self._round_at_s, self._cycle_at_s)
        if self._dirty:
            due_s = min(due_s, self._round_after_s)
        wait_s = min(self._pace.turn, max(0.0, due_s - self._clock()))
        try:
            self._take(self._informers.events.get(timeout=max(wait_s, 0.001)))
            for _ in range(_AT_A_TIME):
                self._take(self._informers.events.get_nowait())
        except queue.Empty:
            return

    def _take(self, event: InformerEvent) -> None:
        if event.type is ChangeType.SYNCED:
            return
        if event.type is ChangeType.DELETED:
            change = self._state.remove(event.kind, event.record)
        else:
            change = self._state.apply(event.kind, event.record)
        if change is None:
            return
        if concerns_moves(event.kind, change):
            self._dirty = True
        if matters(event.kind, change):
            soon_s = max(self._clock() + self._pace.settle, self._earliest_s)
            self._cycle_at_s = min(self._cycle_at_s, soon_s)

    def _reload(self) -> None:
        try:
            found = self._configuration.reload()
        except (OSError, ApiError, TransportError) as error:
            self._log.warning("The configuration cannot be read; the last one stays", error=str(error))
            return
        if found is None:
            return
        self._metrics.configuration_ok.set(0 if found.error else 1)
        self._metrics.configuration_reloads.labels("refused" if found.error else "taken").inc()
        self._on_configuration(found.error)
        if found.error:
            self._log.error(
                "The new configuration is refused; the last good one stays", problems=str(found.error)
            )
        else:
            self._log.info("The configuration was taken", version=found.version)
            self._cycle_at_s = self._clock()
