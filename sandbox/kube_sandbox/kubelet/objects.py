"""What a kubelet reads of pods and nodes: partial Structs of their JSON, and the annotations of the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rescheduler.model.resources import NO_RESOURCES, Resources, milli, units

ANNOTATION_READY_AFTER = "sandbox.rescheduler.dev/ready-after"
"""On a pod: seconds from start to Ready, or ``never``."""
ANNOTATION_RUN_FOR = "sandbox.rescheduler.dev/run-for"
"""On a pod that is not restarted: seconds from start until its containers end by themselves."""
ANNOTATION_EXIT_CODE = "sandbox.rescheduler.dev/exit-code"
"""On a pod: exit code at that end; 0 (default) is success."""
ANNOTATION_STOP_AFTER = "sandbox.rescheduler.dev/stop-after"
"""On a pod: seconds that its containers need to stop, bounded by the grace period."""


class WireMeta(msgspec.Struct, frozen=True, rename="camel"):
    """metadata."""

    name: str
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class WireContainer(msgspec.Struct, frozen=True, rename="camel"):
    """A container."""

    name: str
    image: str = ""
    restart_policy: str = ""


class WirePodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod's spec that a kubelet needs."""

    containers: list[WireContainer] | None = None
    init_containers: list[WireContainer] | None = None
    node_name: str = ""
    restart_policy: str = "Always"


class WirePodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod's status that a kubelet needs."""

    phase: str = "Pending"


class WirePod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod as the kubelet sees it."""

    metadata: WireMeta
    spec: WirePodSpec = WirePodSpec()
    status: WirePodStatus = WirePodStatus()

    @property
    def key(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def deleting(self) -> bool:
        """True if the pod is terminating."""
        return self.metadata.deletion_timestamp is not None

    @property
    def terminal(self) -> bool:
        """True if the pod is Succeeded or Failed."""
        return self.status.phase in ("Succeeded", "Failed")

    def seconds(self, annotation: str, default: float) -> float:
        """Seconds from an annotation; ``never`` is infinite, and an invalid value is the default."""
        text = (self.metadata.annotations or {}).get(annotation)
        if text == "never":
            return float("inf")
        try:
            return max(float(text), 0.0) if text is not None else default
        except ValueError:
            return default


class WireCondition(msgspec.Struct, frozen=True):
    """A node condition."""

    type: str
    status: str


class WireNodeStatus(msgspec.Struct, frozen=True):
    """The part of a node's status that admission needs."""

    conditions: list[WireCondition] | None = None


class WireNode(msgspec.Struct, frozen=True):
    """A node as its kubelet sees it."""

    metadata: WireMeta
    status: WireNodeStatus = WireNodeStatus()

    @property
    def unreachable(self) -> bool:
        """True if Ready is Unknown: the kubelet of such a node does nothing."""
        return any(c.type == "Ready" and c.status == "Unknown" for c in self.status.conditions or ())


class PodOnNode(msgspec.Struct, frozen=True):
    """A pod and its effective requests."""

    wire: WirePod
    requests: Resources = NO_RESOURCES


class KubeletNode(msgspec.Struct, frozen=True):
    """A node and its allocatable resources."""

    wire: WireNode
    allocatable: Resources = NO_RESOURCES


def pod_on_node(obj: Mapping[str, Any]) -> PodOnNode:
    """A pod from its JSON. Raises msgspec.ValidationError if it is no pod."""
    wire = msgspec.convert(obj, WirePod)
    return PodOnNode(wire, effective_requests(obj.get("spec") or {}) if wire.spec.node_name else NO_RESOURCES)


def kubelet_node(obj: Mapping[str, Any]) -> KubeletNode:
    """A node from its JSON. Raises msgspec.ValidationError."""
    amounts = (obj.get("status") or {}).get("allocatable") or {}
    return KubeletNode(msgspec.convert(obj, WireNode), resource_list(amounts))


def effective_requests(spec: Mapping[str, Any]) -> Resources:
    """The effective requests of a pod (component-helpers ``PodRequests``).

    The sum of containers and sidecars, or the largest sum of an init container and the sidecars started before it,
    whichever is larger; pod-level requests replace that where they are given; the overhead is added.
    """
    total = NO_RESOURCES
    for container in spec.get("containers") or ():
        total += resource_list(_requests(container))
    sidecars, peak = NO_RESOURCES, NO_RESOURCES
    for container in spec.get("initContainers") or ():
        asked = resource_list(_requests(container))
        if container.get("restartPolicy") == "Always":
            sidecars += asked
            asked = NO_RESOURCES
        peak = _larger(peak, sidecars + asked)
    total = _larger(total + sidecars, peak)
    pod_level = _requests(spec)
    if pod_level:
        total = _override(total, pod_level)
    return total + resource_list(spec.get("overhead") or {})


def resource_list(amounts: Mapping[str, Any]) -> Resources:
    """A ResourceList as integers. Raises QuantityError."""
    scalars = {
        n: units(a) for n, a in amounts.items() if n not in ("cpu", "memory", "ephemeral-storage", "pods")
    }
    return Resources(
        cpu_milli=milli(amounts.get("cpu", 0)),
        memory_bytes=units(amounts.get("memory", 0)),
        ephemeral_bytes=units(amounts.get("ephemeral-storage", 0)),
        pods=units(amounts.get("pods", 0)),
        scalars=tuple(sorted(scalars.items())),
    )


def _requests(container: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (container.get("resources") or {}).get("requests") or {}
    return found


def _larger(left: Resources, right: Resources) -> Resources:
    """The larger amount of each resource."""
    a, b = dict(left.scalars), dict(right.scalars)
    return Resources(
        cpu_milli=max(left.cpu_milli, right.cpu_milli),
        memory_bytes=max(left.memory_bytes, right.memory_bytes),
        ephemeral_bytes=max(left.ephemeral_bytes, right.ephemeral_bytes),
        scalars=tuple((name, max(a.get(name, 0), b.get(name, 0))) for name in sorted(a.keys() | b.keys())),
    )


def _override(total: Resources, pod_level: Mapping[str, Any]) -> Resources:
    """Replace the sum by the pod-level requests, for the resources that they name: CPU, memory, huge pages."""
    asked = resource_list(pod_level)
    scalars = dict(total.scalars) | dict(asked.scalars)
    return Resources(
        cpu_milli=asked.cpu_milli if "cpu" in pod_level else total.cpu_milli,
        memory_bytes=asked.memory_bytes if "memory" in pod_level else total.memory_bytes,
        ephemeral_bytes=total.ephemeral_bytes,
        scalars=tuple(sorted(scalars.items())),
    )
