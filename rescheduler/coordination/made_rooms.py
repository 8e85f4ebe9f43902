"""Rooms that others make: what the moves of one room wait for, and when a room is given up. Pure.

The room of a pending pod, or of a Reservation with ``makeRoom``. All or nothing: nobody is evicted before the Reservation keeps its node, all moves that begin at once have their
own room and a dry run that shows that they may evict, and the places of those that begin later are kept. If one of the moves fails before its pod left, or the room is needed no more, the Reservation is given back
(that of a pending pod is deleted, one of people waits again); then the moves that have evicted
nobody end, and those that have end as every move does, in the rooms that they have. Everything is read off the objects, so it is
the same after a crash.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rescheduler.migrations.migration_lifecycle import MigrationReason
from rescheduler.migrations.observed_migration import NO_MADE_ROOM, ObservedMadeRoom
from rescheduler.model.counted import plural
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import Pod
from rescheduler.model.reservation import MakingRoom, Reservation, ReservationPhase
from rescheduler.model.room_pod import (
    decision_of,
    looks_for_others,
    made_for_pod,
    mark_of,
    mark_of_moves,
    waiting_pod,
)
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.observed_reservation import ObservedReservation

MOVES_SHOWN_S: Final = 60.0
"""So long after the Reservation its moves may be created and shown by the watch: longer than a decision may be old."""
ROOM_FREE_S: Final = 120.0
"""So long after the last move the placeholder may wait for the pods that end on the node, and for the scheduler."""
REST_S: Final = 180.0
"""So long a Reservation keeps its node after a move has failed, until others step aside for the rest."""
_KEPT: Final = frozenset({ReservationPhase.WAITING, ReservationPhase.AVAILABLE})
_OVER: Final = frozenset({ReservationPhase.SUCCEEDED, ReservationPhase.FAILED})
_EVICTED: Final = frozenset({MigrationPhase.HANDING_OVER, MigrationPhase.SUCCEEDED})


@dataclass(frozen=True)
class MadeRooms:
    """The moves of each room in one round."""

    snapshot: Snapshot

    @cached_property
    def moves(self) -> Mapping[str, tuple[PodMigration, ...]]:
        """By what they name. Gathered from all moves, and so only where there is such a room."""
        found: defaultdict[str, list[PodMigration]] = defaultdict(list)
        for move in self.snapshot.migrations.values():
            if mark := mark_of(move):
                found[mark].append(move)
        return {name: tuple(moves) for name, moves in found.items()}

    def before(self, migration: PodMigration, rooms: Mapping[str, ObservedReservation]) -> ObservedMadeRoom:
        """What a move that makes room waits for before it evicts, and why it never will."""
        mark = mark_of(migration)
        if not mark:
            return NO_MADE_ROOM
        name = mark.partition("/")[0]
        reservation = self.snapshot.reservations.get(name)
        if reservation is None or reservation.deleting or reservation.status.phase in _OVER:
            # A pod that has its room already, while moves of others for it still run, is no reason to go on.
            return ObservedMadeRoom(given_up=f"Reservation {name}, for which it makes room, is gone")
        if mark != mark_of_moves(reservation):
            return ObservedMadeRoom(given_up=f"Reservation {name} needs no room of it any more")
        moves = self.moves.get(mark, ())
        waits_for = self._missing(migration, reservation, moves, rooms)
        return ObservedMadeRoom(waits_for=waits_for, keeps_place=_keeps_place(migration, moves))

    def _missing(
        self,
        migration: PodMigration,
        reservation: Reservation,
        moves: Sequence[PodMigration],
        rooms: Mapping[str, ObservedReservation],
    ) -> str:
        name = reservation.name
        if reservation.status.phase not in _KEPT or not _keeps(rooms.get(name)):
            return f"Reservation {name} does not keep its node yet"
        others = [move for move in moves if move.key != migration.key and not _ready(move)]
        late = [move for move in others if not move.after or not _place_kept(move, moves, rooms)]
        decision = decision_of(reservation)
        number = len(late) + max((decision.moves if decision is not None else 0) - len(moves), 0)
        return f"{number} other moves for Reservation {name} may not evict yet" if number else ""

    def given_up(self, now_s: float) -> Iterator[tuple[Reservation, str]]:
        """Reservations of pending pods whose room is not made any more, with the reason."""
        for reservation in self.snapshot.reservations.values():
            key = made_for_pod(reservation)
            if key is None or reservation.deleting or reservation.status.phase in _OVER:
                continue
            if reservation.status.current_owners:
                continue  # it is being handed over
            waits = waiting_pod(reservation, self.snapshot.pods) is not None
            why = self._why_not_made(reservation, now_s) if waits else "it does not wait any more"
            if why:
                yield reservation, f"the room for pod {key} is given up: {why}"

    def why_given_up(self, reservation: Reservation, now_s: float) -> str:
        """Why others will not make the room of a Reservation of people; "": they may, or nobody is asked to."""
        return "" if made_for_pod(reservation) is not None else self._why_not_made(reservation, now_s)

    def _why_not_made(self, reservation: Reservation, now_s: float) -> str:
        decision = decision_of(reservation)
        if decision is None:
            return ""
        if decision.node not in self.snapshot.nodes:
            return f"node {decision.node} does not exist any more"
        if looks_for_others(reservation):
            over = now_s >= decision.since_s + REST_S
            return "no other pods could step aside for the rest of the room" if over else ""
        if self.why_others(reservation):
            return ""
        why = self._why_moves_fail(reservation, decision, now_s)
        if why or reservation.status.phase is not ReservationPhase.WAITING:
            return why
        moves = self._moves_of(reservation)
        left_s = [move.status.finished_at_s for move in moves if _has_left(move)]
        if moves and len(left_s) == len(moves) and now_s >= max(left_s) + ROOM_FREE_S:
            return f"{_number(moves)} have left node {decision.node}, but the room did not become free"
        return ""

    def why_others(self, reservation: Reservation) -> str:
        """Why others than were planned must step aside for the rest of its room; "": they need not."""
        moves = self._moves_of(reservation)
        stays = _that_stays(moves)
        return _words(stays, moves) if stays is not None and any(m.status.evicted_at_s for m in moves) else ""

    def step_aside(self, reservation: Reservation) -> tuple[str, ...]:
        """The pods that make its room, each with its new node."""
        moves = self._moves_of(reservation)
        return tuple(sorted(f"{move.namespace}/{move.pod_name} (to {move.target_node})" for move in moves))

    def _moves_of(self, reservation: Reservation) -> tuple[PodMigration, ...]:
        mark = mark_of_moves(reservation)
        return self.moves.get(mark, ()) if mark else ()

    def _why_moves_fail(self, reservation: Reservation, decision: MakingRoom, now_s: float) -> str:
        moves = self._moves_of(reservation)
        stays = _that_stays(moves)
        if stays is not None:
            return _words(stays, moves)
        held = reservation.status.phase is ReservationPhase.AVAILABLE
        if now_s >= decision.since_s + MOVES_SHOWN_S and not held and len(moves) < decision.moves:
            return f"{len(moves)} of {decision.moves} moves were created"
        return ""


def _that_stays(moves: Sequence[PodMigration]) -> PodMigration | None:
    """A move that failed before its pod left. If it failed later, its pod is in nobody's way any more."""
    failed = (move for move in moves if move.status.phase is MigrationPhase.FAILED)
    return next((move for move in failed if not move.status.evicted_at_s), None)


