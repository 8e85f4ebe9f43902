"""How much room may be reserved for the pods of one namespace: who is let in, and the words for who must wait (pure).

Admission sees one object only, so the sum is kept here. Reservations that hold something already stay as they are;
the others are let in by age, as far as the share goes. Rooms of moves are not counted: a move takes no more
room than it gives back. A Reservation whose owners are confined to no namespace can only be made by somebody
who may change pods everywhere, and is not counted either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.resource_lists import format_amount
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.owners import home_of

ANY_NAMESPACE: Final = "*"


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The most for one namespace. ``reservations`` None, and resources that are not named: no limit.

    ``amounts``: by name of the resource, CPU in milli.
    """

    reservations: int | None = None
    amounts: tuple[tuple[str, int], ...] = ()


def beyond_share(
    reservations: Iterable[Reservation], shares: Mapping[str, Share], exempt: Collection[str]
) -> dict[str, str]:
    """Pending Reservations that must wait until others have ended, by name, with the words. ``exempt``: rooms of moves."""
    if not shares:
        return {}
    found: dict[str, list[Reservation]] = {}
    for reservation in reservations:
        home = home_of(reservation)
        counts = reservation.status.phase not in FINISHED and not reservation.deleting
        if home and counts and reservation.name not in exempt:
            found.setdefault(home, []).append(reservation)
    waiting: dict[str, str] = {}
    for home, rooms in found.items():
        waiting.update(_beyond(home, share_of(home, shares), sorted(rooms, key=_turn)))
    return waiting


def share_of(namespace: str, shares: Mapping[str, Share]) -> Share:
    """What holds for a namespace: its own limits, and those of ``*`` for what it does not name."""
    own, general = shares.get(namespace, Share()), shares.get(ANY_NAMESPACE, Share())
    amounts = {**dict(general.amounts), **dict(own.amounts)}
    count = general.reservations if own.reservations is None else own.reservations
    return Share(reservations=count, amounts=tuple(sorted(amounts.items())))


def _turn(reservation: Reservation) -> tuple[bool, float, str]:
    return reservation.status.phase is ReservationPhase.PENDING, reservation.created_at_s, reservation.name


def _beyond(home: str, share: Share, rooms: list[Reservation]) -> Iterable[tuple[str, str]]:
    count, used = 0, NO_RESOURCES
    for room in rooms:
        asked = _asked(room)
        if room.status.phase is ReservationPhase.PENDING:
            words = _words(home, share, count, used, asked)
            if words:
                yield room.name, words
                continue
        count, used = count + 1, used + asked


def _asked(reservation: Reservation) -> Resources:
    """What it takes of the cluster for pods that have not come: parts that were handed out are ordinary pods."""
    status = reservation.status
    if not reservation.allocate_once and status.phase is not ReservationPhase.PENDING:
        return status.allocatable - status.allocated
    return reservation.template.requests if reservation.template is not None else NO_RESOURCES


def _words(home: str, share: Share, count: int, used: Resources, asked: Resources) -> str:
    if share.reservations is not None and count >= share.reservations:
        return f"namespace {home} may have {share.reservations} Reservations, and has {count}"
    has, wants = dict(used.items()), dict(asked.items())
    for name, most in share.amounts:
        if wants.get(name, 0) and has.get(name, 0) + wants[name] > most:
            limit, now, more = (format_amount(name, n) for n in (most, has.get(name, 0), wants[name]))
            return (
                f"namespace {home} may have {name} {limit} reserved and has {now}; this asks for {more} more"
            )
    return ""
