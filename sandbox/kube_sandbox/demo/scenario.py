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

from collections.abc import Mapping
from typing import Any

from kube_sandbox.controllers.api import Api
from kube_sandbox.controllers.unstructured import NODE, POD, Obj, key, labels, meta, ready, spec
from kube_sandbox.nodes import SandboxNode, node_object
from kube_sandbox.sandbox import Sandbox
from rescheduler.model.names import ANNOTATION_EVICT, ZONE
from rescheduler.model.records import ObjectKey

RACK = "topology.example.com/rack"
SSD_ONLY = ("storage", "ssd", "NoSchedule")
"""Taint of the small nodes with fast disks: (key, value, effect)."""

_TOLERATES_SSD = {"key": SSD_ONLY[0], "operator": "Equal", "value": SSD_ONLY[1], "effect": SSD_ONLY[2]}
_CRAWLS = 40
_CRAWL_S = 6


def all_workloads(namespace: str) -> list[Obj]:
    """Deployments, StatefulSets and their budgets."""
    return [
        _workload("Deployment", namespace, "web", 6, cpu="500m", rules=_spread("web")),
        _workload("Deployment", namespace, "api", 8, cpu="500m"),
        _workload("Deployment", namespace, "reports", 4, cpu="250m"),
        _workload("Deployment", namespace, "payments", 2, cpu="750m", rules=_on_ssd()),
        _workload("StatefulSet", namespace, "db", 3, cpu="500m"),
        _workload("StatefulSet", namespace, "kafka", 2, cpu="1", rules=_rack_apart("kafka")),
        _budget(namespace, "web", {"maxUnavailable": 1}),
        _budget(namespace, "api", {"maxUnavailable": "25%"}),
        _budget(namespace, "payments", {"minAvailable": 1}),
        _budget(namespace, "db", {"maxUnavailable": 1}),
        _budget(namespace, "kafka", {"maxUnavailable": 1}),
    ]


def crawler(namespace: str, annotations: Mapping[str, str]) -> Obj:
    """A Job whose short-lived pods compete for every free room."""
    template = _template("crawler", "700m", {"restartPolicy": "Never", "tolerations": [_TOLERATES_SSD]})
    notes = {"sandbox.rescheduler.dev/run-for": str(_CRAWL_S), **annotations}
    template["metadata"]["annotations"] = notes
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": namespace, "name": "crawler"},
        "spec": {"parallelism": 4, "completions": _CRAWLS, "template": template},
    }


def _workload(
    kind: str, namespace: str, name: str, replicas: int, *, cpu: str, rules: Mapping[str, Any] | None = None
) -> Obj:
    body: Obj = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": _template(name, cpu, rules or {}),
    }
    if kind == "StatefulSet":
        body["serviceName"] = name
    metadata = {"namespace": namespace, "name": name, "labels": {"app": name}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


def _template(name: str, cpu: str, pod_spec: Mapping[str, Any]) -> Obj:
    requests = {"cpu": cpu, "memory": "256Mi"}
    container = {
        "name": "main",
        "image": f"registry.example/{name}:1.0",
        "resources": {"requests": requests},
    }
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [container], **pod_spec},
    }


def _budget(namespace: str, name: str, limit: Mapping[str, Any]) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, **limit},
    }


def _spread(name: str) -> Obj:
    rule = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    return {"topologySpreadConstraints": [rule]}


def _on_ssd() -> Obj:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}, "tolerations": [_TOLERATES_SSD]}


def _rack_apart(name: str) -> Obj:
    term = {"topologyKey": RACK, "labelSelector": {"matchLabels": {"app": name}}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


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


def build(cluster: Sandbox) -> None:
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
