"""Which moves a PodMigration begins after (``spec.after``), and what has become of them. Pure.

A plan may use the room that a pod of the same plan leaves: then the PodMigration that needs it names the one that leaves
it. All of them are created at once, so that the intent survives a restart; each begins once those that it names have
succeeded, and ends if one of them did not. Nothing waits for ever: every PodMigration has its ttl.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rescheduler.migrations.lifecycle import FINISHED, MigrationReason
from rescheduler.migrations.observed import NO_EARLIER_MOVES, ObservedEarlierMoves
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import ObjectKey


@dataclass(frozen=True, slots=True)
class EarlierMoves:
    """The moves of one round by name, and which of them others wait for."""

    moves: Mapping[ObjectKey, PodMigration]
    awaited: frozenset[ObjectKey]
    """Named by a planned move that has not finished: they are kept until it has."""

    @classmethod
    def of(cls, moves: Mapping[ObjectKey, PodMigration]) -> EarlierMoves:
        """Gathered from all moves."""
        return cls(moves, frozenset(_named(moves.values())))

    def before(self, migration: PodMigration) -> ObservedEarlierMoves:
        """What has become of the moves that ``migration`` begins after."""
        if not migration.after:
            return NO_EARLIER_MOVES
        if migration.requested:
            return ObservedEarlierMoves(
                failed="spec.after is for the moves that the controller plans; create the PodMigration without it"
            )
        waits_for: list[ObjectKey] = []
        for key in migration.after:
            earlier = self.moves.get(key)
            phase = earlier.status.phase if earlier is not None else None
            if phase is MigrationPhase.SUCCEEDED:
                continue
            if earlier is None or earlier.deleting:
                return ObservedEarlierMoves(failed=f"move {key}, which this one begins after, was deleted")
            if phase is MigrationPhase.FAILED:
                # Without its message: it may be a move in somebody else's namespace.
                reason = earlier.status.reason
                return ObservedEarlierMoves(
                    failed=f"move {key}, which this one begins after, failed ({reason})"
                )
            waits_for.append(key)
        return ObservedEarlierMoves(waits_for=tuple(waits_for))

    def over(self, migration: PodMigration) -> bool:
        """True if the move has waited for earlier ones and its wait is over, one way or the other."""
        said = migration.status.reason == MigrationReason.EARLIER_MOVES
        return said and not self.before(migration).waits_for


def _named(moves: Iterable[PodMigration]) -> Iterable[ObjectKey]:
    for move in moves:
        if move.after and not move.requested and move.status.phase not in FINISHED:
            yield from move.after
