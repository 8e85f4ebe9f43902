"""Decides which gated pod is assigned to which room, and which gated pods are released without one (rows K62-K68).

Pods that are pending without a gate are assigned by the same rules (``coordination.pending_owners``).
Pure. It takes all gated pods and all Reservations at once, so that no pod is assigned to two Reservations and no pod
is forgotten. A pod is never assigned to a room that is smaller than its requests (K64), nor while it has a scheduling
gate of another program. Of a resource that the template does not name the room holds nothing: the pod takes it from the node,
as with Koordinator's default policy, and ``admits`` says whether the node has it. Every gated pod is in
exactly one of ``claims``, ``held`` and ``released``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rescheduler.model import names
from rescheduler.model.never_moves import waits_for_others
from rescheduler.model.records import OwnerRef, Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.resources import NO_RESOURCES, Resources, encode_resources
from rescheduler.model.selectors import int64
from rescheduler.replacements.identity import may_replace
from rescheduler.reservations.owners import any_owner_matches

Controllers = Callable[[Pod], tuple[OwnerRef, ...]]
_NO_ORDER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A Reservation that takes part in the assignment."""

    reservation: Reservation
    size: Resources
    """What it holds for new owners now; its template may have been changed since."""
    open: bool
    """True if it can be claimed now; if not, pods that match stay gated until it is decided."""
    since_s: float = 0.0
    """Time of the eviction: pods that were created since then are preferred. 0.0: none."""
    replaces: str = ""
    """Name of the evicted pod: only pods that may come in its place are assigned (``replacements.identity``); "": any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The decision for every gated pod."""

    claims: Mapping[str, tuple[Pod, ...]]
    """Pods by name of the Reservation that they are assigned to."""
    held: frozenset[str]
    """Uids of pods that stay gated."""
    released: tuple[tuple[Pod, str], ...]
    """Pods that get no room, with the reason."""
    preparing: tuple[tuple[Pod, str], ...] = ()
    """Pods without a gate that must tolerate the hand-over taint before they claim the Reservation of that name."""
    kept_out: Mapping[str, str] = field(default_factory=dict)
    """Name of a Reservation -> which pending pod of its owners cannot use it, and why."""


Admits = Callable[[Pod, Room], bool]


def anyone(_pod: Pod, _room: Room) -> bool:
    """Every pod that matches."""
    return True


def nobody(_pod: Pod, _room: Room) -> bool:
    """No pod passes the room by."""
    return False


def fits(pod: Resources, room: Resources) -> bool:
    """True if no amount that the pod requests exceeds the room (rows K21, K64)."""
    return (
        pod.cpu_milli <= room.cpu_milli
        and pod.memory_bytes <= room.memory_bytes
        and pod.ephemeral_bytes <= room.ephemeral_bytes
        and all(amount <= room.scalar(name) for name, amount in pod.scalars)
    )


def same_size(one: Resources, other: Resources) -> bool:
    """True if all amounts are equal; one that is absent is 0."""
    return fits(one, other) and fits(other, one)


def taken_by(pod: Pod, reservation: Reservation) -> Resources:
    """What the pod takes of the room: its requests of the resources that the template names. All, if it names none."""
    named = NO_RESOURCES if reservation.template is None else reservation.template.requests
    requests = pod.spec.requests
    return requests.within(named) if any(amount for _, amount in named.items()) else requests


def from_the_node(pod: Pod, reservation: Reservation) -> bool:
    """True if the pod requests a resource that the room does not hold, and that its node must have free besides."""
    beyond = pod.spec.requests - taken_by(pod, reservation)
    return any(amount for _, amount in beyond.items())


def larger_than(pod: Pod, room: Room) -> str:
    """Which request of the pod exceeds what the room holds, for people; "": none does."""
    takes = taken_by(pod, room.reservation)
    if fits(takes, room.size):
        return ""
    missing = takes - room.size
    name = next(name for name, amount in missing.items() if amount > 0)
    asked, held = (encode_resources(amount).get(name, "0") for amount in (takes, room.size))
    return f"it requests {asked} of {name}, and the Reservation holds {held}"


def rooms_for(pod: Pod, rooms: Iterable[Room], controllers: tuple[OwnerRef, ...]) -> Iterable[Room]:
    """The rooms whose owners match the pod."""
    return _Index(rooms).candidates(pod, controllers, nobody)


