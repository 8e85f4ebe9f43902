"""What ``status`` shows, as one document: the JSON is a contract (docs/commands.md), and the text says the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rescheduler.cli.controller_presence import Leader
from rescheduler.migrations.lifecycle import FINISHED
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import API_VERSION
from rescheduler.model.times import format_seconds
from rescheduler.planning.plan import PolicySummary, SkipReason


class ControllerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The controller. Times: RFC 3339, "" where they are not known."""

    presence: str
    """Leading, Stopped, Absent or Unknown."""
    holder: str = ""
    leads_since: str = ""
    renewed: str = ""
    images: tuple[str, ...] = ()
    """Of its pods, with their versions."""
    message: str = ""


class PolicyStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one policy finds badly placed."""

    name: str
    badly_placed: int


class BlockedStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many badly placed pods are not moved for one reason, because of one thing."""

    reason: str
    blocked_by: str
    pods: int


class MoveStatus(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """A move under way."""

    namespace: str
    pod: str
    source: str
    target: str
    phase: str
    reason: str
    message: str
    by: str


class StatusReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything."""

    api_version: str = API_VERSION
    kind: str = "Status"
    at: str = ""
    controller: ControllerStatus
    gate: str
    """InForce, Missing or Unknown."""
    configuration: str
    """What is wrong with it; "" if nothing is known to be."""
    moves: tuple[MoveStatus, ...] | None
    """None: they may not be read."""
    planned_at: str = ""
    """When the cluster was read for what follows; "": it was not."""
    policies: tuple[PolicyStatus, ...] = ()
    blocked: tuple[BlockedStatus, ...] = ()
    would_move: int = 0
    """Moves that the next decision would begin."""
    warnings: tuple[str, ...] = ()


def controller_status(leader: Leader, images: Iterable[str]) -> ControllerStatus:
    """Of the Lease and the controller's pods."""
    return ControllerStatus(
        presence=leader.presence.value,
        holder=leader.holder,
        leads_since=_time(leader.since_s),
        renewed=_time(leader.renewed_at_s),
        images=tuple(sorted(set(images))),
        message=leader.why,
    )


def moves_under_way(moves: Iterable[PodMigration]) -> tuple[MoveStatus, ...]:
    """Those that have not ended: first those that have got farthest, then the oldest."""
    unfinished = [move for move in moves if move.status.phase not in FINISHED]
    unfinished.sort(
        key=lambda m: (not m.status.evicted_at_s, not m.status.started_at_s, m.created_at_s, m.key)
    )
    return tuple(
        MoveStatus(
            namespace=move.namespace,
            pod=move.pod_name,
            source=move.status.source_node,
            target=move.status.node_name or move.target_node,
            phase=move.status.phase.value,
            reason=move.status.reason,
            message=move.status.message,
            by=move.by,
        )
        for move in unfinished
    )


def badly_placed(policies: Sequence[PolicySummary]) -> tuple[PolicyStatus, ...]:
    """In the order of the configuration."""
    return tuple(PolicyStatus(name=p.name, badly_placed=p.badly_placed) for p in policies)


def blocked(counted: Mapping[tuple[SkipReason, str], int]) -> tuple[BlockedStatus, ...]:
    """How many pods are skipped for which reason, because of what; the most frequent first."""
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    return tuple(BlockedStatus(reason=reason.value, blocked_by=by, pods=n) for (reason, by), n in ordered)


def _time(seconds: float) -> str:
    return format_seconds(seconds) if seconds else ""
