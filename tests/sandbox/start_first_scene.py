"""The world of the tests of mode StartFirst: one Deployment under a budget that allows nothing, and a witness.

The witness sees every write of the API server: Ready pods of the workload never fewer than before, pods never more than
replicas + 1, no eviction before the replacement is Ready. At the end the workload is as its owner wants it.
"""

import random

from harness import documents
from harness.histories.disturbances import MAP
from harness.histories.program import QUIET, Program, ProgramOptions
from harness.histories.user_requests import MOVE
from kube_sandbox.controllers.unstructured import (
    NODE,
    POD,
    condition,
    controller_of,
    deleting,
    labels,
    ready,
    spec,
    status,
    uid,
)
from kube_sandbox.installing import install
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.controller.settings import Settings
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import GATE, LABEL_START_FIRST
from rescheduler.reservations.settings import ReservationSettings

SETTINGS = Settings(
    migrations=MigrationSettings(
        reservations=ReservationSettings(ttl_s=60.0),
        replacement_limit_s=20.0,
        gate_settle_s=0.3,
        modes={"NodeTaints": MoveMode.START_FIRST},
    )
)
DECLARED = {"NodeTaints": MoveMode.START_FIRST}


class Witness:
    """Counts at every write."""

    def __init__(self, scene, replicas):
        self.scene, self.least, self.most, self.evicted, self.early = scene, replicas, replicas, set(), []
        scene.api.subscribe(self.watch)

    def watch(self, change):
        if change.object["kind"] != "Pod":
            return
        pods = self.scene.pods()
        self.least = min(self.least, len([p for p in pods if ready(p) and not deleting(p)]))
        self.most = max(self.most, len([p for p in pods if not deleting(p)]))
        mark = condition(change.object, "DisruptionTarget")
        if mark is None or mark["reason"] != "EvictionByEvictionAPI" or uid(change.object) in self.evicted:
            return
        self.evicted.add(uid(change.object))
        if not any(ready(p) for p in self.scene.unadopted()):
            self.early.append(change.object["metadata"]["name"])


class Scene:
    """A Deployment whose budget allows nothing, and moves of its pods."""

    def __init__(self, seed, *, replicas=1, crashes=0, annotated=True, unavailable=0, spread=()):
        machines = [SandboxNode(name=f"n{i}", cpu="4", zone="z") for i in range(1, 6)]
        kubelet = KubeletSettings(start_s=0.2, ready_s=0.5, stop_s=1.0)
        self.cluster = Sandbox(machines, seed=seed, interleave=True, kubelet=kubelet)
        self.api = self.cluster.api
        install(self.cluster.transport)
        self.rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.replicas = replicas
        pod = documents.pod_spec(terminationGracePeriodSeconds=5, topologySpreadConstraints=list(spread))
        meta = {"annotations": {"rescheduler.dev/mode": "StartFirst"}} if annotated else {}
        self.api.create(
            documents.workload("Deployment", "web", replicas, pod, namespace="default", meta=meta)
        )
        self.api.create(documents.budget("web", namespace="default", maxUnavailable=unavailable))
        self.cluster.run_until(lambda: len(self.ready()) == replicas, 60)
        self.cluster.advance(3)
        self.witness = Witness(self, replicas)
        options = ProgramOptions(
            document=QUIET, settings_of=lambda _: SETTINGS, crashes=crashes, writes_per_life=8, late=True
        )
        self.program = Program(self.cluster, self.rng, options)
        self.cluster.add(self.program)

    def pods(self):
        return [p for p in self.api.list(POD) if labels(p).get("app") == "web"]

    def ready(self):
        return [p for p in self.pods() if ready(p) and not deleting(p)]

    def unadopted(self):
        return [p for p in self.api.list(POD) if LABEL_START_FIRST in labels(p) and controller_of(p) is None]

    def move(self, **more):
        """Asks for a move of one pod to an empty node; gives name and target."""
        pod = min(self.pods(), key=lambda p: p["metadata"]["name"])
        used = {spec(p).get("nodeName") for p in self.api.list(POD)}
        target = min({n["metadata"]["name"] for n in self.api.list(NODE)} - used)
        name = f"m{len(self.api.list(MOVE))}"
        wish = {"podRef": {"name": pod["metadata"]["name"], "uid": uid(pod)}, "target": {"nodeName": target}}
        self.api.create(documents.own("PodMigration", name, {**wish, **more}, "default"))
        return name, target, pod

    def state(self, name):
        move = self.api.get(MOVE, "default", name)
        return status(move) if move is not None else {"phase": "Deleted"}

    def over(self, *names):
        return all(self.state(n).get("phase") in ("Succeeded", "Failed", "Deleted") for n in names)

    def finish(self, *names, limit_s=200):
        self.cluster.run_until(lambda: self.over(*names), limit_s)
        self.cluster.advance(30)

    def patch(self, kind, name, change, namespace="default"):
        return self.api.patch(self.api.get(kind, namespace, name), change)

    def when(self, phase, name, limit_s=60):
        self.cluster.run_until(lambda: self.state(name).get("phase") == phase or self.over(name), limit_s)

    def leftovers(self):
        gated = [
            p["metadata"]["name"]
            for p in self.api.list(POD)
            if any(g["name"] == GATE for g in spec(p).get("schedulingGates") or ())
        ]
        gate_keys = self.api.get(MAP, "rescheduler", "gate-keys").get("data") or {}
        return [p["metadata"]["name"] for p in self.unadopted()], gated, gate_keys

    def settled(self, replicas):
        """The workload as its owner wants it, and nothing of ours left."""
        assert self.leftovers() == ([], [], {})
        assert len(self.pods()) == replicas
        assert len(self.ready()) == replicas
        assert not self.witness.early
