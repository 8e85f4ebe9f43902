"""Why the controller of an installation does not run, as its Deployment and pods tell, and what mends it. Reading only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError, NotFoundError
from rescheduler.model.counted import plural

CONTROLLER_PODS: Final = "app.kubernetes.io/name=rescheduler,app.kubernetes.io/component=controller"
_NAME: Final = "rescheduler"
_INSTALL: Final = "kubectl apply -k manifests/, or rescheduler run"


class _Told(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _State(msgspec.Struct, frozen=True):
    waiting: _Told | None = None
    terminated: _Told | None = None


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    state: _State = _State()
    last_state: _State = _State()
    restart_count: int = 0


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    message: str = ""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _ContainerSpec(msgspec.Struct, frozen=True):
    image: str = ""


class _PodSpec(msgspec.Struct, frozen=True):
    containers: list[_ContainerSpec] = []


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_Container] | None = None


class ControllerPod(msgspec.Struct, frozen=True):
    """A pod of the Deployment."""

    metadata: _Meta = _Meta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def images(self) -> tuple[str, ...]:
        """Of its containers."""
        return tuple(one.image for one in self.spec.containers)

    def has_identity(self, holder: str) -> bool:
        """True if this pod is the holder of a Lease: identities begin with the pod's name, or are its uid."""
        return holder == self.metadata.uid or holder.rpartition("_")[0] == self.metadata.name

    def problem(self) -> str:
        """What keeps it from running; "" if nothing does."""
        for container in self.status.container_statuses or ():
            if (waiting := container.state.waiting) is not None and waiting.reason != "ContainerCreating":
                ended = container.last_state.terminated
                last = f", ended with {ended.reason}" if ended is not None and ended.reason else ""
                return _joined(waiting.reason + last, waiting.message)
        for one in self.status.conditions or ():
            if one.type == "PodScheduled" and one.status == "False":
                return _joined("not scheduled", one.message)
        return ""


class _Pods(msgspec.Struct, frozen=True):
    items: list[ControllerPod] | None = None


class _Replicas(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int | None = None
    ready_replicas: int | None = None


class _Deployment(msgspec.Struct, frozen=True):
    spec: _Replicas = _Replicas()
    status: _Replicas = _Replicas()


def controller_pods(api: KubeApi, namespace: str) -> list[ControllerPod]:
    """Those of the Deployment. Raises ApiError, TransportError."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    return read_answer(api.get(path, {"labelSelector": CONTROLLER_PODS}), _Pods).items or []


def why_none_runs(api: KubeApi, namespace: str) -> tuple[str, str]:
    """(what the Deployment tells, what mends it). Raises TransportError, and ApiError for other reasons than a missing right."""
    try:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{_NAME}"
        found = read_answer(api.get(path), _Deployment)
    except NotFoundError:
        return "", _INSTALL
    except ApiError:
        return "", f"kubectl -n {namespace} get deployment,pods"
    wanted, ready = found.spec.replicas, found.status.ready_replicas or 0
    if wanted == 0:
        return (
            f"its Deployment {namespace}/{_NAME} is scaled to 0",
            f"kubectl -n {namespace} scale deployment {_NAME} --replicas=1",
        )
    if ready:
        return (
            f"Deployment {namespace}/{_NAME} has {plural(ready, 'ready pod')}, but none leads",
            f"kubectl -n {namespace} logs deployment/{_NAME}",
        )
    title = f"Deployment {namespace}/{_NAME} has 0 of {plural(wanted or 1, 'pod')} ready"
    for name, problem in _problems(api, namespace):
        crashed = "CrashLoopBackOff" in problem
        look = f"logs {name} --previous" if crashed else f"describe pod {name}"
        return f"{title}: pod {name}: {problem}", f"kubectl -n {namespace} {look}"
    return title, f"kubectl -n {namespace} describe deployment {_NAME}"


def _problems(api: KubeApi, namespace: str) -> Iterator[tuple[str, str]]:
    try:
        pods = controller_pods(api, namespace)
    except ApiError:
        return
    yield from ((pod.metadata.name, problem) for pod in pods if (problem := pod.problem()))


def _joined(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason
