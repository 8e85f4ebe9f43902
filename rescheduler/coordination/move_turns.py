"""Which PodMigrations take a step in this round. Pure.

All that are under way, and of those that have not begun, or have ended and are to be deleted, as many as a round can bear
(``turns``). One that has ended is not looked at before it is to be deleted. So a round costs what is under way, however many
PodMigrations there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rescheduler.calls.call import acts
from rescheduler.coordination.turns import Turns, Waiting
from rescheduler.migrations.migration_lifecycle import CONDITION_READY, FINISHED, LASTING
from rescheduler.migrations.migration_machine import MigrationStep
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.own_objects import condition
from rescheduler.model.records import ObjectKey
from rescheduler.model.times import earliest
from rescheduler.planning.limits import Limits


class MovesOfRound(NamedTuple):
    """The moves of a round."""

    moves: tuple[PodMigration, ...]
    """Those that take a step, oldest first."""
    unreadable: tuple[PodMigration, ...]
    """Those that count as under way because nobody can read whether they are, and take no step."""
    wake_at_s: float | None
    """When the next round has others to look at."""


@dataclass(slots=True)
class MoveTurns:
    """Chooses the moves of each round. ``of`` once a round, ``stepped`` after each step."""

    turns: Turns = field(default_factory=Turns)
    _asked: tuple[object, ...] = ()
    """The settings that the last looks depended on."""

    def of(
        self,
        migrations: Mapping[ObjectKey, PodMigration],
        under_way: Callable[[ObjectKey, PodMigration], bool],
        settings: MigrationSettings,
        limits: Limits,
        now_s: float,
    ) -> MovesOfRound:
        """``under_way``: whether a move takes each step at once, of those whose status does not say that it has begun."""
        if self._asked != (settings, limits):
            self._asked = (settings, limits)
            self.turns.restart()
        moves: list[PodMigration] = []
        waiting: dict[ObjectKey, PodMigration] = {}
        collects_s: list[float] = []
        unreadable: list[PodMigration] = []
        for key, migration in migrations.items():
            pending = migration.status.phase is MigrationPhase.PENDING
            if _in_each_round(migration) or (pending and under_way(key, migration)):
                moves.append(migration)
                continue
            if migration.status_unreadable:
                unreadable.append(migration)
            collect_at_s = _collect_at_s(migration, settings)
            if now_s < collect_at_s:
                collects_s.append(collect_at_s)
            else:
                waiting[key] = migration
        turn = self.turns.next(list(map(_waiting, waiting, waiting.values())), now_s)
        moves += [waiting[key] for key in turn.keys]
        moves.sort(key=lambda m: (m.created_at_s, m.key))
        return MovesOfRound(tuple(moves), tuple(unreadable), earliest(turn.wake_at_s, *collects_s))

    def stepped(self, migration: PodMigration, step: MigrationStep, now_s: float) -> None:
        """What became of a look."""
        status = step.status
        if step.begins or any(map(acts, step.calls)):
            self.turns.again(migration.key)
        elif status.phase is MigrationPhase.PENDING:
            sure = status.reason in LASTING
            self.turns.looked(migration.key, now_s, step.wake_at_s, sure=sure)


def _in_each_round(migration: PodMigration) -> bool:
    """True while it is under way by its own status: room is held, or the replacement is watched."""
    status = migration.status
    if migration.status_unreadable and not migration.deleting:
        return False
    if status.phase is MigrationPhase.SUCCEEDED:
        return not status.ready_at_s and condition(status.conditions, CONDITION_READY) is None
    return status.phase is not MigrationPhase.PENDING and status.phase not in FINISHED


def _collect_at_s(migration: PodMigration, settings: MigrationSettings) -> float:
    """When a finished move is to be looked at again; 0.0 for others: now."""
    status = migration.status
    rests = status.phase in FINISHED and status.observed_generation == migration.generation
    return status.finished_at_s + settings.reservations.finished_ttl_s if rests else 0.0


def _waiting(key: ObjectKey, migration: PodMigration) -> Waiting:
    return Waiting(key, migration.namespace, migration.created_at_s, migration.generation)
