"""One admission review: bytes in, bytes out (pure). What the webhook does to a pod is decided here.

Promises: exactly the effect of the policies ``gate.rescheduler.dev`` and ``hint.rescheduler.dev`` of
``manifests/base``; every readable pod is allowed, changed or not. It must never refuse a pod.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rescheduler.errors import ReschedulerError
from rescheduler.model.controller_key import (
    TEMPLATE_HASH,
    controller_key,
    controller_keys,
    named_controllers,
    named_key,
)
from rescheduler.model.names import ANNOTATION_RESERVATION, GATE, HOSTNAME, LABEL_GATE_PROBE
from rescheduler.model.never_moves import FIXED_OWNERS
from rescheduler.model.node_marks import HINT_COPIES, HINT_WEIGHT
from rescheduler.model.times import parse_timestamp
from rescheduler.reservations.gate_keys import keys_of_pod


class OwnerReference(msgspec.Struct, frozen=True):
    """The parts of an ownerReference that count."""

    uid: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class ManagedFields(msgspec.Struct, frozen=True):
    """When a manager wrote its fields, by the API server's clock."""

    time: str = ""


class ReviewedMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of the metadata that count."""

    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    managed_fields: tuple[ManagedFields, ...] | None = None


class SchedulingGate(msgspec.Struct, frozen=True):
    """One scheduling gate."""

    name: str


class ReviewedNodeAffinity(msgspec.Struct, frozen=True):
    """Whether there are preferred terms; their content is passed by."""

    preferred: list[msgspec.Raw] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class ReviewedAffinity(msgspec.Struct, frozen=True, rename="camel"):
    """The part of the affinity that a hint is added to."""

    node_affinity: ReviewedNodeAffinity | None = None


class ReviewedSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The parts of the spec that count."""

    node_name: str | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    affinity: ReviewedAffinity | None = None


class ReviewedPod(msgspec.Struct, frozen=True):
    """A pod that is being created."""

    metadata: ReviewedMeta
    spec: ReviewedSpec

    @property
    def controllers(self) -> tuple[OwnerReference, ...]:
        """The API server takes one at most."""
        return tuple(owner for owner in self.metadata.owner_references or () if owner.controller)

    @property
    def created_at_s(self) -> float:
        """By the API server's clock, which notes it before admission; infinite if it did not."""
        fields = self.metadata.managed_fields
        try:
            return max(parse_timestamp(entry.time) for entry in fields or ())
        except ValueError:
            return math.inf


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    namespace: str = ""
    object: ReviewedPod | None = None


class _Review(msgspec.Struct, frozen=True):
    request: _Request


class PatchOperation(msgspec.Struct, frozen=True):
    """One "add" of a JSON patch (RFC 6902)."""

    path: str
    value: Any
    op: str = "add"


class _Response(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool | None = None
    patch_type: str = ""
    patch: bytes = b""


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    response: _Response
    api_version: str = "admission.k8s.io/v1"
    kind: str = "AdmissionReview"


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a webhook is for."""

    keys: Callable[[ReviewedPod, str], tuple[str, ...]]
    """Keys under which a pod of a namespace may be stored, the most specific first."""
    look: Callable[[tuple[str, ...], float], str]
    """The value of the first of these keys that is stored and valid at that moment; empty if none is."""
    change: Callable[[ReviewedPod, str], tuple[PatchOperation, ...]]
    """The patch of a pod for which a value is stored."""


_DECODER: Final = msgspec.json.Decoder(_Review)


class UnreadableReviewError(ReschedulerError, ValueError):
    """The body is no AdmissionReview of a pod; the caller answers 400, and the pod is created unchanged."""


def answer(body: bytes, purpose: Purpose) -> bytes:
    """The AdmissionReview that answers ``body``: allowed, with a patch if something is stored for the pod.

    Raises:
        UnreadableReviewError: see there.
    """
    try:
        request = _DECODER.decode(body).request
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableReviewError(str(error)) from error
    operations = _operations(request, purpose)
    response = _Response(uid=request.uid, allowed=True)
    if operations:
        patch = msgspec.json.encode(operations)
        response = _Response(uid=request.uid, allowed=True, patch_type="JSONPatch", patch=patch)
    return msgspec.json.encode(_Answer(response))


def hint_keys(pod: ReviewedPod, namespace: str) -> tuple[str, ...]:
    """Hints are stored by the controller, for pods of its own namespace only."""
    return tuple(controller_key(namespace, owner.uid) for owner in pod.controllers)


def gate_keys(pod: ReviewedPod, namespace: str, own: str) -> tuple[str, ...]:
    """Gate keys are stored by the controller's uid or name, by the pod's own name, and by its labels.

    ``own``: the controller's namespace, where a probe stands for a pod of the namespace that its label names.
    """
    if any(owner.kind in FIXED_OWNERS for owner in pod.controllers):
        return ()
    labels = pod.metadata.labels or {}
    home = labels.get(LABEL_GATE_PROBE, namespace) if namespace == own else namespace
    found = [key for owner in pod.controllers for key in controller_keys(home, owner.uid)]
    for owner in pod.controllers:
        for kind, name in named_controllers(owner.kind, owner.name, labels.get(TEMPLATE_HASH, "")):
            found += [named_key(scope, kind, name) for scope in (namespace, "")]
    return (*found, *keys_of_pod(namespace, pod.metadata.name, labels.items()))


def hold(pod: ReviewedPod, reservation: str) -> tuple[PatchOperation, ...]:
    """The scheduling gate, and the annotation that names the Reservation. Other gates stay."""
    operations = _annotated(pod.metadata.annotations, reservation)
    gates = pod.spec.scheduling_gates
    if not gates:
        return (*operations, PatchOperation("/spec/schedulingGates", [{"name": GATE}]))
    if all(gate.name != GATE for gate in gates):
        return (*operations, PatchOperation("/spec/schedulingGates/-", {"name": GATE}))
    return operations


def steer(pod: ReviewedPod, hosts: str) -> tuple[PatchOperation, ...]:
    """Preferred node affinity terms against the comma-separated ``hosts``; other terms stay."""
    avoided = {"key": HOSTNAME, "operator": "NotIn", "values": hosts.split(",")}
    term = {"weight": HINT_WEIGHT, "preference": {"matchExpressions": [avoided]}}
    terms = [term] * HINT_COPIES
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    affinity = pod.spec.affinity
    if affinity is None:
        return (PatchOperation("/spec/affinity", {"nodeAffinity": preferred}),)
    if affinity.node_affinity is None:
        return (PatchOperation("/spec/affinity/nodeAffinity", preferred),)
    path = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution"
    if affinity.node_affinity.preferred is None:
        return (PatchOperation(path, terms),)
    return tuple(PatchOperation(f"{path}/-", each) for each in terms)


def _operations(request: _Request, purpose: Purpose) -> tuple[PatchOperation, ...]:
    pod = request.object
    if pod is None or pod.spec.node_name:
        return ()  # a gate on a bound pod would be refused, a hint would come too late
    keys = purpose.keys(pod, request.namespace)
    value = purpose.look(keys, pod.created_at_s) if keys else ""
    return purpose.change(pod, value) if value else ()


def _annotated(annotations: dict[str, str] | None, reservation: str) -> tuple[PatchOperation, ...]:
    if not annotations:
        return (PatchOperation("/metadata/annotations", {ANNOTATION_RESERVATION: reservation}),)
    escaped = ANNOTATION_RESERVATION.replace("~", "~0").replace("/", "~1")
    return (PatchOperation(f"/metadata/annotations/{escaped}", reservation),)