def _has_left(move: PodMigration) -> bool:
    return move.status.phase is MigrationPhase.SUCCEEDED or (
        move.status.phase is MigrationPhase.FAILED and bool(move.status.evicted_at_s)
    )


def _words(failed: PodMigration, moves: Sequence[PodMigration]) -> str:
    evicted = sum(bool(move.status.evicted_at_s) for move in moves)
    done = (
        f"{evicted} of {len(moves)} pods were moved, they stay where they are"
        if evicted
        else "nobody was evicted"
    )
    return f"move {failed.key} failed ({failed.status.reason}); {done}"


def _ready(move: PodMigration) -> bool:
    """True if nothing but others keeps it from evicting, or if it has evicted."""
    status = move.status
    waits = status.phase is MigrationPhase.EVICTING and status.reason == MigrationReason.MAKING_ROOM
    return waits or bool(status.eviction_requested_at_s) or status.phase in _EVICTED


def _keeps_place(move: PodMigration, moves: Sequence[PodMigration]) -> bool:
    """True for a later move of a chain, unless another move goes to the same node before: the place would be in its way."""
    earlier = {other.target_node for other in moves if not other.after}
    return bool(move.after) and move.target_node not in earlier


def _place_kept(
    move: PodMigration, moves: Sequence[PodMigration], rooms: Mapping[str, ObservedReservation]
) -> bool:
    """True if the scheduler keeps the place of a later move, though another pod stands there yet, or nothing can keep it."""
    reserves = move.status.mode is not MoveMode.START_FIRST and _keeps_place(move, moves)
    return not reserves or _keeps(rooms.get(move.status.reservation_name))


def _number(moves: Sequence[PodMigration]) -> str:
    number = plural(len(moves), "pod")
    return number if len(moves) == 1 else f"all {number}"


def _keeps(room: ObservedReservation | None) -> bool:
    """True if kube-scheduler keeps the node for it: its placeholder is nominated there, or stands there."""
    placeholder: Pod | None = room.placeholder if room is not None else None
    return placeholder is not None and bool(placeholder.node or placeholder.nominated_node)
