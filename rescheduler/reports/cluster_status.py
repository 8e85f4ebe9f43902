"""Makes the document of a cluster's status, and its trends, from what the core thread, or a command, has seen.

Reads nothing that changes. The work grows with the number of nodes and of moves, never with that of pods.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from rescheduler.model.counted import plural, verb
from rescheduler.model.gated_pods import gated_pods, why_gated
from rescheduler.model.measured import NodeUsage
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import ZONE
from rescheduler.model.node_marks import marks_of, own_taints
from rescheduler.model.node_status import MOVED_ON_REQUEST
from rescheduler.model.records import Node, ObjectKey, Pod, Taint
from rescheduler.model.reservation import Reservation
from rescheduler.model.room_sets import HeadRoom, ReservationWindow
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_seconds
from rescheduler.planning.past_moves import FINISHED
from rescheduler.planning.plan import Move, NodeSummary, Plan, SkipReason
from rescheduler.reports.held_capacity import held_capacity, moment, unused_by_node
from rescheduler.reports.status_document import (
    Blocker,
    ClusterStatus,
    GatedPod,
    ShownMove,
    ShownNode,
    ShownPolicy,
    TrendSample,
)
from rescheduler.reports.table import cut

MOST_MOVES: Final = 200
MOST_FINISHED: Final = 50
MOST_GATED: Final = 50
MOST_BLOCKERS: Final = 50
MOST_HELD: Final = 200
_MOST_TAINTS: Final = 5
_LONGEST_TEXT: Final = 300
EVERY_S: Final = 60.0
HOURS: Final = 6
MOST_SAMPLES: Final = int(HOURS * 3600 / EVERY_S)
GOES_ON: Final = frozenset(
    {
        "", "Checking", "Reserving", "Starting", "ProvingGate", "Evicting",
        "WaitingForReplacement", "HandingOver", "Adopting", "Recording",
    }
)  # fmt: skip
"""Reasons of moves that take their next step; with any other one a move waits."""
_NOTHING: Final = "Nothing to move"
_REASONS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenObjects:
    """What the page needs of a Snapshot. It does not keep the pods alive."""

    at_s: float
    nodes: Mapping[str, Node]
    reservations: Mapping[str, Reservation]
    windows: Mapping[str, ReservationWindow]
    head_rooms: Mapping[str, HeadRoom]
    migrations: Mapping[ObjectKey, PodMigration]
    usage: Mapping[str, NodeUsage]
    gated: tuple[Pod, ...]
    """Pods at the gate, the oldest first."""

    @classmethod
    def of(cls, snapshot: Snapshot, gated: Iterable[Pod] = ()) -> SeenObjects:
        """The mappings of the snapshot themselves, which never change. ``gated``: of its pods, those with the gate."""
        return cls(
            at_s=snapshot.taken_at_s,
            nodes=snapshot.nodes,
            reservations=snapshot.reservations,
            windows=snapshot.windows,
            head_rooms=snapshot.head_rooms,
            migrations=snapshot.migrations,
            usage=snapshot.usage,
            gated=tuple(gated_pods(gated)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPicture:
    """What the document is made from: immutable, so that any thread may read it."""

    seen: SeenObjects
    plan: Plan | None = None
    """The last decision; None: there was none."""
    blockers: Sequence[Blocker] = ()
    badly_placed: Mapping[str, int] = field(default_factory=dict)
    """Pods that the decision moves or skips, by node."""
    samples: tuple[TrendSample, ...] = ()
    source: str = ""
    headline: str = ""
    gate: str = "Unknown"
    dry_run: bool = False
    """The controller changes nothing."""
    shows_plan: bool = False
    """The moves of the plan are shown, which are no PodMigrations; with ``dry_run`` they are, too."""
    warnings: tuple[str, ...] = ()


def cluster_status(picture: ClusterPicture) -> ClusterStatus:
    """The document, as far as it is seen in objects and plans."""
    seen, plan = picture.seen, picture.plan
    under_way = moves_under_way(seen.migrations.values())
    planned = plan.moves if plan is not None and (picture.dry_run or picture.shows_plan) else ()
    waiting = waiting_moves(under_way)
    before = plan.before if plan is not None else None
    held = held_capacity(seen.reservations.values(), seen.windows.values(), seen.head_rooms.values())
    return ClusterStatus(
        at=format_seconds(seen.at_s),
        source=picture.source,
        dry_run=picture.dry_run,
        gate=picture.gate,
        headline=_headline(picture, under_way, waiting),
        gated=shown_gated(seen.gated, seen.reservations),
        gated_in_all=len(seen.gated),
        moves=(*under_way, *map(_planned, planned)),
        moves_in_all=len(under_way) + len(planned),
        moves_under_way=len(under_way),
        evicted_now=evicted_now(under_way),
        waiting=waiting,
        finished=finished_moves(seen.migrations.values()),
        planned_at=plan.metadata.generated_at if plan is not None else "",
        policies=tuple(
            ShownPolicy(name=p.name, badly_placed=p.badly_placed)
            for p in (before.policies if before is not None else ())
        ),
        blocked=tuple(picture.blockers),
        would_move=len(plan.moves) if plan is not None else 0,
        pods=before.pods if before is not None else 0,
        pending_pods=before.pending_pods if before is not None else 0,
        nodes=_nodes(seen, plan, picture.badly_placed),
        held=held,
        held_in_all=len(held),
        samples=picture.samples,
        warnings=picture.warnings,
    )


def _headline(picture: ClusterPicture, under_way: Sequence[ShownMove], waiting: Sequence[Blocker]) -> str:
    """What goes on before what would be better: "15 moves under way, 6 wait (DisruptionBudget 6); nothing more to move"."""
    planned = picture.headline
    if planned.startswith(_NOTHING):
        stay = sum(one.pods for one in picture.blockers)
        told = f"nothing {'more ' if under_way else ''}to move now"
        told = (
            f"{told}: {plural(stay, 'pod')} {verb(stay, 'stays', 'stay')} ({_counted(picture.blockers)})"
            if stay
            else ""
        )
        planned = told or (planned.replace(_NOTHING, "nothing more to move", 1) if under_way else planned)
    elif planned and under_way:
        told = "planned" if picture.shows_plan or picture.dry_run else "the last decision"
        planned = f"{told}: {planned}"
    if not under_way:
        return planned.replace("nothing", "Nothing", 1) if planned.startswith("nothing") else planned
    return work_words(len(under_way), waiting) + (f"; {planned}" if planned else "")


def work_words(under_way: int, waiting: Sequence[Blocker]) -> str:
    """As in "15 moves under way, 6 wait (DisruptionBudget 6)"."""
    count = sum(one.pods for one in waiting)
    which = "all of them wait" if count == under_way > 1 else f"{count:,} {verb(count, 'waits', 'wait')}"
    return f"{plural(under_way, 'move')} under way" + (f", {which} ({_counted(waiting)})" if count else "")


def _counted(blockers: Iterable[Blocker]) -> str:
    counts: Counter[str] = Counter()
    for one in blockers:
        counts[one.reason] += one.pods
    return ", ".join(f"{reason} {pods:,}" for reason, pods in counts.most_common(_REASONS))


def evicted_now(under_way: Iterable[ShownMove]) -> int:
    """Moves that have evicted a pod whose replacement is not bound yet."""
    return sum(bool(move.evicted_at and not move.landed_at) for move in under_way)


def waiting_moves(moves: Iterable[ShownMove]) -> tuple[Blocker, ...]:
    """Why moves under way cannot go on now, the most frequent reason first."""
    counts = Counter((move.reason, move.message) for move in moves if move.waits)
    return tuple(
        Blocker(reason=reason, blocked_by=message or "moves under way", pods=count)
        for (reason, message), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )


def shown_gated(pods: Iterable[Pod], rooms: Mapping[str, Reservation]) -> tuple[GatedPod, ...]:
    """The first of them, each with the Reservation that it waits for."""
    return tuple(
        GatedPod(
            namespace=pod.namespace,
            pod=pod.name,
            since=format_seconds(pod.created_at_s),
            message=_cut(why_gated(pod, rooms)),
        )
        for pod in islice(pods, MOST_GATED)
    )


def limited(status: ClusterStatus) -> ClusterStatus:
    """The same for a page: every list but that of the nodes has a limit, and every text."""
    return msgspec.structs.replace(
        status,
        moves=tuple(map(_shortened, (status.moves or ())[:MOST_MOVES])),
        finished=tuple(map(_shortened, status.finished)),
        held=tuple(
            msgspec.structs.replace(one, owners=_cut(one.owners), message=_cut(one.message))
            for one in status.held[:MOST_HELD]
        ),
        waiting=_first_blockers(status.waiting),
        blocked=_first_blockers(status.blocked),
        warnings=tuple(map(_cut, status.warnings[:MOST_BLOCKERS])),
    )


def _first_blockers(blockers: Sequence[Blocker]) -> tuple[Blocker, ...]:
    return tuple(
        msgspec.structs.replace(one, blocked_by=_cut(one.blocked_by)) for one in blockers[:MOST_BLOCKERS]
    )


def blockers_of(counts: Mapping[tuple[SkipReason, str], int]) -> tuple[Blocker, ...]:
    """How many pods are skipped for which reason, because of what; the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Blocker(reason=reason.value, blocked_by=by, pods=pods) for (reason, by), pods in ordered)


