"""Status writes that change nothing but words wait for a moment: most of them are out of date before anybody has read them.

A move without trouble passes through half a dozen reasons, each for some milliseconds. Words (reason, message, conditions that
nobody decides by, that room is held for a move, that its pod is evicted, until when its node is avoided) are written together with the next thing that others rely on, or once the stored
ones have been wrong for ``TOLD_AFTER_S``, those of a move for ``MOVE_TOLD_AFTER_S``: longer than a gate settles. Promises: what another machine, another process or a later step relies on is written at once, before
the calls that follow from it, and so is what comes with an Event; nothing stored is out of date for longer than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from rescheduler.calls.call import writes_status
from rescheduler.coordination.memory import Memory
from rescheduler.migrations.migration_lifecycle import (
    CONDITION_ADMITTED,
    CONDITION_PROGRESS,
    CONDITION_READY,
    FINISHED,
    LASTING,
    MigrationReason,
)
from rescheduler.migrations.migration_machine import MigrationStep
from rescheduler.migrations.observed_migration import Calls
from rescheduler.model.event import Event
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode, PodMigration
from rescheduler.model.own_objects import Condition, condition, with_condition
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation, ReservationStatus
from rescheduler.model.times import earliest
from rescheduler.reservations.reservation_machine import ReservationStep
from rescheduler.reservations.waits import TOLD_AFTER_S, wait_is_over

MOVE_TOLD_AFTER_S: Final = 2.0
_WORDS: Final = "words"
_BY_THEMSELVES: Final = frozenset(
    {"try_creation", "rehearse_eviction", "prove_gate", "measure_watch", "adopt_pod"}
)
"""Calls of moves that do not follow from words: they change nothing, or have a precondition. An eviction is none of them: its
words are written right before it, so that a move that somebody has deleted or paused meanwhile evicts nothing."""
_TOLD_AT_ONCE: Final = LASTING | {MigrationReason.MAKING_ROOM}
"""Reasons that stay for long, or that other moves wait for."""
_TELLING: Final = frozenset({CONDITION_PROGRESS, CONDITION_READY, CONDITION_ADMITTED})
"""Conditions of moves by which nobody decides."""


@dataclass(frozen=True, slots=True)
class DeferredStatus:
    """Takes writes of words out of steps until they are due. ``memory``: since when stored words are wrong, and what was answered."""

    memory: Memory

    def reservation(self, reservation: Reservation, step: ReservationStep, now_s: float) -> ReservationStep:
        """The step, without its write of the status if that may wait."""
        may_wait = _words_of_room(reservation.status, step.status)
        due_s = self._due_s(ObjectKey("", reservation.name), now_s, TOLD_AFTER_S, may_wait=may_wait)
        if now_s >= due_s:
            return step
        kept = tuple(call for call in step.calls if not writes_status(call))
        return replace(step, calls=kept, wake_at_s=earliest(step.wake_at_s, due_s))

    def migration(self, migration: PodMigration, step: MigrationStep, now_s: float) -> MigrationStep:
        """The same for a move."""
        told = step.status.phase is MigrationPhase.HANDING_OVER  # its Event goes along with the words
        kept = tuple(
            call for call in step.calls if not (writes_status(call) or (told and isinstance(call, Event)))
        )
        may_wait = (
            _words_of_move(migration, step.status, self.memory.answers.of(migration.key))
            and step.status.reason not in _TOLD_AT_ONCE
            and all(call.does in _BY_THEMSELVES for call in kept)
        )
        due_s = self._due_s(migration.key, now_s, MOVE_TOLD_AFTER_S, may_wait=may_wait)
        if now_s >= due_s:
            return step
        return replace(step, calls=kept, wake_at_s=earliest(step.wake_at_s, due_s))

    def _due_s(self, machine: ObjectKey, now_s: float, after_s: float, *, may_wait: bool) -> float:
        """When the status of this step must be written; now, unless it may wait."""
        since_s = self.memory.sightings.since(_WORDS, machine, now_s, state=may_wait)
        return since_s + after_s if may_wait else now_s


def _words_of_room(stored: ReservationStatus, new: ReservationStatus) -> bool:
    """True if only what is computed from the spec is different, or a wait of the hand-over is over, after which its next step follows.

    What a hand-over waits for is told late by itself (``waits``).
    """
    said, now = condition(stored.conditions, CONDITION_READY), condition(new.conditions, CONDITION_READY)
    same = msgspec.structs.replace(
        new, observed_generation=stored.observed_generation, expires_at_s=stored.expires_at_s
    )
    if said is not None and now is not None and wait_is_over(said.message, now.message):
        same = msgspec.structs.replace(same, conditions=with_condition(new.conditions, said))
    return new != stored and same == stored


def _words_of_move(migration: PodMigration, new: MigrationStatus, calls: Calls) -> bool:
    """True if nobody decides by what is different, and the move has not ended.

    The mode is chosen anew in each step before the move begins. In a hand-over the Reservation says who the replacement is;
    in mode StartFirst nothing else does.
    """
    stored, differs = migration.status, new != migration.status
    phase, mode = stored.phase, stored.mode
    held = phase is MigrationPhase.RESERVING and new.phase is MigrationPhase.EVICTING
    if held and mode is not MoveMode.START_FIRST and not migration.reservation_ref:
        # The Reservation itself says that the room is held.
        uid, at_s = stored.reservation_uid, stored.reserved_at_s
        new = msgspec.structs.replace(new, phase=phase, reservation_uid=uid, reserved_at_s=at_s)
    if (
        new.phase is MigrationPhase.HANDING_OVER
        and mode is not MoveMode.START_FIRST
        and calls.evicted_for(stored)
    ):
        # After a crash the pod that is gone under the stored intent says so.
        new = msgspec.structs.replace(new, phase=phase, evicted_at_s=stored.evicted_at_s)
    same = msgspec.structs.replace(
        new,
        observed_generation=stored.observed_generation,
        reason=stored.reason,
        message=stored.message,
        conditions=stored.conditions,
        source_avoided_until_s=stored.source_avoided_until_s,
        mode=mode if phase is MigrationPhase.PENDING and mode is not MoveMode.START_FIRST else new.mode,
        replacement=new.replacement if new.mode is MoveMode.START_FIRST else stored.replacement,
    )
    others = _others(stored.conditions) == _others(new.conditions)
    return differs and same == stored and others and phase not in FINISHED


def _others(conditions: Iterable[Condition]) -> list[Condition]:
    return [found for found in conditions if found.type not in _TELLING]
