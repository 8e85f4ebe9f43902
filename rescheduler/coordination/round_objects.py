"""The Reservations and PodMigrations that a round is about: what it visits, and which moves take a step. Pure.

In view are those that hold something, maybe hold something (``unreadable``), or have their turn (``room_turns``, ``move_turns``), and for each of them the other side of its
link, ended or not. All later stages of the round visit these alone, so that no number of other objects makes a
round long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from rescheduler.coordination.index import RoundIndex
from rescheduler.coordination.memory import Memory
from rescheduler.coordination.room_turns import Holding
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import ReservationPhase
from rescheduler.model.room_of_move import key_of_move, took_given_room
from rescheduler.planning.limits import Limits
from rescheduler.reservations.placeholder import placeholder_name


@dataclass(frozen=True, slots=True)
class RoundObjects:
    """What a round is about."""

    index: RoundIndex
    moves: tuple[PodMigration, ...]
    """Those that take a step, oldest first."""
    wake_at_s: tuple[float | None, ...]
    """When others are to be looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooser:
    """Chooses the objects of each round. ``under_way``: machines whose step has not landed; changes from round to round."""

    memory: Memory
    under_way: Collection[ObjectKey]

    def of(
        self,
        index: RoundIndex,
        counts: Callable[[PodMigration], bool],
        *,
        migrations: MigrationSettings,
        limits: Limits,
        now_s: float,
    ) -> RoundObjects:
        """``counts``: whether limits count a move already, although its status does not show that it has begun."""
        self.memory.follow(index.kept.names.made_again, self.under_way)
        snapshot, begun, waits = index.snapshot, self.memory.expectations.begun, index.waiting_room
        rooms = self.memory.rooms.of(
            snapshot.reservations, self._holding(index), migrations.reservations, now_s
        )
        moves = self.memory.moves.of(
            snapshot.migrations,
            lambda key, move: begun(key) or key in self.under_way or counts(move) or waits.over(move),
            migrations,
            limits,
            now_s,
        )
        view = {move.key: move for move in (*moves.moves, *moves.unreadable)}
        for room in rooms.rooms.values():
            key = key_of_move(room)
            if key is not None and (move := snapshot.migrations.get(key)) is not None:
                view[key] = move
        taken = (m for m in snapshot.migrations.values() if took_given_room(m))
        view |= {move.key: move for move in taken}
        wakes_s = (rooms.wake_at_s, moves.wake_at_s)
        return RoundObjects(index.about(rooms.rooms, view), moves.moves, wakes_s)

    def _holding(self, index: RoundIndex) -> Holding:
        """A pod or another object may hold a Reservation, or what is being written for it; or its move still reads what became of it."""
        expectations, snapshot = self.memory.expectations, index.snapshot
        written = (machine for machine, node in expectations.nodes.items() if node)
        names = {machine.name for machine in (*self.under_way, *written) if not machine.namespace}
        for name, room in snapshot.reservations.items():
            # The cache may not show a claim yet; what has ended is claimed no more.
            claimed = room.status.phase is ReservationPhase.PENDING and expectations.claimed(name)
            if claimed or (snapshot.koordinator and placeholder_name(room) in snapshot.koordinator):
                names.add(name)
        moves = {
            f"{key.namespace}/{key.name}"
            for key, move in snapshot.migrations.items()
            if move.status.phase not in FINISHED
        }
        return Holding(names, moves, index.kept.pods.controllers)
