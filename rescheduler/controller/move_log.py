"""The log of what was done: one line each for reserved, evicted, landed, failed and given back.

A listener of the reconciler: a line is written once what it says is on the API server, by the process that wrote it.
Every line has ``pod`` or ``room``, ``from``, ``to``, ``why`` and ``by``; ``message`` has the words of the status. It
must decide nothing and keep nothing: what is new is the difference between what was seen and what was written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from rescheduler.controller.effects import Action, Effect
from rescheduler.migrations.actions import WriteMigrationStatus
from rescheduler.model.conditions import condition
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode, PodMigration
from rescheduler.model.names import ANNOTATION_MIGRATION
from rescheduler.model.requester import asked_by
from rescheduler.model.reservation import Reservation, ReservationPhase, ReservationStatus
from rescheduler.reservations.actions import DeleteReservation, ReleasePod, WriteReservationStatus

_HELD: Final = (ReservationPhase.WAITING, ReservationPhase.AVAILABLE)


@dataclass(frozen=True, slots=True)
class MoveLog:
    """Logs the steps of moves, and of rooms that people reserve."""

    log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.moves"))

    def __call__(self, action: Action, effect: Effect) -> None:
        """Log what this action, which was carried out, has changed."""
        del effect
        match action:
            case WriteMigrationStatus():
                self._move(action.seen, action.status)
            case WriteReservationStatus():
                self._room(action.seen, action.status)
            case DeleteReservation() if action.seen.status.phase in _HELD:
                facts = _room_facts(action.seen, action.seen.status)
                self.log.info("The room is given back", **facts, why=action.why)
            case ReleasePod():
                self.log.info("The pod is released without a room", pod=str(action.pod), why=action.why)
            case _:
                pass

    def _move(self, seen: PodMigration, status: MigrationStatus) -> None:
        before = seen.status
        facts = _move_facts(seen, status)
        if status.evicted_at_s and not before.evicted_at_s:
            self.log.info("The pod is evicted", **facts)
        if status.phase is before.phase:
            return
        if status.phase is MigrationPhase.EVICTING and status.mode is MoveMode.START_FIRST:
            self.log.info("The replacement is Ready", **facts)
        elif status.phase is MigrationPhase.EVICTING:
            self.log.info("The room is reserved", **facts)
        elif status.phase is MigrationPhase.SUCCEEDED:
            self.log.info("The replacement has landed", **facts)
        elif status.phase is MigrationPhase.FAILED:
            say = self.log.warning if status.evicted_at_s else self.log.info
            say("The move has failed", **facts, reason=status.reason)

    def _room(self, seen: Reservation, status: ReservationStatus) -> None:
        before = seen.status
        if status.phase is before.phase and status.current_owners == before.current_owners:
            return
        facts = _room_facts(seen, status)
        # The lines of a move's own room are those of the move, but for the end that the move did not want.
        if not _made_for_move(seen):
            if status.phase is ReservationPhase.AVAILABLE and before.phase is ReservationPhase.PENDING:
                self.log.info("The room is reserved", **facts)
            elif status.phase is ReservationPhase.SUCCEEDED:
                self.log.info("The room is used", **facts)
            elif set(status.current_owners) - set(before.current_owners):
                self.log.info("The room is claimed", **facts)
            elif status.phase is ReservationPhase.PENDING and before.phase in _HELD:
                self.log.info("The room goes to another node", **facts | {"from": before.node_name})
        if status.phase is ReservationPhase.FAILED:
            ended = "The room is given back" if before.phase in _HELD else "The room was not reserved"
            self.log.info(ended, **facts, why=_reason(status))


def _move_facts(seen: PodMigration, status: MigrationStatus) -> dict[str, str]:
    facts = {
        "pod": f"{seen.namespace}/{seen.pod_name}",
        "from": status.source_node,
        "to": status.node_name or seen.target_node,
        "why": seen.reason,
        "by": seen.by,
        "migration": str(seen.key),
        "room": status.reservation_name,
        "replacement": status.replacement.name if status.replacement is not None else "",
        "message": status.message,
    }
    return {key: text for key, text in facts.items() if text}


def _room_facts(seen: Reservation, status: ReservationStatus) -> dict[str, str]:
    ready = condition(status.conditions, "Ready")
    move = seen.annotations.get(ANNOTATION_MIGRATION)
    facts = {
        "room": seen.name,
        "to": status.node_name,
        "pod": ", ".join(f"{owner.namespace}/{owner.name}" for owner in status.current_owners),
        "by": f"PodMigration {move}" if move else asked_by(seen.annotations),
        "message": ready.message if ready is not None else "",
    }
    return {key: text for key, text in facts.items() if text}


def _reason(status: ReservationStatus) -> str:
    ready = condition(status.conditions, "Ready")
    return ready.reason if ready is not None else ""


def _made_for_move(seen: Reservation) -> bool:
    return bool(seen.annotations.get(ANNOTATION_MIGRATION))
