"""Printer columns of the built-in kinds, as ``kubectl get`` shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kube_sandbox.apiserver.errors import Json
from kube_sandbox.apiserver.json_values import dig, dotted, parse_time
from kube_sandbox.apiserver.registry import PrinterColumn

Cell = Callable[[Json, float], Any]


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400
_DURATIONS = (
    (2 * _MINUTE, "s", 1, "", 0),
    (10 * _MINUTE, "m", _MINUTE, "s", 1),
    (3 * _HOUR, "m", _MINUTE, "", 0),
    (8 * _HOUR, "h", _HOUR, "m", _MINUTE),
    (2 * _DAY, "h", _HOUR, "", 0),
    (8 * _DAY, "d", _DAY, "h", _HOUR),
    (2 * _YEAR, "d", _DAY, "", 0),
)
"""(limit in seconds, unit, its length, smaller unit, its length; 0: none) for durations below the limit."""


def human_duration(seconds: float) -> str:
    """``5m``, ``3d4h``: like apimachinery's HumanDuration."""
    whole = max(0, int(seconds))
    for limit, unit, length, minor, minor_length in _DURATIONS:
        if whole < limit:
            rest = whole % length // minor_length if minor_length else 0
            return f"{whole // length}{unit}" + (f"{rest}{minor}" if rest else "")
    return f"{whole // _YEAR}y{whole % _YEAR // _DAY}d"


def age(path: str = "metadata.creationTimestamp") -> Cell:
    """Time since the time at ``path``."""

    def cell(obj: Json, now: float) -> str:
        then = parse_time(dotted(obj, path))
        return "<unknown>" if then is None else human_duration(now - then)

    return cell


def at(path: str, default: Any = "<none>") -> Cell:
    """The value at ``path``."""

    def cell(obj: Json, _now: float) -> Any:
        value = dotted(obj, path)
        return default if value is None or value == "" else value

    return cell


def _name() -> PrinterColumn:
    return PrinterColumn("Name", "string", at("metadata.name"), format="name")


def _age() -> PrinterColumn:
    return PrinterColumn("Age", "string", age())


def _text(name: str, cell: Cell, priority: int = 0) -> PrinterColumn:
    return PrinterColumn(name, "string", cell, priority)


def _number(name: str, path: str) -> PrinterColumn:
    return PrinterColumn(name, "integer", at(path, 0))


def _pod_ready(pod: Json, _now: float) -> str:
    statuses = dig(pod, "status", "containerStatuses") or []
    return f"{sum(bool(s.get('ready')) for s in statuses)}/{len(dig(pod, 'spec', 'containers') or [])}"


def _pod_status(pod: Json, _now: float) -> str:
    status = pod.get("status") or {}
    if dig(pod, "metadata", "deletionTimestamp"):
        return "Terminating"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        waiting = dig(state, "waiting", "reason") or dig(state, "terminated", "reason")
        if waiting:
            return str(waiting)
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _pod_restarts(pod: Json, _now: float) -> str:
    return str(sum(int(s.get("restartCount") or 0) for s in dig(pod, "status", "containerStatuses") or ()))


def _readiness_gates(pod: Json, _now: float) -> str:
    gates = dig(pod, "spec", "readinessGates") or ()
    if not gates:
        return "<none>"
    true = {c["type"] for c in dig(pod, "status", "conditions") or () if c.get("status") == "True"}
    return f"{sum(g['conditionType'] in true for g in gates)}/{len(gates)}"


def _node_status(node: Json, _now: float) -> str:
    found = "Unknown"
    for condition in dig(node, "status", "conditions") or ():
        if condition.get("type") == "Ready":
            found = "Ready" if condition.get("status") == "True" else "NotReady"
    return f"{found},SchedulingDisabled" if dig(node, "spec", "unschedulable") else found


def _node_roles(node: Json, _now: float) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = sorted(
        key[len(prefix) :] for key in dig(node, "metadata", "labels") or () if key.startswith(prefix)
    )
    return ",".join(filter(None, roles)) or "<none>"


def _node_address(kind: str) -> Cell:
    def cell(node: Json, _now: float) -> str:
        for address in dig(node, "status", "addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address"))
        return "<none>"

    return cell


def _of(ready: str, wanted: str, default: int = 0) -> Cell:
    def cell(obj: Json, _now: float) -> str:
        want = dotted(obj, wanted)
        return f"{dotted(obj, ready) or 0}/{default if want is None else want}"

    return cell


def _containers(key: str) -> Cell:
    def cell(obj: Json, _now: float) -> str:
        containers = dig(obj, "spec", "template", "spec", "containers") or ()
        return ",".join(str(c.get(key, "")) for c in containers)

    return cell


def _selector(obj: Json, _now: float) -> str:
    selector = dig(obj, "spec", "selector") or {}
    labels = selector.get("matchLabels", selector if "matchExpressions" not in selector else {}) or {}
    return ",".join(f"{k}={v}" for k, v in sorted(labels.items())) or "<none>"


def _job_status(job: Json, _now: float) -> str:
    for condition in dig(job, "status", "conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in {"Complete", "Failed", "Suspended"}:
            return str(condition["type"])
    return "Terminating" if dig(job, "metadata", "deletionTimestamp") else "Running"


def _job_duration(job: Json, now: float) -> str:
    start = parse_time(dig(job, "status", "startTime"))
    if start is None:
        return ""
    end = parse_time(dig(job, "status", "completionTime"))
    return human_duration((now if end is None else end) - start)


def _namespace_status(namespace: Json, _now: float) -> str:
    return str(dig(namespace, "status", "phase") or "")


def _event_object(event: Json, _now: float) -> str:
    involved = event.get("involvedObject") or event.get("regarding") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_seen(event: Json, now: float) -> str:
    for path in (
        "series.lastObservedTime",
        "lastTimestamp",
        "deprecatedLastTimestamp",
        "eventTime",
        "metadata.creationTimestamp",
    ):
        then = parse_time(dotted(event, path))
        if then is not None:
            return human_duration(now - then)
    return "<unknown>"


def _event_message(event: Json, _now: float) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


def _count(path: str) -> Cell:
    def cell(obj: Json, _now: float) -> int:
        return len(dotted(obj, path) or ())

    return cell


def _ports(service: Json, _now: float) -> str:
    shown = []
    for port in dig(service, "spec", "ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


_WORKLOAD_WIDE = (
    _text("Containers", _containers("name"), 1),
    _text("Images", _containers("image"), 1),
    _text("Selector", _selector, 1),
)

BUILTIN_COLUMNS: dict[str, tuple[PrinterColumn, ...]] = {
    "Pod": (
        _name(),
        _text("Ready", _pod_ready),
        _text("Status", _pod_status),
        _text("Restarts", _pod_restarts),
        _age(),
        _text("IP", at("status.podIP"), 1),
        _text("Node", at("spec.nodeName"), 1),
        _text("Nominated Node", at("status.nominatedNodeName"), 1),
        _text("Readiness Gates", _readiness_gates, 1),
    ),
    "Node": (
        _name(),
        _text("Status", _node_status),
        _text("Roles", _node_roles),
        _age(),
        _text("Version", at("status.nodeInfo.kubeletVersion", "")),
        _text("Internal-IP", _node_address("InternalIP"), 1),
        _text("External-IP", _node_address("ExternalIP"), 1),
        _text("OS-Image", at("status.nodeInfo.osImage", "<unknown>"), 1),
        _text("Kernel-Version", at("status.nodeInfo.kernelVersion", "<unknown>"), 1),
        _text("Container-Runtime", at("status.nodeInfo.containerRuntimeVersion", "<unknown>"), 1),
    ),
    "Namespace": (_name(), _text("Status", _namespace_status), _age()),
    "Deployment": (
        _name(),
        _text("Ready", _of("status.readyReplicas", "spec.replicas", 1)),
        _number("Up-to-date", "status.updatedReplicas"),
        _number("Available", "status.availableReplicas"),
        _age(),
        *_WORKLOAD_WIDE,
    ),
    "ReplicaSet": (
        _name(),
        _number("Desired", "spec.replicas"),
        _number("Current", "status.replicas"),
        _number("Ready", "status.readyReplicas"),
        _age(),
        *_WORKLOAD_WIDE,
    ),
    "ReplicationController": (
        _name(),
        _number("Desired", "spec.replicas"),
        _number("Current", "status.replicas"),
        _number("Ready", "status.readyReplicas"),
        _age(),
        *_WORKLOAD_WIDE,
    ),
    "StatefulSet": (
        _name(),
        _text("Ready", _of("status.readyReplicas", "spec.replicas", 1)),
        _age(),
        *_WORKLOAD_WIDE[:2],
    ),
    "DaemonSet": (
        _name(),
        _number("Desired", "status.desiredNumberScheduled"),
        _number("Current", "status.currentNumberScheduled"),
        _number("Ready", "status.numberReady"),
        _number("Up-to-date", "status.updatedNumberScheduled"),
        _number("Available", "status.numberAvailable"),
        _text("Node Selector", at("spec.template.spec.nodeSelector")),
        _age(),
        *_WORKLOAD_WIDE,
    ),
    "Job": (
        _name(),
        _text("Status", _job_status),
        _text("Completions", _of("status.succeeded", "spec.completions", 1)),
        _text("Duration", _job_duration),
        _age(),
        *_WORKLOAD_WIDE,
    ),
    "PodDisruptionBudget": (
        _name(),
        _text("Min Available", at("spec.minAvailable", "N/A")),
        _text("Max Unavailable", at("spec.maxUnavailable", "N/A")),
        _number("Allowed Disruptions", "status.disruptionsAllowed"),
        _age(),
    ),
    "PriorityClass": (
        _name(),
        _number("Value", "value"),
        PrinterColumn("Global-Default", "boolean", at("globalDefault", False)),
        _age(),
        _text("PreemptionPolicy", at("preemptionPolicy", "")),
    ),
    "Lease": (_name(), _text("Holder", at("spec.holderIdentity", "")), _age()),
    "ConfigMap": (_name(), PrinterColumn("Data", "integer", _count("data")), _age()),
    "Secret": (_name(), _text("Type", at("type")), PrinterColumn("Data", "integer", _count("data")), _age()),
    "ServiceAccount": (_name(), PrinterColumn("Secrets", "integer", _count("secrets")), _age()),
    "Service": (
        _name(),
        _text("Type", at("spec.type")),
        _text("Cluster-IP", at("spec.clusterIP")),
        _text("External-IP", at("spec.externalName")),
        _text("Port(s)", _ports),
        _age(),
        _text("Selector", _selector, 1),
    ),
    "Event": (
        _text("Last Seen", _event_seen),
        _text("Type", at("type", "")),
        _text("Reason", at("reason", "")),
        _text("Object", _event_object),
        _text("Message", _event_message),
        PrinterColumn("Name", "string", at("metadata.name"), 1, format="name"),
    ),
    "PersistentVolume": (
        _name(),
        _text("Capacity", at("spec.capacity.storage", "")),
        _text("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy", "")),
        _text("Status", at("status.phase", "")),
        _text("Claim", at("spec.claimRef.name", "")),
        _text("StorageClass", at("spec.storageClassName", "")),
        _age(),
    ),
    "PersistentVolumeClaim": (
        _name(),
        _text("Status", at("status.phase", "")),
        _text("Volume", at("spec.volumeName", "")),
        _text("Capacity", at("status.capacity.storage", "")),
        _text("StorageClass", at("spec.storageClassName", "")),
        _age(),
    ),
    "StorageClass": (_name(), _text("Provisioner", at("provisioner", "")), _age()),
    "CustomResourceDefinition": (_name(), _text("Created At", at("metadata.creationTimestamp", ""))),
}
