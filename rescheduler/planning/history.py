"""What planning looks at of the moves of past and present: moves under way, limits per hour, cool-down, back-off.

The cool-down that the owner of a workload asks for by annotation can only be longer than ``limits.workloadCooldown``. So that it
outlives PodMigrations, the last move of such a workload is kept in the history for as long, in bounds that no namespace can use up.

Pure: a function of one snapshot; the snapshot's time is now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from rescheduler.model.migration import (
    DISRUPTION_BUDGET,
    OWNER_BUSY,
    TOO_FEW_AVAILABLE,
    MigrationPhase,
    MoveMode,
    PodMigration,
)
from rescheduler.model.names import ANNOTATION_COOLDOWN
from rescheduler.model.past_moves import PastMove
from rescheduler.model.records import ObjectKey, Pod, Workload
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import DurationError, parse_duration
from rescheduler.planning.past_moves import FINISHED, HOUR_S, PastMoves, merged, uid_of

MOST_REST_S: Final = 7 * 86_400.0
_MOST_KEPT: Final = 300
_MOST_OF_A_NAMESPACE: Final = 30
_OF_ITS_OWNER: Final = frozenset({DISRUPTION_BUDGET, TOO_FEW_AVAILABLE, OWNER_BUSY})
"""Reasons for which a move waits for what the owner of its workload does."""
LONGEST_END_S: Final = 600.0
"""A pod that takes longer to end after its eviction holds up no other workload: its owner says how long that is, perhaps for ever."""


def rest_s(workload: Workload | None) -> float | None:
    """Seconds between two moves that the annotation asks for, at most ``MOST_REST_S``; 0.0: nothing; None: it cannot be read."""
    text = workload.annotations.get(ANNOTATION_COOLDOWN) if workload is not None else None
    return 0.0 if text is None else _read(text)


@lru_cache(maxsize=1024)
def _read(text: str) -> float | None:
    try:
        found_s = parse_duration(text.strip())
    except DurationError:
        return None
    return min(found_s, MOST_REST_S) if found_s >= 0.0 else None


def still_resting(moves: Mapping[str, PastMove], kept: Collection[str], snapshot: Snapshot) -> list[str]:
    """Keys of entries besides those ``kept`` that an annotation still needs: the last move of each workload, the newest first."""
    last: dict[str, str] = {}
    for key, move in moves.items():
        before = last.get(move.workload_uid)
        if move.disturbed_s and (before is None or moves[before].disturbed_s < move.disturbed_s):
            last[move.workload_uid] = key
    found: list[str] = []
    of_namespace: Counter[str] = Counter()
    for key in sorted(last.values(), key=lambda key: (-moves[key].disturbed_s, key)):
        move = moves[key]
        workload = snapshot.workloads.get(move.workload_uid)
        ends_s = move.disturbed_s + (rest_s(workload) or 0.0)
        if key in kept or workload is None or ends_s <= snapshot.taken_at_s:
            continue
        of_namespace[workload.namespace] += 1
        if of_namespace[workload.namespace] <= _MOST_OF_A_NAMESPACE and len(found) < _MOST_KEPT:
            found.append(key)
    return found


@dataclass(frozen=True, slots=True)
class InFlight:
    """An unfinished move whose old pod still stands."""

    migration: PodMigration
    pod: Pod
    follows: bool = False
    """It begins after a move that has not ended, whose turn it takes then."""

    @property
    def carried_out(self) -> bool:
        """True if it has begun, or was planned and begins now.

        What people ask for may wait for ever, paused or for a target: until it begins it takes nothing from others.
        """
        waits = self.migration.requested or self.migration.paused
        return self.migration.status.phase is not MigrationPhase.PENDING or not waits

    @property
    def takes_turns(self) -> bool:
        """True if it counts in the limits that all namespaces share.

        Of what people ask for only what is about to disturb a pod: whoever pauses it must not stop the planner. Nor may the owner of
        a workload, whose budget or rollout a move waits for. Nor does a move that follows another one: the two never run at once.
        """
        move = self.migration
        waits = move.requested or move.paused or self.follows or move.status.reason in _OF_ITS_OWNER
        return bool(move.status.eviction_requested_at_s) or not waits

    def spent(self, snapshot: Snapshot) -> Spent:
        """What it takes of the limits at once."""
        uid, evicted_s = snapshot.workload_uid(self.pod), self.migration.status.eviction_requested_at_s
        if self.pod.deleting and evicted_s and snapshot.taken_at_s >= evicted_s + LONGEST_END_S:
            return Spent("", "", uid, shared=False)
        return Spent(self.pod.node, self.pod.namespace, uid, self.takes_turns)


class Spent(NamedTuple):
    """What a move takes of the limits at once."""

    node: str
    namespace: str
    workload_uid: str
    shared: bool
    """Of the limits of the whole cluster and of the node too, not only of those of namespace and workload."""


class History:
    """The PodMigrations and past moves of a snapshot, read once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.unfinished: tuple[InFlight, ...] = tuple(_unfinished(snapshot))
        self.moving: frozenset[str] = frozenset(f.pod.uid for f in self.unfinished)
        """Uids of pods that an unfinished migration names."""
        self.in_flight: tuple[InFlight, ...] = tuple(f for f in self.unfinished if f.carried_out)
        """Moves that have begun or begin now."""
        self.starting_first: dict[str, str] = {
            f.pod.uid: f.migration.policy
            for f in self.in_flight
            if f.migration.status.mode is MoveMode.START_FIRST
        }
        """Uids of those whose replacement starts first, with the policy that moves them."""
        self.reserving_first: frozenset[str] = frozenset(
            f.pod.uid
            for f in self.in_flight
            if f.migration.status.phase is not MigrationPhase.PENDING and f.pod.uid not in self.starting_first
        )
        """Uids of those of which it is settled that room is reserved first, whatever is declared."""
        moves = merged(snapshot.past_moves, snapshot)
        unfinished = [m for m in snapshot.migrations.values() if m.status.phase not in FINISHED]
        self._past = PastMoves(moves, map(uid_of, unfinished), snapshot.taken_at_s)
        stand = (f.spent(snapshot) for f in self.unfinished)
        standing = {uid_of(f.migration) for f in self.unfinished}
        # Its replacement is not bound yet: for the workload it is the same disturbance as before.
        handing_over = (
            Spent(m.status.source_node, m.namespace, _workload_uid(m, moves), not m.requested)
            for m in unfinished
            if m.status.phase is not MigrationPhase.PENDING and uid_of(m) not in standing
        )
        self.spent: tuple[Spent, ...] = (*stand, *handing_over)
        """By the moves under way, from their creation until they end."""
        to_begin = (f.migration for f in self.in_flight if not f.migration.requested)
        self._to_begin = [m for m in to_begin if uid_of(m) not in moves]

    @property
    def failed(self) -> frozenset[str]:
        """Uids of pods of which a move failed lately."""
        return self._past.failed

    def begun_within_hour(self) -> int:
        """Planned moves that began in the last hour, or were created in it and will begin. Requests of people count apart."""
        since_s = self._snapshot.taken_at_s - HOUR_S
        to_begin = sum(1 for migration in self._to_begin if migration.created_at_s > since_s)
        return len(self._past.begun(requested=False)) + to_begin

    def cooldown_until(self, pod: Pod, cooldown_s: float) -> float | None:
        """When the workload of the pod may be moved again, as its annotation says, too; None: now."""
        own_s = rest_s(self._snapshot.top_workload(pod)) or 0.0
        return self._past.cooldown_until(self._snapshot.workload_uid(pod), max(cooldown_s, own_s))

    def backoff_until(self, pod: Pod) -> float | None:
        """When a pod whose moves failed may be tried again; it doubles with each failure. None: now."""
        return self._past.backoff_until(pod.uid)

    def lost_until(self, namespace: str) -> float | None:
        """When planned moves of the namespace may go on, whose last ones all evicted a pod and failed; None: now."""
        return self._past.lost_until(namespace)

    def last_failure(self, pod: Pod) -> str:
        """Why the last of its moves failed, as long as its PodMigration is kept; "": nothing is known."""
        failed = [
            move
            for move in self._snapshot.migrations.values()
            if move.pod_uid == pod.uid and move.status.phase is MigrationPhase.FAILED
        ]
        last = max(failed, key=lambda move: move.status.finished_at_s, default=None)
        return f"{last.status.reason}: {last.status.message}" if last is not None else ""


def _workload_uid(migration: PodMigration, moves: Mapping[str, PastMove]) -> str:
    move = moves.get(uid_of(migration))
    known = move.workload_uid if move is not None else ""
    return known or migration.uid  # a move of an unknown workload is one of its own


def _unfinished(snapshot: Snapshot) -> Iterator[InFlight]:
    for migration in sorted(snapshot.migrations.values(), key=lambda m: m.key):
        if migration.status.phase in FINISHED:
            continue
        pod = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
        if pod is not None and migration.pod_uid in ("", pod.uid):
            yield InFlight(migration, pod, follows=_follows(migration, snapshot))


def _follows(migration: PodMigration, snapshot: Snapshot) -> bool:
    earlier = (snapshot.migrations.get(key) for key in migration.after)
    return any(move is not None and move.status.phase not in FINISHED for move in earlier)
