"""Which Reservations take part in this round, and which of them look for another node. Pure.

All that hold something, or are about to; of those that hold nothing yet, cannot be read, or have ended and are to be deleted, as many
as a round can bear (``turns``). So a round costs what is held, however many Reservations there are. One that is left out
holds no room, no pod and no node, so nothing depends on it; quotas count it all the same.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rescheduler.calls.call import acts
from rescheduler.coordination.turns import Turns, Waiting
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.room_of_move import made_for
from rescheduler.model.room_pod import namespaces_of
from rescheduler.reservations.preallocation import LOOK_EVERY_S, is_preallocated
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.reservations.reservation_machine import ReservationStep
from rescheduler.reservations.settings import ReservationSettings

LONGEST_REST_S: Final = 16.0
"""Of one of many that wait for room: nobody tells it when there is some."""
STANDS_FOR_S: Final = 2.0 * LOOK_EVERY_S
"""A node that a pod has just left is often filled again at once, and what it keeps on its own node is lost when it goes."""
AT_ONCE: Final = 4


class Holding(NamedTuple):
    """What holds a Reservation in a round although its own status does not say that it holds anything."""

    rooms: Container[str]
    """Names of Reservations for which something is being written."""
    moves: Container[str]
    """NAMESPACE/NAME of PodMigrations that have not ended."""
    owners: Container[str]
    """Uids of what controls pods."""


class _Known(NamedTuple):
    """What was found of a Reservation by itself."""

    reservation: Reservation
    waiting: Waiting | None
    """Its place in the queue; None: it is in every round."""
    move: str


class RoomsOfRound(NamedTuple):
    """The Reservations of a round."""

    rooms: Mapping[str, Reservation]
    wake_at_s: float | None
    """When the next round has others to look at."""


@dataclass(slots=True)
class RoomTurns:
    """Chooses the Reservations of each round. ``of`` once a round, ``stepped`` or ``crashed`` after each step."""

    turns: Turns = field(default_factory=lambda: Turns(longest_rest_s=LONGEST_REST_S, few_rest=True))
    _known: dict[str, _Known] = field(default_factory=dict)
    _asked: ReservationSettings | None = None
    """The settings that the last looks depended on."""

    def of(
        self,
        reservations: Mapping[str, Reservation],
        holding: Holding,
        settings: ReservationSettings,
        now_s: float,
    ) -> RoomsOfRound:
        """The Reservations of this round."""
        if self._asked != settings:
            self._asked = settings
            self.turns.restart()
        before = self._known
        self._known = {
            name: found
            if (found := before.get(name)) is not None and found.reservation is reservation
            else _found(reservation)
            for name, reservation in reservations.items()
        }
        rooms: dict[str, Reservation] = {}
        waiting: list[Waiting] = []
        for name, (reservation, place, move) in self._known.items():
            held = name in holding.rooms or move in holding.moves or reservation.uid in holding.owners
            if place is None or held:
                rooms[name] = reservation
            else:
                waiting.append(place)
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


def _found(reservation: Reservation) -> _Known:
    place = None if _in_each_round(reservation) else _waiting(reservation)
    return _Known(reservation, place, made_for(reservation))


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


@dataclass(slots=True)
class LooksElsewhere:
    """When a Reservation that waits for room on one node goes to another node that has room now.

    A preallocation chooses its node once, by what runs there at that moment, and keeps what becomes free on it from all others.
    If another node has all of its room meanwhile, it waits in vain and shuts what it keeps.
    Promises: it goes only where all of its room was free at every look for ``STANDS_FOR_S``; a round asks the scheduling rules
    for ``AT_ONCE`` of them, however many wait, and for each no more often than every ``LOOK_EVERY_S``. Which node it waits on is
    in its status; what is remembered here may be lost, and is then observed again.

    ``begin`` once a round, then ``seen`` for those that were looked at.
    """

    turns: Turns = field(
        default_factory=lambda: Turns(at_once=AT_ONCE, longest_rest_s=LOOK_EVERY_S, few_rest=True)
    )
    _due: frozenset[ObjectKey] = frozenset()
    _seen: dict[ObjectKey, tuple[str, float]] = field(default_factory=dict)
    """The other node that had room at the last look, and since which look it has."""

    def begin(self, reservations: Iterable[Reservation], now_s: float) -> None:
        """Choose those that are looked at in this round."""
        waiting = [_waiting(reservation) for reservation in reservations if may_go(reservation)]
        self._due = self.turns.next(waiting, now_s).keys

    def due(self, machine: ObjectKey) -> bool:
        """True if this Reservation is looked at in this round."""
        return machine in self._due

    def seen(self, machine: ObjectKey, node: str, now_s: float) -> str:
        """The node to go to now; "": none. ``node``: another one that has room at this look; "": there is none."""
        self.turns.looked(machine, now_s, now_s + LOOK_EVERY_S, sure=True)
        if not node:
            self._seen.pop(machine, None)
            return ""
        known = self._seen.get(machine)
        if known is None or known[0] != node:
            known = self._seen[machine] = (node, now_s)
        return node if now_s >= known[1] + STANDS_FOR_S else ""

    def forget(self, live: Container[ObjectKey]) -> None:
        """Drop what belongs to Reservations that are not there any more."""
        self.turns.forget(live)
        for machine in [machine for machine in self._seen if machine not in live]:
            del self._seen[machine]


def may_go(reservation: Reservation) -> bool:
    """True for one that waits for room on a node that nobody named, and on which nothing else counts."""
    status = reservation.status
    return (
        is_preallocated(status)
        and not reservation.deleting
        and not reservation.unreadable
        and not reservation.template_node
        and reservation.template is not None
        and not status.current_owners
        and status.making_room is None
        and not made_for(reservation)
    )
