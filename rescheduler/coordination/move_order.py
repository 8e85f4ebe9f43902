"""Which move goes before another one of the same pod or Reservation, or of the same controller. Pure.

- Of several PodMigrations of one pod, or into one Reservation, only one reserves and evicts. A move that has begun goes
  before those that have not, so that at most one begins. After a crash two may have begun, because the write of the first
  one was not seen. Then the move that wrote its intent to evict goes first, and if neither did, the one that began first.
- Admission may have begun to make pods larger since the newest pod of a controller was created, and without a dry run only a
  replacement shows it. So one pod is evicted first, and the other moves of this controller wait until its replacement exists:
  at most one replacement can lack room, not as many as moves are under way. They wait again once the newest pod is old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from rescheduler.migrations.migration_lifecycle import FINISHED, MigrationReason
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import ObjectKey, Pod

_SHOWS_FOR_S: Final = 60.0
"""How long a new pod is taken to show what admission adds."""
_ABOUT_TO_EVICT: Final = frozenset(
    {MigrationReason.CHECKING, MigrationReason.PROVING_GATE, MigrationReason.EVICTING}
)

K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentMoves:
    """The moves of pods, and into Reservations, that more than one unfinished move names."""

    by_pod: Mapping[ObjectKey, tuple[PodMigration, ...]]
    by_room: Mapping[str, tuple[PodMigration, ...]]
    """By the name in ``reservationRef``."""
    begun: Callable[[ObjectKey], bool]
    """True if the first step of that move was written (``Expectations``), also in this round."""

    @classmethod
    def of(cls, migrations: Iterable[PodMigration], begun: Callable[[ObjectKey], bool]) -> ConcurrentMoves:
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
        return migration.status.phase is not MigrationPhase.PENDING or self.begun(migration.key)


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


def evicts_first(
    migration: PodMigration, others: Iterable[PodMigration], siblings: Iterable[Pod], now_s: float
) -> str:
    """Key of the move that ``migration`` waits for; "" if it need not wait.

    ``others``: the moves of pods of the same controller; ``siblings``: all its pods.
    """
    if any(pod.created_at_s > now_s - _SHOWS_FOR_S for pod in siblings):
        return ""
    ahead = (other for other in others if other.key != migration.key and _goes_before(other, migration))
    return min((str(other.key) for other in ahead), default="")


def _goes_before(other: PodMigration, migration: PodMigration) -> bool:
    status = other.status
    if other.deleting or status.phase in FINISHED or status.mode is MoveMode.START_FIRST:
        return False
    if status.eviction_requested_at_s:
        return True
    # Both would write their intent in this round. One that waits for something else is not waited for.
    about_to = status.phase is MigrationPhase.EVICTING and status.reason in _ABOUT_TO_EVICT
    return (
        about_to
        and not other.paused
        and (other.created_at_s, other.key) < (migration.created_at_s, migration.key)
    )
