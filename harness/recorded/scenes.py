"""The scenes that are recorded: a small cluster in virtual time, in which the controller moves one pod.

Node ``a`` has the pod, ``b`` has room for it, ``full`` has none. Every write is a moment of the recording.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from harness import documents
from harness.histories.program import QUIET, Program, ProgramOptions
from harness.recorded.recording import Moment, Obj, kept
from kube_sandbox.apiserver import InProcessTransport
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import POD, labels
from kube_sandbox.installing import install
from kube_sandbox.kubelet import KubeletSettings
from kube_sandbox.nodes import SandboxNode
from kube_sandbox.sandbox import Sandbox
from rescheduler.kube.transport import Request, Response, Stream, Transport
from rescheduler.model.names import ANNOTATION_MODE

KUBELET: Final = KubeletSettings(start_s=0.2, ready_s=0.5, stop_s=2.0)
_LASTS_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What is moved, and how."""

    kind: str = "Deployment"
    annotations: Mapping[str, str] | None = None
    given: bool = False
    """The move goes into a Reservation that people made."""


SCENES: Final[Mapping[str, Scene]] = {
    "moved-deployment": Scene(),
    "moved-statefulset": Scene("StatefulSet"),
    "into-a-given-room": Scene(given=True),
    "started-first": Scene(annotations={ANNOTATION_MODE: "StartFirst"}),
}


def record_rooms() -> list[Moment]:
    """All moments of a HeadRoom and an open ReservationWindow, a room of which is used."""
    sandbox = Sandbox([SandboxNode(name=n, cpu="4") for n in ("a", "b")], seed=1, kubelet=KUBELET)
    install_all(sandbox)
    moments: list[Moment] = []
    sandbox.transport = cast("InProcessTransport", _Recorder(sandbox.transport, moments))
    sandbox.add(Program(sandbox, random.Random(1), ProgramOptions(document=QUIET)))  # noqa: S311 - reproducible
    sandbox.advance(2)
    sandbox.api.subscribe(_every_write(sandbox, moments))
    template = {"spec": {"containers": [_container("1")]}}
    late = {"object": {"namespace": "default"}, "labelSelector": {"matchLabels": {"app": "late"}}}
    window = {
        "cron": "0 14 * * *", "duration": "2h", "podNumToReserve": 1, "template": template, "owners": [late],
    }  # fmt: skip
    web = {"controller": {"kind": "Deployment", "name": "web", "namespace": "default"}}
    for kind, name, spec in (
        ("HeadRoom", "web", {"rooms": 2, "template": template, "owners": [web]}),
        ("ReservationWindow", "daily", window),
    ):
        sandbox.api.create(documents.own(kind, name, spec))
    sandbox.advance(20)
    metadata = {"name": "late", "namespace": "default", "labels": {"app": "late"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [_container("1")]}}
    sandbox.api.create(pod)
    sandbox.advance(20)
    return moments


def _container(cpu: str) -> Obj:
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}


def install_all(sandbox: Sandbox) -> None:
    """Install the manifests of this version."""
    install(sandbox.transport)


def record(scene: Scene, prepare: Callable[[Sandbox], None] = install_all) -> list[Moment]:
    """All moments of the scene, from the request until after the end. ``prepare``: installs CRDs and rules."""
    sandbox = Sandbox([SandboxNode(name=n, cpu="4") for n in ("a", "b", "full")], seed=1, kubelet=KUBELET)
    prepare(sandbox)
    sandbox.api.create(_workload("filler", Scene(), "3500m", node="full"))
    sandbox.api.create(_workload("web", scene, "3"))
    sandbox.advance(5)
    moments: list[Moment] = []
    sandbox.transport = cast("InProcessTransport", _Recorder(sandbox.transport, moments))
    sandbox.add(Program(sandbox, random.Random(1), ProgramOptions(document=QUIET)))  # noqa: S311 - reproducible
    sandbox.advance(2)
    (pod,) = [p for p in sandbox.api.list(POD) if labels(p).get("app") == "web"]
    if scene.given:
        sandbox.api.create(_room(pod))
    sandbox.api.subscribe(_every_write(sandbox, moments))
    reference: Obj = {"reservationRef": {"name": "room"}} if scene.given else {}
    sandbox.api.create(documents.migration("move", pod["metadata"]["name"], namespace="default", **reference))
    sandbox.advance(_LASTS_S)
    return moments


@dataclass(frozen=True, slots=True)
class _Recorder:
    """Keeps what the controller writes with the moment at which it does so; not its Lease, and no dry run."""

    transport: Transport
    moments: list[Moment]

    def send(self, request: Request) -> Response:
        """One request."""
        body = json.loads(request.body) if request.body else {}
        dry = "dryRun" in request.query or (isinstance(body, dict) and "dryRun" in json.dumps(body))
        if self.moments and request.method != "GET" and "/leases" not in request.path and not dry:
            sent = {
                "method": request.method, "path": request.path, "query": dict(request.query), "body": body,
            }  # fmt: skip
            self.moments[-1].sent.append({**sent, "type": request.content_type})
        return self.transport.send(request)

    def stream(self, request: Request) -> Stream:
        """Opens a watch."""
        return self.transport.stream(request)


def _every_write(sandbox: Sandbox, moments: list[Moment]) -> Callable[[ObjectChange], None]:
    def look(_: ObjectChange) -> None:
        seen = kept(sandbox.api.everything())
        if not moments or moments[-1].objects != seen:
            moments.append(Moment(sandbox.clock(), seen))

    return look


def _workload(name: str, scene: Scene, cpu: str, node: str = "") -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec: dict[str, Any] = {"containers": [container]}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    selector = {"matchLabels": {"app": name}}
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if scene.annotations:
        metadata["annotations"] = dict(scene.annotations)
    more = {"serviceName": name} if scene.kind == "StatefulSet" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": scene.kind,
        "metadata": metadata,
        "spec": {"replicas": 1, "selector": selector, "template": template, **more},
    }


def _room(pod: Obj) -> Obj:
    owner = {k: v for k, v in pod["metadata"]["ownerReferences"][0].items() if k not in _LIFE}
    spec = {
        "template": {"metadata": {"namespace": "default"}, "spec": {"containers": [_container("3")]}},
        "owners": [{"controller": {**owner, "namespace": "default"}}],
        "ttl": "1h",
    }
    return documents.own("Reservation", "room", spec)


_LIFE: Final = ("controller", "blockOwnerDeletion")
