"""Node objects for embedded clusters, as a kubelet registers them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rescheduler.model.names import HOSTNAME, REGION, ZONE
from rescheduler.sim.controllers.wire import Obj


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSpec:
    """One machine. ``cpu`` and ``memory`` are quantities; ``taints``: (key, value, effect)."""

    name: str
    cpu: str = "4"
    memory: str = "16Gi"
    pods: int = 110
    zone: str = ""
    region: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[tuple[str, str, str]] = ()
    extended: Mapping[str, str] = field(default_factory=dict)


def node_object(machine: MachineSpec) -> Obj:
    """The Node that the machine's kubelet registers, Ready."""
    labels = {HOSTNAME: machine.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if machine.zone:
        labels[ZONE] = machine.zone
    if machine.region:
        labels[REGION] = machine.region
    room = {
        "cpu": machine.cpu,
        "memory": machine.memory,
        "pods": str(machine.pods),
        "ephemeral-storage": "100Gi",
        **machine.extended,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.name, "labels": {**labels, **machine.labels}},
        "spec": {"taints": [{"key": k, "value": v, "effect": e} for k, v, e in machine.taints]},
        "status": {
            "capacity": room,
            "allocatable": dict(room),
            "conditions": [ready_condition("True")],
            "nodeInfo": {"kubeletVersion": "v1.37.0", "operatingSystem": "linux", "architecture": "amd64"},
        },
    }


def ready_condition(status: str) -> Obj:
    """The Ready condition of a node: True, False or Unknown."""
    reasons = {"True": "KubeletReady", "False": "KubeletNotReady", "Unknown": "NodeStatusUnknown"}
    return {"type": "Ready", "status": status, "reason": reasons[status], "message": ""}
