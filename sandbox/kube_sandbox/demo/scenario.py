"""The scenario of the demo, created through the API step by step.

1. Four nodes in two zones run all workloads and are nearly full.
2. Five nodes join, three of them in a new zone: the old nodes stay overloaded, and ``web`` is spread 3/3/0.
3. One node is tainted for maintenance while pods run on it.
4. A node loses the label ``disk=ssd`` that ``payments`` requires.
5. An inventory correction puts both ``kafka`` pods into one rack, against their anti-affinity.
6. Short-lived pods of the Job ``crawler`` start and end all the time and take any free room, also on the two small
   nodes with a taint for SSD, the only nodes to which ``payments`` may move. Without a Reservation a crawler pod
   would take the room before the replacement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.unstructured import (
    NODE,
    POD,
    Obj,
    key,
    labels,
    meta,
    ready,
    spec,
)
from kube_sandbox.demo.workloads import RACK, SSD_ONLY, all_workloads, crawler
from kube_sandbox.nodes import SandboxNode, node_object
from rescheduler.model.names import ANNOTATION_EVICT
from rescheduler.model.records import ObjectKey

NAMESPACE = "shop"
WAIT_LIMIT_S = 60.0

OLD_NODES = (
    SandboxNode(name="a1", zone="zone-a", labels={RACK: "r1", "disk": "ssd"}),
    SandboxNode(name="a2", zone="zone-a", labels={RACK: "r1"}),
    SandboxNode(name="b1", zone="zone-b", labels={RACK: "r2", "disk": "ssd"}),
    SandboxNode(name="b2", zone="zone-b", labels={RACK: "r2"}),
)
NEW_NODES = (
    SandboxNode(name="a3", zone="zone-a", cpu="1", labels={RACK: "r3", "disk": "ssd"}, taints=(SSD_ONLY,)),
    SandboxNode(name="b3", zone="zone-b", labels={RACK: "r3"}),
    SandboxNode(name="c1", zone="zone-c", cpu="1", labels={RACK: "r4", "disk": "ssd"}, taints=(SSD_ONLY,)),
    SandboxNode(name="c2", zone="zone-c", labels={RACK: "r4"}),
    SandboxNode(name="c3", zone="zone-c", labels={RACK: "r5"}),
)


class DemoCluster(Protocol):
    """The cluster of the scenario: an API, and a way to wait."""

    @property
    def api(self) -> Api:
        """The API of the cluster."""
        ...

    def wait_for(self, predicate: Callable[[], bool], limit_s: float) -> float:
        """Let time pass until the predicate holds; raises if it does not."""
        ...


def build(cluster: DemoCluster) -> None:
    """Create the cluster up to the point at which the controller starts."""
    api = cluster.api
    for node in OLD_NODES:
        api.create(node_object(node))
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    replicas = 0
    for obj in all_workloads(NAMESPACE):
        api.create(obj)
        replicas += int(spec(obj).get("replicas") or 0)
    cluster.wait_for(lambda: _running(api) == replicas, WAIT_LIMIT_S)
    for node in NEW_NODES:
        api.create(node_object(node))
    _taint_for_maintenance(api, "b1")
    _relabel(api, "a1", {"disk": "hdd"})
    _correct_racks(api)
    api.create(crawler(NAMESPACE, {ANNOTATION_EVICT: "false"}))


def _running(api: Api) -> int:
    return sum(ready(p) for p in api.list(POD) if key(p).namespace == NAMESPACE)


def _taint_for_maintenance(api: Api, node: str) -> None:
    found = _node(api, node)
    taint = {"key": "maintenance", "value": "planned", "effect": "NoSchedule"}
    api.patch(found, {"spec": {"taints": [*(spec(found).get("taints") or []), taint]}})


def _relabel(api: Api, node: str, changed: dict[str, str]) -> None:
    api.patch(_node(api, node), {"metadata": {"labels": changed}})


def _correct_racks(api: Api) -> None:
    """Label the node of kafka-1 with the rack of kafka-0's node."""
    racks = {meta(n)["name"]: labels(n).get(RACK, "") for n in api.list(NODE)}
    homes = {key(p): str(spec(p).get("nodeName") or "") for p in api.list(POD)}
    first, second = homes[ObjectKey(NAMESPACE, "kafka-0")], homes[ObjectKey(NAMESPACE, "kafka-1")]
    _relabel(api, second, {RACK: racks[first]})


def _node(api: Api, name: str) -> Obj:
    found = api.get(NODE, "", name)
    if found is None:
        raise LookupError(f"the scenario's node {name} is gone")
    return found
