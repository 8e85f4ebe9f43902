"""Which of several PodMigrations of one pod, or into one Reservation, goes first: only that one reserves and evicts. Pure.

A move that has begun goes before those that have not, so that at most one begins. After a crash two may have begun,
because the write of the first one was not seen. Then the move that wrote its intent to evict goes first, and if
neither did, the one that began first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from rescheduler.migrations.lifecycle import FINISHED
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import ObjectKey, Pod

K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentMoves:
    """The moves of pods, and into Reservations, that more than one unfinished move names."""

    by_pod: Mapping[ObjectKey, tuple[PodMigration, ...]]
    by_room: Mapping[str, tuple[PodMigration, ...]]
    """By the name in ``reservationRef``."""
    begun: Collection[ObjectKey]
    """Keys of moves whose first step was written (from ``Expectations``). Grows during the round."""

    @classmethod
    def of(cls, migrations: Iterable[PodMigration], begun: Collection[ObjectKey]) -> ConcurrentMoves:
        """Gathered from all moves."""
        unfinished = [m for m in migrations if m.status.phase not in FINISHED and not m.deleting]
        return cls(
            by_pod=_shared(unfinished, lambda m: ObjectKey(m.namespace, m.pod_name)),
            by_room=_shared((m for m in unfinished if m.reservation_ref), lambda m: m.reservation_ref),
            begun=begun,
        )

    def before(self, migration: PodMigration, pod: Pod | None) -> str:
        """The move that goes before ``migration``, and what they share; "" if there is none."""
        if pod is None:
            return ""
        of_pod = (m for m in self.by_pod.get(pod.key, ()) if m.pod_uid == pod.uid)
        if first := self._first(migration, of_pod):
            return f"move {first.key} of the same pod"
        if first := self._first(migration, self.by_room.get(migration.reservation_ref, ())):
            return f"move {first.key} into the same Reservation"
        return ""

    def _first(self, migration: PodMigration, others: Iterable[PodMigration]) -> PodMigration | None:
        begun = (other for other in others if other.key != migration.key and self._begun(other))
        first = min(begun, key=precedence, default=None)
        goes_first = first is not None and (
            not self._begun(migration) or precedence(first) < precedence(migration)
        )
        return first if goes_first else None

    def _begun(self, migration: PodMigration) -> bool:
        return migration.status.phase is not MigrationPhase.PENDING or migration.key in self.begun


def precedence(migration: PodMigration) -> tuple[bool, bool, float, ObjectKey]:
    """The order of moves that have begun; those that have ended are last."""
    status = migration.status
    over = status.phase in FINISHED
    return over, not status.eviction_requested_at_s, status.started_at_s, migration.key


def _shared(
    migrations: Iterable[PodMigration], named: Callable[[PodMigration], K]
) -> dict[K, tuple[PodMigration, ...]]:
    """What more than one of them name, with these moves."""
    found: dict[K, list[PodMigration]] = {}
    for migration in migrations:
        found.setdefault(named(migration), []).append(migration)
    return {key: tuple(some) for key, some in found.items() if len(some) > 1}
