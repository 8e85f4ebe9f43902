"""What PodMigrations tell of the past and present: moves under way, rest after a move, back-off after a failure.

Pure: a function of one snapshot; the snapshot's time is now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.names import LABEL_WORKLOAD_UID
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.workloads import workload_uid

FINISHED: Final = (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
HOUR_S: Final = 3600.0
BACKOFF_FIRST_S: Final = 60.0
BACKOFF_LONGEST_S: Final = 3600.0
BACKOFF_MEMORY_S: Final = 6 * HOUR_S


@dataclass(frozen=True, slots=True)
class InFlight:
    """A move that has begun or will begin, whose old pod still stands."""

    migration: PodMigration
    pod: Pod


class History:
    """The PodMigrations of a snapshot, read once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.in_flight: tuple[InFlight, ...] = tuple(_in_flight(snapshot))
        self.moving: frozenset[str] = frozenset(f.pod.uid for f in self.in_flight)
        """Uids of pods that a migration moves right now."""
        self.starting_first: dict[str, str] = {
            f.pod.uid: f.migration.policy
            for f in self.in_flight
            if f.migration.status.mode is MoveMode.START_FIRST
        }
        """Uids of those whose replacement starts first, with the policy that moves them."""
        self._disturbed: dict[str, float] = {}
        self._failures: dict[str, list[float]] = {}
        for migration in snapshot.migrations.values():
            self._read(migration)

    @property
    def failed(self) -> frozenset[str]:
        """Uids of pods of which a move failed lately."""
        return frozenset(self._failures)

    def begun_within_hour(self) -> int:
        """Moves that began in the last hour, those under way included."""
        since = self._snapshot.taken_at_s - HOUR_S
        return sum(
            1 for m in self._snapshot.migrations.values() if (m.status.started_at_s or m.created_at_s) > since
        )

    def rests_until(self, pod: Pod, cooldown_s: float) -> float | None:
        """When the workload of the pod may be moved again; None: now."""
        last = self._disturbed.get(workload_uid(pod, self._snapshot))
        if last is None or last + cooldown_s <= self._snapshot.taken_at_s:
            return None
        return last + cooldown_s

    def backs_off_until(self, pod: Pod) -> float | None:
        """When a pod whose moves failed may be tried again; it doubles with each failure. None: now."""
        failed = self._failures.get(pod.uid)
        if not failed:
            return None
        wait_s = min(BACKOFF_LONGEST_S, BACKOFF_FIRST_S * 2.0 ** (min(len(failed), 20) - 1))
        until = max(failed) + wait_s
        return until if until > self._snapshot.taken_at_s else None

    def _read(self, migration: PodMigration) -> None:
        status = migration.status
        if status.phase not in FINISHED:
            return
        ended_s = status.finished_at_s or status.evicted_at_s
        if status.evicted_at_s or status.phase is MigrationPhase.SUCCEEDED:
            uid = _workload_of(migration, self._snapshot)
            if uid:
                self._disturbed[uid] = max(self._disturbed.get(uid, 0.0), ended_s)
        recent = ended_s > self._snapshot.taken_at_s - BACKOFF_MEMORY_S
        if status.phase is MigrationPhase.FAILED and migration.pod_uid and recent:
            self._failures.setdefault(migration.pod_uid, []).append(ended_s)


def _in_flight(snapshot: Snapshot) -> Iterator[InFlight]:
    for migration in sorted(snapshot.migrations.values(), key=lambda m: m.key):
        if migration.status.phase in FINISHED:
            continue
        pod = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
        if pod is not None and migration.pod_uid in ("", pod.uid):
            yield InFlight(migration, pod)


def _workload_of(migration: PodMigration, snapshot: Snapshot) -> str:
    """By the label that the controller puts on, else by the replacement or the pod itself."""
    named = migration.labels.get(LABEL_WORKLOAD_UID)
    if named:
        return named
    replacement = migration.status.replacement
    keys = [ObjectKey(migration.namespace, migration.pod_name)]
    if replacement is not None:
        keys.insert(0, ObjectKey(replacement.namespace or migration.namespace, replacement.name))
    for key in keys:
        pod = snapshot.pods.get(key)
        if pod is not None:
            return workload_uid(pod, snapshot)
    return ""
