"""What became of moves, one line or one entry each: for ``history``, and at the end of a drain."""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.model.migration import PodMigration
from rescheduler.model.times import format_seconds
from rescheduler.planning.past_moves import FINISHED

MOVED: Final = ("POD", "FROM", "TO", "ENDED", "TOOK")


class PastEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One move. Times: RFC 3339; what is not known is left out."""

    at: str
    """When it began, or was asked for."""
    namespace: str
    pod: str = ""
    """Its name; "" in entries of ConfigMap move-history, which have the uid."""
    pod_uid: str = ""
    source: str = msgspec.field(default="", name="from")
    target: str = msgspec.field(default="", name="to")
    ended: str = ""
    """The reason of its end; "" while it is under way."""
    message: str = ""
    seconds: float = 0.0
    by: str = ""
    why: str = ""
    pod_migration: str = ""


def entry_of(move: PodMigration) -> PastEntry:
    """What its object tells."""
    status, began_s = move.status, move.status.started_at_s or move.created_at_s
    ended = status.phase in FINISHED
    return PastEntry(
        at=format_seconds(began_s),
        namespace=move.namespace,
        pod=move.pod_name,
        pod_uid=move.pod_uid,
        source=status.source_node,
        target=status.node_name or move.target_node,
        ended=(status.reason or status.phase.value) if ended else "",
        message=status.message,
        seconds=round(max(0.0, status.finished_at_s - began_s), 1) if status.finished_at_s else 0.0,
        by=move.by,
        why=move.reason,
        pod_migration=move.name,
    )


def moved_row(entry: PastEntry) -> tuple[str, ...]:
    """Its cells under MOVED."""
    return (
        f"{entry.namespace or '-'}/{entry.pod or f'(uid {entry.pod_uid[:8]})'}",
        entry.source or "-",
        entry.target or "-",
        entry.ended or "under way",
        f"{entry.seconds:.0f}s" if entry.seconds else "-",
    )
