"""ReservationWindows and HeadRooms in a history: they come, change, are suspended and deleted; windows begin and end meanwhile.

In one of three histories one to three such objects are made; pods that own their rooms come, and the controller is away over a start or
an end. All draws come from a stream of their own, so that histories without them stay as they were.

Checked at every write: of the rooms of one recipe that are held there are never more than the object was ever to have, and none is held
for longer than a little after the window's end. Checked at the end, after the objects are deleted: nothing of them is left (``ending``).
That no pod is evicted for them is checked with all evictions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Final

from harness import documents
from harness.histories.clocks import SetClock
from harness.histories.observed_cluster import cpu_of
from harness.histories.theme import Stage, Theme
from kube_sandbox.apiserver.json_values import seconds
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import (
    GroupKind,
    Obj,
    annotations_of,
    deleting,
    key,
    labels,
    spec,
    status,
    uid,
)
from rescheduler.model.names import ANNOTATION_RECIPE, LABEL_ROOM_OF
from rescheduler.model.resources import milli

WINDOW: Final = GroupKind("rescheduler.dev", "ReservationWindow")
HEAD_ROOM: Final = GroupKind("rescheduler.dev", "HeadRoom")
OWNER: Final = "setguest"
_UNTIL_S: Final = 9.0
_CPUS: Final = (200, 500, 1000)
_ABOVE_S: Final = 5.0
"""For so long more rooms may be held than are wanted, while the program sees it: it looks at windows each second."""
_LATE_S: Final = 60.0
"""How long after the end of a window its rooms may be there: late watches, refused calls, crashes, outages."""


class RoomSets(Theme):
    """Makes the objects, and watches their rooms. ``faults``: messages about rooms that should not be there."""

    stream, share = "room sets", 0.35

    def __init__(self, stage: Stage, *, server: SetClock, make_room: bool) -> None:
        """``make_room``: all of them want running pods to step aside."""
        super().__init__(stage)
        self._server, self._make_room = server, make_room
        self._most: dict[str, int] = {}
        self._rooms: dict[str, Obj] = {}
        self._above_since_s: dict[str, float] = {}
        self._frozen_s: list[tuple[float, float | None]] = []
        """When the controller was away; until None: it still is."""
        self._api.subscribe(self._hear)

    def write_script(self) -> None:
        """Draw when there are such objects, and what becomes of them."""
        rng = self._rng
        for _ in range(rng.randint(1, 3)):
            self._in(rng.uniform(0.0, 4.0), *rng.choice(self._makes))
        for _ in range(rng.randint(0, 5)):
            self._in(rng.uniform(1.0, _UNTIL_S), *rng.choice(self._changes))

    def undo(self) -> None:
        """The objects are deleted, and the controller is there."""
        self._back()
        for found in self._objects():
            self._api.delete(found)

    # What people do

    @property
    def _makes(self) -> list[tuple[str, Callable[[], None]]]:
        return [("a window is made", self._window), ("a head-room is made", self._head_room)]

    @property
    def _changes(self) -> list[tuple[str, Callable[[], None]]]:
        return [
            ("pods come for a window or head-room", self._come),
            ("pods come for a window or head-room", self._come),
            ("a window or head-room is changed", self._change),
            ("a window or head-room is deleted", self._delete),
            ("controller away over a start or an end", self._away),
            *self._makes,
        ]

    def _window(self) -> None:
        rng = self._rng
        body: Obj = {
            "cron": "* * * * *",
            "duration": f"{rng.choice((2, 10, 40, 90))}s",
            "startReserveAgo": f"{rng.choice((0, 5, 30, 55))}s",
            "podNumToReserve": rng.randint(1, 4),
            "owners": self._owners(),
        }
        if rng.random() < 0.3:  # noqa: PLR2004 - a share
            body["resources"] = {"cpu": f"{rng.choice(_CPUS) * 2}m"}
        else:
            body["template"] = self._template()
        self._create("ReservationWindow", "window", body)

    def _head_room(self) -> None:
        body: Obj = {
            "rooms": self._rng.randint(1, 3),
            "template": self._template(),
            "owners": self._owners(),
            "yieldTo": self._rng.choice(("HigherPriority", "AnyPod")),
        }
        self._create("HeadRoom", "headroom", body)

    def _come(self) -> None:
        for _ in range(self._rng.randint(1, 3)):
            self._api.create(self._owner(self._name(OWNER)))

    def _change(self) -> None:
        found = self._some()
        if found is None:
            return
        window = found["kind"] == WINDOW.kind
        wish: Obj = {"podNumToReserve" if window else "rooms": self._rng.randint(1, 4)}
        if window and self._rng.random() < 0.5:  # noqa: PLR2004 - a share
            wish = {"suspend": not spec(found).get("suspend", False)}
        elif "template" in spec(found) and self._rng.random() < 0.5:  # noqa: PLR2004 - a share
            wish = {"template": self._template()}
        self._api.patch(found, {"spec": wish})

    def _delete(self) -> None:
        found = self._some()
        if found is not None:
            self._api.delete(found)

    def _away(self) -> None:
        self._program.frozen = True
        self._frozen_s.append((self._clock(), None))
        self._in(self._rng.choice((2.0, 8.0, 30.0)), "controller is back", self._back)

    def _back(self) -> None:
        self._program.frozen = False
        self._frozen_s = [(began_s, ended_s or self._clock()) for began_s, ended_s in self._frozen_s]

    def _away_since(self, moment_s: float) -> float:
        """Seconds since then in which the controller was away, or the API server."""
        now_s = self._clock()
        frozen_s = sum(max(0.0, (end or now_s) - max(began, moment_s)) for began, end in self._frozen_s)
        return frozen_s + self._program.line.away_since(moment_s)

    # What is checked

    def _hear(self, change: ObjectChange) -> None:
        obj, gone = change.object, change.type == "DELETED"
        if obj["kind"] in (WINDOW.kind, HEAD_ROOM.kind) and not gone:
            wanted: int = spec(obj)["podNumToReserve" if obj["kind"] == WINDOW.kind else "rooms"]
            self._most[uid(obj)] = max(wanted, self._most.get(uid(obj), 0))
        owner = labels(obj).get(LABEL_ROOM_OF)
        for above in tuple(self._above_since_s):
            self._check(above)
        if obj["kind"] != "Reservation" or owner is None:
            return
        if gone or deleting(obj) or status(obj).get("phase") in ("Succeeded", "Failed"):
            self._rooms.pop(uid(obj), None)
            return
        self._rooms[uid(obj)] = obj
        self._check(owner)

    def _check(self, owner: str) -> None:
        held: Counter[str] = Counter()
        for room in self._rooms.values():
            if labels(room)[LABEL_ROOM_OF] != owner:
                continue
            recipe, _, count = annotations_of(room)[ANNOTATION_RECIPE].partition("/")
            if status(room).get("phase") == "Available":
                held[recipe] += _rooms(room, int(count))
            expires = spec(room).get("expires")
            late_s = self._server.late_s(seconds(expires)) if expires else 0.0
            if late_s > _LATE_S + self._away_since(self._clock() - late_s):
                self._fault(f"room {key(room).name} is held {late_s:.0f} s after the end of its window")
        most = self._most.get(owner, 0)
        most_held = max(held.values(), default=0)
        if most_held <= most:
            self._above_since_s.pop(owner, None)
            return
        # Rooms that wait on several nodes may be bound in one moment. The program gives back what is too many once it sees that.
        above_s = self._clock() - self._above_since_s.setdefault(owner, self._clock())
        if above_s > _ABOVE_S + self._away_since(self._clock() - above_s):
            self._fault(
                f"{most_held} rooms of one object are held for {above_s:.0f} s, {most} were ever wanted"
            )

    def _fault(self, words: str) -> None:
        if words not in self.faults:
            self.faults.append(words)

    # Parts

    def _objects(self) -> list[Obj]:
        return [*self._api.list(WINDOW), *self._api.list(HEAD_ROOM)]

    def _some(self) -> Obj | None:
        found = self._objects()
        return self._rng.choice(found) if found else None

    def _template(self) -> Obj:
        return {"spec": self._owner("template")["spec"]}

    def _owner(self, name: str) -> Obj:
        return self._pod(name, self._rng.choice(_CPUS), OWNER)

    def _owners(self) -> list[Obj]:
        return [{"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": OWNER}}}]

    def _create(self, kind: str, stem: str, body: Obj) -> None:
        body |= {"makeRoom": True} if self._make_room else {}
        self._api.create(documents.own(kind, self._name(stem), body))


def _rooms(room: Obj, count: int) -> int:
    """Of a room for ``count`` pods: one for each pod in it, which may use more than its part or share one, and the parts that are left."""
    if spec(room).get("allocateOnce", True):
        return count
    part_milli = cpu_of(spec(room)["template"]) / count
    used_milli = milli((status(room).get("allocated") or {}).get("cpu", "0"))
    used = math.ceil(used_milli / part_milli)
    return max(0, count - used) + min(used, len(status(room).get("currentOwners") or ()))
