"""The first promise: the room of an Available Reservation is accounted for, at every write.

By a placeholder that stands on the node, by a nomination, or by an owner that is bound there. What may take
a room away all the same is a closed list, and each entry must be proven by the history itself: people or
the end of a node took the placeholder, the claimant ended, the node became unusable, or a pod of higher
priority came that the program could not know of when it gave the placeholder up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from rescheduler.model.names import ANNOTATION_MIGRATION, ANNOTATION_MODE
from rescheduler.model.quantity import milli
from rescheduler.sim.controllers.wire import Obj, controller_of, deleting, key, notes, status, uid
from rescheduler.testing.histories.seen import (
    Seen,
    Who,
    cpu_of,
    node_of,
    nominated_to,
    phase,
    priority_of,
)

_NAMESPACE: Final = "rescheduler"
_NODE_TROUBLE_S: Final = 10.0

Knows = Callable[[Obj], bool]
"""True if the program's caches show the pod as it is."""


class Refuses(Protocol):
    """Rules of a claimant's own."""

    def __call__(self, pod: Obj, node: str, *, moved: bool) -> bool:
        """True if anything but room keeps the pod from the node."""
        ...


class Rooms:
    """Judges all rooms after each write. ``hits``: whom rough deeds have hit."""

    def __init__(self, seen: Seen, hits: set[str], knows: Knows, refuses: Refuses) -> None:
        self._seen, self._hits, self._knows, self._refuses = seen, hits, knows, refuses
        self._lost: set[str] = set()
        self._known_then: dict[str, frozenset[str]] = {}
        self._room_of: dict[str, str] = {}
        self.excused: dict[str, str] = {}

    def judge(self, who: Who, changed: Obj, now_s: float) -> list[str]:
        """Words on each room that is unaccounted for since this write, without an excuse."""
        faults = []
        if changed["kind"] == "Pod" and changed["metadata"]["namespace"] == _NAMESPACE:
            self._follow(changed, who)
        for name, room in self._seen.rooms.items():
            if phase(room) != "Available" or notes(room).get(ANNOTATION_MODE) == "Soft" or self._held(room):
                self._lost.discard(uid(room))
                continue
            if uid(room) in self._lost:
                continue
            self._lost.add(uid(room))
            why = self._excuse(room, now_s)
            if why:
                self.excused[uid(room)] = why
            else:
                faults.append(
                    f"nothing holds the room of {name} since {who} wrote {changed['kind']} {key(changed).name}"
                )
        return faults

    def _held(self, room: Obj) -> bool:
        node = status(room).get("nodeName")
        holders, owners = self._seen.holders(room), self._seen.owners(room)
        if room["spec"].get("allocateOnce", True):
            if any(node_of(p) == node for p in holders):
                return True
            return any(node == (node_of(p) or nominated_to(p)) for p in owners)
        rest = _cpu(room, "allocatable") - _cpu(room, "allocated")
        flight = [p for p in owners if not node_of(p)]
        on_the_way = sum(map(cpu_of, flight))
        if any(node_of(p) == node and cpu_of(p) >= rest + on_the_way for p in holders):
            return True
        rest_held = rest <= 0 or any(
            node in (node_of(p), nominated_to(p)) and cpu_of(p) >= rest for p in holders
        )
        return rest_held and all(nominated_to(p) == node for p in flight)

    def _excuse(self, room: Obj, now_s: float) -> str:
        node = status(room).get("nodeName", "")
        if uid(room) in self._hits:
            return "people deleted the Reservation"
        if now_s <= self._seen.bad_at_s.get(node, 0.0) + _NODE_TROUBLE_S and f"node {node}" in self._hits:
            return "the node was unusable"
        if any(self._ended_by_others(p["uid"]) for p in status(room).get("currentOwners") or ()):
            return "the claimant ended"
        if self._placeholder_taken(room):
            return "people deleted the placeholder"
        if self._overtaken(room, node):
            return "a pod of higher priority came in between"
        moved = ANNOTATION_MIGRATION in notes(room)
        if any(self._refuses(p, node, moved=moved) for p in self._seen.owners(room) if node_of(p) != node):
            return "rules of the claimant's own keep it from the node"
        return ""

    def _ended_by_others(self, pod_uid: str) -> bool:
        return self._seen.ender.get(pod_uid, Who.PROGRAM) is not Who.PROGRAM

    def _placeholder_taken(self, room: Obj) -> bool:
        """People's deletions are of pods that the room had; nothing else of it stands."""
        return any(
            self._seen.ender.get(hit) is Who.PEOPLE and self._room_of.get(hit) == uid(room)
            for hit in self._hits
        )

    def _follow(self, placeholder: Obj, who: Who) -> None:
        """Whose placeholder it is; and when the program deletes it, which pods it knew, waiting or bound."""
        room = (controller_of(placeholder) or {}).get("uid", "")
        self._room_of[uid(placeholder)] = room
        if who is Who.PROGRAM and deleting(placeholder):
            self._known_then[room] = frozenset(
                uid(p) for p in self._seen.pods.values() if not deleting(p) and self._knows(p)
            )

    def _overtaken(self, room: Obj, node: str) -> bool:
        claimants = self._seen.owners(room)
        if not claimants or "higher priority" not in self._hits:
            return False
        least = min(map(priority_of, claimants))
        known = self._known_then.get(uid(room), frozenset())
        return any(
            priority_of(p) > least and uid(p) not in known and self._takes(p, node)
            for p in self._seen.pods.values()
            if p["metadata"]["namespace"] != _NAMESPACE
        )

    def _takes(self, pod: Obj, node: str) -> bool:
        """It is there or nominated; or it preempts, of which the nomination is the last write: first victims end."""
        if node_of(pod) or nominated_to(pod):
            return node in (node_of(pod), nominated_to(pod))
        return any(
            node_of(victim) == node
            and deleting(victim)
            and priority_of(victim) < priority_of(pod)
            and self._seen.ender.get(uid(victim)) is Who.CLUSTER
            for victim in self._seen.pods.values()
        )


def _cpu(room: Obj, which: str) -> int:
    return milli((status(room).get(which) or {}).get("cpu", "0"))
