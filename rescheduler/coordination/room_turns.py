"""Which Reservations take part in this round. Pure.

All that hold something, or are about to; of those that hold nothing yet, cannot be read, or have ended and are to be deleted, as many
as a round can bear (``turns``). So a round costs what is held, however many Reservations there are. One that is left out
holds no room, no pod and no node, so nothing depends on it; quotas count it all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rescheduler.calls.call import acts
from rescheduler.coordination.turns import Turns, Waiting
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.room_of_move import made_for
from rescheduler.model.room_pod import namespaces_of
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.machine import ReservationStep
from rescheduler.reservations.settings import ReservationSettings

LONGEST_REST_S: Final = 16.0
"""Of one of many that wait for room: nobody tells it when there is some."""


class RoomsOfRound(NamedTuple):
    """The Reservations of a round."""

    rooms: Mapping[str, Reservation]
    wake_at_s: float | None
    """When the next round has others to look at."""


@dataclass(slots=True)
class RoomTurns:
    """Chooses the Reservations of each round. ``of`` once a round, ``stepped`` or ``crashed`` after each step."""

    turns: Turns = field(default_factory=lambda: Turns(longest_rest_s=LONGEST_REST_S, few_rest=True))
    _known: dict[str, tuple[Reservation, Waiting | None]] = field(default_factory=dict)
    """What was found of each Reservation by itself: its place in the queue, or None if it is in every round."""
    _asked: ReservationSettings | None = None
    """The settings that the last looks depended on."""

    def of(
        self,
        reservations: Mapping[str, Reservation],
        holds: Callable[[Reservation], bool],
        settings: ReservationSettings,
        now_s: float,
    ) -> RoomsOfRound:
        """``holds``: whether something is held for one whose own status does not say so."""
        if self._asked != settings:
            self._asked = settings
            self.turns.restart()
        known: dict[str, tuple[Reservation, Waiting | None]] = {}
        rooms: dict[str, Reservation] = {}
        waiting: list[Waiting] = []
        for name, reservation in reservations.items():
            found = self._known.get(name)
            if found is None or found[0] is not reservation:
                found = (reservation, None if _in_each_round(reservation) else _waiting(reservation))
            known[name] = found
            if found[1] is None or holds(reservation):
                rooms[name] = reservation
            else:
                waiting.append(found[1])
        self._known = known
        turn = self.turns.next(waiting, now_s)
        for key in turn.keys:
            rooms[key.name] = reservations[key.name]
        return RoomsOfRound(rooms, turn.wake_at_s)

    def stepped(self, reservation: Reservation, step: ReservationStep, now_s: float) -> None:
        """What became of a look."""
        key = ObjectKey("", reservation.name)
        if any(map(acts, step.calls)):
            self.turns.again(key)
        else:
            ended = reservation.status.phase in FINISHED
            self.turns.looked(key, now_s, step.wake_at_s, sure=ended)


def _in_each_round(reservation: Reservation) -> bool:
    status = reservation.status
    if status.phase is ReservationPhase.SUCCEEDED and not reservation.deleting:
        return False  # its owners are bound
    if reservation.deleting or status.current_owners:
        return True
    if status.phase in FINISHED or reservation.status_unreadable:
        return False
    return status.phase is not ReservationPhase.PENDING or bool(made_for(reservation))


def _waiting(reservation: Reservation) -> Waiting:
    home = min(namespaces_of(reservation), default="")
    return Waiting(ObjectKey("", reservation.name), home, reservation.created_at_s, reservation.generation)
