"""How much room may be reserved for the pods of one namespace: which Reservations are admitted, and why the others wait (pure).

Admission sees one object only, so the sum is kept here. Reservations that hold something already stay as they are;
the others are admitted by age, as far as the quota goes. Rooms of moves are not counted: a move takes no more
room than it gives back. A Reservation whose owners are confined to no namespace can only be made by a user
who may change pods everywhere, and is not counted either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.resources import NO_RESOURCES, Resources, format_amount
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.owners import home_of

ANY_NAMESPACE: Final = "*"


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """The most for one namespace. ``reservations`` None, and resources that are not named: no limit.

    ``amounts``: by name of the resource, CPU in milli.
    """

    reservations: int | None = None
    amounts: tuple[tuple[str, int], ...] = ()


def beyond_quota(
    reservations: Iterable[Reservation], quotas: Mapping[str, Quota], exempt: Collection[str]
) -> dict[str, str]:
    """Pending Reservations that must wait until others have ended, by name, with the words. ``exempt``: rooms of moves."""
    if not quotas:
        return {}
    found: dict[str, list[Reservation]] = {}
    for reservation in reservations:
        home = home_of(reservation)
        counts = reservation.status.phase not in FINISHED and not reservation.deleting
        if home and counts and reservation.name not in exempt:
            found.setdefault(home, []).append(reservation)
    waiting: dict[str, str] = {}
    for home, rooms in found.items():
        waiting.update(_beyond(home, quota_of(home, quotas), sorted(rooms, key=_turn)))
    return waiting


def quota_of(namespace: str, quotas: Mapping[str, Quota]) -> Quota:
    """What holds for a namespace: its own limits, and those of ``*`` for what it does not name."""
    own, general = quotas.get(namespace, Quota()), quotas.get(ANY_NAMESPACE, Quota())
    amounts = {**dict(general.amounts), **dict(own.amounts)}
    count = general.reservations if own.reservations is None else own.reservations
    return Quota(reservations=count, amounts=tuple(sorted(amounts.items())))


def _turn(reservation: Reservation) -> tuple[bool, float, str]:
    return reservation.status.phase is ReservationPhase.PENDING, reservation.created_at_s, reservation.name


def _beyond(home: str, quota: Quota, rooms: list[Reservation]) -> Iterable[tuple[str, str]]:
    count, used = 0, NO_RESOURCES
    for room in rooms:
        asked = _asked(room)
        if room.status.phase is ReservationPhase.PENDING:
            words = _words(home, quota, count, used, asked)
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


def _words(home: str, quota: Quota, count: int, used: Resources, asked: Resources) -> str:
    if quota.reservations is not None and count >= quota.reservations:
        return f"namespace {home} may have {quota.reservations} Reservations, and has {count}"
    has, wants = dict(used.items()), dict(asked.items())
    for name, most in quota.amounts:
        if wants.get(name, 0) and has.get(name, 0) + wants[name] > most:
            limit, now, more = (format_amount(name, n) for n in (most, has.get(name, 0), wants[name]))
            return (
                f"namespace {home} may have {name} {limit} reserved and has {now}; this asks for {more} more"
            )
    return ""
