"""A sandbox in virtual time with the whole controller at work, and short words for what a test does to them.

The controller is the one that ``run`` assembles, driven by ``harness.histories.program``. Every request of it goes
through ``Calls``, where a test reads what it sent and answers in the server's place.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from harness import documents
from harness.histories.clusters import lone_pod, priority_classes
from harness.histories.observed_cluster import Seen, Writer
from harness.histories.ownrules import OwnRules
from harness.histories.program import Program, ProgramOptions
from harness.histories.rooms import Rooms
from harness.histories.user_requests import KINDS, MOVE, ROOM
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import NODE, POD, GroupKind, deleting, labels, ready, spec, status
from kube_sandbox.installing import install
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.kube.election import LeaseTiming
from rescheduler.kube.transport import Response
from rescheduler.model.names import GATE, GATE_CONFIG_MAP, LABEL_PLACEHOLDER

CONFIG_MAP = GroupKind("", "ConfigMap")
LEASE = GroupKind("coordination.k8s.io", "Lease")
QUIET = b"{apiVersion: rescheduler.dev/v1alpha1, kind: ReschedulerConfiguration, policies: []}"
TAINTS = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 2s
limits: {movesAtOnce: 5, movesPerHour: 600, workloadCooldown: 2s}
policies: [{name: NodeTaints, after: 0s}]
"""
PENDING_PODS = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
aggressiveness: aggressive
interval: 5s
limits: {movesAtOnce: 5, movesPerHour: 600, workloadCooldown: 2s}
policies:
- name: PendingPods
  after: 5s
"""
OVER = ("Succeeded", "Failed")
SELDOM_RENEWED = LeaseTiming(retry_s=12.0)
"""Of tests that are about something else than the Lease: each renewal is a request."""


def refusal(code, reason, *, details=None, **headers):
    """An answer of the API server that is no."""
    body = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason}
    body["details"] = details or {}
    return Response(code, json.dumps(body).encode(), {"content-type": "application/json", **headers})


@dataclass(frozen=True)
class Call:
    """One request that the controller sent."""

    at_s: float
    method: str
    path: str
    query: dict
    body: dict | list
    """A list if it is a JSON patch."""

    @property
    def dry(self):
        body = {} if isinstance(self.body, list) else self.body
        options = body.get("deleteOptions") or {}
        return "dryRun" in self.query or bool(options.get("dryRun") or body.get("dryRun"))

    @property
    def evicts(self):
        return self.path.endswith("/eviction") and not self.dry

    @property
    def rehearses(self):
        return self.path.endswith("/eviction") and self.dry

    @property
    def proves_gate(self):
        return self._creates_dry and self._generated == "rescheduler-gate-probe-"

    @property
    def tries_creation(self):
        """It asks which pod a controller would create now."""
        return self._creates_dry and self._generated != "rescheduler-gate-probe-"

    @property
    def _creates_dry(self):
        return self.method == "POST" and self.path.endswith("/pods") and self.dry

    @property
    def _generated(self):
        return self.body["metadata"].get("generateName", "")

    @property
    def writes(self):
        """It changes something, and is no matter of the Lease."""
        return self.method != "GET" and not self.dry and "/leases" not in self.path

    @property
    def intends(self):
        """It writes down that an eviction is about to happen."""
        return "/podmigrations/" in self.path and bool(
            (self.body.get("status") or {}).get("evictionRequestedAt")
        )


@dataclass
class Calls:
    """The transport of the controller: remembers what was sent, and answers what a test tells it to."""

    transport: object
    clock: object
    sent: list = field(default_factory=list)
    answers: list = field(default_factory=list)
    """(predicate, function of the call): a Response that the function gives is the server's answer."""
    request: object = None
    """That of the last call: for an answer that is not what the server says after it has carried the call out."""

    def send(self, request):
        body = json.loads(request.body) if request.body else {}
        call = Call(self.clock(), request.method, request.path, dict(request.query), body)
        if "/leases" not in call.path:
            self.sent.append(call)
        self.request = request
        for chosen, answer in self.answers:
            if chosen(call) and (found := answer(call)) is not None:
                return found
        return self.transport.send(request)

    def stream(self, request):
        return self.transport.stream(request)

    def answer(self, chosen, answer):
        self.answers.append((chosen, answer))

    def of(self, chosen, since_s=0.0):
        return [call for call in self.sent if chosen(call) and call.at_s >= since_s]


