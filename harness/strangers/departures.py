"""Each pod that leaves, and whether room was held for its replacement before: read from watches, by etcd's own order of events.

The one question of a trial beside a program of others: was anybody evicted before the Reservation was Available, and where did the replacements
end up? It follows a world's pods and all Reservations, and asks nothing of the controller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.controlplane.api import Json
from harness.controlplane.world import RESERVATIONS, World, node_of
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import API_VERSION

_WATCH_S: Final = 2
_END_S: Final = 10.0
_AGAIN_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod that was evicted or deleted."""

    pod: str
    node: str
    requested_by: str
    """Who asked for the move that it was part of; "": no move, it was evicted as without the guard."""
    room_first: bool
    """Its Reservation was Available before."""
    landed: bool
    """Its replacement runs where the room was held."""


class Departures:
    """From now on until ``end``. Pods without a label ``app`` are not of the trial."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stop = threading.Event()
        self._left: dict[str, tuple[Json, int]] = {}
        """By uid, with the version at which the pod was first seen to end."""
        self._available: dict[str, int] = {}
        """By uid of the Reservation, the version at which it was first seen Available."""
        self._waits: set[str] = set()
        """Pods that came since and have no node."""
        pods = world.api.get(world.path("pods")).expect()
        self._old = {pod["metadata"]["uid"] for pod in pods.items}
        rooms = world.api.get(RESERVATIONS).expect()
        self._threads = [threading.Thread(target=self._follow, args=arguments, daemon=True) for arguments in (
            (world.path("pods"), pods.version, self._pod),
            (RESERVATIONS, rooms.version, self._room),
        )]  # fmt: skip
        for thread in self._threads:
            thread.start()

    def end(self) -> list[Departure]:
        """All of them, when their moves have ended."""
        self._world.wait(lambda: all(_over(move) for move in self._moves()))
        self._stop.set()
        for thread in self._threads:
            thread.join(_END_S)
        by_pod = {move["spec"]["podRef"].get("uid"): move for move in self._moves()}
        return [self._judged(pod, version, by_pod.get(uid)) for uid, (pod, version) in self._left.items()]

    def _moves(self) -> list[Json]:
        """Those of the pods that have left."""
        moves = self._world.api.get(self._world.path("podmigrations", group=API_VERSION)).expect().items
        return [move for move in moves if move["spec"]["podRef"].get("uid") in self._left]

    @property
    def left_pending(self) -> int:
        """How many of the pods that came have no node."""
        return len(self._waits)

    def _judged(self, pod: Json, version: int, move: Json | None) -> Departure:
        status = (move or {}).get("status") or {}
        room = status.get("reservationUid", "")
        return Departure(
            pod=pod["metadata"]["name"],
            node=node_of(pod),
            requested_by=(move or {}).get("spec", {}).get("requestedBy", ""),
            room_first=self._available.get(room, version) < version,
            landed=status.get("phase") == "Succeeded",
        )

    def _follow(self, path: str, version: str, note: Callable[[Json, bool], None]) -> None:
        while not self._stop.is_set():
            try:
                for event in self._world.api.watch(path, seconds=_WATCH_S, resourceVersion=version):
                    version = event["object"]["metadata"]["resourceVersion"]
                    note(event["object"], event["type"] == "DELETED")
            except TransportError:
                self._stop.wait(_AGAIN_S)  # the API server is away: it goes on where it was

    def _pod(self, pod: Json, gone: bool) -> None:  # noqa: FBT001  of an event
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        if "app" not in metadata.get("labels", {}):
            return
        if gone or "deletionTimestamp" in metadata:
            self._left.setdefault(uid, (pod, int(metadata["resourceVersion"])))
        if gone or node_of(pod):
            self._waits.discard(uid)
        elif uid not in self._old:
            self._waits.add(uid)

    def _room(self, room: Json, gone: bool) -> None:  # noqa: ARG002, FBT001  of an event
        metadata = room["metadata"]
        if (room.get("status") or {}).get("phase") == "Available":
            self._available.setdefault(metadata["uid"], int(metadata["resourceVersion"]))


def _over(move: Json) -> bool:
    return (move.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
