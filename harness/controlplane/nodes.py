"""Fake nodes for tests: objects that a scheduler takes for ready machines.

A new Node gets the taint ``node.kubernetes.io/not-ready`` from the API server; ``add_node`` takes it off, so that
pods can be bound at once. The status is what ``kube_sandbox.kubelet`` admits by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.controlplane.api import MERGE, STRATEGIC, Answer, Api, Json
from rescheduler.model.names import HOSTNAME


def node_object(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Json] = (),
    extended: Mapping[str, str] | None = None,
) -> Json:
    """A Node with a Ready status. Quantities as on the wire; taints as in ``spec.taints``."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "100Gi", **(extended or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, "kubernetes.io/os": "linux", **(labels or {})}},
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [ready_condition(ready=True)],
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": dict.fromkeys(
                (
                    "architecture",
                    "bootID",
                    "containerRuntimeVersion",
                    "kernelVersion",
                    "kubeProxyVersion",
                    "machineID",
                ),
                "fake",
            )
            | {
                "kubeletVersion": "v1.37.0",
                "operatingSystem": "linux",
                "osImage": "fake",
                "systemUUID": name,
            },
        },
    }


def ready_condition(*, ready: bool) -> Json:
    """The node condition Ready, True or Unknown (as the node controller writes when a kubelet is silent)."""
    return {
        "type": "Ready",
        "status": "True" if ready else "Unknown",
        "reason": "KubeletReady" if ready else "NodeStatusUnknown",
        "message": "",
    }


def add_node(api: Api, node: Json) -> Answer:
    """Creates the node, writes its status, and sets its taints again."""
    name, taints = node["metadata"]["name"], node["spec"]["taints"]
    api.create("/api/v1/nodes", node).expect()
    api.patch(f"/api/v1/nodes/{name}/status", {"status": node["status"]}, STRATEGIC).expect()
    return api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}}, MERGE).expect()


def set_ready(api: Api, name: str, *, ready: bool) -> Answer:
    """Says that the node's kubelet is well, or silent."""
    return api.patch(
        f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready_condition(ready=ready)]}}, STRATEGIC
    )


def cordon(api: Api, name: str, *, unschedulable: bool = True) -> Answer:
    """As kubectl cordon and uncordon."""
    return api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": unschedulable}})
