"""The first invariant: at every write, something holds the room of each Available Reservation.

A placeholder that is bound to the node, a nomination, an owner that is bound there, or the hand-over taint that an owner without a
gate tolerates. A closed list has the reasons
for which a room may be lost, and the history must prove the reason: a user deleted the placeholder, the claimant ended,
the node became unusable, a pod of higher priority came that the program could not know of when it deleted the
placeholder, a pod was nominated there in the moment of the claimant's release, a claimant that the taint waits for, since it never was gated,
was bound to another node, the API server went away after the placeholder's
deletion, so that the scheduler read a new list after the release, or the claimant had used up the time for
which a hand-over waits for the scheduler, and the API server was away in that time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from harness.histories.observed_cluster import (
    Seen,
    Writer,
    cpu_of,
    gated,
    node_of,
    nominated_to,
    phase,
    priority_of,
    shut,
)
from kube_sandbox.controllers.unstructured import (
    Obj,
    annotations_of,
    controller_of,
    deleting,
    key,
    spec,
    status,
    uid,
)
from rescheduler.coordination.handover_order import KEPT_FOR_LANDING
from rescheduler.model.names import ANNOTATION_HANDOVER_TAINT, ANNOTATION_MIGRATION, ANNOTATION_MODE
from rescheduler.model.resources import milli

_NAMESPACE: Final = "rescheduler"
_FOUND_ANOTHER: Final = "a claimant that never was gated was bound to another node"
_NODE_TROUBLE_S: Final = 10.0
_CLOCK_STEP_S: Final = 1.0
"""Times in objects are whole seconds."""
_LISTS_S: Final = 1.0
"""For how long a scheduler that is back may decide on one part of its new list."""
GATE_LIMIT_S: Final = 60.0
"""For how long the program lets a pod be gated."""

Knows = Callable[[Obj], bool]
"""True if the program's caches show the pod as it is."""


class Refuses(Protocol):
    """Checks the claimant's own rules (spread, anti-affinity, ...)."""

    def __call__(self, pod: Obj, node: str, *, moved: bool) -> bool:
        """True if a filter other than room refuses the pod on the node."""
        ...


FAR_BEHIND: Final = "watches far behind"
"""In ``hits``: what the program sees is older than a hand-over may take."""


