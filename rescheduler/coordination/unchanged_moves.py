"""Which moves under way rest in a round: nothing has changed that their last step, which led to nothing, was made of. Pure.

A round follows each event, and most of them are about other moves. What a step reads of its own move is collected in a mark; while
the mark stays the same and the step is not due, no other one is taken. Promises: it only decides when a step is taken, never what it
does, because each step looks at the whole cluster as it is; no move rests for longer than ``LONGEST_REST_S``, so what marks
leave out (other moves of the pod, rules between pods, a budget's selector) delays it by no more than that. What is remembered may be lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.memory import Memory
from rescheduler.migrations.migration_machine import MigrationStep
from rescheduler.migrations.observed_migration import MigrationSettings, Recorded
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.model.room_of_move import controller_of_move
from rescheduler.reservations.template import name_of_reservation

LONGEST_REST_S: Final = 1.0
_RESTING: Final = (
    MigrationPhase.RESERVING,
    MigrationPhase.EVICTING,
    MigrationPhase.HANDING_OVER,
    MigrationPhase.SUCCEEDED,
)


class MoveMark(NamedTuple):
    """What a step reads."""

    records: tuple[object, ...]
    """Of the cache: each is the same object until it changes."""
    values: tuple[object, ...]


class _Rest(NamedTuple):
    mark: MoveMark
    until_s: float


@dataclass(slots=True)
class UnchangedMoves:
    """What the last steps that led to nothing were made of."""

    _rests: dict[ObjectKey, _Rest] = field(default_factory=dict)
    _settings: MigrationSettings | None = None

    def begin_round(
        self, index: RoundIndex, memory: Memory, settings: MigrationSettings, now_s: float
    ) -> MoveMarks:
        """How marks of this round are made. With other settings each step may lead to something else."""
        if settings != self._settings:
            self._settings = settings
            self._rests.clear()
        for key in [key for key in self._rests if key not in index.view.migrations]:
            del self._rests[key]
        return MoveMarks(index=index, memory=memory, now_s=now_s)

    def until_s(self, move: ObjectKey, mark: MoveMark | None, now_s: float) -> float | None:
        """Until when it rests; None: it takes a step now."""
        rest = self._rests.get(move)
        if rest is None or mark is None or now_s >= rest.until_s or not _same(rest.mark, mark):
            return None
        return rest.until_s

    def stepped(self, move: ObjectKey, mark: MoveMark | None, step: MigrationStep, now_s: float) -> None:
        """``step``: what was left of it after words that may wait were taken out."""
        if mark is None or step.calls or step.begins:
            self._rests.pop(move, None)
            return
        until_s = now_s + LONGEST_REST_S
        if step.wake_at_s is not None:
            until_s = min(until_s, step.wake_at_s)
        self._rests[move] = _Rest(mark, until_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveMarks:
    """Makes the marks of one round."""

    index: RoundIndex
    memory: Memory
    now_s: float

    def of(self, migration: PodMigration, recorded: Recorded) -> MoveMark | None:
        """What a step of the move reads; None: it takes one in each round."""
        status, snapshot = migration.status, self.index.snapshot
        if status.phase not in _RESTING or status.mode is MoveMode.START_FIRST or migration.deleting:
            return None
        name = name_of_reservation(migration)
        room = snapshot.reservations.get(name)
        replacement = self.index.pod(status.replacement) if status.replacement is not None else None
        claimant = self.index.claimant(room) if room is not None else None
        answers, source = self.memory.answers.of(migration.key), snapshot.nodes.get(status.source_node)
        own = migration, room, replacement, claimant, source, answers
        if claimant is not None and answers.evicted(status):
            return MoveMark(own, (recorded,))  # it waits for its replacement alone, not for its workload
        pod = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
        owner = pod.controller if pod is not None else controller_of_move(migration, snapshot)
        top = snapshot.top_of(owner)  # pods of all its controllers count for its availability
        known = tuple(self.index.kept.workloads.under(top.uid)) if top is not None else ()
        uids = [workload.uid for workload in known] or ([owner.uid] if owner is not None else [])
        if room is not None:
            uids.append(room.uid)  # its placeholders
        return MoveMark(
            records=(
                *own,
                pod,
                snapshot.koordinator,
                snapshot.nodes.get(status.node_name),
                snapshot.budgets,
                *known,
            ),
            values=(
                recorded,
                self.memory.expectations.claimed(name),
                tuple(map(self.index.kept.pods.last_change_of, uids)),
                self.memory.creations.observed(snapshot, pod) if pod is not None else None,
                self.memory.proofs.of(owner, migration.namespace, self.now_s) if owner is not None else None,
            ),
        )


def _same(before: MoveMark, now: MoveMark) -> bool:
    pairs = zip(before.records, now.records, strict=False)
    equal = len(before.records) == len(now.records) and all(a is b for a, b in pairs)
    return equal and before.values == now.values
