"""The nodes of a sandbox: their sizes, and the Node objects that their kubelets register. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kube_sandbox.controllers.unstructured import Obj
from rescheduler.model.names import HOSTNAME, ZONE


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxNode:
    """A node to create."""

    name: str
    cpu: str = "4"
    """A quantity, as is ``memory``."""
    memory: str = "16Gi"
    pods: int = 110
    zone: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[tuple[str, str, str]] = ()
    """(key, value, effect)."""


def node_object(node: SandboxNode) -> Obj:
    """The Node that the kubelet registers, with Ready=True."""
    labels = {HOSTNAME: node.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if node.zone:
        labels[ZONE] = node.zone
    capacity = {
        "cpu": node.cpu,
        "memory": node.memory,
        "pods": str(node.pods),
        "ephemeral-storage": "100Gi",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": {**labels, **node.labels}},
        "spec": {"taints": [{"key": k, "value": v, "effect": e} for k, v, e in node.taints]},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": [ready_condition("True")],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "operatingSystem": "linux", "architecture": "amd64"},
        },
    }


def ready_condition(status: str) -> Obj:
    """The Ready condition of a node: True, False or Unknown."""
    reasons = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}
    return {"type": "Ready", "status": status, "reason": reasons[status], "message": ""}
