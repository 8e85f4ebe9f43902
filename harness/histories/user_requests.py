"""Creates what users request of the program: moves of pods, and Reservations for new pods or before a scale-up."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from harness import documents
from harness.histories.clusters import ClusterPlan, Workload, lone_pod
from harness.histories.observed_cluster import app_of
from harness.histories.script import Script
from kube_sandbox.controllers.unstructured import (
    DEPLOYMENT,
    NODE,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    GroupKind,
    Obj,
    controller_of,
    deleting,
    key,
    labels,
    spec,
    status,
    uid,
)
from kube_sandbox.sandbox import Sandbox

MOVE: Final = GroupKind("rescheduler.dev", "PodMigration")
ROOM: Final = GroupKind("rescheduler.dev", "Reservation")
KINDS: Final = {"Deployment": DEPLOYMENT, "StatefulSet": STATEFUL_SET, "ReplicaSet": REPLICA_SET}
GUEST: Final = "guest"
"""Label ``app`` of pods without a controller that rooms are reserved for."""

_MOST: Final = 4
_AGAIN: Final = 0.15
"""Share of the moves that may be of a pod that is being moved already."""


class Asks:
    """Creates the requested objects. ``sizes``: how many pods each workload should have now."""

    def __init__(self, cluster: Sandbox, rng: random.Random, plan: ClusterPlan, script: Script) -> None:
        self._api, self._clock = cluster.api, cluster.clock
        self._rng, self._plan, self._script = rng, plan, script
        self._serial = 0
        self.sizes = {w.name: w.replicas for w in plan.workloads}

    def move(self) -> None:
        """A PodMigration of a random pod, to a random node or to none in particular."""
        pod = self._some_pod()
        if pod is None:
            return
        wish: Obj = {"podRef": {"name": key(pod).name}, "ttl": f"{self._rng.choice((20, 40, 60))}s"}
        if self._chance(0.8):
            wish["podRef"]["uid"] = uid(pod)
        if self._chance(0.9):
            others = [n for n in self._nodes() if n != spec(pod).get("nodeName")]
            wish["target"] = {"nodeName": self._rng.choice(others or self._nodes())}
        if self._chance(0.1):
            wish["deleteOptions"] = {"gracePeriodSeconds": 1}
        if self._chance(0.05):
            wish["mode"] = self._rng.choice(("ReserveFirst", "StartFirst", "Soft"))
        owner = controller_of(pod)
        if owner is not None and self._chance(0.15):
            node = wish.get("target", {}).get("nodeName", "")
            wish["reservationRef"] = {"name": self._room_for_move(pod, owner, node)}
        self._create("PodMigration", "move", wish)

    def room(self) -> None:
        """A Reservation, and a moment later the pods that it is for."""
        workload = self._rng.choice(self._plan.workloads)
        several = self._chance(0.4)
        parts = self._rng.randint(1, 3) if several else 1
        owner, guests = self._owner(workload)
        wish = self._wish(workload.cpu_milli * parts, owner)
        if not several and not guests and self._chance(0.7):
            wish["template"] = workload.body["spec"]["template"]
        wish["allocateOnce"] = not several
        wish["preAllocation"] = self._chance(0.25)
        wish["ttl"] = f"{self._rng.choice((8, 20, 45))}s"
        if self._chance(0.4):
            there = {"nodeName": self._rng.choice(self._nodes())}
            wish["template"] = {**wish["template"], "spec": {**wish["template"]["spec"], **there}}
        self._create("Reservation", "room", wish)
        after_s = self._rng.choice((0.0, 0.5, 2.0, 5.0))
        pods = self._rng.randint(1, parts + 1)
        come = self._guests_come(guests, workload, pods) if guests else self._grows(workload, pods)
        self._script.at(self._clock() + after_s, "pods come for a room", come)

    def scale(self, by: int) -> Callable[[], None]:
        """A user scales a workload up or down."""

        def do() -> None:
            workload = self._rng.choice(self._plan.workloads)
            self._script.hits.add(f"workload {workload.name}")
            self.resize(workload, self.sizes[workload.name] + by)

        return do

    def grows_while_moving(self) -> None:
        """A workload with a move in flight is scaled up by one pod."""
        moved = {app_of(m) for m in self._api.list(MOVE) if not _over(m)}
        growing = [w for w in self._plan.workloads if w.name in moved]
        if growing:
            workload = self._rng.choice(growing)
            self.resize(workload, self.sizes[workload.name] + 1)

    def resize(self, workload: Workload, replicas: int) -> None:
        """A user scales a workload to a size between none and ``_MOST``."""
        found = self._api.get(KINDS[workload.kind], "default", workload.name)
        if found is not None and not deleting(found):
            replicas = max(0, min(_MOST, replicas))
            self._api.patch(found, {"spec": {"replicas": replicas}})
            self.sizes[workload.name] = replicas

    def forget(self, workload: Workload) -> None:
        """Record that a user has deleted the workload."""
        self._script.hits.add(f"workload {workload.name}")
        self.sizes[workload.name] = 0

    # Parts of requests

    def _grows(self, workload: Workload, pods: int) -> Callable[[], None]:
        return lambda: self.resize(workload, self.sizes[workload.name] + pods)

    def _guests_come(self, guest: str, workload: Workload, pods: int) -> Callable[[], None]:
        def do() -> None:
            names = [guest, *(f"{guest}-{i}" for i in range(1, pods))]
            for name in names:
                body = lone_pod(
                    name, cpu_milli=workload.cpu_milli, priority_class=self._plan.priority_class, label=GUEST
                )
                body["metadata"]["labels"]["for"] = guest
                self._api.create(body)

        return do

    def _owner(self, workload: Workload) -> tuple[Obj, str]:
        """An entry of ``owners``; the name of the pods to come, where they have no controller."""
        kind = self._rng.choice(("name", "name", "uid", "label", "object", "guests"))
        if kind == "object":
            name = self._name(GUEST)
            return {"object": {"namespace": "default", "name": name}}, name
        if kind == "guests":
            name = self._name(GUEST)
            return {"labelSelector": {"matchLabels": {"for": name}}}, name
        if kind == "label":
            return {"labelSelector": {"matchLabels": {"app": workload.name}}}, ""
        ref = {"apiVersion": "apps/v1", "kind": workload.kind, "name": workload.name, "namespace": "default"}
        found = self._api.get(KINDS[workload.kind], "default", workload.name)
        if kind == "uid" and found is not None and workload.kind != "Deployment":
            ref["uid"] = uid(found)
        return {"controller": ref}, ""

    def _room_for_move(self, pod: Obj, owner: Obj, node: str) -> str:
        """A Reservation for the pod's own controller, which the PodMigration names."""
        cpu = spec(pod)["containers"][0]["resources"]["requests"]["cpu"]
        ref = {k: owner[k] for k in ("apiVersion", "kind", "name", "uid")}
        wish = self._wish(int(cpu.removesuffix("m")), {"controller": ref})
        wish["ttl"] = "70s"
        if node:
            wish["template"]["spec"]["nodeName"] = node
        return self._create("Reservation", "room", wish)

    def _wish(self, cpu_milli: int, owner: Obj) -> Obj:
        body = lone_pod("template", cpu_milli=cpu_milli, priority_class=self._plan.priority_class)
        return {"template": {"spec": body["spec"]}, "owners": [owner]}

    def _some_pod(self) -> Obj | None:
        apps = {w.name for w in self._plan.workloads}
        pods = [
            p
            for p in self._api.list(POD)
            if labels(p).get("app") in apps and spec(p).get("nodeName") and not deleting(p)
        ]
        moved = {spec(m)["podRef"].get("uid") for m in self._api.list(MOVE) if not _over(m)}
        fresh = pods if self._chance(_AGAIN) else [p for p in pods if uid(p) not in moved]
        return self._rng.choice(fresh) if fresh else None

    def _nodes(self) -> list[str]:
        return [key(n).name for n in self._api.list(NODE)] or ["n1"]

    def _name(self, stem: str) -> str:
        self._serial += 1
        return f"{stem}-{self._serial}"

    def _create(self, kind: str, stem: str, wish: Obj) -> str:
        name = self._name(stem)
        namespace = "default" if kind == "PodMigration" else ""
        self._api.create(documents.own(kind, name, wish, namespace))
        return name

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share


def _over(move: Obj) -> bool:
    return status(move).get("phase") in ("Succeeded", "Failed")