class Scene:
    """A cluster of nodes, by name and CPUs; the controller begins with ``start``."""

    def __init__(self, nodes, *, seed=1, interleave=True):
        machines = [SandboxNode(name=name, cpu=str(cpus)) for name, cpus in nodes.items()]
        kubelet = KubeletSettings(start_s=0.2, ready_s=0.5, stop_s=0.5)
        self.cluster = Sandbox(machines, seed=seed, interleave=interleave, kubelet=kubelet)
        self.api, self.random = self.cluster.api, random.Random(seed)  # noqa: S311 - reproducible
        install(self.cluster.transport)
        for each in priority_classes():
            self.api.create(each)
        self.calls = Calls(self.cluster.transport, self.cluster.clock)
        self.cluster.transport = self.calls
        self.program = None
        self.faults = []
        """Rooms of Available Reservations that nothing held, at any write."""

    @property
    def now_s(self):
        return self.cluster.clock()

    def start(self, *, document=QUIET, **options):
        """A controller, which is driven from now on."""
        options = {"lease": SELDOM_RENEWED, **options}
        program = Program(self.cluster, self.random, ProgramOptions(document=document, **options))
        self.program = self.program or program
        self.cluster.add(program)
        self._check_rooms()
        return program

    def _check_rooms(self):
        """Judge every write from now on, as the random histories do."""
        seen = Seen()
        for obj in self.api.everything():
            seen.apply(ObjectChange("ADDED", obj), Writer.CLUSTER, self.now_s)
        rooms = Rooms(seen, set(), lambda _: True, OwnRules(self.cluster))

        def hear(change):
            who = Writer.PROGRAM if self.program.line.sending else Writer.CLUSTER
            seen.apply(change, who, self.now_s)
            if change.object["kind"] in ("Pod", "Reservation", "Node"):
                self.faults += rooms.check(who, change.object, self.now_s)

        self.api.subscribe(hear)

    def advance(self, seconds):
        self.cluster.advance(seconds)

    def advance_busily(self, seconds):
        """Let time pass in which something changes all the time, so that the loop never waits for its timers."""
        ends_s = self.now_s + seconds
        while self.now_s < ends_s:
            node = self.api.list(NODE)[0]
            self.api.patch(node, {"metadata": {"labels": {"example.com/tick": f"{self.now_s:.1f}"}}})
            self.advance(0.25)

    def until(self, reached, limit_s=120.0):
        return self.cluster.run_until(reached, limit_s)

    # Objects

    def workload(self, kind="Deployment", name="web", nodes=("n1",), *, cpu="1", **body):
        """One whose pods are Ready on these nodes: the others are cordoned meanwhile. Gives the scene."""
        for node in dict.fromkeys(nodes):
            self.uncordon(node)
            self.cordon(*(n for n in self.nodes() if n != node))
            replicas = sum(each == node for each in nodes) + len(self.pods(name))
            if self.api.get(KINDS[kind], "default", name) is None:
                self.api.create(_workload(kind, name, replicas, cpu, body))
            else:
                self.scale(replicas, kind=kind, name=name)
            self.until(lambda replicas=replicas: len(self.ready(name)) == replicas)
        self.uncordon(*self.nodes())
        self.advance(2.0)
        return self

    def budget(self, name="web", **spec):
        self.api.create(documents.budget(name, namespace="default", **spec))

    def scale(self, replicas, *, kind="Deployment", name="web"):
        self.api.patch(self.api.get(KINDS[kind], "default", name), {"spec": {"replicas": replicas}})

    def crowd(self, pods, *, cpu_milli=1000, priority_class="", name="crowd"):
        """Pods without a controller, which take whatever room they find."""
        for index in range(pods):
            self.api.create(lone_pod(f"{name}-{index}", cpu_milli=cpu_milli, priority_class=priority_class))

    def move(self, pod, target, *, name="", **wish):
        """A PodMigration; gives its name."""
        name = name or f"move-{pod['metadata']['name']}"
        ref = {"name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        wish = {"podRef": ref, **({"target": {"nodeName": target}} if target else {}), **wish}
        self._create("PodMigration", name, wish, namespace="default")
        return name

    def room(self, name="room", *, app="web", kind="Deployment", node="", cpu="1", **wish):
        """A Reservation for the pods of a workload; gives its name."""
        body = lone_pod("template", cpu_milli=int(float(cpu) * 1000))["spec"]
        body["containers"][0]["resources"]["requests"]["memory"] = f"{64 * int(cpu)}Mi"
        if node:
            body["nodeName"] = node
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": app, "namespace": "default"}
        self._create(
            "Reservation", name, {"template": {"spec": body}, "owners": [{"controller": owner}], **wish}
        )
        return name

    def held_room(self, name="room", **wish):
        """A Reservation that is Available; gives its name."""
        self.room(name, **wish)
        assert self.until(lambda: self.phase(name) == "Available"), self.state(name)
        return name

    def cordon(self, *nodes):
        for name in nodes:
            self.api.patch(self.api.get(NODE, "", name), {"spec": {"unschedulable": True}})

    def uncordon(self, *nodes):
        for name in nodes:
            self.api.patch(self.api.get(NODE, "", name), {"spec": {"unschedulable": None}})

    def taint(self, node, key="example.com/old"):
        self.api.patch(
            self.api.get(NODE, "", node), {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}
        )

    def take_lease(self, holder="another"):
        """Another process holds the Lease from now on, and does not renew it."""
        lease = {"holderIdentity": holder, "leaseDurationSeconds": 30, "leaseTransitions": 7}
        found = self.api.get(LEASE, "rescheduler", "rescheduler")
        if found is not None:
            self.api.patch(found, {"spec": lease})
            return
        metadata = {"name": "rescheduler", "namespace": "rescheduler"}
        self.api.create(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": lease}
        )

    # What there is

    def nodes(self):
        return [n["metadata"]["name"] for n in self.api.list(NODE)]

    def pods(self, app="web"):
        found = [p for p in self.api.list(POD) if labels(p).get("app") == app]
        return sorted(found, key=lambda p: p["metadata"]["name"])

    def ready(self, app="web"):
        return [p for p in self.pods(app) if ready(p) and not deleting(p)]

    def on(self, node, app="web"):
        return [p for p in self.pods(app) if spec(p).get("nodeName") == node and not deleting(p)]

    def placeholders(self):
        return [p for p in self.api.list(POD) if LABEL_PLACEHOLDER in labels(p)]

    def state(self, name):
        """The status of a PodMigration or a Reservation."""
        found = self.api.get(MOVE, "default", name) or self.api.get(ROOM, "", name)
        return status(found) if found is not None else {"phase": "Deleted"}

    def reason(self, name):
        """Of a PodMigration; of the last condition of a Reservation."""
        state = self.state(name)
        return state.get("reason") or (state.get("conditions") or [{}])[-1].get("reason", "")

    def get_move(self, name):
        return self.api.get(MOVE, "default", name)

    def workload_of(self, ref):
        return self.api.get(GroupKind("apps", ref["kind"]), "default", ref["name"])

    def refuse(self, code, reason, chosen):
        """The server refuses these calls from now on."""
        self.calls.answer(chosen, lambda _: refusal(code, reason))

    def phase(self, name):
        return self.state(name).get("phase", "Pending")

    def over(self, *names):
        return all(self.phase(name) in OVER for name in names)

    def succeed(self, *names, limit_s=120.0):
        """These moves end, and well."""
        assert self.until(lambda: self.over(*names), limit_s), list(map(self.state, names))
        assert {self.phase(name) for name in names} == {"Succeeded"}, list(map(self.state, names))

    def leftovers(self):
        """What a controller that has nothing to do must not leave behind, in words."""
        held = [
            p
            for p in self.api.list(POD)
            if any(g["name"] == GATE for g in spec(p).get("schedulingGates") or ())
        ]
        keys = self.api.get(CONFIG_MAP, "rescheduler", GATE_CONFIG_MAP) or {}
        tainted = [
            n["metadata"]["name"]
            for n in self.api.list(NODE)
            if any(t["key"].startswith("rescheduler.dev/") for t in spec(n).get("taints") or ())
        ]
        return [
            *(f"held {p['metadata']['name']}" for p in held),
            *(f"placeholder {p['metadata']['name']}" for p in self.placeholders()),
            *(f"gate key {uid}" for uid in keys.get("data") or {}),
            *(f"taint on {name}" for name in tainted),
        ]

    def _create(self, kind, name, wish, namespace=""):
        self.api.create(documents.own(kind, name, wish, namespace))


def full_nodes():
    """Who needs all of n0 finds it full: a can go to n1 only if b leaves it for n2."""
    scene = Scene({"n0": 4, "n1": 3, "n2": 2})
    scene.workload("Deployment", "a", ["n0"], cpu="3")
    scene.workload("Deployment", "b", ["n1"], cpu="2")
    return scene


def _workload(kind, name, replicas, cpu, more):
    pod = documents.pod_spec(cpu, "64Mi", terminationGracePeriodSeconds=1)
    meta = {"labels": {"app": name}}
    return documents.workload(kind, name, replicas, pod, namespace="default", meta=meta, **more)