class Rooms:
    """Checks all rooms after each write. ``hits``: the objects that rough disturbances have hit.

    ``away_since``: for how long the API server was away since that moment, in seconds. ``lists_anew_s``: when the scheduler
    lists again after an outage that began at that moment or since; 0: there was none.
    """

    def __init__(
        self,
        seen: Seen,
        hits: set[str],
        knows: Knows,
        refuses: Refuses,
        *,
        away_since: Callable[[float], float] = lambda _: 0.0,
        lists_anew_s: Callable[[float], float] = lambda _: 0.0,
    ) -> None:
        self._seen, self._hits, self._knows, self._refuses = seen, hits, knows, refuses
        self._away_since, self._lists_anew_s = away_since, lists_anew_s
        self._not_waited_for: set[str] = set()
        self._lost: set[str] = set()
        self._known_then: dict[str, frozenset[str]] = {}
        self._room_of: dict[str, str] = {}
        self._emptied_at_s: dict[str, float] = {}
        """When the program deleted the placeholder, by uid of the Reservation."""
        self._without_gate: set[str] = set()
        """Uids of claimants that were not gated when they were claimed."""
        self._claimed_gated: set[str] = set()
        self._gated: set[str] = set()
        self._released_at_s: dict[str, float] = {}
        self._overtaken_rooms: set[str] = set()
        """Uids of Reservations whose room a pod of higher priority has taken on the way; that pod may have gone since."""
        self._listed: set[str] = set()
        """Uids of Reservations whose claimant was refused while the scheduler read a new list; the taint may hold the room longer."""
        self._unseen_then: dict[str, frozenset[str]] = {}
        """By uid of a claimant: pods nominated to its node that the caches did not show when it was released."""
        self.excused: dict[str, str] = {}

    def check(self, who: Writer, changed: Obj, now_s: float) -> list[str]:
        """A message for each room that nothing holds since this write, unless an excuse applies."""
        faults = []
        if changed["kind"] == "Pod" and changed["metadata"]["namespace"] == _NAMESPACE:
            self._follow(changed, who, now_s)
        elif changed["kind"] == "Pod":
            self._follow_release(changed, now_s)
            self._follow_refusal(changed, now_s)
            self._follow_taking(changed)
        elif changed["kind"] == "Reservation":
            owners = self._seen.owners(changed)
            self._claimed_gated |= {uid(p) for p in owners if gated(p)}
            self._without_gate |= {uid(p) for p in owners if self._waits_ungated(p)}
        for name, room in self._seen.rooms.items():
            watched = phase(room) == "Available" and annotations_of(room).get(ANNOTATION_MODE) != "Soft"
            if not watched or self._held(room):
                self._lost.discard(uid(room))
                if watched and self._free_to_go(room, status(room).get("nodeName", "")):
                    self.excused[uid(room)] = _FOUND_ANOTHER
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
        node: str = status(room).get("nodeName", "")
        holders, owners = self._seen.holders(room), self._seen.owners(room)
        if room["spec"].get("allocateOnce", True):
            if any(node_of(p) == node for p in holders):
                return True
            return any(node == (node_of(p) or nominated_to(p)) or self._shut_for(p, node) for p in owners)
        rest = _cpu(room, "allocatable") - _cpu(room, "allocated")
        flight = [p for p in owners if not node_of(p)]
        on_the_way = sum(map(cpu_of, flight))
        # What an owner left has a placeholder of its own until the next split.
        held = sum(cpu_of(p) for p in holders if node_of(p) == node)
        if held >= rest + on_the_way:
            return True
        rest_held = held >= rest or any(nominated_to(p) == node and cpu_of(p) >= rest for p in holders)
        return rest_held and all(nominated_to(p) == node or self._shut_for(p, node) for p in flight)

    def _shut_for(self, owner: Obj, node: str) -> bool:
        """True if the hand-over taint keeps other pods off the node, and not this one, which waits without a gate."""
        if gated(owner) or node_of(owner) or not shut(self._seen.nodes.get(node, {})):
            return False
        tolerations = spec(owner).get("tolerations") or ()
        return any(t.get("key") == ANNOTATION_HANDOVER_TAINT for t in tolerations)

    def _excuse(self, room: Obj, now_s: float) -> str:
        node = status(room).get("nodeName", "")
        # From the cheapest to the most expensive check; the last one runs the scheduler's filters on the whole cluster.
        if FAR_BEHIND in self._hits:
            return "what the program sees is far behind"
        if uid(room) in self._hits:
            return "people deleted the Reservation"
        if now_s <= self._seen.bad_at_s.get(node, 0.0) + _NODE_TROUBLE_S and f"node {node}" in self._hits:
            return "the node was unusable"
        if any(self._ended_by_others(p["uid"]) for p in status(room).get("currentOwners") or ()):
            return "the claimant ended"
        if self._placeholder_taken(room):
            return "people deleted the placeholder"
        if uid(room) in self._overtaken_rooms or self._overtaken(room, node):
            return "a pod of higher priority came in between"
        if self._nominated_unseen(room, node) or self._taken_at_release(room, node):
            return "a pod was nominated to the node in the moment of the release"
        if why := self._by_the_scheduler(room, node, now_s):
            return why
        moved = ANNOTATION_MIGRATION in annotations_of(room)
        if any(self._refuses(p, node, moved=moved) for p in self._seen.owners(room) if node_of(p) != node):
            return "rules of the claimant's own keep it from the node"
        return ""

    def _ended_by_others(self, pod_uid: str) -> bool:
        return self._seen.ender.get(pod_uid, Writer.PROGRAM) is not Writer.PROGRAM

    def _placeholder_taken(self, room: Obj) -> bool:
        """True if a user deleted a pod that was a placeholder of this Reservation."""
        return any(
            self._seen.ender.get(hit) is Writer.PEOPLE and self._room_of.get(hit) == uid(room)
            for hit in self._hits
        )

    def _follow(self, placeholder: Obj, who: Writer, now_s: float) -> None:
        """Record the Reservation of a placeholder and, when the program deletes it, which pods its cache shows then."""
        room = (controller_of(placeholder) or {}).get("uid", "")
        self._room_of[uid(placeholder)] = room
        if who is Writer.PROGRAM and deleting(placeholder):
            self._emptied_at_s[room] = now_s
            self._known_then[room] = frozenset(
                uid(p) for p in self._seen.pods.values() if not deleting(p) and self._knows(p)
            )
            if any(
                self._waited(p, now_s) for p in self._seen.pods.values() if uid(p) in self._owners_of(room)
            ):
                self._not_waited_for.add(room)

    def _owners_of(self, room: str) -> set[str]:
        rooms = (r for r in self._seen.rooms.values() if uid(r) == room)
        return {p["uid"] for r in rooms for p in status(r).get("currentOwners") or ()}

    def _waited(self, claimant: Obj, now_s: float) -> bool:
        """True if a hand-over that began with an outage has waited for the scheduler for as long as it may."""
        created_s = self._seen.born_s[uid(claimant)]
        waits_s = GATE_LIMIT_S * (1 - KEPT_FOR_LANDING)
        return (
            gated(claimant)
            and now_s - created_s >= waits_s - _CLOCK_STEP_S
            and self._away_since(created_s) > 0
        )

    def _waits_ungated(self, pod: Obj) -> bool:
        return not node_of(pod) and not gated(pod) and uid(pod) not in self._claimed_gated

    def _free_to_go(self, room: Obj, node: str) -> bool:
        """True if the taint kept the node for a claimant, and the scheduler found another node that had become free."""
        if not shut(self._seen.nodes.get(node, {})):
            return False
        away = [p for p in self._seen.owners(room) if node_of(p) != node]
        return bool(away) and all(node_of(p) and uid(p) in self._without_gate for p in away)

    def _by_the_scheduler(self, room: Obj, node: str, now_s: float) -> str:
        """What the scheduler did, or did too late; "" if neither."""
        # The program takes the taint off as soon as it sees that; the placeholder may be terminating still.
        if self._free_to_go(room, node) or self.excused.get(uid(room)) == _FOUND_ANOTHER:
            return _FOUND_ANOTHER
        if uid(room) in self._listed or self._listed_after_release(room, now_s):
            return "the API server went away in the middle of the hand-over"
        if uid(room) in self._not_waited_for:
            return "no scheduler answered in three quarters of the time that the claimant may be gated"
        return ""

    def _listed_after_release(self, room: Obj, now_s: float) -> bool:
        """True if the scheduler has just read a new list, in which the end of the placeholder and the release came together."""
        emptied_s = self._emptied_at_s.get(uid(room))
        back_s = self._lists_anew_s(emptied_s) if emptied_s is not None else 0.0
        released = (self._released_at_s.get(uid(p), now_s) for p in self._seen.owners(room))
        return back_s <= now_s <= back_s + _LISTS_S and any(at_s < back_s for at_s in released)

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

    def _follow_release(self, pod: Obj, now_s: float) -> None:
        """Record what is nominated to the node of a claimant in the moment of its release, and not shown by the caches."""
        if gated(pod):
            self._gated.add(uid(pod))
        elif uid(pod) in self._gated:
            self._gated.remove(uid(pod))
            self._released_at_s[uid(pod)] = now_s
            mine = [r for r in self._seen.rooms.values() if uid(pod) in self._owners_of(uid(r))]
            for room in mine:
                self._unseen_then[uid(pod)] = self._nominated_unseen(room, status(room).get("nodeName", ""))

    def _follow_refusal(self, pod: Obj, now_s: float) -> None:
        if gated(pod) or node_of(pod) or nominated_to(pod):
            return
        mine = [r for r in self._seen.rooms.values() if uid(pod) in self._owners_of(uid(r))]
        self._listed |= {uid(r) for r in mine if self._listed_after_release(r, now_s)}

    def _follow_taking(self, pod: Obj) -> None:
        if "higher priority" not in self._hits or not node_of(pod):
            return
        there = [r for r in self._seen.rooms.values() if status(r).get("nodeName") == node_of(pod)]
        self._overtaken_rooms |= {uid(r) for r in there if self._overtaken(r, node_of(pod))}

    def _taken_at_release(self, room: Obj, node: str) -> bool:
        """True if such a pod still keeps the node from a claimant."""
        unseen = frozenset().union(*(self._unseen_then.get(uid(p), ()) for p in self._seen.owners(room)))
        return any(uid(p) in unseen and self._takes(p, node) for p in self._seen.pods.values())

    def _nominated_unseen(self, room: Obj, node: str) -> frozenset[str]:
        """Pods nominated there, which wait for their victims, as the caches do not show yet."""
        claimants = self._seen.owners(room)
        least = min(map(priority_of, claimants), default=0)
        others = {uid(p) for p in claimants}
        return frozenset(
            uid(p)
            for p in self._seen.pods.values()
            if claimants
            and nominated_to(p) == node
            and not node_of(p)
            and uid(p) not in others
            and priority_of(p) >= least
            and not self._knows(p)
        )

    def _takes(self, pod: Obj, node: str) -> bool:
        """True if the pod is bound or nominated there, or preempts there.

        A preempting scheduler deletes the victims first and writes the nomination last.
        """
        if node_of(pod) or nominated_to(pod):
            return node in (node_of(pod), nominated_to(pod))
        return any(
            node_of(victim) == node
            and deleting(victim)
            and priority_of(victim) < priority_of(pod)
            and self._seen.ender.get(uid(victim)) is Writer.CLUSTER
            for victim in self._seen.pods.values()
        )


def _cpu(room: Obj, which: str) -> int:
    return milli((status(room).get(which) or {}).get("cpu", "0"))
