"""Pods from the wire: the part of its own is decoded per pod, the shared spec once per content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from sys import intern
from typing import Any, Final

import msgspec
from msgspec import Raw

from rescheduler.model.decode_spec import SpecError, pod_spec
from rescheduler.model.intern import InternTable
from rescheduler.model.pod_requests import Requests, held
from rescheduler.model.records import Pod, PodPhase, PodSpec
from rescheduler.model.selectors import NO_LABELS, LabelSet
from rescheduler.model.shared import SharedParts, substitute_uid
from rescheduler.model.wire import ConditionWire
from rescheduler.model.wire_pod import (
    KEPT_ANNOTATIONS,
    HeldKey,
    HeldWire,
    PodAnnotationsHead,
    PodHead,
    PodMetaHead,
    PodSpecHead,
    PodSpecWire,
    PodStatusHead,
)

_PHASES: Final = {phase.value: phase for phase in PodPhase} | {"": PodPhase.PENDING}
_NO_ANNOTATIONS: Final = PodAnnotationsHead()
_NO_STATUS: Final = PodStatusHead()
_ABSENT_PARTS: Final = (b"", b"null")
_DIGEST_BYTES: Final = 16


class PodDecoder:
    """Turns pods of stage one into records. For one thread."""

    def __init__(self, shared: SharedParts) -> None:
        self._shared = shared
        self._encode = msgspec.json.Encoder().encode
        self._decode_spec = msgspec.json.Decoder(PodSpecWire).decode
        self._decode_held = msgspec.json.Decoder(HeldWire).decode
        self._specs: InternTable[bytes, PodSpec] = InternTable()
        self._equal_specs: InternTable[PodSpec, PodSpec] = InternTable()
        self._held: InternTable[bytes, Requests] = InternTable()

    def pod(self, wire: PodHead) -> Pod:
        """The record of a pod.

        Raises:
            ValueError: a part makes no sense; the message says which.
            msgspec.ValidationError: a part has the wrong type.
        """
        meta, spec, status = wire.metadata or PodMetaHead(), wire.spec, wire.status or _NO_STATUS
        if not meta.name:
            raise SpecError("metadata.name is missing")
        if spec is None:
            raise SpecError("spec is missing")
        node, spec.node_name = spec.node_name, None
        namespace = intern(meta.namespace or "default")
        encoded = self._spec_key(spec)
        digest = hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()
        record = self._specs.get(digest, lambda _: self._make_spec(encoded))
        seen = _Conditions(status.conditions)
        holds = self._holds(record, digest, encoded, status, infeasible=seen.infeasible)
        return Pod(
            namespace=namespace,
            name=meta.name,
            uid=meta.uid or substitute_uid("Pod", namespace, meta.name),
            resource_version=meta.resource_version or "",
            node=intern(node or ""),
            nominated_node=intern(status.nominated_node_name or ""),
            spec=record,
            labels=self._shared.labels(meta.labels),
            annotations=_annotations(meta.annotations),
            controller=self._shared.controller(meta.owner_references, namespace),
            held=holds.resources,
            held_score_cpu_milli=holds.score_cpu_milli,
            held_score_memory_bytes=holds.score_memory_bytes,
            phase=_PHASES.get(status.phase or "", PodPhase.UNKNOWN),
            ready=seen.ready,
            ready_since_s=seen.ready_since_s,
            deleting=meta.deletion_timestamp is not None,
            created_at_s=meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0,
            started_at_s=status.start_time.timestamp() if status.start_time else 0.0,
            unschedulable_message=seen.unschedulable_message,
            disruption_reason=seen.disruption_reason,
        )

    def template_spec(self, raw: Raw | bytes, labels: LabelSet) -> PodSpec:
        """The spec of a pod template, for the pods that would be made from it now."""
        wire = self._decode_spec(raw)
        return self._equal_specs.get(pod_spec(wire, labels), lambda same: same)

    def _spec_key(self, spec: PodSpecHead) -> bytes:
        """The shared part of a spec as JSON: without the names of volumes, unless a claim is named by it."""
        for volume in spec.volumes or ():
            if not volume.ephemeral:
                volume.name = None
        return self._encode(spec)

    def _make_spec(self, encoded: bytes) -> PodSpec:
        return self._equal_specs.get(pod_spec(self._decode_spec(encoded)), lambda same: same)

    def _holds(
        self, spec: PodSpec, digest: bytes, encoded: bytes, status: PodStatusHead, *, infeasible: bool
    ) -> Requests:
        key = HeldKey(
            status.container_statuses,
            status.init_container_statuses,
            status.resources,
            status.allocated_resources,
            infeasible,
        )
        reported = self._encode(key)
        return self._held.get(digest + reported, lambda _: self._make_held(spec, encoded, reported))

    def _make_held(self, spec: PodSpec, encoded: bytes, reported: bytes) -> Requests:
        """What is held; the very object of the spec's request where it is the same, to save memory."""
        holds = held(self._decode_spec(encoded), self._decode_held(reported))
        return holds._replace(resources=spec.requests) if holds.resources == spec.requests else holds


class _Conditions:
    """What a Pod record keeps of the conditions."""

    __slots__ = ("disruption_reason", "infeasible", "ready", "ready_since_s", "unschedulable_message")

    def __init__(self, conditions: Iterable[ConditionWire] | None) -> None:
        self.ready = False
        self.ready_since_s = 0.0
        self.infeasible = False
        self.unschedulable_message = ""
        self.disruption_reason = ""
        for condition in conditions or ():
            kind = condition.type
            if kind == "Ready":
                self.ready = condition.status == "True"
                if self.ready and condition.last_transition_time is not None:
                    self.ready_since_s = condition.last_transition_time.timestamp()
            elif kind == "PodScheduled":
                if condition.status == "False" and condition.reason == "Unschedulable":
                    self.unschedulable_message = condition.message or ""
            elif kind == "PodResizePending":
                self.infeasible = condition.reason == "Infeasible"
            elif kind == "DisruptionTarget" and condition.status == "True":
                self.disruption_reason = condition.reason or ""


def _annotations(head: Any) -> LabelSet:
    if head is None or head == _NO_ANNOTATIONS:
        return NO_LABELS
    values = ((key, getattr(head, field)) for field, key in KEPT_ANNOTATIONS.items())
    return LabelSet({key: value for key, value in values if value is not None})
