"""The Reservations of one ReservationWindow or HeadRoom: what each is made from, and which are too many or too few. Pure.

Found by the label ``rescheduler.dev/room-of`` with the uid of the object, so that nothing but the API server has to remember
them. A Reservation that a pod has claimed is never given back; neither is one that somebody else made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from rescheduler.calls.call import Call
from rescheduler.calls.objects import create_reservation, delete_reservation
from rescheduler.model import names
from rescheduler.model.decode.wire_form import manifest
from rescheduler.model.event import Event, about
from rescheduler.model.own_objects import condition
from rescheduler.model.reservation import Reservation, ReservationOwner, ReservationPhase
from rescheduler.model.resources import Resources, encode_resources
from rescheduler.model.room_sets import HeadRoom, ReservationWindow
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.reservation_lifecycle import (
    CONDITION_READY,
    CONDITION_SCHEDULED,
    FINISHED,
    ReservationReason,
)

_DIGEST_BYTES: Final = 6
_LONGEST_STEM: Final = 200
_REFUSED: Final = (
    ReservationReason.INVALID,
    ReservationReason.NOT_SUPPORTED,
    ReservationReason.PLACEHOLDER_CHANGED,
)
_ROOM_IMAGE: Final = "room"
_LONGEST_COUNT: Final = 6
MOST_AT_ONCE: Final = 32
"""Reservations that one step creates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What every Reservation of an object is made from."""

    kind: str
    name: str
    uid: str
    template: bytes
    """PodTemplateSpec of one room; empty: a pod that asks for ``room`` and nothing else."""
    room: Resources
    """What one room holds."""
    owners: tuple[ReservationOwner, ...]
    node_selector: tuple[tuple[str, str], ...] = ()
    expires_at_s: float | None = None
    """None: it never expires."""
    gathers: bool = False
    """Room that is not free yet is gathered (``preAllocation``)."""
    makes_room: bool = False
    """Running pods may be moved for a Reservation that is for no certain node."""
    spread_over: str = ""

    @property
    def shared(self) -> bool:
        """Several pods use parts of a Reservation: nothing is known of their sizes but the sum."""
        return not self.template

    @property
    def digest(self) -> str:
        """Of everything: a Reservation with another one was made from another spec, or for another window."""
        parts = (
            self.template,
            self.room,
            self.owners,
            self.node_selector,
            self.expires_at_s,
            self.spread_over,
            *(("makeRoom",) if self.makes_room else ()),
        )
        return hashlib.blake2b(msgspec.json.encode(parts), digest_size=_DIGEST_BYTES).hexdigest()

    def create(self, name: str, rooms: int, node: str) -> Call:
        """One Reservation. ``rooms``: as large as so many; ``node`` "": wherever there is room."""
        room = Reservation(
            name=name,
            template_raw=msgspec.json.encode(self._template(rooms, node)),
            owners=self.owners,
            ttl_s=0.0 if self.expires_at_s is None else None,
            expires_at_s=self.expires_at_s,
            pre_allocation=self.gathers,
            make_room=self.makes_room and not node,
            allocate_once=not self.shared,
            labels=LabelSet({names.LABEL_ROOM_OF: self.uid, names.LABEL_CREATED_BY: names.CREATED_BY}),
            annotations=LabelSet({names.ANNOTATION_RECIPE: f"{self.digest}/{rooms}"}),
        )
        owner = {"apiVersion": names.API_VERSION, "kind": self.kind, "name": self.name, "uid": self.uid, "controller": True}  # fmt: skip
        return create_reservation(name, msgspec.json.encode(manifest(room, owner_references=[owner])))

    def names(self, taken: Collection[str]) -> Iterator[str]:
        """Names for new Reservations, none of them taken."""
        number, mark = 0, hashlib.blake2b(self.uid.encode(), digest_size=3).hexdigest()
        while True:
            name = f"{self.name[:_LONGEST_STEM]}-{mark}-{number}{names.ROOM_SUFFIX}"
            if name not in taken:
                yield name
            number += 1

    def _template(self, rooms: int, node: str) -> dict[str, Any]:
        if self.template:
            made: dict[str, Any] = msgspec.json.decode(self.template)
        else:
            requests = encode_resources(self.room * rooms)
            container = {"name": "room", "image": _ROOM_IMAGE, "resources": {"requests": requests}}
            made = {"spec": {"containers": [container]}}
        spec = made.setdefault("spec", {})
        if self.node_selector:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **dict(self.node_selector)}
        if node:
            spec["nodeName"] = node
        if self.spread_over:
            self._spread(made, spec)
        return made

    def _spread(self, made: dict[str, Any], spec: dict[str, Any]) -> None:
        """Rooms count as pods with the template's labels when their nodes are chosen."""
        metadata = made["metadata"] = {**(made.get("metadata") or {})}
        metadata["labels"] = {**(metadata.get("labels") or {}), names.LABEL_ROOM_OF: self.uid}
        constraint = {
            "maxSkew": 1,
            "topologyKey": self.spread_over,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {names.LABEL_ROOM_OF: self.uid}},
        }
        spec["topologySpreadConstraints"] = [*(spec.get("topologySpreadConstraints") or ()), constraint]


class RoomSetStep(NamedTuple):
    """What is to be done now for one ReservationWindow or HeadRoom."""

    create: tuple[Call, ...] = ()
    delete: tuple[Call, ...] = ()
    given: tuple[str, ...] = ()
    """Uids of the pods that rooms of a HeadRoom are given back to."""
    status: Call | None = None
    event: Event | None = None
    wake_at_s: float | None = None