def moves_under_way(moves: Iterable[PodMigration]) -> list[ShownMove]:
    """Those that have not ended: first those that have got farthest, then the oldest."""
    unfinished = (move for move in moves if move.status.phase not in FINISHED)
    return [
        _shown(move)
        for move in sorted(
            unfinished,
            key=lambda m: (not m.status.evicted_at_s, not m.status.started_at_s, m.created_at_s, m.key),
        )
    ]


def finished_moves(moves: Iterable[PodMigration]) -> tuple[ShownMove, ...]:
    """The last that have ended, the newest first."""
    ended = (move for move in moves if move.status.phase in FINISHED)
    ordered = sorted(ended, key=lambda move: (-move.status.finished_at_s, move.key))
    return tuple(map(_shown, ordered[:MOST_FINISHED]))


def _nodes(seen: SeenObjects, plan: Plan | None, badly_placed: Mapping[str, int]) -> tuple[ShownNode, ...]:
    figures = {node.name: node for node in plan.before.nodes} if plan is not None else {}
    reserved = unused_by_node(seen.reservations.values())
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
                hints=hints_of(node, seen.at_s)[:_MOST_TAINTS],
                pods=amounts.pods,
                badly_placed=badly_placed.get(name, 0),
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


def hints_of(node: Node, now_s: float) -> tuple[str, ...]:
    """What keeps replacements from coming back to a node, in words."""
    return tuple(
        f"pods of {one.controller_kind.lower()}/{one.controller_name} of namespace {one.namespace}, moved away "
        f"{'on request' if one.reason == MOVED_ON_REQUEST else f'for {one.reason}'}, do not come back until {format_seconds(one.expires_at_s)}"
        for one in node.avoid
        if one.expires_at_s > now_s
    )