def assign(
    gated: Sequence[Pod],
    rooms: Iterable[Room],
    controllers: Controllers,
    *,
    admits: Admits = anyone,
    passes_by: Admits = nobody,
    goes_first: Admits = nobody,
) -> Assignment:
    """Assign the rooms. ``gated``: pods with our gate that have not claimed a live Reservation.

    ``admits``: asked right before a room is given to a pod, in the order in which pods are served.
    ``passes_by``: True for a pod that neither takes nor waits for a room, because its node takes no pods and another one would.
    ``goes_first``: True for a pod that would take the room of another pod.
    """
    index = _Index(rooms)
    # Every pair is ranked, also those with rooms that are not open yet: a pod that such a room is meant for must not be
    # assigned to another, open one. So the closed room gets its pod here, and is dropped from the result afterwards.
    held: set[str] = set()
    released: list[tuple[Pod, str]] = []
    pairs: list[tuple[tuple[object, ...], Pod, Room]] = []
    waits: set[str] = set()
    too_large: set[str] = set()
    for pod in gated:
        for room in index.candidates(pod, controllers(pod), passes_by):
            if not fits(taken_by(pod, room.reservation), room.size):
                too_large.add(pod.uid)
                continue
            # It could not be bound, so its claim would only keep a room empty and its neighbours waiting.
            if waits_for_others(pod):
                waits.add(pod.uid)
                continue
            # A closed room that users reserved (no eviction) is meant for no pod in particular: it only makes pods wait.
            if room.open or room.since_s:
                pairs.append((_rank(pod, room, goes_first=goes_first(pod, room)), pod, room))
            if not room.open:
                waits.add(pod.uid)
    open_now = {room.reservation.name for _, _, room in pairs if room.open}
    claims = {name: pods for name, pods in _serve(pairs, admits).items() if name in open_now}
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
    return Assignment(claims=claims, held=frozenset(held), released=tuple(released))


def _serve(pairs: list[tuple[tuple[object, ...], Pod, Room]], admits: Admits) -> dict[str, tuple[Pod, ...]]:
    """Serve the best pairs first; a room for several pods serves as many as fit."""
    claims: dict[str, tuple[Pod, ...]] = {}
    left: dict[str, Resources] = {}
    served: set[str] = set()
    for _, pod, room in sorted(pairs, key=lambda pair: pair[0]):
        name = room.reservation.name
        given = claims.get(name, ())
        if pod.uid in served or (given and room.reservation.allocate_once):
            continue
        free = left.get(name, room.size)
        takes = taken_by(pod, room.reservation)
        if fits(takes, free) and admits(pod, room):
            claims[name], left[name] = (*given, pod), free - takes
            served.add(pod.uid)
    return claims


class _Index:
    """Rooms by the uid of the controller that they are for; rooms without such a uid are tried for every pod."""

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

    def candidates(self, pod: Pod, controllers: tuple[OwnerRef, ...], passes_by: Admits) -> Iterable[Room]:
        """Rooms whose owners match the pod, without those of moves of its siblings, and those that it passes by."""
        named = [room for ref in controllers for room in self._by_controller.get(ref.uid, ())]
        for room in (*named, *self._others):
            if room.replaces and not may_replace(pod, room.replaces):
                continue
            if any_owner_matches(room.reservation.owners, pod, controllers) and not passes_by(pod, room):
                yield room


def _rank(pod: Pod, room: Room, *, goes_first: bool) -> tuple[object, ...]:
    """Smallest first. The last entries only make the order total, so that every run gives the same result."""
    reservation = room.reservation
    return (
        room.replaces != pod.name,
        not room.since_s or pod.created_at_s < float(int(room.since_s)),
        _order(reservation),
        not goes_first,
        -_share(pod.spec.requests, room.size),
        not _names_uid(reservation, pod),
        # Of rooms that suit it alike it does not wait for one whose eviction may never be answered.
        not room.open,
        pod.annotations.get(names.ANNOTATION_RESERVATION) != reservation.name,
        pod.created_at_s,
        pod.namespace,
        pod.name,
        reservation.created_at_s,
        reservation.name,
    )


def _names_uid(reservation: Reservation, pod: Pod) -> bool:
    """True if it is for exactly the controller that made the pod: ``scale`` counts on the rooms that it made."""
    uid = pod.controller.uid if pod.controller is not None else ""
    return any(owner.controller is not None and owner.controller.uid == uid for owner in reservation.owners)


def _order(reservation: Reservation) -> int:
    """The smallest first, those without an order (or 0) last: as Koordinator's ``LabelReservationOrder``."""
    text = (
        reservation.annotations.get(names.ANNOTATION_ORDER)
        or reservation.labels.get(names.ANNOTATION_ORDER)
        or ""
    )
    return int64(text) or _NO_ORDER


def _share(pod: Resources, room: Resources) -> int:
    """How much of the room the pod uses, 0..1000. The fullest fit is preferred, so that large rooms are kept for large pods."""
    shares = [
        amount * 1000 // total
        for amount, total in ((pod.cpu_milli, room.cpu_milli), (pod.memory_bytes, room.memory_bytes))
        if total > 0
    ]
    return sum(shares) // len(shares) if shares else 0
