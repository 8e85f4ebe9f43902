"""Which gated pod gets which room, and which gated pods are let go (rows K62-K68).

Pure and global: it looks at all gated pods and all Reservations at once, so two Reservations never give
room to one pod and no pod is forgotten. A pod larger than the room is not given it (K64). Every gated pod
is in exactly one of ``claims``, ``held`` and ``released``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rescheduler.model import names
from rescheduler.model.records import OwnerRef, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.resources import Resources
from rescheduler.reservations.owners import any_owner_matches

Controllers = Callable[[Pod], tuple[OwnerRef, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A Reservation that takes part. ``open``: it can be claimed now; else a decision is pending.

    ``size``: what it really holds for new owners, whatever became of its template since. ``since_s``: pods created from then on are preferred (the time of the eviction). ``replaces``: the name
    of the evicted pod, by which a StatefulSet's replacement is recognised.
    """

    reservation: Reservation
    size: Resources
    open: bool
    since_s: float = 0.0
    replaces: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """``claims``: pods by name of the Reservation. ``held``: uids that wait. ``released``: (pod, why)."""

    claims: Mapping[str, tuple[Pod, ...]]
    held: frozenset[str]
    released: tuple[tuple[Pod, str], ...]


def fits(pod: Resources, room: Resources) -> bool:
    """True if no amount that the pod asks for exceeds the room (rows K21, K64)."""
    return (
        pod.cpu_milli <= room.cpu_milli
        and pod.memory_bytes <= room.memory_bytes
        and pod.ephemeral_bytes <= room.ephemeral_bytes
        and all(amount <= room.scalar(name) for name, amount in pod.scalars)
    )


def allot(gated: Sequence[Pod], rooms: Iterable[Room], controllers: Controllers) -> Allotment:
    """Deal the rooms out. ``gated``: pods with our gate that are no claimant of a live Reservation."""
    index = _Index(rooms)
    held: set[str] = set()
    released: list[tuple[Pod, str]] = []
    pairs: list[tuple[tuple[object, ...], Pod, Room]] = []
    waits: set[str] = set()
    too_large: set[str] = set()
    for pod in gated:
        for room in index.candidates(pod, controllers(pod)):
            if not fits(pod.spec.requests, room.size):
                too_large.add(pod.uid)
                continue
            if room.open or room.since_s:
                pairs.append((_rank(pod, room), pod, room))
            if not room.open:
                waits.add(pod.uid)
    open_now = {room.reservation.name for _, _, room in pairs if room.open}
    claims = {name: pods for name, pods in _serve(pairs).items() if name in open_now}
    served = {pod.uid for pods in claims.values() for pod in pods}
    for pod in gated:
        if pod.uid in served:
            continue
        if pod.uid in waits:
            held.add(pod.uid)
        else:
            why = (
                "larger than the reserved room" if pod.uid in too_large else "no reserved room is left for it"
            )
            released.append((pod, why))
    return Allotment(claims=claims, held=frozenset(held), released=tuple(released))


def _serve(pairs: list[tuple[tuple[object, ...], Pod, Room]]) -> dict[str, tuple[Pod, ...]]:
    """Best pairs first; a room for several pods as long as something of it is left."""
    claims: dict[str, tuple[Pod, ...]] = {}
    left: dict[str, Resources] = {}
    served: set[str] = set()
    for _, pod, room in sorted(pairs, key=lambda pair: pair[0]):
        name = room.reservation.name
        given = claims.get(name, ())
        if pod.uid in served or (given and room.reservation.allocate_once):
            continue
        free = left.get(name, room.size)
        if fits(pod.spec.requests, free):
            claims[name], left[name] = (*given, pod), free - pod.spec.requests
            served.add(pod.uid)
    return claims


class _Index:
    """Rooms by the uid of the controller that they are for; the others are tried for every pod."""

    def __init__(self, rooms: Iterable[Room]) -> None:
        self._by_controller: dict[str, list[Room]] = {}
        self._others: list[Room] = []
        for room in rooms:
            uids = {o.controller.uid if o.controller else "" for o in room.reservation.owners}
            if "" in uids:
                self._others.append(room)
                continue
            for uid in uids:
                self._by_controller.setdefault(uid, []).append(room)

    def candidates(self, pod: Pod, controllers: tuple[OwnerRef, ...]) -> Iterable[Room]:
        """Rooms whose owners match the pod."""
        for ref in controllers:
            for room in self._by_controller.get(ref.uid, ()):
                if any_owner_matches(room.reservation.owners, pod, controllers):
                    yield room
        for room in self._others:
            if any_owner_matches(room.reservation.owners, pod, controllers):
                yield room


def _rank(pod: Pod, room: Room) -> tuple[object, ...]:
    reservation = room.reservation
    return (
        room.replaces != pod.name,
        not room.since_s or pod.created_at_s < float(int(room.since_s)),
        _order(reservation),
        -_share(pod.spec.requests, room.size),
        pod.annotations.get(names.ANNOTATION_RESERVATION) != reservation.name,
        pod.created_at_s,
        pod.namespace,
        pod.name,
        reservation.created_at_s,
        reservation.name,
    )


def _order(reservation: Reservation) -> int:
    text = (
        reservation.annotations.get(names.ANNOTATION_ORDER)
        or reservation.labels.get(names.ANNOTATION_ORDER)
        or ""
    )
    return int(text) if text.lstrip("-").isdecimal() else 0


def _share(pod: Resources, room: Resources) -> int:
    """How much of the room the pod fills, 0..1000: most-allocated first, so that big rooms stay whole."""
    shares = [
        amount * 1000 // total
        for amount, total in ((pod.cpu_milli, room.cpu_milli), (pod.memory_bytes, room.memory_bytes))
        if total > 0
    ]
    return sum(shares) // len(shares) if shares else 0
