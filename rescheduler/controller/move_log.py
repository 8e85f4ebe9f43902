"""The log of what was done: one line each for reserved, evicted, landed, failed and given back.

A listener of the reconciler: a line is written once what it says is on the API server, by the process that wrote it.
Every line has ``pod`` or ``room``, ``from``, ``to``, ``why`` and ``by``; ``message`` has the words of the status. It
must decide nothing and keep nothing: what is new is the difference between what was seen and what was written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from rescheduler.calls.call import AnyCall, Call
from rescheduler.controller.effects import Effect
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode, PodMigration
from rescheduler.model.names import ANNOTATION_MIGRATION
from rescheduler.model.own_objects import asked_by, condition
from rescheduler.model.reservation import Reservation, ReservationPhase, ReservationStatus

_HELD: Final = (ReservationPhase.WAITING, ReservationPhase.AVAILABLE)


@dataclass(frozen=True, slots=True)
class MoveLog:
    """Logs the steps of moves, and of rooms that people reserve."""

    log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.moves"))

    def __call__(self, call: AnyCall, effect: Effect) -> None:
        """Log what this call, which was answered, has changed."""
        del effect
        match call:
            case Call(seen=PodMigration() as move, status=MigrationStatus() as status):
                self._move(move, status)
            case Call(seen=Reservation() as room, status=ReservationStatus() as status):
                self._room(room, status)
            case Call(does="delete_reservation", seen=Reservation() as room) if room.status.phase in _HELD:
                self.log.info("The room is given back", **_room_facts(room, room.status), why=call.why)
            case Call(does="release"):
                self.log.info("The pod is released without a room", pod=str(call.key), why=call.why)
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
