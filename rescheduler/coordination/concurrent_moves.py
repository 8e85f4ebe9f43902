"""Which of several PodMigrations of one pod goes first: only that one reserves room and evicts. Pure.

A move that has begun goes before those that have not, so that at most one begins. After a crash two may have begun,
because the write of the first one was not seen. Then the move that wrote its intent to evict goes first, and if
neither did, the one that began first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rescheduler.migrations.lifecycle import FINISHED
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import ObjectKey, Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentMoves:
    """The moves of pods that more than one unfinished move names."""

    by_pod: Mapping[ObjectKey, tuple[PodMigration, ...]]
    begun: Collection[ObjectKey]
    """Keys of moves whose first step was written (from ``Expectations``). Grows during the round."""

    @classmethod
    def of(cls, migrations: Iterable[PodMigration], begun: Collection[ObjectKey]) -> ConcurrentMoves:
        """Gathered from all moves."""
        found: dict[ObjectKey, list[PodMigration]] = {}
        for migration in migrations:
            if migration.status.phase not in FINISHED and not migration.deleting:
                found.setdefault(ObjectKey(migration.namespace, migration.pod_name), []).append(migration)
        return cls(by_pod={pod: tuple(some) for pod, some in found.items() if len(some) > 1}, begun=begun)

    def before(self, migration: PodMigration, pod: Pod | None) -> str:
        """Key of the move of the same pod that goes before ``migration``; "" if there is none."""
        if pod is None:
            return ""
        rank = _rank(migration)
        first = min(
            (
                other
                for other in self.by_pod.get(pod.key, ())
                if other.key != migration.key and other.pod_uid == pod.uid and self._begun(other)
            ),
            key=_rank,
            default=None,
        )
        goes_first = first is not None and (not self._begun(migration) or _rank(first) < rank)
        return str(first.key) if first is not None and goes_first else ""

    def _begun(self, migration: PodMigration) -> bool:
        return migration.status.phase is not MigrationPhase.PENDING or migration.key in self.begun


def _rank(migration: PodMigration) -> tuple[bool, float, ObjectKey]:
    status = migration.status
    return not status.eviction_requested_at_s, status.started_at_s, migration.key
