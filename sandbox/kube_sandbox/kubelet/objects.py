"""What a kubelet reads of pods and nodes: partial Structs of their JSON, and the annotations of the sandbox; and the requests by which it writes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from rescheduler.kube.transport import Request
from rescheduler.model.decode.pod_requests import incoming_requests
from rescheduler.model.decode.pod_wire_types import PodSpecWire
from rescheduler.model.resources import NO_RESOURCES, Resources, parse_amounts, resources_of

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
    if not wire.spec.node_name:
        return PodOnNode(wire)
    return PodOnNode(wire, incoming_requests(msgspec.convert(obj.get("spec") or {}, PodSpecWire)).resources)


def kubelet_node(obj: Mapping[str, Any]) -> KubeletNode:
    """A node from its JSON. Raises msgspec.ValidationError."""
    amounts = (obj.get("status") or {}).get("allocatable") or {}
    return KubeletNode(msgspec.convert(obj, WireNode), resources_of(parse_amounts(amounts)))


STRATEGIC: Final = "application/strategic-merge-patch+json"
STOPPED_EXIT_CODE: Final = 143
"""128 + SIGTERM: the exit code of a program that does not handle the signal."""

Document = dict[str, Any]


def timestamp(now_s: float) -> str:
    """RFC 3339, whole seconds, UTC."""
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod_path(pod: WirePod) -> str:
    """The path of the pod in the API."""
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}"


def running(pod: WirePod, *, ready: bool, address: str, started_s: float, now_s: float) -> Request:
    """All containers run. ``address``: the pod's IP."""
    state = {"running": {"startedAt": timestamp(started_s)}}
    finished = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": timestamp(started_s)}}
    flag, reason = ("True", None) if ready else ("False", "ContainersNotReady")
    body: Document = {
        "phase": "Running",
        "startTime": timestamp(started_s),
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            _condition("PodReadyToStartContainers", "True", now_s),
            _condition("Initialized", "True", now_s),
            _condition("Ready", flag, now_s, reason),
            _condition("ContainersReady", flag, now_s, reason),
        ],
        "containerStatuses": [_container(c, state, ready=ready) for c in pod.spec.containers or ()],
    }
    if pod.spec.init_containers:
        body["initContainerStatuses"] = [
            _container(c, state if c.restart_policy == "Always" else finished, ready=True)
            for c in pod.spec.init_containers
        ]
    return _patch(pod, body)


def ended(pod: WirePod, *, exit_code: int, now_s: float) -> Request:
    """All containers have ended with this exit code."""
    state = {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Completed" if exit_code == 0 else "Error",
            "finishedAt": timestamp(now_s),
        }
    }
    phase, reason = ("Failed", "PodFailed") if exit_code else ("Succeeded", "PodCompleted")
    body: Document = {
        "phase": phase,
        "conditions": [
            _condition("Ready", "False", now_s, reason),
            _condition("ContainersReady", "False", now_s, reason),
        ],
        "containerStatuses": [_container(c, state, ready=False) for c in pod.spec.containers or ()],
    }
    return _patch(pod, body)


def own_exit_code(pod: WirePod) -> int:
    """The exit code of the pod's annotation."""
    text = (pod.metadata.annotations or {}).get(ANNOTATION_EXIT_CODE, "0")
    return int(text) if text.isdecimal() else 1


def rejected(pod: WirePod, *, reason: str, message: str, now_s: float) -> Request:
    """The kubelet has rejected the pod for good."""
    full = f"Pod was rejected: {message}"
    return _patch(pod, {"phase": "Failed", "reason": reason, "message": full, "startTime": timestamp(now_s)})


def final_delete(pod: WirePod) -> Request:
    """Delete the object: the containers have ended."""
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": pod.metadata.uid},
    }
    return Request(method="DELETE", path=pod_path(pod), body=msgspec.json.encode(body))


def _patch(pod: WirePod, status: Document) -> Request:
    body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
    return Request(
        method="PATCH", path=f"{pod_path(pod)}/status", body=msgspec.json.encode(body), content_type=STRATEGIC
    )


def _condition(kind: str, status: str, now_s: float, reason: str | None = None) -> Document:
    condition = {"type": kind, "status": status, "lastTransitionTime": timestamp(now_s)}
    return condition | {"reason": reason} if reason else condition


def _container(container: WireContainer, state: Document, *, ready: bool) -> Document:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"sandbox://{container.image}",
        "containerID": f"sandbox://{container.name}",
        "ready": ready,
        "started": "running" in state,
        "restartCount": 0,
        "state": state,
    }
