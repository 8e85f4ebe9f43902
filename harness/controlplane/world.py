"""One test's corner of a cluster: a namespace and nodes of its own that no other test's pods can use.

Nodes carry a taint and a label with the namespace's name; pods made here tolerate and select them. So many tests
share one control plane. Everything is asked of the API server by raw calls.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

from harness import documents
from harness.controlplane.api import STRATEGIC, Answer, Api, Json
from harness.controlplane.nodes import add_node
from kube_sandbox.nodes import SandboxNode, node_object
from rescheduler.model.names import (
    ANNOTATION_MIGRATION,
    ANNOTATION_VALID_UNTIL,
    API_VERSION,
    DEFAULT_NAMESPACE,
    GATE,
    GATE_CONFIG_MAP,
    GROUP,
    LABEL_PLACEHOLDER,
)

RESERVATIONS: Final = f"/apis/{API_VERSION}/reservations"
PLACEHOLDERS: Final = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/pods"
GATE_KEYS: Final = f"/api/v1/namespaces/{DEFAULT_NAMESPACE}/configmaps/{GATE_CONFIG_MAP}"
ENDED: Final = ("Succeeded", "Failed")
"""Phases of a move or a Reservation that has ended."""
WORLD: Final = "test.rescheduler.dev/world"
FIRST_PAUSE_S: Final = 0.03
LONGEST_PAUSE_S: Final = 0.3
LEAST_LIMIT_S: Final = 120.0
PATIENCE_S: Final = 120.0
"""After a restart of the API server the controller manager may need long to make service accounts again."""
_numbers = itertools.count()
T = TypeVar("T")


class World:
    """Context manager: an own namespace and own nodes on a shared cluster, and Reservations with its name before their own."""

    def __init__(self, api: Api, name: str = "t") -> None:
        self.api = api
        self.namespace = f"{name}-{os.getpid():x}-{next(_numbers)}"
        self._nodes: list[str] = []

    def __enter__(self) -> Self:
        self.api.create(
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}},
        ).expect()
        self.wait(lambda: self.api.get(self.path("serviceaccounts", "default")).ok, PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        rooms = (room["metadata"]["name"] for room in self.api.get(RESERVATIONS).items)
        for name in rooms:
            if name.startswith(self.namespace):
                self.api.delete(f"{RESERVATIONS}/{name}")
        self.api.delete(f"/api/v1/namespaces/{self.namespace}")
        for name in self._nodes:
            self.api.delete(f"/api/v1/nodes/{name}")

    @property
    def nodes(self) -> Sequence[str]:
        """The names of its nodes."""
        return tuple(self._nodes)

    def path(self, plural: str, name: str = "", subresource: str = "", *, group: str = "") -> str:
        """API path in the namespace; ``group`` is GROUP/VERSION, "" the core group."""
        root = f"/apis/{group}" if group else "/api/v1"
        parts = (f"{root}/namespaces/{self.namespace}/{plural}", name, subresource)
        return "/".join(part for part in parts if part)

    def account(self, name: str, *roles: str) -> None:
        """A service account with these ClusterRoles in the namespace."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.api.create(self.path("serviceaccounts"), account).expect(201)
        for role in roles:
            self.bind(role, name)

    def bind(self, role: str, account: str, *, everywhere: bool = False) -> str:
        """Give a service account of the namespace a ClusterRole, there or ``everywhere``; gives the path of the binding."""
        body = documents.role_binding(role, account, self.namespace, everywhere=everywhere)
        path = self.path("rolebindings", group=body["apiVersion"])
        if everywhere:
            path = f"/apis/{body['apiVersion']}/clusterrolebindings"
        self.api.create(path, body).expect(201)
        return f"{path}/{body['metadata']['name']}"

    def node(self, name: str, *, labels: Mapping[str, str] | None = None, **amounts: Any) -> str:
        """Adds a Ready node; gives its full name."""
        full = f"{self.namespace}-{name}"
        labels = {WORLD: self.namespace, **(labels or {})}
        taints = [(WORLD, self.namespace, "NoSchedule")]
        add_node(self.api, node_object(SandboxNode(name=full, labels=labels, taints=taints, **amounts)))
        self._nodes.append(full)
        return full

    def taint(self, node: str, key: str, *, value: str = "", effect: str = "NoSchedule") -> None:
        """Adds a taint. Those that are there stay: without the world's own one, pending pods of others use the node."""
        path, added = f"/api/v1/nodes/{node}", {"key": key, "value": value, "effect": effect}

        def written() -> bool:
            found = self.api.get(path).expect()
            spec = {"taints": [*found.body["spec"].get("taints", ()), added]}
            # The node controller writes the same list.
            return (
                self.api.patch(path, {"metadata": {"resourceVersion": found.version}, "spec": spec})
                .expect(200, 409)
                .ok
            )

        self.wait(written)

    def spec(self, cpu: str = "1", *, grace: int = 1, gates: Sequence[str] = (), **more: Any) -> Json:
        """A pod spec for this world's nodes that requests that much CPU."""
        spec: Json = {
            "terminationGracePeriodSeconds": grace,
            "nodeSelector": {WORLD: self.namespace},
            "tolerations": [{"key": WORLD, "operator": "Exists"}],
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}],
        }
        if gates:
            spec["schedulingGates"] = [{"name": gate} for gate in gates]
        return {**spec, **more}

    def pod(
        self,
        name: str,
        cpu: str = "1",
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        owner: Json | None = None,
        **spec: Any,
    ) -> Json:
        """Creates a pod; gives it as stored."""
        return (
            self.api.create(
                self.path("pods"),
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": name,
                        "labels": dict(labels or {}),
                        "annotations": dict(annotations or {}),
                        "ownerReferences": [owner] if owner else [],
                    },
                    "spec": self.spec(cpu, **spec),
                },
            )
            .expect()
            .body
        )

    def like_placeholders(self, *, soft: bool = False) -> Json:
        """Fields of a pod spec with the priority of placeholders, whose own classes are refused outside of their namespace."""
        name, value = ("test-soft-placeholder", -1000) if soft else ("test-placeholder", 1_000_000_000)
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"}
        self.api.create(path, body).expect(201, 409)
        fields: Json = {"priorityClassName": name, "preemptionPolicy": "Never"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "classified"}}
        probe = {**pod, "spec": self.spec(**fields)}
        # Admission reads classes through a watch of its own.
        self.wait(lambda: self.api.create(self.path("pods"), probe, dryRun="All").ok, PATIENCE_S)
        return fields

    def workload(
        self,
        kind: str,
        name: str,
        replicas: int,
        cpu: str = "1",
        *,
        annotations: Mapping[str, str] | None = None,
        more: Json | None = None,
        **spec: Any,
    ) -> Json:
        """Creates a Deployment, ReplicaSet or StatefulSet whose pods carry the label ``app: NAME``."""
        more = {"podManagementPolicy": "Parallel", **(more or {})} if kind == "StatefulSet" else more or {}
        pod = self.spec(cpu, **spec)
        body = documents.workload(kind, name, replicas, pod, annotations=annotations, **more)
        return self.api.create(self.path(kind.lower() + "s", group="apps/v1"), body).expect().body

    def running(self, kind: str, name: str, replicas: int, cpu: str = "1", **more: Any) -> list[Json]:
        """Creates a workload and waits until its pods are Ready; gives them."""
        self.workload(kind, name, replicas, cpu, **more)
        return self.wait_ready(name, replicas, PATIENCE_S)

    def budget(self, name: str, app: str, **spec: Any) -> Json:
        """Creates a PodDisruptionBudget for the pods of a workload."""
        body = documents.budget(name, app, **spec)
        return self.api.create(self.path("poddisruptionbudgets", group="policy/v1"), body).expect().body

    def get_pod(self, name: str) -> Json:
        """The pod as it is now. AssertionError if it is gone."""
        return self.api.get(self.path("pods", name)).expect().body

    def pods(self, app: str | None = None) -> list[Json]:
        """The pods of the namespace, or of one workload."""
        query = {"labelSelector": f"app={app}"} if app else {}
        return self.api.get(self.path("pods"), **query).expect().items

    def wait(self, look: Callable[[], T], seconds: float = 20.0) -> T:
        """Polls until the value is true, and gives it. AssertionError after the limit.

        No limit is shorter than LEAST_LIMIT_S: what is right must not depend on how busy the machine is.
        """
        began_s, limit_s = time.monotonic(), max(seconds, LEAST_LIMIT_S)
        while True:
            value = look()
            if value:
                return value
            waited_s = time.monotonic() - began_s
            if waited_s > limit_s:
                raise AssertionError(f"not within {limit_s:.0f} s; pods: {self.summary()}")
            # A look costs the servers CPU time, which is scarce where many tests run: a tenth later is soon enough.
            time.sleep(min(max(FIRST_PAUSE_S, waited_s / 10.0), LONGEST_PAUSE_S))

    def summary(self) -> list[str]:
        """One line per pod, for failure messages."""
        return [
            f"{pod['metadata']['name']} on {node_of(pod) or '-'} {pod['status'].get('phase')} "
            f"{condition(pod, 'PodScheduled').get('message', '')}"
            for pod in self.pods()
        ]

    def wait_bound(self, name: str, seconds: float = 20.0) -> str:
        """Waits until the pod is bound; gives the node."""
        return self.wait(lambda: node_of(self.get_pod(name)), seconds)

    def wait_ready(self, app: str, count: int, seconds: float = 20.0) -> list[Json]:
        """Waits until exactly that many pods of a workload exist and all are Ready; gives them."""

        def look() -> list[Json]:
            pods = self.pods(app)
            return pods if len(pods) == count and all(map(is_ready, pods)) else []

        return self.wait(look, seconds)

    def wait_gone(self, pod: Json, seconds: float = 20.0) -> None:
        """Waits until the object with this uid is gone."""

        def gone() -> bool:
            answer = self.api.get(self.path("pods", pod["metadata"]["name"]))
            return not answer.ok or answer.uid != pod["metadata"]["uid"]

        self.wait(gone, seconds)

    def wait_unschedulable(self, name: str, text: str = "") -> str:
        """Waits for PodScheduled=False with a message that has this text; gives the message."""

        def message() -> str:
            found = condition(self.get_pod(name), "PodScheduled")
            said = str(found.get("message", ""))
            return said if found.get("reason") == "Unschedulable" and text in said else ""

        return self.wait(message, 20.0)

    def evict(self, pod: Json, *, uid: str | None = None, **query: str) -> Answer:
        """POST pods/eviction with the uid as precondition (default: the pod's)."""
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.namespace},
            "deleteOptions": {"preconditions": {"uid": uid or pod["metadata"]["uid"]}},
        }
        return self.api.create(self.path("pods", name, "eviction"), body, **query)

    def migrate(self, pod: Json, target: str, *, ttl: str = "2m", **more: Any) -> str:
        """Asks for a move by a PodMigration, with ``more`` in its spec; gives its name. Target "": any node."""
        name, uid = f"move-{pod['metadata']['name']}", pod["metadata"]["uid"]
        body = documents.migration(name, pod["metadata"]["name"], target, uid=uid, ttl=ttl, **more)
        self.api.create(self.path("podmigrations", group=API_VERSION), body).expect()
        return name

    def move_status(self, name: str) -> Json:
        """The status of a PodMigration; empty before its first look."""
        body = self.api.get(self.path("podmigrations", name, group=API_VERSION)).expect().body
        return body.get("status") or {}

    def moves(self) -> list[Json]:
        """The PodMigrations of the namespace."""
        return self.api.get(self.path("podmigrations", group=API_VERSION)).expect().items

    def rooms(self) -> list[Json]:
        """The Reservations of its moves."""
        mine = f"{self.namespace}/"
        rooms = self.api.get(RESERVATIONS).expect().items
        return [r for r in rooms if annotation(r, ANNOTATION_MIGRATION).startswith(mine)]

    def ended(self, moves: Iterable[str], seconds: float = 60.0) -> dict[str, Json]:
        """Waits until these moves have ended; gives the status of each."""
        found: dict[str, Json] = {}

        def all_ended() -> bool:
            found.update({name: self.move_status(name) for name in moves})
            return all(status.get("phase") in ENDED for status in found.values())

        try:
            self.wait(all_ended, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; moves: {found}") from error
        return found

    def end_of(self, move: str, seconds: float = 60.0) -> Json:
        """Waits until the move has ended; gives its status."""
        return self.ended([move], seconds)[move]

    def landed(self, wanted: Mapping[str, str], seconds: float = 60.0) -> None:
        """Waits until these moves have ended. AssertionError unless each replacement is on its target."""
        found = self.ended(wanted, seconds)
        places = {
            name: node_of(self.get_pod(status["replacement"]["name"]))
            for name, status in found.items()
            if status["phase"] == "Succeeded" and status["nodeName"] == wanted[name]
        }
        if places != wanted:
            raise AssertionError(f"{places} is not {wanted}; moves: {found}; pods: {self.summary()}")

    def full_node(self, kind: str, count: int, **spec: Any) -> list[tuple[Json, str]]:
        """A full node with so many pods of workload ``web``: each pod with another node, which has room for one."""
        source = self.node("src", cpu=str(count))
        pods = self.running(kind, "web", count, **spec)
        if {node_of(pod) for pod in pods} != {source}:
            raise AssertionError(self.summary())
        targets = [self.node(f"t{index}", cpu="2") for index in range(count)]
        for index, target in enumerate(targets):
            self.pod(f"old-{index}", nodeName=target)
        return list(zip(pods, targets, strict=True))

    def stampede(self, pods: Sequence[tuple[Json, str]], *, ttl: str = "2m", **spec: Any) -> dict[str, str]:
        """Moves of ``full_node`` under a budget of one; when all rooms are held, three pods for each want them. PodMigration -> target."""
        self.budget("web", "web", maxUnavailable=1)
        wanted = {self.migrate(pod, target, ttl=ttl): target for pod, target in pods}

        def held() -> bool:
            phases = [(room.get("status") or {}).get("phase") for room in self.rooms()]
            return sum(phase in ("Available", "Succeeded") for phase in phases) >= len(wanted)

        self.wait(held, 60)
        self.crowd(3 * len(wanted), **spec)
        return wanted

    def crowd(self, count: int, **spec: Any) -> None:
        """Pods that would take any room, half of them of 1 CPU."""
        for index in range(count):
            self.pod(f"crowd-{index}", "1" if index % 2 else "500m", labels={"app": "crowd"}, **spec)

    def leftovers(self) -> list[str]:
        """Names of what may not be there once its moves and rooms have ended."""
        rooms = [r for r in self.api.get(RESERVATIONS).expect().items if self.namespace in str(r)]
        keys = self.api.get(GATE_KEYS).expect().body.get("data") or {}
        owners = {o["uid"] for p in self.pods() for o in p["metadata"].get("ownerReferences") or ()}
        taints = [
            t["key"]
            for n in self._nodes
            for t in self.api.get(f"/api/v1/nodes/{n}").expect().body["spec"]["taints"]
        ]
        return [
            *(p["metadata"]["name"] for p in placeholders(self.api)),
            *(r["metadata"]["name"] for r in rooms if (r.get("status") or {}).get("phase") not in ENDED),
            *(key for key in keys if any(uid in key for uid in owners)),
            *(p["metadata"]["name"] for p in self.pods() if gates_of(p)),
            *(key for key in taints if key.startswith(f"{GROUP}/")),
        ]

    def nominate(self, pod: Json, node: str) -> Answer:
        """Merge patch of pods/status with the uid: nominatedNodeName."""
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"nominatedNodeName": node}}
        return self.api.patch(self.path("pods", pod["metadata"]["name"], "status"), body)

    def ungate(self, pod: Json, gate: str = GATE) -> Answer:
        """Strategic patch with the uid that takes one gate off."""
        body = {
            "metadata": {"uid": pod["metadata"]["uid"]},
            "spec": {"schedulingGates": [{"name": gate, "$patch": "delete"}]},
        }
        return self.api.patch(self.path("pods", pod["metadata"]["name"]), body, STRATEGIC)

    def delete_pod(self, pod: Json, *, grace: int = 1) -> Answer:
        """DELETE with the uid as precondition."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace,
            "preconditions": {"uid": pod["metadata"]["uid"]},
        }
        return self.api.delete(self.path("pods", pod["metadata"]["name"]), body)


def controller_reference(owner: Json) -> Json:
    """The ownerReference that makes an object the controller of another."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def node_of(pod: Json) -> str:
    """spec.nodeName, or ""."""
    return str(pod["spec"].get("nodeName", ""))


def annotation(obj: Json, key: str) -> str:
    """An annotation, or ""."""
    return str((obj["metadata"].get("annotations") or {}).get(key, ""))


def placeholders(api: Api) -> list[Json]:
    """All pods that hold room, and those that ask for a node."""
    return api.get(PLACEHOLDERS, labelSelector=LABEL_PLACEHOLDER).expect().items


def condition(obj: Json, kind: str) -> Json:
    """A status condition; empty where there is none."""
    return next((c for c in obj.get("status", {}).get("conditions") or () if c["type"] == kind), {})


def is_ready(pod: Json) -> bool:
    """Ready, and not being deleted."""
    return condition(pod, "Ready").get("status") == "True" and "deletionTimestamp" not in pod["metadata"]


def gates_of(pod: Json) -> list[str]:
    """Names of the scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def keys_on(data: Mapping[str, str]) -> Json:
    """A patch of ConfigMap gate-keys that sets keys as if a leader renewed them for ever."""
    return {"metadata": {"annotations": {ANNOTATION_VALID_UNTIL: "2999-01-01T00:00:00Z"}}, "data": dict(data)}
