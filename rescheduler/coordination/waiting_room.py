"""The waiting room: who waits for moves, and what ends the wait. Pure.

| who waits | for what | ends well when | ends in vain when |
|---|---|---|---|
| a move with ``spec.after``, before it begins | the moves that it names | all have succeeded | one has failed or was deleted; its ttl |
| a move that makes room, before it evicts | the other moves of the room | all that begin at once may evict, the places of later ones and the Reservation's node are kept | the Reservation is gone, or needs no room of it any more; its ttl |
| a Reservation that others make room for | its moves | its placeholder is bound | one fails before its pod has left, and nobody was evicted; some are not created within ``MOVES_SHOWN_S``; all have left and it is not free ``ROOM_FREE_S`` later; its node is gone |
| the same, one pod stayed after others had left | others to step aside | a new decision | ``REST_S`` are over |

A Reservation with ``preAllocation`` waits in the same way for pods that leave by themselves; it ends with its own ttl, so nothing is to
be asked here (``reservations.preallocation``). The room of a pending pod, and that of a Reservation with ``makeRoom``, is made all or
nothing. Given up, that of a pending pod is deleted and that of people waits again; then the moves that have evicted nobody end, and
those that have end as every move does, in the rooms that they have. A plan that uses the room that a pod of the same plan leaves
creates all its moves at once, so that the intent survives a restart. Everything is read off the objects, so it is the same after a crash.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from rescheduler.migrations.migration_lifecycle import FINISHED, MigrationReason
from rescheduler.migrations.observed_migration import ObservedWait
from rescheduler.model.counted import plural
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import ObjectKey, Pod
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
from rescheduler.reservations.observed_reservation import (
    NOBODY_MAKES_ROOM,
    ObservedMaking,
    ObservedReservation,
)

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
class WaitingRoom:
    """Who waits in one round."""

    snapshot: Snapshot

    @cached_property
    def moves(self) -> Mapping[str, tuple[PodMigration, ...]]:
        """By what they make room for. Gathered from all moves, and so only where there is such a room."""
        found: defaultdict[str, list[PodMigration]] = defaultdict(list)
        for move in self.snapshot.migrations.values():
            if mark := mark_of(move):
                found[mark].append(move)
        return {name: tuple(moves) for name, moves in found.items()}

    @cached_property
    def awaited(self) -> frozenset[ObjectKey]:
        """Moves that a planned one begins after which has not finished: they are kept until it has."""
        waiting = (move for move in self.snapshot.migrations.values() if move.after and not move.requested)
        return frozenset(key for move in waiting if move.status.phase not in FINISHED for key in move.after)

    # Moves

    def of_move(self, migration: PodMigration, rooms: Mapping[str, ObservedReservation]) -> ObservedWait:
        """What a move waits for before it begins or evicts, and why it waits in vain."""
        begins_after, failed = self._earlier(migration)
        in_vain = (MigrationReason.EARLIER_MOVE_FAILED, failed) if failed else None
        evicts_after, keeps_place, unseen = "", False, False
        if mark := mark_of(migration):
            unseen = mark.partition("/")[0] not in self.snapshot.reservations
            if needless := self._needless(mark):
                in_vain = (MigrationReason.ROOM_GIVEN_UP, needless)
            else:
                moves = self.moves.get(mark, ())
                evicts_after, keeps_place = (
                    self._missing(migration, moves, rooms),
                    _keeps_place(migration, moves),
                )
        return ObservedWait(
            begins_after=begins_after,
            evicts_after=evicts_after,
            in_vain=in_vain,
            unseen=unseen,
            keeps_place=keeps_place,
            awaited=migration.key in self.awaited,
        )

    def over(self, migration: PodMigration) -> bool:
        """True if the move has waited for earlier ones and its wait is over, one way or the other."""
        said = migration.status.reason == MigrationReason.EARLIER_MOVES
        return said and not self._earlier(migration)[0]

    def _earlier(self, migration: PodMigration) -> tuple[tuple[ObjectKey, ...], str]:
        """The moves before it that have not ended, and why they will never all have succeeded."""
        if not migration.after or migration.status.phase is not MigrationPhase.PENDING:
            return (), ""
        if migration.requested:
            words = (
                "spec.after is for the moves that the controller plans; create the PodMigration without it"
            )
            return (), words
        waits_for: list[ObjectKey] = []
        for key in migration.after:
            earlier = self.snapshot.migrations.get(key)
            phase = earlier.status.phase if earlier is not None else None
            if phase is MigrationPhase.SUCCEEDED:
                continue
            if earlier is None or earlier.deleting:
                return (), f"move {key}, which this one begins after, was deleted"
            if phase is MigrationPhase.FAILED:
                # Without its message: it may be a move in somebody else's namespace.
                return (), f"move {key}, which this one begins after, failed ({earlier.status.reason})"
            waits_for.append(key)
        return tuple(waits_for), ""

    def _needless(self, mark: str) -> str:
        """Why nobody is evicted any more for what is named so; "": its room is made."""
        name = mark.partition("/")[0]
        reservation = self.snapshot.reservations.get(name)
        if reservation is None or reservation.deleting or reservation.status.phase in _OVER:
            # A pod that has its room already, while moves of others for it still run, is no reason to go on.
            return f"Reservation {name}, for which it makes room, is gone"
        if mark != mark_of_moves(reservation):
            return f"Reservation {name} needs no room of it any more"
        return ""

    def _missing(
        self,
        migration: PodMigration,
        moves: Sequence[PodMigration],
        rooms: Mapping[str, ObservedReservation],
    ) -> str:
        """What is missing before anybody is evicted for the room that it makes."""
        name = mark_of(migration).partition("/")[0]
        reservation = self.snapshot.reservations[name]
        if reservation.status.phase not in _KEPT or not _keeps(rooms.get(name)):
            return f"Reservation {name} does not keep its node yet"
        others = [move for move in moves if move.key != migration.key and not _ready(move)]
        late = [move for move in others if not move.after or not _place_kept(move, moves, rooms)]
        decision = decision_of(reservation)
        number = len(late) + max((decision.moves if decision is not None else 0) - len(moves), 0)
        return f"{number} other moves for Reservation {name} may not evict yet" if number else ""

    # Reservations

    def given_up(self, now_s: float) -> Iterator[tuple[Reservation, str]]:
        """Reservations of pending pods whose room is not made any more, with the reason."""
        for reservation in self.snapshot.reservations.values():
            if reservation.status.phase in _OVER or reservation.deleting:
                continue
            key = made_for_pod(reservation)
            if key is None:
                continue
            if reservation.status.current_owners:
                continue  # it is being handed over
            waits = waiting_pod(reservation, self.snapshot.pods) is not None
            why = self._why_not_made(reservation, now_s) if waits else "it does not wait any more"
            if why:
                yield reservation, f"the room for pod {key} is given up: {why}"

    def of_reservation(self, reservation: Reservation, now_s: float) -> ObservedMaking:
        """How the room that others make goes on. That of a pending pod is given up as a whole (``given_up``)."""
        if decision_of(reservation) is None:
            return NOBODY_MAKES_ROOM
        moves = self._moves_of(reservation)
        of_people = made_for_pod(reservation) is None
        return ObservedMaking(
            given_up=self._why_not_made(reservation, now_s) if of_people else "",
            others_wanted=_others_wanted(moves),
            step_aside=tuple(sorted(f"{m.namespace}/{m.pod_name} (to {m.target_node})" for m in moves)),
        )

    def _why_not_made(self, reservation: Reservation, now_s: float) -> str:
        decision = decision_of(reservation)
        if decision is None:
            return ""
        if decision.node not in self.snapshot.nodes:
            return f"node/{decision.node} does not exist any more"
        if looks_for_others(reservation):
            over = now_s >= decision.since_s + REST_S
            return "no other pods could step aside for the rest of the room" if over else ""
        moves = self._moves_of(reservation)
        if _others_wanted(moves):
            return ""
        why = _why_moves_fail(reservation, moves, decision, now_s)
        if why or reservation.status.phase is not ReservationPhase.WAITING:
            return why
        left_s = [move.status.finished_at_s for move in moves if _has_left(move)]
        if moves and len(left_s) == len(moves) and now_s >= max(left_s) + ROOM_FREE_S:
            return f"{_number(moves)} have left node/{decision.node}, but the room did not become free"
        return ""

    def _moves_of(self, reservation: Reservation) -> tuple[PodMigration, ...]:
        mark = mark_of_moves(reservation)
        return self.moves.get(mark, ()) if mark else ()


def _why_moves_fail(
    reservation: Reservation, moves: Sequence[PodMigration], decision: MakingRoom, now_s: float
) -> str:
    stays = _that_stays(moves)
    if stays is not None:
        return _words(stays, moves)
    held = reservation.status.phase is ReservationPhase.AVAILABLE
    if now_s >= decision.since_s + MOVES_SHOWN_S and not held and len(moves) < decision.moves:
        return f"{len(moves)} of {decision.moves} moves were created"
    return ""


def _others_wanted(moves: Sequence[PodMigration]) -> str:
    """Why others than were planned must step aside for the rest of the room; "": they need not."""
    stays = _that_stays(moves)
    return _words(stays, moves) if stays is not None and any(m.status.evicted_at_s for m in moves) else ""


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