class Child(NamedTuple):
    """One of the Reservations."""

    room: Reservation
    rooms: int
    """As how many it counts: of a shared one those that no pod uses yet, and one for each pod on its way into it."""
    digest: str

    @property
    def held(self) -> bool:
        """True if it can be used."""
        return self.room.status.phase is ReservationPhase.AVAILABLE

    @property
    def asked(self) -> bool:
        """True while running pods step aside for it."""
        return self.room.status.making_room is not None

    @property
    def claimed(self) -> bool:
        """True while a pod is on its way into it."""
        status = self.room.status
        ready = condition(status.conditions, CONDITION_READY)
        handed = ready is not None and ready.reason == ReservationReason.CLAIMED
        return handed or (self.room.allocate_once and bool(status.current_owners))


class Changes(NamedTuple):
    """What is wrong with the Reservations that there are."""

    live: tuple[Child, ...]
    """Those that stay."""
    surplus: tuple[Call, ...]
    missing: int
    """Rooms."""
    refused: str
    """Why a Reservation of this recipe can never hold anything; "": nothing is known."""


def children_of(reservations: Iterable[Reservation]) -> dict[str, list[Reservation]]:
    """All Reservations that were made for objects, by the uid of the object, oldest first."""
    found: dict[str, list[Reservation]] = {}
    for room in reservations:
        uid = room.labels.get(names.LABEL_ROOM_OF)
        if uid:
            found.setdefault(uid, []).append(room)
    for rooms in found.values():
        rooms.sort(key=lambda r: (r.created_at_s, r.name))
    return found


def changes(
    reservations: Iterable[Reservation],
    recipe: Recipe | None,
    wanted: int,
    *,
    placed: AbstractSet[str] = frozenset(),
) -> Changes:
    """``recipe`` None: nothing should be there. ``placed``: uids of pods that ``wanted`` leaves out already."""
    digest = recipe.digest if recipe is not None else ""
    known = [
        _child(room, recipe, placed) for room in reservations if not room.deleting and not room.unreadable
    ]
    live = [child for child in known if child.room.status.phase not in FINISHED]
    old = [child for child in live if child.digest != digest or not wanted]
    kept = [child for child in live if child not in old]
    there = sum(child.rooms for child in kept)
    too_many = there - wanted
    if recipe is not None and recipe.gathers and sum(child.rooms for child in kept if child.held) < wanted:
        too_many = 0  # it is waited on several nodes for the rest (``gathering``)
    surplus: list[Child] = []
    for child in sorted(kept, key=lambda c: (c.held, -c.room.created_at_s, c.room.name)):
        if not child.claimed and 0 < child.rooms <= too_many:
            surplus.append(child)
            too_many -= child.rooms
    kept = [child for child in kept if child not in surplus]
    refused = next(filter(None, (_refusal(child, digest) for child in known)), "")
    return Changes(
        live=tuple(kept),
        surplus=(
            *(given_back(child, "it was made for another spec or window") for child in old if not child.claimed),
            *(given_back(child, "more is held than is needed") for child in surplus),
        ),
        missing=0 if refused else max(0, wanted - there),
        refused=refused,
    )  # fmt: skip


def given_back(child: Child, why: str) -> Call:
    """The call; nothing happens if a pod has claimed it in the meantime."""
    return delete_reservation(child.room, unchanged=True, why=why)


def told_of(
    member: ReservationWindow | HeadRoom, reason: str, message: str, *, warning: bool = False
) -> Event:
    """An Event of the object."""
    return Event(about(member), reason, message, warning)


def beyond_share(child: Child) -> bool:
    """True while its namespace may hold no more. Then no further one is created: it would wait, too."""
    return waits_for_share(child.room)


def waits_for_share(room: Reservation) -> bool:
    """The same of a Reservation."""
    told = condition(room.status.conditions, CONDITION_SCHEDULED)
    waits = room.status.phase is ReservationPhase.PENDING
    return waits and told is not None and told.reason == ReservationReason.BEYOND_QUOTA


def _child(room: Reservation, recipe: Recipe | None, placed: AbstractSet[str]) -> Child:
    digest, _, count = (room.annotations.get(names.ANNOTATION_RECIPE) or "").partition("/")
    rooms = int(count) if count.isascii() and count.isdecimal() and len(count) < _LONGEST_COUNT else 1
    if room.allocate_once:
        # A pod may be bound a while before its Reservation has Succeeded: it would count twice.
        rooms = 0 if any(owner.uid in placed for owner in room.status.current_owners) else rooms
    elif recipe is not None:
        on_their_way = sum(owner.uid not in placed for owner in room.status.current_owners)
        rooms = max(0, rooms - _used(room.status.allocated, recipe.room)) + on_their_way
    return Child(room, rooms, digest)


def _used(allocated: Resources, one: Resources) -> int:
    """As many rooms as the pods in it use, rounded up."""
    return max((-(-allocated.amount(name) // amount) for name, amount in one.items() if amount), default=0)


def _refusal(child: Child, digest: str) -> str:
    status = child.room.status
    if status.phase is not ReservationPhase.FAILED or child.digest != digest:
        return ""
    ready = condition(status.conditions, CONDITION_READY)
    return ready.message or ready.reason if ready is not None and ready.reason in _REFUSED else ""
