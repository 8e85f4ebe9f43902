"""Looks after ReservationWindows and HeadRooms: when it is looked, what is observed, and what is done for each.

``room_sets`` decides. It is looked in rounds, which begin when something changes, but once a second at most, because a look visits all
Reservations, and all pods where room is gathered or given back. What is remembered here may be lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from rescheduler.calls.call import AnyCall, Call
from rescheduler.calls.objects import delete_reservation
from rescheduler.controller.periodic_steps import BETWEEN_LOOKS_S, Looks, PeriodicStep
from rescheduler.coordination.index import RoundIndex
from rescheduler.model.names import LABEL_PLACEHOLDER
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.reservation import Reservation, ReservationOwner
from rescheduler.model.resources import Resources
from rescheduler.model.room_pod import home_of, home_of_owners
from rescheduler.model.room_sets import HeadRoom, ReservationWindow
from rescheduler.reservations.owners import any_owner_matches
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.room_sets import head_rooms, windows
from rescheduler.room_sets.head_rooms import ObservedHeadRoom, entitled
from rescheduler.room_sets.node_forecast import Seen, forecast
from rescheduler.room_sets.node_use import NodeUse, PlacedPods
from rescheduler.room_sets.places import Outlook
from rescheduler.room_sets.rooms import MOST_AT_ONCE, RoomSetStep, children_of, waits_for_share
from rescheduler.room_sets.windows import (
    LOOKS_ELSEWHERE_S,
    ObservedWindow,
    counts_from_s,
    owners_of,
    running,
)

_NODES_AT_A_LOOK: Final = 5000
"""At one look so many nodes are visited for windows, or those of one window."""
_FORGETS_S: Final = 300.0
"""How long it is remembered that a room was given back to a pod."""


@dataclass(slots=True)
class RoomSetKeeper(Looks):
    """Used by the core thread only."""

    _elsewhere_s: dict[str, float] = field(default_factory=dict)
    _given: dict[str, float] = field(default_factory=dict)
    """Uids of pods that rooms were given back to, and when."""
    _use: NodeUse = field(default_factory=NodeUse)
    _placed: PlacedPods = field(default_factory=PlacedPods)

    def steps(self, index: RoundIndex, now_s: float) -> Iterator[PeriodicStep]:
        """What is to be done now."""
        if self.rests(now_s):
            return
        look = _Look(index, self._use, self._placed, now_s)
        found = [
            *(
                PeriodicStep(_machine(w), partial(self._window, look, w))
                for w in sorted(look.snapshot.windows.values(), key=lambda w: self._last_look_s(w.uid))
            ),
            *(
                PeriodicStep(_machine(h), partial(self._head_room, look, h))
                for h in look.snapshot.head_rooms.values()
            ),
            *map(_given_back, look.left_over()),
        ]
        self.machines = tuple(step.machine for step in found)
        yield from found

    def _window(self, look: _Look, window: ReservationWindow) -> Sequence[AnyCall]:
        decided = windows.step(
            ObservedWindow(
                window=window,
                rooms=look.children.get(window.uid, ()),
                taken=look.taken,
                placed=look.placed(window),
                outlooks=lambda room, missing: self._outlooks(look, window, room, missing=missing),
            ),
            look.now_s,
        )
        create = look.may_create(window, decided.create)
        if len(create) < len(decided.create):
            self.wake(look.now_s + BETWEEN_LOOKS_S)
        return self._to_do(decided._replace(create=create))

    def _head_room(self, look: _Look, head_room: HeadRoom) -> Sequence[AnyCall]:
        self._given = {uid: at_s for uid, at_s in self._given.items() if 0 <= look.now_s - at_s < _FORGETS_S}
        decided = head_rooms.step(look.head_room(head_room, self._given), look.now_s)
        self._given.update(dict.fromkeys(decided.given, look.now_s))
        return self._to_do(decided)

    def _to_do(self, decided: RoomSetStep) -> Sequence[AnyCall]:
        self.wake(decided.wake_at_s)
        told = (decided.status, decided.event)
        return (*decided.delete, *decided.create, *(call for call in told if call is not None))

    def _outlooks(
        self, look: _Look, window: ReservationWindow, room: Resources, *, missing: bool
    ) -> Sequence[Outlook] | None:
        """Once in a while, and not for many windows at one look: it visits all nodes."""
        since_s = look.now_s - self._last_look_s(window.uid)
        if not missing and 0 <= since_s < LOOKS_ELSEWHERE_S:
            return None
        if look.nodes_visited and look.nodes_visited + len(look.snapshot.nodes) > _NODES_AT_A_LOOK:
            self.wake(look.now_s + BETWEEN_LOOKS_S)
            return None
        self._elsewhere_s[window.uid] = look.now_s
        return look.outlooks(window, room)

    def _last_look_s(self, uid: str) -> float:
        """When its nodes were looked at; those come first that wait for it longest."""
        return self._elsewhere_s.get(uid, float("-inf"))


class _Look:
    """What one look has in common for all objects."""

    def __init__(self, index: RoundIndex, use: NodeUse, placed: PlacedPods, now_s: float) -> None:
        self.index, self.snapshot, self.now_s = index, index.snapshot, now_s
        self._use, self._placed = use, placed
        placed.follow(self.snapshot, (window.uid for window in self.snapshot.windows.values()))
        self.nodes_visited = 0
        self.children = children_of(self.snapshot.reservations.values())
        self.taken = frozenset(self.snapshot.reservations)
        made = [
            room
            for rooms in self.children.values()
            for room in rooms
            if not (room.deleting or room.unreadable)  # nobody ever looks at those
        ]
        self._unseen = Counter(home_of(room) for room in made if not room.status.conditions)
        """Rooms of windows and HeadRooms that nobody has looked at yet, by the namespace that they are for."""
        self._full = {home_of(room) for room in made if waits_for_share(room)}
        """Namespaces that may hold no more."""

    def may_create(self, window: ReservationWindow, create: tuple[Call, ...]) -> tuple[Call, ...]:
        """As many of these rooms as are soon looked at; of a namespace whose share is used up one, which says so.

        Else many windows of one namespace would have thousands of rooms, before the first is found to be beyond the share.
        """
        home = home_of_owners(owners_of(window))
        most = MOST_AT_ONCE - self._unseen[home]
        if home in self._full:
            most = 0 if self.children.get(window.uid) else 1
        allowed = create[: max(0, most)]
        self._unseen[home] += len(allowed)
        return allowed

    @property
    def use(self) -> NodeUse:
        """As of this look."""
        self._use.follow(self.snapshot)
        return self._use

    def outlooks(self, window: ReservationWindow, room: Resources) -> Sequence[Outlook]:
        """What each node will have for it."""
        own = self.children.get(window.uid, ())
        self.nodes_visited += len(self.snapshot.nodes)
        return forecast(Seen(self.snapshot, self.use, self.index.pods_of, self.now_s), window, room, own)

    def placed(self, window: ReservationWindow) -> frozenset[str]:
        """Uids of its owners that are bound and were created since it is gathered for."""
        found, _ = running(window, self.now_s)
        if found is None or (from_s := counts_from_s(window, found)) > self.now_s:
            return frozenset()
        owners = owners_of(window)
        return self._placed.of(window.uid, owners, from_s, lambda pod: self._owned(owners, pod))

    def head_room(self, head_room: HeadRoom, given: Mapping[str, float]) -> ObservedHeadRoom:
        """What there is for one."""
        rooms = self.children.get(head_room.uid, ())
        refused = [
            pod
            for pod in self.index.unbound()
            if pod.unschedulable_message
            and not (pod.deleting or pod.spec.gates or pod.uid in given)
            and entitled(head_room, pod, self.snapshot.priority_classes)
            and not self._owned(head_room.owners, pod)
        ]
        at = {room.status.node_name for room in rooms} if refused else set()
        nodes = {name: node for name in at if (node := self.snapshot.nodes.get(name)) is not None}
        resources = tuple({name for pod in refused for name, amount in pod.spec.requests.items() if amount})
        by_s = self.now_s
        idle = {
            name: self.use.idle(node, resources, by_s=by_s, now_s=by_s).now for name, node in nodes.items()
        }
        return ObservedHeadRoom(
            head_room=head_room,
            rooms=rooms,
            taken=self.taken,
            refused=sorted(refused, key=lambda p: (-p.spec.priority, p.created_at_s, p.key)),
            nodes=nodes,
            idle=idle,
            given=given,
        )

    def left_over(self) -> Iterator[Reservation]:
        """Rooms whose window or head-room is gone."""
        snapshot = self.snapshot
        there = {w.uid for w in snapshot.windows.values()} | {h.uid for h in snapshot.head_rooms.values()}
        for uid, rooms in self.children.items():
            if uid not in there:
                yield from (r for r in rooms if r.status.phase not in FINISHED and not r.deleting)

    def _owned(self, owners: Sequence[ReservationOwner], pod: Pod) -> bool:
        if pod.labels.get(LABEL_PLACEHOLDER) is not None:
            return False
        return any_owner_matches(owners, pod, self.index.controllers(pod))


def _machine(member: ReservationWindow | HeadRoom) -> ObjectKey:
    """No Reservation and no move has such a name."""
    return ObjectKey(type(member).__name__, member.name)


def _given_back(room: Reservation) -> PeriodicStep:
    call = delete_reservation(room, unchanged=True, why="the object that it was made for is gone")
    return PeriodicStep(ObjectKey("left-over", room.uid), lambda: (call,))
