"""Reads the Deployment or StatefulSet of a command: the controller of its next pods, and their template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.kube.answers import read_answer, read_items
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import NotFoundError
from rescheduler.model.counted import plural
from rescheduler.model.decode.wire_types import OwnerReferenceWire
from rescheduler.model.object_meta import ObjectMeta
from rescheduler.model.records import OwnerRef

PLURALS: Final = {"deployment": "deployments", "statefulset": "statefulsets"}
_SHORT: Final = {
    "deployments": "deployment",
    "deploy": "deployment",
    "statefulsets": "statefulset",
    "sts": "statefulset",
}
_REVISION: Final = "deployment.kubernetes.io/revision"


class _MetaWire(ObjectMeta, frozen=True, rename="camel"):
    owner_references: list[OwnerReferenceWire] | None = None


class _SpecWire(msgspec.Struct):
    replicas: int | None = None
    template: Raw = Raw(b"{}")


class _StatusWire(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0


class _WorkloadWire(msgspec.Struct):
    metadata: _MetaWire
    spec: _SpecWire
    status: _StatusWire = msgspec.field(default_factory=_StatusWire)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadName:
    """A workload that the user named; ``kind`` is deployment or statefulset."""

    kind: str
    name: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def api_kind(self) -> str:
        """Deployment or StatefulSet."""
        return "StatefulSet" if self.kind == "statefulset" else "Deployment"

    @property
    def path(self) -> str:
        """Path of the object."""
        return f"/apis/apps/v1/namespaces/{self.namespace}/{PLURALS[self.kind]}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWorkload:
    """A workload as read from the API server."""

    name: WorkloadName
    replicas: int
    owner: OwnerRef
    """The controller of its next pods."""
    template: bytes
    """PodTemplateSpec of its next pods as JSON."""
    unsettled: str = ""
    """Why the controller of the next pods is not known now; empty if it is known."""


def parse_workload(text: str, namespace: str) -> WorkloadName:
    """KIND/NAME as in kubectl. Raises CommandError."""
    kind, slash, name = text.partition("/")
    kind = _SHORT.get(kind.lower().removesuffix(".apps"), kind.lower().removesuffix(".apps"))
    if not slash or not name or kind not in PLURALS or "/" in name:
        message = f"{text!r}: write deployment/NAME or statefulset/NAME"
        raise CommandError(message, EXIT_USAGE)
    return WorkloadName(kind=kind, name=name, namespace=namespace)


def read_workload(api: KubeApi, name: WorkloadName) -> FoundWorkload:
    """The workload and the controller of its next pods.

    Raises:
        CommandError: it does not exist, is being deleted, or has no ReplicaSet yet.
        ApiError, TransportError: the server rejected the request or did not answer.
    """
    try:
        wire = read_answer(api.get(name.path), _WorkloadWire)
    except NotFoundError:
        message = f"there is no {name} in namespace {name.namespace}; is it the right one (-n)?"
        raise CommandError(message, EXIT_USAGE) from None
    if wire.metadata.deletion_timestamp:
        raise CommandError(f"{name} is being deleted")
    maker = wire if name.kind == "statefulset" else _current_replica_set(api, name, wire)
    kind = "StatefulSet" if name.kind == "statefulset" else "ReplicaSet"
    return FoundWorkload(
        name=name,
        replicas=1 if wire.spec.replicas is None else wire.spec.replicas,
        owner=OwnerRef("apps/v1", kind, maker.metadata.name, maker.metadata.uid),
        template=bytes(maker.spec.template),
        unsettled=_unsettled(name, wire),
    )


def _unsettled(name: WorkloadName, wire: _WorkloadWire) -> str:
    status = wire.status
    if status.observed_generation < wire.metadata.generation:
        return f"the last change of {name} has not been processed by its controller yet"
    if name.kind == "deployment" and status.replicas > status.updated_replicas:
        old = status.replicas - status.updated_replicas
        return f"a rollout of {name} is in progress ({plural(old, 'pod')} of earlier revisions)"
    return ""


def _current_replica_set(api: KubeApi, name: WorkloadName, deployment: _WorkloadWire) -> _WorkloadWire:
    revision = (deployment.metadata.annotations or {}).get(_REVISION)
    for body in api.list(f"/apis/apps/v1/namespaces/{name.namespace}/replicasets"):
        for found in read_items(body, _WorkloadWire):
            owners = found.metadata.owner_references or ()
            owned = any(o.controller and o.uid == deployment.metadata.uid for o in owners)
            if owned and revision and (found.metadata.annotations or {}).get(_REVISION) == revision:
                return found
    raise CommandError(f"{name} has no ReplicaSet yet: wait until its first rollout has begun")
