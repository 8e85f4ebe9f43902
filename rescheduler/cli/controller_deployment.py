"""Why the controller of an installation does not run, as its Deployment and pods tell, and what mends it. Reading only."""

from __future__ import annotations

from typing import Any, Final

from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError, NotFoundError
from rescheduler.model.counted import plural

CONTROLLER_PODS: Final = "app.kubernetes.io/name=rescheduler,app.kubernetes.io/component=controller"
_NAME: Final = "rescheduler"
_INSTALL: Final = "kubectl apply -k manifests/, or rescheduler run"
_STARTS: Final = "ContainerCreating"

Json = dict[str, Any]


def images_of_leader(api: KubeApi, namespace: str, holder: str) -> tuple[str, ...]:
    """Of the pod that holds the Lease: identities begin with the pod's name, or are its uid. None if no pod does."""
    names = (holder, holder.rpartition("_")[0])
    pods = [
        pod for pod in _pods(api, namespace) if {*names} & {pod["metadata"]["uid"], pod["metadata"]["name"]}
    ]
    return tuple(sorted({one["image"] for pod in pods for one in pod["spec"]["containers"]}))


def why_none_runs(api: KubeApi, namespace: str) -> tuple[str, str]:
    """(what the Deployment tells, what mends it). Raises TransportError."""
    try:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{_NAME}"
        found = read_answer(api.get(path), Json)
    except NotFoundError:
        return "", _INSTALL
    except ApiError:
        return "", f"kubectl -n {namespace} get deployment,pods"
    kubectl, name = f"kubectl -n {namespace}", f"Deployment {namespace}/{_NAME}"
    wanted, ready = found["spec"].get("replicas", 1), (found.get("status") or {}).get("readyReplicas") or 0
    if wanted == 0:
        return f"its {name} is scaled to 0", f"{kubectl} scale deployment {_NAME} --replicas=1"
    if ready:
        return (
            f"{name} has {plural(ready, 'ready pod')}, but none leads",
            f"{kubectl} logs deployment/{_NAME}",
        )
    title = f"{name} has 0 of {plural(wanted, 'pod')} ready"
    for pod in _pods(api, namespace):
        if problem := _problem(pod.get("status") or {}):
            pod_name = pod["metadata"]["name"]
            crashed = "CrashLoopBackOff" in problem
            look = f"logs {pod_name} --previous" if crashed else f"describe pod {pod_name}"
            return f"{title}: pod {pod_name}: {problem}", f"{kubectl} {look}"
    return title, f"{kubectl} describe deployment {_NAME}"


def _pods(api: KubeApi, namespace: str) -> list[Json]:
    """Those of the Deployment; none if they may not be read."""
    try:
        body = api.get(f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": CONTROLLER_PODS})
    except ApiError:
        return []
    return read_answer(body, Json).get("items") or []


def _problem(status: Json) -> str:
    """What keeps a pod from running; "" if nothing does."""
    for container in status.get("containerStatuses") or ():
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason", _STARTS) != _STARTS:
            return _joined(waiting["reason"], waiting.get("message", ""))
    for one in status.get("conditions") or ():
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return _joined("not scheduled", one.get("message", ""))
    return ""


def _joined(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason
