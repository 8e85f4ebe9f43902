"""The real Karpenter beside a test control plane: its CRDs, one NodePool for the pods of one world, and its machines as fake nodes.

Its provider kwok makes Node objects and nothing else, so a thread here does what their kubelets would: it says that they are Ready.
The CRDs are read from the Go module. Karpenter runs with all rights; what it does is what its own version does, unmodified.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, Final, Self

from harness.controlplane.api import STRATEGIC, Json
from harness.controlplane.processes import Process, free_port
from harness.controlplane.servers import ControlPlane
from harness.controlplane.world import WORLD, World
from harness.strangers.build import definitions, find
from harness.strangers.tools import KARPENTER
from kube_sandbox.nodes import ready_condition
from rescheduler.model.names import ZONE

POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
_CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_MACHINES: Final = "kwok://"
ZONES: Final = ("zone-a", "zone-b", "zone-c")
"""Where it has machines."""
_SIZES: Final = (2, 4, 8)
"""CPUs that pods may use; a size costs in proportion."""
_LOOK_S: Final = 0.3


class Karpenter(Process):
    """Context manager: Karpenter with one NodePool of this world. ``disruption``: as in a NodePool; ``delay``: a machine's start."""

    def __init__(
        self,
        plane: ControlPlane,
        world: World,
        *,
        disruption: Mapping[str, Any],
        delay: str = "3s",
        sizes: tuple[int, ...] = _SIZES,
    ) -> None:
        self._plane, self._world, self._delay = plane, world, delay
        self._disruption, self._sizes = dict(disruption), sizes
        self._api = plane.api()
        self._ended = threading.Event()
        super().__init__("karpenter", [], plane.folder / f"karpenter-{world.namespace}.log")
        self.faults: list[Exception] = []
        """What the thread of the machines met."""

    def __enter__(self) -> Self:
        self._define()
        types = self._plane.folder / f"karpenter-{self._world.namespace}.json"
        types.write_text(json.dumps([_instance_type(size) for size in self._sizes]))
        self.command = [
            "/usr/bin/env",
            f"KUBECONFIG={self._plane.kubeconfig}",
            f"INSTANCE_TYPES_FILE_PATH={types}",
            "SYSTEM_NAMESPACE=kube-system",
            "DISABLE_LEADER_ELECTION=true",
            f"METRICS_PORT={free_port()}",
            f"HEALTH_PROBE_PORT={free_port()}",
            str(find(KARPENTER)),
        ]
        self.start()
        threading.Thread(target=self._kubelets, name="machines", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._ended.set()
        for path in (CLAIMS, POOLS, _CLASSES):
            for obj in self._api.get(path).expect().items:
                self._remove(f"{path}/{obj['metadata']['name']}")
        for node in self._machines():  # one that is being deleted would keep its finalizer for ever
            self._remove(f"/api/v1/nodes/{node['metadata']['name']}")

    def nodes(self) -> list[Json]:
        """Those that it has made and that are not being deleted."""
        return [node for node in self._machines() if "deletionTimestamp" not in node["metadata"]]

    def _machines(self) -> list[Json]:
        found = self._api.get("/api/v1/nodes").expect().items
        return [node for node in found if node["spec"].get("providerID", "").startswith(_MACHINES)]

    def _define(self) -> None:
        for definition in definitions(KARPENTER, "pkg/apis/crds", "kwok/apis/crds"):
            self._api.create(_DEFINITIONS, definition)
        self._world.wait(lambda: all(self._api.get(path).ok for path in (POOLS, CLAIMS, _CLASSES)))
        name, label = self._world.namespace, {WORLD: self._world.namespace}
        node_class = {
            "apiVersion": "karpenter.kwok.sh/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": name},
            "spec": {"nodeRegistrationDelay": self._delay},
        }
        self._api.create(_CLASSES, node_class).expect()
        template = {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name},
            "taints": [{"key": WORLD, "value": name, "effect": "NoSchedule"}],
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
            ],
            "expireAfter": "Never",
        }
        pool = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {"template": {"metadata": {"labels": label}, "spec": template}, "disruption": self._disruption},
        }  # fmt: skip
        self._api.create(POOLS, pool).expect()

    def _kubelets(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                for node in self.nodes():
                    self._say_ready(node)
            except Exception as error:  # noqa: BLE001 - told by the test
                if not self._ended.is_set():
                    self.faults.append(error)
                return

    def _say_ready(self, node: Json) -> None:
        status = node["status"]
        if any((c["type"], c["status"]) == ("Ready", "True") for c in status.get("conditions") or ()):
            return
        said = {"conditions": [ready_condition("True")], "capacity": status["allocatable"]}
        self._api.patch(f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": said}, STRATEGIC)

    def _remove(self, path: str) -> None:
        """With nobody left who would take the finalizers off."""
        self._api.patch(path, {"metadata": {"finalizers": None}})
        self._api.delete(path)


def _instance_type(cpus: int) -> Json:
    """Its provider keeps 100m of CPU and 10 MiB of each machine for the kubelet. The later the zone, the dearer."""
    offerings = [
        {
            "Price": cpus * (0.1 + 0.01 * at),
            "Available": True,
            "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": ZONE, "operator": "In", "values": [zone]},
            ],
        }
        for at, zone in enumerate(ZONES)
    ]
    return {
        "name": f"n-{cpus}x",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": f"{cpus}100m", "memory": f"{4 * cpus}Gi", "pods": "110", "ephemeral-storage": "100Gi"},
        "offerings": offerings,
    }  # fmt: skip
