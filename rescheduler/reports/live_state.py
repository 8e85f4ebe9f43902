"""Makes the document of the live page from what the core thread, or a command, has seen. Pure; reads nothing that changes.

The work grows with the number of nodes and of moves, never with that of pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rescheduler.model.migration import PodMigration
from rescheduler.model.names import ZONE
from rescheduler.model.node_marks import marks_of, own_taints
from rescheduler.model.records import Node, NodeUsage, ObjectKey, Taint
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_seconds
from rescheduler.planning.past_moves import FINISHED
from rescheduler.planning.plan import Move, NodeSummary, Plan
from rescheduler.reports.figures import Blocker, ShownMove, moves_under_way, shown_move, shown_policies
from rescheduler.reports.live_document import LiveState, ShownNode, TrendSample

MOST_MOVES: Final = 200
MOST_FINISHED: Final = 50
MOST_BLOCKERS: Final = 50
_MOST_TAINTS: Final = 5
_LONGEST_TEXT: Final = 300
_HELD: Final = (ReservationPhase.AVAILABLE, ReservationPhase.WAITING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenObjects:
    """What the page needs of a Snapshot. It does not keep the pods alive."""

    at_s: float
    nodes: Mapping[str, Node]
    reservations: Mapping[str, Reservation]
    migrations: Mapping[ObjectKey, PodMigration]
    usage: Mapping[str, NodeUsage]

    @classmethod
    def of(cls, snapshot: Snapshot) -> SeenObjects:
        """The mappings of the snapshot themselves, which never change."""
        return cls(
            at_s=snapshot.taken_at_s,
            nodes=snapshot.nodes,
            reservations=snapshot.reservations,
            migrations=snapshot.migrations,
            usage=snapshot.usage,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePicture:
    """Everything that the document is made from: immutable, so that any thread may read it."""

    seen: SeenObjects
    plan: Plan | None = None
    """The last decision; None: there was none."""
    blockers: Sequence[Blocker] = ()
    samples: tuple[TrendSample, ...] = ()
    source: str = ""
    headline: str = ""
    dry_run: bool = False
    planned: bool = False
    """Show the moves of the plan: they are not carried out by anybody, and so are no PodMigrations."""
    warnings: tuple[str, ...] = field(default=())


def live_state(picture: LivePicture, *, leads: bool = True, leader: str = "") -> LiveState:
    """The document. ``leader``: who leads, if this is known."""
    seen, plan = picture.seen, picture.plan
    under_way = moves_under_way(seen.migrations.values())
    finished = sorted(
        (m for m in seen.migrations.values() if m.status.phase in FINISHED),
        key=lambda m: (-m.status.finished_at_s, m.key),
    )
    planned = plan.moves if plan is not None and picture.planned else ()
    shown = [*map(_move, under_way[:MOST_MOVES]), *map(_planned, planned[:MOST_MOVES])]
    return LiveState(
        at=format_seconds(seen.at_s),
        decided_at=plan.metadata.generated_at if plan is not None else "",
        source=picture.source,
        dry_run=picture.dry_run,
        leads=leads,
        leader=leader,
        headline=picture.headline,
        nodes=_nodes(seen, plan),
        pods=plan.before.pods if plan is not None else 0,
        pending_pods=plan.before.pending_pods if plan is not None else 0,
        policies=shown_policies(plan.before.policies if plan is not None else ()),
        blocked=tuple(
            msgspec.structs.replace(one, blocked_by=_cut(one.blocked_by))
            for one in picture.blockers[:MOST_BLOCKERS]
        ),
        moves=tuple(shown[:MOST_MOVES]),
        moves_in_all=len(under_way) + len(planned),
        finished=tuple(map(_move, finished[:MOST_FINISHED])),
        samples=picture.samples,
        warnings=tuple(_cut(text) for text in picture.warnings[:MOST_BLOCKERS]),
    )


def _nodes(seen: SeenObjects, plan: Plan | None) -> tuple[ShownNode, ...]:
    figures = {node.name: node for node in plan.before.nodes} if plan is not None else {}
    reserved = _reserved(seen.reservations.values())
    nothing = NodeSummary(name="")
    found: list[ShownNode] = []
    for name in sorted(seen.nodes):
        node, amounts = seen.nodes[name], figures.get(name, nothing)
        cpu, memory = reserved.get(name, (0, 0))
        usage = seen.usage.get(name)
        found.append(
            ShownNode(
                name=name,
                zone=node.labels.get(ZONE) or "",
                marks=marks_of(node),
                taints=tuple(map(_taint, own_taints(node)[:_MOST_TAINTS])),
                pods=amounts.pods,
                pods_allocatable=amounts.pods_allocatable,
                cpu_requested_milli=amounts.cpu_requested_milli,
                cpu_reserved_milli=cpu,
                cpu_allocatable_milli=amounts.cpu_allocatable_milli or node.allocatable.cpu_milli,
                memory_requested_bytes=amounts.memory_requested_bytes,
                memory_reserved_bytes=memory,
                memory_allocatable_bytes=amounts.memory_allocatable_bytes or node.allocatable.memory_bytes,
                cpu_used_milli=usage.cpu_milli if usage is not None else None,
                memory_used_bytes=usage.memory_bytes if usage is not None else None,
            )
        )
    return tuple(found)


def _reserved(reservations: Iterable[Reservation]) -> dict[str, tuple[int, int]]:
    """CPU and memory of rooms that are held and not used, by node."""
    found: dict[str, tuple[int, int]] = {}
    for room in reservations:
        status = room.status
        if status.phase not in _HELD or not status.node_name:
            continue
        cpu, memory = found.get(status.node_name, (0, 0))
        found[status.node_name] = (
            cpu + max(0, status.allocatable.cpu_milli - status.allocated.cpu_milli),
            memory + max(0, status.allocatable.memory_bytes - status.allocated.memory_bytes),
        )
    return found


def _move(move: PodMigration) -> ShownMove:
    found = shown_move(move)
    return msgspec.structs.replace(found, message=_cut(found.message), by=_cut(found.by))


def _planned(move: Move) -> ShownMove:
    return ShownMove(
        namespace=move.pod.namespace,
        pod=move.pod.name,
        source=move.source,
        target=move.target,
        phase="Planned",
        reason=move.reason,
        message=_cut(move.message),
        by=f"policy {move.policy}",
    )


def _taint(taint: Taint) -> str:
    return _cut(f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
