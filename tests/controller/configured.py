"""A running controller whose configuration a test changes: the one that ``rescheduler run`` assembles, in virtual time."""

import copy
import json
import random
from typing import Any

from harness import documents
from harness.histories.program import Program, ProgramOptions
from kube_sandbox.controllers.unstructured import CLAIM, NODE, POD, GroupKind, ready, spec, status
from kube_sandbox.installing import install
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.model.names import API_VERSION

MOVE, RESERVATION = (GroupKind("rescheduler.dev", kind) for kind in ("PodMigration", "Reservation"))
TAINTS = [{"key": "maintenance", "value": "", "effect": "NoSchedule"}]
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
BUDGET = documents.budget("web", namespace="default", maxUnavailable=1)
BASE = {
    "apiVersion": API_VERSION, "kind": "ReschedulerConfiguration", "aggressiveness": 1, "interval": "10s",
    "mode": "ReserveFirst", "policies": [{"name": "NodeTaints", "after": "0s"}],
}  # fmt: skip


def document(**changes: Any) -> bytes:
    """The base with dotted keys (``limits__perNode``) set."""
    found = copy.deepcopy(BASE)
    if "profiles" in changes:
        del found["policies"]
    for path, value in changes.items():
        *sections, key = path.split("__")
        place = found
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = value
    return json.dumps(found).encode()


def named(key: str, value: Any) -> dict[str, Any]:
    return {key.replace(".", "__"): value}


class Lab:
    """A node that pods have to leave, two to go to, a Deployment whose pods all stand on the first."""

    def __init__(
        self,
        text: bytes,
        *,
        replicas: int = 2,
        pod: dict | None = None,
        annotations: dict | None = None,
        budget: bool = False,
    ) -> None:
        self.cluster = Sandbox(kubelet=KubeletSettings(start_s=0.2, ready_s=0.3, stop_s=0.3))
        install(self.cluster.transport)
        self.cluster.add_node(SandboxNode(name="n1"))
        if budget:
            self.cluster.api.create(copy.deepcopy(BUDGET))
        if pod and "volumes" in pod:
            self._volumes()
        spec = documents.pod_spec("100m", **(pod or {}))
        self.cluster.api.create(
            documents.workload(
                "Deployment", "web", replicas, spec, namespace="default", annotations=annotations
            )
        )
        self.cluster.run_until(lambda: sum(map(ready, self.cluster.api.list(POD))) == replicas, 60)
        self.cluster.advance(5)
        for name in ("n2", "n3"):
            self.cluster.add_node(SandboxNode(name=name))
        self._write(text)
        self.program = Program(self.cluster, random.Random(1), ProgramOptions(document=text))  # noqa: S311 - reproducible
        self.cluster.add(self.program)

    def _volumes(self) -> None:
        self.cluster.api.create({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "data"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "", "nfs": {"server": "s", "path": "/"}},
        })  # fmt: skip
        self.cluster.api.create({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
        })  # fmt: skip
        self.cluster.run_until(
            lambda: status(self.cluster.api.get(CLAIM, "default", "data")).get("phase") == "Bound", 60
        )

    def configure(self, text: bytes) -> None:
        self.program.document.content = text
        self._write(text)

    def _write(self, text: bytes) -> None:
        """As on a cluster: admission policies look at the ConfigMap."""
        stored = self.cluster.api.get(GroupKind("", "ConfigMap"), "rescheduler", "rescheduler")
        self.cluster.api.patch(stored, {"data": {"config.yaml": text.decode()}})

    def series(self, name: str, **labels: str) -> float:
        return self.program.metrics.registry.get_sample_value(name, labels)

    def lone_pod_moves_after(self, owner: dict, text: bytes) -> None:
        """The only pod has this owner, its node is tainted; it moves once the document has changed, not before."""
        api = self.cluster.api
        api.create(owner)
        if owner["kind"] != "Job":
            uid = api.get(GroupKind("", owner["kind"]), "default", "x")["metadata"]["uid"]
            ref = {"apiVersion": "v1", "kind": owner["kind"], "name": "x", "uid": uid, "controller": True}
            pod = {"metadata": {"name": "x", "namespace": "default", "ownerReferences": [ref]}}
            api.create({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [CONTAINER]}, **pod})
        self.until(lambda: any(map(ready, api.list(POD))))
        self.taint(spec(api.list(POD)[0])["nodeName"])
        self.cluster.advance(40)
        assert self.moves() == []
        assert self.series("rescheduler_moves_blocked", reason="NotSupported") > 0
        self.configure(text)
        self.until(self.moves, 40)

    def taint(self, name: str = "n1") -> None:
        node = self.cluster.api.get(NODE, "", name)
        self.cluster.api.patch(node, {"spec": {"taints": TAINTS}})

    def moves(self) -> list[dict]:
        return self.cluster.api.list(MOVE)

    def reserve(self, name: str, **more: Any) -> None:
        guest = {"object": {"namespace": "default", "name": "guest"}}
        self.cluster.api.create(documents.reservation(name, {"containers": [CONTAINER]}, [guest], **more))

    def move(self, name: str, pod: str, *, node: str = "n2", **more: Any) -> None:
        self.cluster.api.create(documents.migration(name, pod, node, namespace="default", **more))

    def phase(self, name: str) -> str:
        found = self.cluster.api.get(RESERVATION, "", name)
        return status(found).get("phase", "") if found else "gone"

    def placeholder(self) -> dict:
        (pod,) = (p for p in self.cluster.api.list(POD) if p["metadata"]["namespace"] == "rescheduler")
        return pod

    def until(self, predicate, limit_s: float = 60.0) -> None:
        self.cluster.run_until(predicate, limit_s)
