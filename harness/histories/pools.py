"""Rooms for several pods that are used completely and whose owners restart, and preallocations beside nodes that become free.

The template of such a room names CPU only, and its owners request memory besides. Later an owner is deleted once or more often, and
another one comes at once or a little later. In some of these histories pods fill two nodes, room is preallocated for as much as
one of them has, without naming a node, and then the pod that fills the other node leaves.
Checked: a room for several pods never ends as used. What is held, and that nobody lands in it, is checked by ``rooms``. All
draws come from a stream of their own, so that histories without them stay as they were.
"""

from __future__ import annotations

from typing import Any, Final

from harness import documents
from harness.histories.observed_cluster import node_of
from harness.histories.theme import Stage, Theme
from harness.histories.user_requests import ROOM
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import POD, Obj, deleting, key, labels, spec, status
from rescheduler.model.names import HOSTNAME

_PREALLOCATES: Final = 0.5
_UNTIL_S: Final = 3.0
_PART_MILLI: Final = 500
_NODES: Final = 2
_OWNERS: Final = "pool"


class Pools(Theme):
    """Rooms for several pods, whose owners restart."""

    stream, share = "pools", 0.2

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._api.subscribe(self._hear)

    def write_script(self) -> None:
        """Draw when there is such a room."""
        self._in(self._rng.uniform(0.0, _UNTIL_S), "a room for several names CPU only", self._reserve)
        if self._rng.random() < _PREALLOCATES:
            self._in(self._rng.uniform(0.0, _UNTIL_S), "pods fill two nodes", self._fill)

    def _hear(self, change: ObjectChange) -> None:
        obj = change.object
        several = obj["kind"] == "Reservation" and spec(obj).get("allocateOnce") is False
        if several and status(obj).get("phase") == "Succeeded":
            self.faults.append(f"room {key(obj).name} for several pods ended as used")

    def _reserve(self) -> None:
        free = self._free_milli()
        node = max(sorted(free), key=lambda name: free[name])
        parts = min(self._rng.choice((1, 2, 3)), free[node] // _PART_MILLI)
        if not parts:
            return
        owner = {"labelSelector": {"matchLabels": {"app": _OWNERS}}}
        there = {"nodeName": node} if self._rng.random() < 0.5 else {}  # noqa: PLR2004 - a share
        self._room("pool", parts * _PART_MILLI, owner, there, allocateOnce=False)
        for _ in range(parts):
            self._in(self._rng.uniform(0.5, 2.0), "an owner of the room comes", self._come)
        for _ in range(self._rng.randint(1, 3)):
            self._in(self._rng.uniform(3.0, 9.0), "an owner of the room restarts", self._restart)

    def _come(self) -> None:
        self._api.create(self._pod(self._name(_OWNERS), _PART_MILLI, _OWNERS))

    def _restart(self) -> None:
        owners = [pod for pod in self._api.list(POD) if labels(pod).get("app") == _OWNERS]
        standing = [pod for pod in owners if node_of(pod) and not deleting(pod)]
        if standing:
            self._api.delete(self._rng.choice(standing))
            self._in(self._rng.choice((0.001, 0.6, 2.5)), "an owner of the room comes", self._come)

    def _fill(self) -> None:
        free = {name: cpu_milli for name, cpu_milli in self._free_milli().items() if cpu_milli >= _PART_MILLI}
        if len(free) < _NODES:
            return
        nodes = self._rng.sample(sorted(free), _NODES)
        for node in nodes:
            body = self._pod(f"fills-{node}", free[node])
            body["spec"]["nodeSelector"] = {HOSTNAME: node}
            self._api.create(body)
        size = min(free[node] for node in nodes)
        self._in(1.0, "room is preallocated anywhere", lambda: self._preallocate(size, nodes))

    def _preallocate(self, size: int, nodes: list[str]) -> None:
        owner = {"object": {"namespace": "default", "name": "comes-later"}}
        self._room("anywhere", size, owner, {}, preAllocation=True)
        self._in(
            self._rng.uniform(1.0, 4.0), "a pod that fills another node leaves", lambda: self._leave(nodes)
        )

    def _leave(self, nodes: list[str]) -> None:
        room = self._api.get(ROOM, "", "anywhere")
        waits_on = status(room).get("nodeName", "") if room is not None else ""
        left = next((node for node in nodes if node != waits_on), "")
        pod = self._api.get(POD, "default", f"fills-{left}")
        if pod is not None and not deleting(pod):
            self._api.delete(pod)

    def _room(self, name: str, cpu_milli: int, owner: Obj, there: Obj, **wish: Any) -> None:
        pod = documents.pod_spec(f"{cpu_milli}m", **there)
        ttl = f"{self._rng.choice((20, 45))}s"
        self._api.create(documents.reservation(name, pod, [owner], ttl=ttl, **wish))
