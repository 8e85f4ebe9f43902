"""The workloads of the demo as API objects. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kube_sandbox.controllers.unstructured import Obj
from rescheduler.model.names import ZONE

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