def _shown(move: PodMigration) -> ShownMove:
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
        waits=status.phase not in FINISHED and status.reason not in GOES_ON,
        began_at=moment(status.started_at_s or move.created_at_s),
        reserved_at=moment(status.reserved_at_s),
        evicted_at=moment(status.evicted_at_s),
        landed_at=moment(status.landed_at_s),
        ended_at=moment(status.finished_at_s),
    )


def _shortened(move: ShownMove) -> ShownMove:
    return msgspec.structs.replace(move, message=_cut(move.message), by=_cut(move.by))


def _planned(move: Move) -> ShownMove:
    return ShownMove(
        namespace=move.pod.namespace,
        pod=move.pod.name,
        source=move.source,
        target=move.target,
        phase="Planned",
        reason=move.reason,
        message=move.message,
        by=f"policy {move.policy}",
    )


def _taint(taint: Taint) -> str:
    return _cut(f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}")


def _cut(text: str) -> str:
    return cut(text, _LONGEST_TEXT)


class Trends:
    """Collects samples of decisions, and what goes on between them; the oldest go."""

    def __init__(self) -> None:
        self._ring: deque[TrendSample] = deque(maxlen=MOST_SAMPLES)
        self._last_s = float("-inf")
        self._seen_s = float("-inf")
        self._begun_s = float("-inf")
        """The last sample counts the moves that ended since then."""
        self._samples: tuple[TrendSample, ...] = ()

    @property
    def samples(self) -> tuple[TrendSample, ...]:
        """The oldest first; the tuple never changes."""
        return self._samples

    def add(self, plan: Plan, migrations: Iterable[PodMigration], at_s: float) -> None:
        """A sample of this decision, unless the last one is less than a minute old."""
        if 0 <= at_s - self._last_s < EVERY_S:
            return
        self._begun_s, self._last_s = max(self._seen_s, at_s - EVERY_S), at_s
        nodes = plan.before.nodes
        self._ring.append(
            TrendSample(
                at=format_seconds(at_s),
                badly_placed=sum(policy.badly_placed for policy in plan.before.policies),
                moves_under_way=0,
                moves_ended=0,
                pending_pods=plan.before.pending_pods,
                nodes_in_use=len(nodes) - plan.before.empty_nodes,
                cpu_requested=_share(
                    sum(n.cpu_requested_milli for n in nodes), sum(n.cpu_allocatable_milli for n in nodes)
                ),
                memory_requested=_share(
                    sum(n.memory_requested_bytes for n in nodes),
                    sum(n.memory_allocatable_bytes for n in nodes),
                ),
            )
        )
        self.saw(migrations, at_s)

    def saw(self, migrations: Iterable[PodMigration], at_s: float) -> None:
        """What has come between: the last sample has the most moves that were under way, and all that have ended since."""
        self._seen_s = at_s
        if not self._ring:
            return
        under_way = ended = 0
        for move in migrations:
            under_way += move.status.phase not in FINISHED
            ended += move.status.finished_at_s > self._begun_s
        last = self._ring[-1]
        if under_way > last.moves_under_way or ended != last.moves_ended:
            most = max(under_way, last.moves_under_way)
            self._ring[-1] = msgspec.structs.replace(last, moves_under_way=most, moves_ended=ended)
            self._samples = tuple(self._ring)
        elif len(self._samples) != len(self._ring) or self._samples[-1] is not last:
            self._samples = tuple(self._ring)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole > 0 else 0.0
