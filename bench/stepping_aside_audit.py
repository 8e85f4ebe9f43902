"""Judges rooms that others make for pending pods, from what watches of the API server showed. Pure.

Beside the rule for every eviction (``evictions``): while a pod steps aside for another one, the Reservation of that other one must
keep its node; no workload may ever have fewer Ready pods than its budget allows; a pod landed if it is bound where its room was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bench.evictions import Watched
from harness.controlplane.api import Json
from harness.controlplane.world import is_ready, node_of
from rescheduler.model.names import ANNOTATION_MAKES_ROOM, ANNOTATION_PENDING_POD

KEPT: Final = ("Waiting", "Available")


@dataclass(frozen=True)
class Landing:
    """Where a pod is that waited, and which rooms were made for it."""

    pod: str
    node: str
    rooms: tuple[Json, ...]
    """Last versions of the Reservations that were made for it, oldest first."""

    @property
    def right(self) -> bool:
        """True if it is bound in the room that was made for it last."""
        status = (self.rooms[-1].get("status") or {}) if self.rooms else {}
        return bool(self.node) and (status.get("phase"), status.get("nodeName")) == ("Succeeded", self.node)


def landings(watched: Watched, pods: Iterable[Json]) -> Iterator[Landing]:
    """One for each of the pods, which are as they are now."""
    rooms = sorted(watched.of_kind("Reservation"), key=lambda row: row[1][0][0])
    for pod in pods:
        key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        found = tuple(rows[-1][1] for _, rows in rooms if _note(rows[0][1], ANNOTATION_PENDING_POD) == key)
        yield Landing(key, node_of(pod), found)


def early(watched: Watched, namespace: str) -> Iterator[str]:
    """Pods of the namespace that began to end while the room that they stepped aside for was not kept."""
    for _, rows in watched.of_kind("PodMigration"):
        room, ref = _note(rows[0][1], ANNOTATION_MAKES_ROOM), rows[0][1]["spec"]["podRef"]
        if not room or rows[0][1]["metadata"]["namespace"] != namespace:
            continue
        versions = watched.versions.get(ref.get("uid", ""), [])
        ended = next((v for v, p in versions if p["GONE"] or p["metadata"].get("deletionTimestamp")), None)
        if ended is not None and (missing := _not_kept(watched, room, ended)):
            yield f"{ref['name']}: {missing}"


def bound_ever(watched: Watched, namespace: str) -> dict[str, str]:
    """Pods of the namespace that got a node, and the node, also those that are gone."""
    last = (rows[-1][1] for _, rows in watched.of_kind("Pod"))
    return {
        pod["metadata"]["name"]: node_of(pod)
        for pod in last
        if pod["metadata"]["namespace"] == namespace and node_of(pod)
    }


def least_ready(watched: Watched, namespace: str, replicas: Mapping[str, int]) -> dict[str, int]:
    """By workload: the fewest Ready pods at any version since all of them were Ready for the first time."""
    changes = [
        (version, uid, pod)
        for uid, rows in watched.of_kind("Pod")
        if rows[0][1]["metadata"]["namespace"] == namespace
        for version, pod in rows
    ]
    ready: dict[str, set[str]] = {app: set() for app in replicas}
    least: dict[str, int] = {}
    for _, uid, pod in sorted(changes, key=lambda change: change[:2]):
        app = pod["metadata"].get("labels", {}).get("app", "")
        if app not in ready:
            continue
        if is_ready(pod) and not pod["GONE"]:
            ready[app].add(uid)
        else:
            ready[app].discard(uid)
        count = len(ready[app])
        if app in least or count == replicas[app]:
            least[app] = min(least.get(app, count), count)
    return least


def _not_kept(watched: Watched, name: str, version: int) -> str:
    """What was missing of the Reservation for the pod that waits; "" if nothing was."""
    states = (watched.at(uid, version) for uid, _ in watched.of_kind("Reservation"))
    room = next((r for r in states if r is not None and r["metadata"]["name"] == name), None)
    phase = ((room or {}).get("status") or {}).get("phase", "absent")
    if room is None or phase not in KEPT:
        return f"Reservation {name} was {phase}"
    for uid, _ in watched.of_kind("Pod"):
        holder = watched.at(uid, version)
        if holder is None or holder["metadata"].get("deletionTimestamp"):
            continue
        owners = {owner["uid"] for owner in holder["metadata"].get("ownerReferences", ())}
        at = node_of(holder) or holder.get("status", {}).get("nominatedNodeName")
        if room["metadata"]["uid"] in owners and at:
            return ""
    return f"no placeholder of Reservation {name} kept the node"


def _note(item: Json, name: str) -> str:
    return str((item["metadata"].get("annotations") or {}).get(name, ""))
