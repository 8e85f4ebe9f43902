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
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation
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
            snapshot.reservations, lambda room: self._holds(index, room), migrations.reservations, now_s
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

    def _holds(self, index: RoundIndex, room: Reservation) -> bool:
        """A pod or another object may hold it, or what is being written for it; or its move still reads what became of it."""
        expectations, key = self.memory.expectations, ObjectKey("", room.name)
        if key in self.under_way or expectations.nodes.get(key):
            return True
        if expectations.claimed(room.name) - {owner.uid for owner in room.status.current_owners}:
            return True  # the cache does not show this claim yet
        move = key_of_move(room)
        served = index.snapshot.migrations.get(move) if move is not None else None
        if served is not None and served.status.phase not in FINISHED:
            return True
        koordinator = index.snapshot.koordinator
        return index.kept.pods.has_any(room.uid) or (
            bool(koordinator) and placeholder_name(room) in koordinator
        )
