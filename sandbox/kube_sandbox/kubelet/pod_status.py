"""The requests by which a kubelet writes the status of its pods and deletes them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from kube_sandbox.kubelet.objects import ANNOTATION_EXIT_CODE, WireContainer, WirePod
from rescheduler.kube.transport import Request

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
