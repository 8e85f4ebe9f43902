"""Figures of a cluster that ``status`` and the page show alike: what is badly placed, what blocks, which moves are under way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rescheduler.model.migration import PodMigration
from rescheduler.model.times import format_seconds
from rescheduler.planning.past_moves import FINISHED
from rescheduler.planning.plan import PolicySummary, SkipReason


class ShownPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many pods one policy finds badly placed."""

    name: str
    badly_placed: int


class Blocker(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many badly placed pods are not moved for one reason, because of one thing."""

    reason: str
    blocked_by: str
    pods: int


class ShownMove(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"source": "from", "target": "to", "ended_at": "endedAt"},
):
    """A move, or one that a plan would make (phase Planned)."""

    namespace: str
    pod: str
    source: str
    target: str
    phase: str
    reason: str
    message: str
    """What it waits for, or how it ended."""
    by: str
    ended_at: str = ""


def shown_policies(policies: Iterable[PolicySummary]) -> tuple[ShownPolicy, ...]:
    """In the order of the configuration."""
    return tuple(ShownPolicy(name=p.name, badly_placed=p.badly_placed) for p in policies)


def blockers_of(counts: Mapping[tuple[SkipReason, str], int]) -> tuple[Blocker, ...]:
    """How many pods are skipped for which reason, because of what; the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Blocker(reason=reason.value, blocked_by=by, pods=pods) for (reason, by), pods in ordered)


def shown_move(move: PodMigration) -> ShownMove:
    """A move that was asked for."""
    status = move.status
    return ShownMove(
        namespace=move.namespace,
        pod=move.pod_name,
        source=status.source_node,
        target=status.node_name or move.target_node,
        phase=status.phase.value,
        reason=status.reason,
        message=status.message,
        by=move.by,
        ended_at=format_seconds(status.finished_at_s) if status.finished_at_s else "",
    )


def moves_under_way(moves: Iterable[PodMigration]) -> list[PodMigration]:
    """Those that have not ended: first those that have got farthest, then the oldest."""
    unfinished = (move for move in moves if move.status.phase not in FINISHED)
    return sorted(
        unfinished,
        key=lambda m: (not m.status.evicted_at_s, not m.status.started_at_s, m.created_at_s, m.key),
    )
