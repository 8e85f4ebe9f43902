"""Withdraws the moves of a drain or a consolidation that have evicted nothing yet."""

from __future__ import annotations

from collections.abc import Collection

from rescheduler.cli.errors import CommandError
from rescheduler.cli.migration_client import CONSOLIDATING, MigrationClient
from rescheduler.cli.output import emit, tell
from rescheduler.migrations.lifecycle import FINISHED
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import ANNOTATION_EVICT, LABEL_GROUP
from rescheduler.model.records import ObjectKey


def withdraw_moves(client: MigrationClient, pods: Collection[ObjectKey], *, dry_run: bool = False) -> None:
    """Those of these pods, and say it; moves that have evicted go on. Who may see none withdraws none."""
    moves = _moves(client, pods)
    left = {} if dry_run else client.withdraw(moves)
    rehearsed = " (dry run)" if dry_run else ""
    emit(
        "".join(
            f"podmigration/{m.name} -n {m.namespace} withdrawn{rehearsed}\n"
            for m in moves
            if m.key not in left
        )
    )
    for key, why in left.items():
        tell(f"{key}: {why}")


def _moves(client: MigrationClient, pods: Collection[ObjectKey]) -> list[PodMigration]:
    try:
        return [move for move in client.select("") if _is_ours(move, pods)] if pods else []
    except CommandError as error:
        tell(f"no moves are withdrawn: {error}")
        return []


def _is_ours(move: PodMigration, pods: Collection[ObjectKey]) -> bool:
    empties = move.annotations.get(ANNOTATION_EVICT) == "true" or (
        move.labels.get(LABEL_GROUP) or ""
    ).startswith(CONSOLIDATING)
    live = move.requested and move.status.phase not in FINISHED
    return live and empties and ObjectKey(move.namespace, move.pod_name) in pods
