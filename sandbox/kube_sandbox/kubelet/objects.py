"""What a kubelet reads of pods and nodes: their JSON, and the annotations of the sandbox; and the requests by which it writes. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from kube_sandbox.controllers.unstructured import Obj, annotations_of, condition, key, spec, status, uid
from rescheduler.kube.transport import Request
from rescheduler.model.decode.pod_requests import incoming_requests
from rescheduler.model.decode.pod_wire_types import PodSpecWire
from rescheduler.model.resources import NO_RESOURCES, Resources, parse_amounts, resources_of
from rescheduler.model.times import format_seconds

ANNOTATION_READY_AFTER = "sandbox.rescheduler.dev/ready-after"
"""On a pod: seconds from start to Ready, or ``never``."""
ANNOTATION_RUN_FOR = "sandbox.rescheduler.dev/run-for"
"""On a pod that is not restarted: seconds from start until its containers end by themselves."""
ANNOTATION_EXIT_CODE = "sandbox.rescheduler.dev/exit-code"
"""On a pod: exit code at that end; 0 (default) is success."""
ANNOTATION_STOP_AFTER = "sandbox.rescheduler.dev/stop-after"
"""On a pod: seconds that its containers need to stop, bounded by the grace period."""


class PodOnNode(msgspec.Struct, frozen=True):
    """A pod and its effective requests."""

    obj: Obj
    requests: Resources = NO_RESOURCES

    @property
    def node(self) -> str:
        """The node that it is bound to."""
        return str(spec(self.obj).get("nodeName") or "")

    def seconds(self, annotation: str, default: float) -> float:
        """Seconds from an annotation; ``never`` is infinite, and an invalid value is the default."""
        text = annotations_of(self.obj).get(annotation)
        if text == "never":
            return float("inf")
        try:
            return max(float(text), 0.0) if text is not None else default
        except ValueError:
            return default


class KubeletNode(msgspec.Struct, frozen=True):
    """A node and its allocatable resources."""

    name: str
    allocatable: Resources = NO_RESOURCES
    unreachable: bool = False
    """Ready is Unknown: the kubelet of such a node does nothing."""


def pod_on_node(obj: Obj) -> PodOnNode:
    """A pod from its JSON. Raises msgspec.ValidationError if it cannot be read."""
    if not spec(obj).get("nodeName"):
        return PodOnNode(obj)
    return PodOnNode(obj, incoming_requests(msgspec.convert(spec(obj), PodSpecWire)).resources)


def kubelet_node(obj: Obj) -> KubeletNode:
    """A node from its JSON."""
    ready = condition(obj, "Ready") or {}
    amounts = parse_amounts(status(obj).get("allocatable"))
    return KubeletNode(key(obj).name, resources_of(amounts), ready.get("status") == "Unknown")


STRATEGIC: Final = "application/strategic-merge-patch+json"
STOPPED_EXIT_CODE: Final = 143
"""128 + SIGTERM: the exit code of a program that does not handle the signal."""


def pod_path(pod: Obj) -> str:
    """The path of the pod in the API."""
    return f"/api/v1/namespaces/{key(pod).namespace}/pods/{key(pod).name}"


def running(pod: Obj, *, ready: bool, address: str, started_s: float, now_s: float) -> Request:
    """All containers run. ``address``: the pod's IP."""
    state = {"running": {"startedAt": format_seconds(started_s)}}
    finished = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": format_seconds(started_s)}}
    flag, reason = ("True", None) if ready else ("False", "ContainersNotReady")
    body: Obj = {
        "phase": "Running",
        "startTime": format_seconds(started_s),
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
        "containerStatuses": [_container(c, state, ready=ready) for c in spec(pod).get("containers") or ()],
    }
    if first := spec(pod).get("initContainers"):
        body["initContainerStatuses"] = [
            _container(c, state if c.get("restartPolicy") == "Always" else finished, ready=True)
            for c in first
        ]
    return _patch(pod, body)


def ended(pod: Obj, *, exit_code: int, now_s: float) -> Request:
    """All containers have ended with this exit code."""
    state = {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Completed" if exit_code == 0 else "Error",
            "finishedAt": format_seconds(now_s),
        }
    }
    phase, reason = ("Failed", "PodFailed") if exit_code else ("Succeeded", "PodCompleted")
    body: Obj = {
        "phase": phase,
        "conditions": [
            _condition("Ready", "False", now_s, reason),
            _condition("ContainersReady", "False", now_s, reason),
        ],
        "containerStatuses": [_container(c, state, ready=False) for c in spec(pod).get("containers") or ()],
    }
    return _patch(pod, body)


def own_exit_code(pod: Obj) -> int:
    """The exit code of the pod's annotation."""
    text = annotations_of(pod).get(ANNOTATION_EXIT_CODE, "0")
    return int(text) if text.isdecimal() else 1


def rejected(pod: Obj, *, reason: str, message: str, now_s: float) -> Request:
    """The kubelet has rejected the pod for good."""
    full = f"Pod was rejected: {message}"
    return _patch(
        pod, {"phase": "Failed", "reason": reason, "message": full, "startTime": format_seconds(now_s)}
    )


def final_delete(pod: Obj) -> Request:
    """Delete the object: the containers have ended."""
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": uid(pod)},
    }
    return Request(method="DELETE", path=pod_path(pod), body=msgspec.json.encode(body))


def _patch(pod: Obj, new: Obj) -> Request:
    body = {"metadata": {"uid": uid(pod)}, "status": new}
    return Request(
        method="PATCH", path=f"{pod_path(pod)}/status", body=msgspec.json.encode(body), content_type=STRATEGIC
    )


def _condition(kind: str, state: str, now_s: float, reason: str | None = None) -> Obj:
    new = {"type": kind, "status": state, "lastTransitionTime": format_seconds(now_s)}
    return new | {"reason": reason} if reason else new


def _container(container: Obj, state: Obj, *, ready: bool) -> Obj:
    name, image = container["name"], container.get("image", "")
    return {
        "name": name,
        "image": image,
        "imageID": f"sandbox://{image}",
        "containerID": f"sandbox://{name}",
        "ready": ready,
        "started": "running" in state,
        "restartCount": 0,
        "state": state,
    }
