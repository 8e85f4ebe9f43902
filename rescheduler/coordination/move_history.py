"""The content of ConfigMap ``move-history``: what limits, cool-down and back-off count, kept longer than PodMigrations.

Level-triggered: in each round the content is what was kept before, what is stored, and what the PodMigrations say; then
what no limit counts any more is dropped. So a deleted PodMigration, a restart and another leader change nothing, and a
deleted ConfigMap is written again from what this process knows, or after a restart from what PodMigrations still say.
Bounded: beyond ``MOST_ENTRIES`` those are dropped first that began more than an hour ago and would be dropped next.

Pure but for what it keeps. It tells which moves are recorded on the API server; the machine of the moves waits for that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rescheduler.migrations.observed_migration import Recorded
from rescheduler.model.migration import MigrationStatus, PodMigration
from rescheduler.model.past_moves import PastMove, decode_past_moves, encode_past_move, is_key, whole_s
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import earliest
from rescheduler.planning.beginning import MOST_ENTRIES, HeldBack, MoveToBegin, held_back
from rescheduler.planning.history import still_resting
from rescheduler.planning.limits import Limits, longest_cooldown_s
from rescheduler.planning.past_moves import (
    BACKOFF_MEMORY_S,
    FINISHED,
    HOUR_S,
    PastMoves,
    merged,
    past_move,
    uid_of,
    workload_of,
)

_PRUNE_EVERY_S: Final = 10.0


@dataclass(slots=True)
class MoveHistory:
    """Past moves by uid of their PodMigration."""

    moves: Mapping[str, PastMove] = field(default_factory=dict)
    """What is known; never changed in place."""
    stored: Mapping[str, PastMove] = field(default_factory=dict)
    """Of this, what the API server has confirmed."""
    problem: str = ""
    """Why the API server cannot store it now."""
    _snapshot: Snapshot = field(default_factory=lambda: Snapshot(taken_at_s=0.0))
    _limits: Limits = field(default_factory=Limits)
    _past: PastMoves | None = None
    _content: dict[str, str] | None = None
    _prune_at_s: float = 0.0
    _compared: tuple[tuple[Mapping[str, PastMove], Mapping[str, PastMove]], bool] | None = None
    """What ``may_wait`` compared last, and its answer."""

    def read(self, data: Mapping[str, str], now_s: float) -> tuple[str, ...]:
        """Take the stored content in. Returns the keys of entries that are ignored because they cannot be read.

        What is known already is not changed by it: only the leader writes entries.
        """
        found, bad = decode_past_moves(data, now_s)
        if any(uid not in self.moves for uid in found):
            self._change({**found, **self.moves})
        return bad

    def follow(self, snapshot: Snapshot, limits: Limits) -> None:
        """A new round: take in what its PodMigrations say."""
        changed = snapshot.migrations is not self._snapshot.migrations
        self._snapshot, self._limits, self._past = snapshot, limits, None
        if changed:
            found = merged(self.moves, snapshot)
            if found != self.moves:
                self._change(found)
        self._prune(snapshot.taken_at_s)

    def content(self) -> dict[str, str]:
        """What the ConfigMap should contain."""
        if len(self.moves) > MOST_ENTRIES:
            self._prune(self._snapshot.taken_at_s)
        if self._content is None:
            self._content = {
                uid: encode_past_move(move) for uid, move in sorted(self.moves.items()) if is_key(uid)
            }
        return self._content

    @property
    def may_wait(self) -> bool:
        """True if something is not stored, but no step waits for it: how and when moves ended, their PodMigrations say meanwhile."""
        compared = (self.moves, self.stored)
        if self._compared is None or any(
            a is not b for a, b in zip(self._compared[0], compared, strict=True)
        ):
            waited_for = any(_waited_for(move, self.stored.get(uid)) for uid, move in self.moves.items())
            dropped = not self.stored.keys() <= self.moves.keys()
            self._compared = (compared, not (waited_for or dropped) and self.moves != self.stored)
        return self._compared[1]

    def confirm(self, moves: Mapping[str, PastMove]) -> None:
        """The API server has stored these: what ``moves`` was when ``content`` was sent."""
        self.stored = moves

    def held_back(self, migration: PodMigration, pod: Pod, at_last_s: float = math.inf) -> HeldBack | None:
        """Why a move that has not begun must wait; None if it may begin. ``at_last_s``: from when our own limits hold it back no more."""
        if uid_of(migration) in self.moves:
            return None  # counted already, and only not stored yet
        now_s, workload_uid = self._snapshot.taken_at_s, self._snapshot.workload_uid(pod)
        move = MoveToBegin(
            migration.requested, migration.namespace, pod.uid, workload_uid, at_last=now_s >= at_last_s
        )
        found = held_back(move, self._past_moves(), self._limits.at(now_s), now_s)
        if found is None or move.at_last or at_last_s == math.inf:
            return found
        return found._replace(until_s=earliest(found.until_s, at_last_s))

    def counts(self, migration: PodMigration) -> bool:
        """True once the move counts: it begins as soon as that is stored."""
        return uid_of(migration) in self.moves

    def begin(self, migration: PodMigration, pod_uid: str) -> None:
        """The move begins as soon as this is stored; it counts from now on."""
        uid = uid_of(migration)
        if uid in self.moves:
            return
        begun_s = whole_s(self._snapshot.taken_at_s)
        move = PastMove(
            begun_s=begun_s,
            evicting_s=begun_s,
            requested=migration.requested,
            namespace=migration.namespace,
            pod_uid=pod_uid,
            workload_uid=workload_of(migration, self._snapshot),
        )
        self.moves, self._content = {**self.moves, uid: move}, None
        self._past_moves().begin(move)

    def wrote(self, migration: PodMigration, status: MigrationStatus) -> None:
        """A status was written. The PodMigration may be deleted before the cache shows it."""
        uid = uid_of(migration)
        written = msgspec.structs.replace(migration, status=status)
        move = past_move(written, self.moves.get(uid), self._snapshot)
        if move is not None and move != self.moves.get(uid):
            self._change({**self.moves, uid: move})

    def recorded(self, migration: PodMigration) -> Recorded:
        """Which steps of the move are stored. What no limit counts need not be."""
        uid = uid_of(migration)
        stored, known = self.stored.get(uid), self.moves.get(uid)
        return Recorded(
            begun=stored is not None and bool(stored.evicting_s or stored.ended_s),
            begun_at_s=known.begun_s if known is not None else 0.0,
            ended=known is None or (stored is not None and stored.ended_s > 0.0),
            problem=self.problem,
        )

    def _change(self, moves: Mapping[str, PastMove]) -> None:
        self.moves, self._past, self._content = moves, None, None

    def _past_moves(self) -> PastMoves:
        if self._past is None:
            unfinished = (m for m in self._snapshot.migrations.values() if m.status.phase not in FINISHED)
            self._past = PastMoves(self.moves, map(uid_of, unfinished), self._snapshot.taken_at_s)
        return self._past

    def _prune(self, now_s: float) -> None:
        if now_s < self._prune_at_s and len(self.moves) <= MOST_ENTRIES:
            return
        self._prune_at_s = now_s + _PRUNE_EVERY_S
        kept = needed(self.moves, longest_cooldown_s(self._limits), self._snapshot)
        if len(kept) != len(self.moves):
            self._change(kept)


def _waited_for(move: PastMove, stored: PastMove | None) -> bool:
    """True if the move may evict and that is not stored; an entry of an earlier version may lack it."""
    return not move.ended_s and (stored is None or bool(move.evicting_s) > bool(stored.evicting_s))


def needed(moves: Mapping[str, PastMove], cooldown_s: float, snapshot: Snapshot) -> dict[str, PastMove]:
    """The entries that some limit still counts, at most ``MOST_ENTRIES``, and some that workloads of the snapshot ask for."""
    now_s = snapshot.taken_at_s
    until_s = {uid: _needed_until_s(move, cooldown_s) for uid, move in moves.items()}
    kept = [uid for uid, end_s in until_s.items() if end_s > now_s]
    if len(kept) > MOST_ENTRIES:
        hour_s = now_s - HOUR_S
        kept.sort(key=lambda uid: (moves[uid].begun_s > hour_s, until_s[uid], uid), reverse=True)
        del kept[MOST_ENTRIES:]
    else:
        kept += still_resting(moves, frozenset(kept), snapshot)[: MOST_ENTRIES - len(kept)]
    return {uid: moves[uid] for uid in kept}


def _needed_until_s(move: PastMove, cooldown_s: float) -> float:
    hour_s = move.begun_s + HOUR_S
    rest_s = move.disturbed_s + cooldown_s if move.disturbed_s else 0.0
    return max(hour_s, rest_s, move.failed_s + BACKOFF_MEMORY_S if move.failed else 0.0)
