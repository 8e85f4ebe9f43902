"""How much room may be reserved for the pods of one namespace: which Reservations are admitted, and why the others wait (pure).

Admission sees one object only, so the sums are kept here. Two limits hold for each namespace: its share, which the
configuration sets, and its own ResourceQuotas, because room is held for pods that it may create only within them.
Reservations that hold something already stay as they are; the others are admitted by age, as far as both limits go.

A Reservation counts in every namespace that one of its owners names. What names none can only be made by a user who may
change pods everywhere, and is counted nowhere. Of the room of a move counts what exceeds the pod that gives its own room
back; in shares the whole room, if people asked for the move.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from rescheduler.model.records import Pod, PodSpec
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.resource_quota import ResourceQuota
from rescheduler.model.resources import NO_RESOURCES, Resources, format_amount
from rescheduler.model.room_pod import namespaces_of
from rescheduler.reservations.reservation_lifecycle import FINISHED

ANY_NAMESPACE: Final = "*"
MOST_RESERVATIONS: Final = 500
"""Of one namespace, where the configuration sets no other number: each may have gate keys, a placeholder and a status."""


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """The share of one namespace. ``reservations`` None, and resources that are not named: no limit.

    ``amounts``: by name of the resource, CPU in milli.
    """

    reservations: int | None = None
    amounts: tuple[tuple[str, int], ...] = ()


class RoomOfMove(NamedTuple):
    """What is counted otherwise of a room that was made for a move."""

    requested: bool
    """True if people asked for it."""
    pod: Resources | None
    """Requests of the pod that is moved; None: it is gone."""
    spec: PodSpec | None = None
    """Its spec: its scopes are those of its replacement, which the template of the room does not show in full."""


NO_MOVES: Final[Mapping[str, RoomOfMove]] = MappingProxyType({})


def beyond_quota(
    reservations: Iterable[Reservation],
    quotas: Mapping[str, Quota],
    resource_quotas: Collection[ResourceQuota] = (),
    moves: Mapping[str, RoomOfMove] = NO_MOVES,
    default_class: str = "",
) -> dict[str, str]:
    """Pending Reservations that must wait until others have ended, by name, with the words.

    ``moves``: rooms that were made for moves, by name of the Reservation. ``default_class``: the PriorityClass that pods
    without any get; "": none.
    """
    accounts: dict[str, _Account] = {}
    waiting: dict[str, str] = {}
    rooms = (r for r in reservations if r.status.phase not in FINISHED and not r.deleting)
    for room in sorted(rooms, key=_turn):
        homes = [
            accounts.get(home)
            or accounts.setdefault(home, _account(home, quotas, resource_quotas, default_class))
            for home in sorted(namespaces_of(room))
            if home
        ]
        move, pending = moves.get(room.name), room.status.phase is ReservationPhase.PENDING
        # Most of a crowd ends here, before its amounts are computed.
        full = next((home for home in homes if home.full), None) if move is None and pending else None
        if full is not None:
            waiting[room.name] = full.too_many
            continue
        demand = _demand(room, move)
        words = next(filter(None, (home.refusal(demand) for home in homes)), "")
        if words and pending:
            waiting[room.name] = words
            continue
        for home in homes:
            home.add(demand)
    return waiting


class AskedNodes:
    """What moves ask node autoscalers for, within both limits of each namespace, as their rooms will be.

    So nobody has nodes added for pods that are larger than those that run, beyond what he could run in their place.
    """

    def __init__(
        self,
        quotas: Mapping[str, Quota],
        resource_quotas: Collection[ResourceQuota] = (),
        default_class: str = "",
    ) -> None:
        self._limits = quotas, resource_quotas, default_class
        self._accounts: dict[str, _Account] = {}

    def count(self, pod: Pod, requests: Resources) -> None:
        """A pod that asks already for the replacement of ``pod``."""
        account, demand = self._demand(pod, requests)
        account.add(demand)

    def refusal(self, pod: Pod, requests: Resources) -> str:
        """Why none may ask for a replacement of ``pod`` that requests so much; "": one may, and counts from now on."""
        account, demand = self._demand(pod, requests)
        words = account.refusal(demand)
        if not words:
            account.add(demand)
        return words

    def _demand(self, pod: Pod, requests: Resources) -> tuple[_Account, _Demand]:
        home = pod.namespace
        account = self._accounts.get(home) or self._accounts.setdefault(home, _account(home, *self._limits))
        return account, _Demand(1, requests, (requests - pod.spec.requests).not_below_zero(), pod.spec)


def quota_of(namespace: str, quotas: Mapping[str, Quota]) -> Quota:
    """What holds for a namespace: its own limits, and those of ``*`` for what it does not name."""
    own, general = quotas.get(namespace, Quota()), quotas.get(ANY_NAMESPACE, Quota())
    amounts = {**dict(general.amounts), **dict(own.amounts)}
    counts = (own.reservations, general.reservations, MOST_RESERVATIONS)
    return Quota(
        reservations=next(count for count in counts if count is not None),
        amounts=tuple(sorted(amounts.items())),
    )


def _turn(reservation: Reservation) -> tuple[bool, float, str]:
    return reservation.status.phase is ReservationPhase.PENDING, reservation.created_at_s, reservation.name


class _Demand(NamedTuple):
    """What one Reservation takes of both limits."""

    rooms: int
    share: Resources
    own: Resources
    """Of the ResourceQuotas of the namespace, ``pods`` included: what its pods will use that are not there yet."""
    pod: PodSpec
    """What the scopes of these are asked about."""


def _demand(room: Reservation, move: RoomOfMove | None) -> _Demand:
    asked = _asked(room)
    spec = (move.spec if move is not None else None) or room.template or PodSpec()
    claimed = room.allocate_once and bool(room.status.current_owners)  # its pod is there and counts itself
    to_come = NO_RESOURCES if claimed else asked
    if move is None:
        pods = 0 if claimed else 1
        return _Demand(1, asked, msgspec.structs.replace(to_come, pods=pods), spec)
    excess = (asked - move.pod).not_below_zero() if move.pod is not None else NO_RESOURCES
    own = (to_come - move.pod).not_below_zero() if move.pod is not None else to_come
    return _Demand(1, asked, own, spec) if move.requested else _Demand(0, excess, own, spec)


def _asked(reservation: Reservation) -> Resources:
    """What it takes of the cluster for pods that have not come: parts that were handed out are ordinary pods."""
    status = reservation.status
    if not reservation.allocate_once and status.phase is not ReservationPhase.PENDING:
        return status.allocatable - status.allocated
    return reservation.template.requests if reservation.template is not None else NO_RESOURCES


@dataclass(slots=True)
class _Account:
    """What one namespace may have, and has so far."""

    home: str
    quota: Quota
    own: tuple[ResourceQuota, ...]
    default_class: str
    rooms: int = 0
    share: Resources = field(default=NO_RESOURCES)
    to_come: dict[str, Resources] = field(default_factory=dict)
    """Of what each ResourceQuota counts, by its name."""

    def add(self, demand: _Demand) -> None:
        self.rooms += demand.rooms
        self.share += demand.share
        for quota in self._counting(demand):
            self.to_come[quota.name] = self.to_come.get(quota.name, NO_RESOURCES) + demand.own

    @property
    def full(self) -> bool:
        """True if it may have no further Reservation."""
        return self.quota.reservations is not None and self.rooms >= self.quota.reservations

    @property
    def too_many(self) -> str:
        """What is said then."""
        return f"namespace {self.home} may have {self.quota.reservations} Reservations, and has {self.rooms}"

    def _counting(self, demand: _Demand) -> Iterator[ResourceQuota]:
        return (quota for quota in self.own if quota.counts(demand.pod, self.default_class))

    def refusal(self, demand: _Demand) -> str:
        """Why ``demand`` must wait, or ""."""
        return self._beyond_share(demand) or self._beyond_own(demand)

    def _beyond_share(self, demand: _Demand) -> str:
        home, quota = self.home, self.quota
        if demand.rooms and self.full:
            return self.too_many
        for name, most in quota.amounts:
            has, wants = self.share.amount(name), demand.share.amount(name)
            if wants > 0 and has + wants > most:
                limit, now, more = (format_amount(name, n) for n in (most, has, wants))
                return (
                    f"namespace {home} may have {name} {limit} reserved and has {now}; "
                    f"this asks for {more} more"
                )
        return ""

    def _beyond_own(self, demand: _Demand) -> str:
        limits = ((quota.name, limit) for quota in self._counting(demand) for limit in quota.limits)
        for quota, (name, most, used) in limits:
            has, wants = self.to_come.get(quota, NO_RESOURCES).amount(name), demand.own.amount(name)
            if wants > 0 and used + has + wants > most:
                limit, now, held, more = (format_amount(name, n) for n in (most, used, has, wants))
                return (
                    f"ResourceQuota {quota} of namespace {self.home} allows {name} {limit}: {now} are used and "
                    f"{held} reserved; this asks for {more} more"
                )
        return ""


def _account(
    home: str, quotas: Mapping[str, Quota], resource_quotas: Collection[ResourceQuota], default_class: str
) -> _Account:
    own = sorted((q for q in resource_quotas if q.namespace == home), key=lambda q: q.name)
    return _Account(home, quota_of(home, quotas), tuple(own), default_class)
