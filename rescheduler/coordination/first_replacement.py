"""Which move of a controller's pods evicts first, where no dry-run creation shows the replacement. Pure.

Admission may have begun to make pods larger since the newest pod of a controller was created, and without a dry run only a
replacement shows it. So one pod is evicted first, and the other moves of this controller wait until its replacement exists:
at most one replacement can lack room, not as many as moves are under way. They wait again once the newest pod is old.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rescheduler.migrations.lifecycle import FINISHED, MigrationReason
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import Pod

_SHOWS_FOR_S: Final = 60.0
"""How long a new pod is taken to show what admission adds."""
_ABOUT_TO_EVICT: Final = frozenset(
    {MigrationReason.CHECKING, MigrationReason.PROVING_GATE, MigrationReason.EVICTING}
)


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
