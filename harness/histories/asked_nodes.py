"""A node autoscaler in a full cluster: moves without a target and Reservations without a node ask it for nodes, and it adds some, too small ones, or none.

Somebody may delete a pod that asks, and a node that was added may be cordoned again. Checked at every write: a pod that asks is never
bound, is made only while a move of its pod waits without a target, and one at a time for each pod; that nothing is left is checked
at the end. Drawn from a random stream of its own: histories without it are those of before.
"""

from __future__ import annotations

from typing import Final

from harness import documents
from harness.histories.disturbances import CROWD
from harness.histories.observed_cluster import node_of, over
from harness.histories.theme import Stage, Theme
from harness.histories.user_requests import MOVE
from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import (
    NODE,
    POD,
    Obj,
    annotations_of,
    condition,
    deleting,
    key,
    labels,
    spec,
    uid,
)
from kube_sandbox.nodes import SandboxNode
from rescheduler.model.names import ANNOTATION_MIGRATION, HOSTNAME, LABEL_PLACEHOLDER, NODE_REQUEST

_MOST_NODES: Final = 3
_MOST_MOVES: Final = 4
_UNTIL_S: Final = 8.0
_LOOKS_S: Final = (1.0, 4.0, 10.0)
"""From a pod that asks to the node, in real autoscalers a minute: enough to be before and after the next step of its move."""
_CPUS: Final = ("1", "4", "8")


def with_autoscaler(document: bytes) -> bytes:
    """The configuration says that there is one."""
    return document.replace(b"reservations: {", b"reservations: {nodeAutoscaler: Present, ")


class AskedNodes(Theme):
    """Writes its own part of the script, and is a component of the sandbox: the autoscaler. ``faults``: what must not happen."""

    stream, share = "asked nodes", 0.15

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.met = 0
        """Pods that asked."""
        self.nodes = 0
        """Nodes that were added for them."""
        self._looks_at_s: float | None = None
        if self.at_work:
            self._api.subscribe(self._hear)

    def write_script(self) -> None:
        """Draw what happens, and when."""
        rng = self._rng
        self._in(rng.uniform(0.0, 1.0), "the cluster is full", self._fill)
        for _ in range(rng.randint(1, _MOST_MOVES)):
            self._in(rng.uniform(0.0, _UNTIL_S), "a move to anywhere is asked for", self._move)
        if rng.random() < 0.5:  # noqa: PLR2004 - a share
            self._in(rng.uniform(1.0, _UNTIL_S), "room is reserved in a full cluster", self._reserve)
        if rng.random() < 0.3:  # noqa: PLR2004 - a share
            self._in(rng.uniform(6.0, 11.0), "a pod that asks for a node is deleted", self._delete_one)

    # The autoscaler

    def step(self, now_s: float) -> int:
        """Add a node for one of the pods that ask, if it is time."""
        if self._looks_at_s is None or now_s < self._looks_at_s:
            return 0
        self._looks_at_s = None
        asking = [
            p
            for p in self._requests()
            if (condition(p, "PodScheduled") or {}).get("reason") == "Unschedulable"
        ]
        if asking and self.nodes < _MOST_NODES:
            self.nodes += 1
            zone = self._rng.choice(self._plan.machines).zone
            node = SandboxNode(name=f"asked-{self.nodes}", cpu=self._rng.choice(_CPUS), zone=zone)
            try:
                self._cluster.add_node(node)
            except StatusError:  # the API server is away: this autoscaler does not try again
                return 0
            self._look_later(now_s)
            return 1
        return 0

    def next_due_s(self, now_s: float) -> float | None:
        """When it looks next."""
        return None if self._looks_at_s is None else max(now_s, self._looks_at_s)

    def _look_later(self, now_s: float) -> None:
        if self._looks_at_s is None:
            self._looks_at_s = now_s + self._rng.choice(_LOOKS_S)

    # What people do

    def _fill(self) -> None:
        """Pods of the workloads' own priority take what is free of each node."""
        there, free = {key(node).name for node in self._api.list(NODE)}, self._free_milli()
        for name in sorted(there & free.keys()):
            if free[name] > 0:
                body = self._pod(f"full-{name}", free[name], CROWD)
                body["spec"]["nodeSelector"] = {HOSTNAME: name}
                self._api.create(body)

    def _move(self) -> None:
        apps = {w.name for w in self._plan.workloads}
        pods = [
            p for p in self._api.list(POD) if labels(p).get("app") in apps and node_of(p) and not deleting(p)
        ]
        if not pods:
            return
        pod = self._rng.choice(pods)
        name, ttl = self._name("anywhere"), f"{self._rng.choice((15, 40, 60))}s"
        move = documents.migration(name, key(pod).name, uid=uid(pod), namespace="default", ttl=ttl)
        self._api.create(move)

    def _reserve(self) -> None:
        name = self._name("wanted")
        pod = self._pod("template", self._rng.choice((500, 1500)))["spec"]
        owner = {"object": {"namespace": "default", "name": name}}
        ttl = f"{self._rng.choice((15, 40))}s"
        self._api.create(documents.reservation(name, pod, [owner], ttl=ttl))

    def _delete_one(self) -> None:
        if asking := self._requests():
            self._api.delete(self._rng.choice(asking))

    def _requests(self) -> list[Obj]:
        return [p for p in self._api.list(POD) if _asks(p) and not deleting(p)]

    # Checks

    def _hear(self, change: ObjectChange) -> None:
        pod = change.object
        if pod["kind"] != "Pod" or not _asks(pod):
            return
        if node_of(pod):
            self.faults.append(f"{key(pod).name} asks for a node and is bound to {node_of(pod)}")
        if change.type == "ADDED" and self._program.line.sending:
            self.met += 1
            self._check_new(pod)
        self._look_later(self._cluster.clock())

    def _check_new(self, pod: Obj) -> None:
        moves = {f"default/{key(m).name}": m for m in self._api.list(MOVE)}
        move = moves.get(annotations_of(pod).get(ANNOTATION_MIGRATION, ""))
        if move is not None and spec(move).get("target"):
            self.faults.append(f"{key(pod).name} asks for a node, and its move names its target")
        about = [moves.get(annotations_of(p).get(ANNOTATION_MIGRATION, "")) for p in self._requests()]
        names = [spec(m)["podRef"]["name"] for m in about if m is not None and not over(m)]
        if len(names) != len(set(names)):
            self.faults.append(f"two pods ask for nodes for one pod: {sorted(names)}")


def _asks(pod: Obj) -> bool:
    return labels(pod).get(LABEL_PLACEHOLDER) == NODE_REQUEST
