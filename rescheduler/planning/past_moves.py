"""Moves of the past, and what limits, cool-down and back-off make of them. Pure.

One record of two sources: the PodMigrations that still exist, and ConfigMap ``move-history``, which keeps what they said
after they are deleted. A PodMigration that exists goes before its entry. So a deleted PodMigration is counted as before,
and nothing is counted twice.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rescheduler.model.migration import TARGET_REFUSED, MigrationPhase, PodMigration
from rescheduler.model.names import LABEL_WORKLOAD_UID
from rescheduler.model.past_moves import PastMove, node_digest, whole_s
from rescheduler.model.records import ObjectKey
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import doubling_s

FINISHED: Final = (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
HOUR_S: Final = 3600.0
BACKOFF_FIRST_S: Final = 60.0
BACKOFF_LONGEST_S: Final = 3600.0
BACKOFF_MEMORY_S: Final = 6 * HOUR_S
MOST_LOST: Final = 3
"""So many moves in a row of one namespace may evict a pod and fail before its planned moves rest: something there, or the controller
that creates its pods, is out of order. Of one namespace, so that nobody stops the moves of others."""
REFUSED_FIRST_S: Final = 600.0
"""So long a node that did not take a placeholder is no target for that workload: longer than the back-off of the pod at first."""
REFUSED_LONGEST_S: Final = 2 * HOUR_S


def uid_of(migration: PodMigration) -> str:
    """The key of its entry; in a dump that lacks uids, its name."""
    return migration.uid or f"{migration.namespace}.{migration.name}"


def past_move(migration: PodMigration, known: PastMove | None, snapshot: Snapshot) -> PastMove | None:
    """What is to be kept of a move; None if it counts for nothing (yet). ``known``: its entry until now.

    A move counts for limits from its beginning on: what never began used nothing up, whoever created it. Of a planned
    one that failed before it began only the failure is kept, for the back-off of its pod, so that a plan which cannot be
    carried out is not made again and again; a request of people that did not begin counts for nothing.

    From its beginning to its end a move counts as one that evicts: so the eviction needs no write of its own, and one whose
    PodMigration is deleted, and whose end nobody sees, rather rests its workload in vain than not at all.
    """
    if known is not None and known.ended_s:
        return known  # a finished move does not change any more; the cache may still show it as it was before
    status = migration.status
    finished, landed = status.phase in FINISHED, status.phase is MigrationPhase.SUCCEEDED
    ended_s = whole_s(status.finished_at_s or status.evicted_at_s) if finished else 0.0
    evicting_s = whole_s(status.evicted_at_s or status.eviction_requested_at_s) or (
        ended_s if landed else 0.0
    )
    begun_s = whole_s(status.started_at_s)
    if not begun_s and evicting_s:
        begun_s = whole_s(migration.created_at_s)
    if known is not None and known.begun_s:
        begun_s = known.begun_s
    if not finished:
        evicting_s = evicting_s or begun_s
    if not begun_s and not (finished and not migration.requested and _stands(migration, snapshot)):
        return None
    return PastMove(
        begun_s=begun_s,
        requested=migration.requested,
        namespace=migration.namespace,
        pod_uid=migration.pod_uid or (known.pod_uid if known is not None else ""),
        workload_uid=(known.workload_uid if known is not None else "") or workload_of(migration, snapshot),
        evicting_s=evicting_s,
        ended_s=ended_s,
        failed=status.phase is MigrationPhase.FAILED,
        refused_by=_refused_by(migration),
    )


def _refused_by(migration: PodMigration) -> str:
    status = migration.status
    refused = status.phase is MigrationPhase.FAILED and status.reason == TARGET_REFUSED
    return node_digest(status.node_name) if refused and status.node_name else ""


def _stands(migration: PodMigration, snapshot: Snapshot) -> bool:
    """True if its pod is there: nobody can make a pod back off that is not in the namespace of the PodMigration."""
    pod = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
    return pod is not None and pod.uid == migration.pod_uid


def merged(known: Mapping[str, PastMove], snapshot: Snapshot) -> dict[str, PastMove]:
    """The entries ``known``, with what the PodMigrations of the snapshot say."""
    found = dict(known)
    for migration in snapshot.migrations.values():
        uid = uid_of(migration)
        move = past_move(migration, found.get(uid), snapshot)
        if move is not None:
            found[uid] = move
    return found


def workload_of(migration: PodMigration, snapshot: Snapshot) -> str:
    """Uid of the workload: by the label that the controller puts on, else by the replacement or the pod itself."""
    named = "" if migration.requested else migration.labels.get(LABEL_WORKLOAD_UID)
    if named:
        return named
    replacement = migration.status.replacement
    keys = [ObjectKey(migration.namespace, migration.pod_name)]
    if replacement is not None:
        keys.insert(0, ObjectKey(replacement.namespace or migration.namespace, replacement.name))
    for key in keys:
        pod = snapshot.pods.get(key)
        if pod is not None:
            return snapshot.workload_uid(pod)
    return ""


def refusals(snapshot: Snapshot) -> dict[str, PastMove]:
    """Of ``merged`` those whose target did not take their placeholder: mostly none, which is found without the others."""
    found = {uid: move for uid, move in snapshot.past_moves.items() if move.refused_by}
    for migration in snapshot.migrations.values():
        if migration.status.reason == TARGET_REFUSED:
            uid = uid_of(migration)
            move = past_move(migration, snapshot.past_moves.get(uid), snapshot)
            if move is not None and move.refused_by:
                found[uid] = move
    return found


class PastMoves:
    """Answers about the moves of the past."""

    def __init__(self, moves: Mapping[str, PastMove], under_way: Iterable[str], now_s: float) -> None:
        """``moves``: from ``merged``. ``under_way``: keys of those whose PodMigration is not finished."""
        self._now_s = now_s
        self._begun: dict[bool, list[float]] = {True: [], False: []}
        self._requested_in: Counter[str] = Counter()
        self._disturbed: dict[str, float] = {}
        self._failures: dict[str, list[PastMove]] = {}
        self._refused: dict[tuple[str, str], dict[str, list[float]]] = {}
        self._evicted: dict[str, list[PastMove]] = {}
        self._lost: dict[str, float] = {}
        """By namespace, the answer of ``lost_until``, which is asked for each pod; 0.0: now."""
        live = frozenset(under_way)
        for uid, move in moves.items():
            # How it ended was written before the cache shows it.
            self._read(move, under_way=uid in live and not move.ended_s)
        for times in self._begun.values():
            times.sort()

    @property
    def failed(self) -> frozenset[str]:
        """Uids of pods of which a move failed lately."""
        return frozenset(self._failures)

    def begun(self, *, requested: bool) -> list[float]:
        """When the moves of the last hour began, in order: those that people asked for, or those that were planned."""
        return self._begun[requested]

    def begin(self, move: PastMove) -> None:
        """One more move begins now."""
        insort(self._begun[move.requested], move.begun_s)
        self._requested_in[move.namespace] += move.requested

    def requested_in(self, namespace: str) -> int:
        """How many moves of the last hour people asked for in that namespace."""
        return self._requested_in[namespace]

    def fair_share(self, namespace: str, most: int) -> int:
        """Its part of ``most`` moves an hour if all namespaces that ask for moves get the same, and one more comes."""
        return most // (1 + len({namespace, *(+self._requested_in)}))

    def below_fair_share(self, namespace: str, most: int) -> int:
        """How many moves of the last hour people asked for in namespaces that have had less than their part."""
        share = self.fair_share(namespace, most)
        return sum(number for number in self._requested_in.values() if number < share)

    def cooldown_until(self, workload_uid: str, cooldown_s: float) -> float | None:
        """When the workload may be moved again; None: now."""
        last_s = self._disturbed.get(workload_uid) if workload_uid else None
        if last_s is None or last_s + cooldown_s <= self._now_s:
            return None
        return last_s + cooldown_s

    def backoff_until(self, pod_uid: str, *, requested: bool = False) -> float | None:
        """When a pod whose moves failed may be tried again; it doubles with each failure. None: now.

        ``requested``: only failures of moves that people asked for count.
        """
        failed_s = [m.failed_s for m in self._failures.get(pod_uid, ()) if m.requested or not requested]
        until_s = self._after(failed_s, BACKOFF_FIRST_S, BACKOFF_LONGEST_S)
        return until_s if until_s > self._now_s else None

    def lost_until(self, namespace: str) -> float | None:
        """When planned moves of the namespace may go on, whose last ones all evicted a pod and failed; None: now."""
        found = self._lost.get(namespace)
        if found is None:
            found = self._lost[namespace] = self._lost_until(self._evicted.get(namespace, ()))
        return found if found > self._now_s else None

    def _lost_until(self, evicted: Sequence[PastMove]) -> float:
        landed_s = max((move.ended_s for move in evicted if not move.failed), default=0.0)
        lost_s = [move.failed_s for move in evicted if move.failed_s > landed_s]
        if len(lost_s) < MOST_LOST:
            return 0.0
        return self._after(sorted(lost_s)[MOST_LOST - 1 :], BACKOFF_FIRST_S, BACKOFF_LONGEST_S)

    def refused_until(self, namespace: str, workload_uid: str) -> dict[str, float]:
        """Nodes that are no targets for the workload now, by their ``node_digest``, and until when; it doubles with each refusal."""
        found = {
            node: self._after(failed_s, REFUSED_FIRST_S, REFUSED_LONGEST_S)
            for node, failed_s in self._refused.get((namespace, workload_uid), {}).items()
        }
        return {node: until_s for node, until_s in found.items() if until_s > self._now_s}

    def _after(self, failed_s: list[float], first_s: float, longest_s: float) -> float:
        """The end of the back-off after these failures; 0.0 after none."""
        if not failed_s:
            return 0.0
        return min(max(failed_s), self._now_s) + doubling_s(first_s, len(failed_s), longest_s)

    def _read(self, move: PastMove, *, under_way: bool) -> None:
        if move.begun_s > self._now_s - HOUR_S:
            self._begun[move.requested].append(move.begun_s)
            self._requested_in[move.namespace] += move.requested
        if under_way:
            return  # limits at once count it
        if move.disturbed_s and move.workload_uid:
            # A time in the future, by another clock, is no longer rest than one that begins now.
            disturbed_s = min(move.disturbed_s, self._now_s)
            self._disturbed[move.workload_uid] = max(self._disturbed.get(move.workload_uid, 0.0), disturbed_s)
        if move.evicting_s and move.ended_s > self._now_s - BACKOFF_MEMORY_S:
            self._evicted.setdefault(move.namespace, []).append(move)
        if move.failed and move.pod_uid and move.failed_s > self._now_s - BACKOFF_MEMORY_S:
            self._failures.setdefault(move.pod_uid, []).append(move)
        if move.refused_by and move.workload_uid and move.failed_s > self._now_s - BACKOFF_MEMORY_S:
            by_node = self._refused.setdefault((move.namespace, move.workload_uid), {})
            by_node.setdefault(move.refused_by, []).append(move.failed_s)
