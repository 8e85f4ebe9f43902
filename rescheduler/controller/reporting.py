"""Reports what the machines did, as Events and as metrics. Decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from rescheduler.calls.call import AnyCall, Call
from rescheduler.configuration.live import Reload, ReloadOutcome
from rescheduler.controller.effects import Effect
from rescheduler.controller.metrics import Metrics, MoveResult
from rescheduler.migrations.migration_lifecycle import FINISHED, MigrationReason
from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.outcomes import EvictionOutcome
from rescheduler.model.reservation import ReservationPhase, ReservationStatus

_CONFIGURATION_LOG: Final = structlog.get_logger("rescheduler.configuration")
MOST_COUNTED: Final = 10_000
"""Moves whose end is remembered: what is written after it follows within minutes."""


def report_reload(
    reload: Reload,
    metrics: Metrics,
    regarding: ObjectReference,
    record: Callable[[Event], None] | None,
) -> None:
    """Tell whether a new configuration document is in force: in the log, in metrics, and as an Event if it is not.

    ``regarding``: what the Event is about, the ConfigMap. ``record``: None in a dry run, which writes nothing.
    """

    def warn(reason: str, note: str) -> None:
        if record is not None:
            record(Event(regarding, reason, note, warning=True))

    if reload.outcome is not ReloadOutcome.UNREADABLE:
        metrics.configuration(reload.outcome, {change.key for change in reload.waiting})
    match reload.outcome:
        case ReloadOutcome.TAKEN:
            _CONFIGURATION_LOG.info("The new configuration is in force", version=reload.version)
        case ReloadOutcome.REFUSED:
            _CONFIGURATION_LOG.error(
                "The new configuration is refused; the last good one stays in force",
                version=reload.version,
                problems=reload.problem,
            )
            warn("ConfigurationRefused", f"the last good configuration stays in force: {reload.problem}")
        case ReloadOutcome.MISSING:
            _CONFIGURATION_LOG.error(
                "The configuration is gone; the last good one stays in force until a restart",
                version=reload.version,
                remedy=reload.problem,
            )
            warn(
                "ConfigurationMissing",
                f"the last good configuration stays in force until a restart; {reload.problem}",
            )
        case ReloadOutcome.UNREADABLE:
            _CONFIGURATION_LOG.warning(
                "The configuration cannot be read; the last one stays in force", error=reload.problem
            )
    if reload.waiting:
        note = "; ".join(map(str, reload.waiting))
        _CONFIGURATION_LOG.warning("A part of the new configuration waits for a restart", changes=note)
        warn("ConfigurationWaits", note)


@dataclass(frozen=True, slots=True)
class MoveCounter:
    """Counts the results of calls. A listener of the reconciler."""

    metrics: Metrics
    counted: dict[str, None] = field(default_factory=dict)
    """Uids of PodMigrations that were counted as ended, the oldest first: later writes (Ready) do not count again.

    Never more than ``MOST_COUNTED``: one whose namespace or author deletes it is not told of here.
    """

    def __call__(self, call: AnyCall, effect: Effect) -> None:
        """Count one call that was answered."""
        match call:
            case Call(evicts=True) if effect.eviction is not None:
                if effect.eviction.outcome is not EvictionOutcome.AWAITED:  # others are asked first
                    self.metrics.evictions.labels(effect.eviction.outcome.value).inc()
            case Call(status=ReservationStatus(phase=ReservationPhase.AVAILABLE, current_owners=())):
                self.metrics.reservations_available.inc()
            case Call(does="delete_migration"):
                self.counted.pop(call.uid, None)
            case Call(seen=PodMigration(uid=uid), status=MigrationStatus() as status):
                self._seen(uid, status)
            case _:
                pass

    def _seen(self, uid: str, status: MigrationStatus) -> None:
        if status.phase in FINISHED and uid not in self.counted:
            self.counted[uid] = None
            self._ended(status)
            if len(self.counted) > MOST_COUNTED:
                del self.counted[next(iter(self.counted))]

    def _ended(self, status: MigrationStatus) -> None:
        result = move_result(status)
        self.metrics.moves_landed.labels(result.value).inc()
        if result is MoveResult.ON_TARGET and status.landed_at_s and status.evicted_at_s:
            self.metrics.move_landing_seconds.observe(max(0.0, status.landed_at_s - status.evicted_at_s))


def move_result(status: MigrationStatus) -> MoveResult:
    """How a finished move ended."""
    if status.phase is MigrationPhase.SUCCEEDED:
        return MoveResult.ON_TARGET
    if status.reason == MigrationReason.LANDED_ELSEWHERE:
        return MoveResult.ELSEWHERE
    return MoveResult.FAILED_AFTER_EVICTION if status.evicted_at_s else MoveResult.FAILED_BEFORE_EVICTION
