"""Judges evictions from what watches of the API server showed: was there an Available room for each of them?

All objects of one etcd have versions of one row, so the state of a Reservation, of its placeholder and of its move at the
version in which a pod began to end is known exactly, whatever clocks say. Pure but for ``Watched.follow``.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

from harness.controlplane.api import Api, Json
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import API_VERSION

WATCHED: Final = {
    "Pod": "/api/v1/pods",
    "Reservation": f"/apis/{API_VERSION}/reservations",
    "PodMigration": f"/apis/{API_VERSION}/podmigrations",
}


@dataclass
class Watched:
    """Every version of every object that a watch showed."""

    versions: dict[str, list[tuple[int, Json]]] = field(default_factory=dict)
    """By uid: version and object, oldest first; an object that was deleted ends with its last version, marked GONE."""
    stop: threading.Event = field(default_factory=threading.Event)

    def take(self, event: Json) -> None:
        """One watch event."""
        found, kind = event["object"], event["type"]
        if kind in ("BOOKMARK", "ERROR", "HTTP"):
            return
        meta = found["metadata"]
        entry = {**found, "GONE": kind == "DELETED"}
        known = self.versions.setdefault(meta["uid"], [])
        version = int(meta["resourceVersion"])
        if not known or version > known[-1][0]:
            known.append((version, entry))

    def at(self, uid: str, version: int) -> Json | None:
        """The object as it was right before that version; None: it did not exist."""
        known = self.versions.get(uid, [])
        index = bisect_right(known, version - 1, key=lambda pair: pair[0])
        return known[index - 1][1] if index and not known[index - 1][1]["GONE"] else None

    def of_kind(self, kind: str) -> list[tuple[str, list[tuple[int, Json]]]]:
        """Uid and versions of all objects of a kind."""
        return [(uid, rows) for uid, rows in self.versions.items() if rows[0][1].get("kind") == kind]

    def follow(self, api: Api) -> list[threading.Thread]:
        """Begin to watch; the watches go on where they ended until ``stop``."""
        threads = [
            threading.Thread(target=self._watch, args=(api, *each), daemon=True) for each in WATCHED.items()
        ]
        for thread in threads:
            thread.start()
        return threads

    def _watch(self, api: Api, kind: str, path: str) -> None:
        while not (listed := api.get(path)).ok:  # an API server that has just begun to serve our kinds
            time.sleep(0.2)
        for each in listed.items:
            self.take({"type": "ADDED", "object": {**each, "kind": kind}})
        version = listed.version
        while not self.stop.is_set():
            try:
                for event in api.watch(path, seconds=5, resourceVersion=version):
                    version = event["object"]["metadata"].get("resourceVersion", version)
                    self.take(event)
            except (TransportError, AssertionError):
                time.sleep(0.1)


@dataclass(frozen=True)
class Verdict:
    """What became of the evictions of one namespace."""

    evicted: int
    without_room: tuple[str, ...]
    """Names of evicted pods for which no Available room stood, with what was missing."""


def judge(watched: Watched, namespace: str) -> Verdict:
    """All pods of the namespace that began to end. Nobody else may delete pods there."""
    wanted = {}
    for uid, rows in watched.of_kind("PodMigration"):
        ref = rows[-1][1]["spec"]["podRef"]
        wanted.setdefault(ref.get("uid") or ref["name"], []).append(uid)
    evicted, missing = 0, []
    for uid, rows in watched.of_kind("Pod"):
        first = next((v for v, pod in rows if pod["metadata"].get("deletionTimestamp") or pod["GONE"]), None)
        pod = rows[0][1]
        if first is None or pod["metadata"]["namespace"] != namespace:
            continue
        evicted += 1
        moves = wanted.get(uid, []) + wanted.get(pod["metadata"]["name"], [])
        reasons = [_missing(watched, move, first) for move in moves] or ["no move"]
        if all(reasons):
            missing.append(f"{pod['metadata']['name']}: {'; '.join(reasons)}")
    return Verdict(evicted, tuple(missing))


def _missing(watched: Watched, move_uid: str, version: int) -> str:
    """What was missing for an eviction by that move; "" if nothing was."""
    move = watched.at(move_uid, version)
    status = (move or {}).get("status") or {}
    if not status.get("evictionRequestedAt"):
        return "no intent was written"
    room = watched.at(status.get("reservationUid", ""), version) or _named(
        watched, status.get("reservationName", ""), version
    )
    state = (room or {}).get("status") or {}
    if room is None or state.get("phase") != "Available" or state.get("currentOwners"):
        return f"the room was {state.get('phase', 'absent')}"
    for _, rows in watched.of_kind("Pod"):
        holder = watched.at(rows[0][1]["metadata"]["uid"], version)
        if holder is None or holder["metadata"].get("deletionTimestamp"):
            continue
        owners = holder["metadata"].get("ownerReferences", ())
        if holder["spec"].get("nodeName") == state.get("nodeName") and any(
            owner["uid"] == room["metadata"]["uid"] for owner in owners
        ):
            return ""
    return "no placeholder stood"


def _named(watched: Watched, name: str, version: int) -> Json | None:
    found = (watched.at(uid, version) for uid, _ in watched.of_kind("Reservation"))
    return next((room for room in found if room is not None and room["metadata"]["name"] == name), None)
