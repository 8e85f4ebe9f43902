"""Pods from the wire: the part of its own is decoded per pod, the shared spec once per content.

Lists name the pods of one controller one after the other, so a pod is first compared with the pod before it:
what is the same in both is taken over without making a key for it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable
from sys import intern
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from rescheduler.model.decode_spec import SpecError, pod_spec
from rescheduler.model.intern import InternTable
from rescheduler.model.pod_requests import Requests, asked, held
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
_LOOKED_AT: Final = frozenset({"Ready", "PodScheduled", "PodResizePending", "DisruptionTarget"})
_DIGEST_BYTES: Final = 16
_MERGES: Final = b"atchLabelKeys"
"""In a spec whose record depends on the labels of its pods: matchLabelKeys and mismatchLabelKeys."""


class PodDecoder:
    """Turns pods of stage one into records. For one thread."""

    def __init__(self, shared: SharedParts) -> None:
        self._shared = shared
        self._encode = msgspec.json.Encoder().encode
        self._decode_head = msgspec.json.Decoder(PodSpecHead).decode
        self._decode_spec = msgspec.json.Decoder(PodSpecWire).decode
        self._decode_held = msgspec.json.Decoder(HeldWire).decode
        self._specs: InternTable[bytes, PodSpec] = InternTable()
        self._equal_specs: InternTable[PodSpec, PodSpec] = InternTable()
        self._asked: InternTable[bytes, Requests] = InternTable()
        self._held: InternTable[bytes, Requests] = InternTable()
        self._before: _Sibling | None = None
        self._time_before_s = 0.0

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
        node = spec.node_name
        _forget_own_names(spec)
        namespace = intern(meta.namespace or "default")
        seen = _Conditions(status.conditions)
        reported = HeldKey(
            status.container_statuses,
            status.init_container_statuses,
            status.resources,
            status.allocated_resources,
            seen.infeasible,
        )
        before = self._before
        if before is None or before.spec != spec or before.reported != reported:
            before = self._before = self._sibling(spec, reported)
        return Pod(
            namespace=namespace,
            name=meta.name,
            uid=meta.uid or substitute_uid("Pod", namespace, meta.name),
            resource_version=meta.resource_version or "",
            node=intern(node or ""),
            nominated_node=intern(status.nominated_node_name or ""),
            spec=before.record,
            labels=self._shared.labels(meta.labels),
            annotations=_annotations(meta.annotations),
            controller=self._shared.controller(meta.owner_references, namespace),
            held=before.holds.resources,
            held_score_cpu_milli=before.holds.score_cpu_milli,
            held_score_memory_bytes=before.holds.score_memory_bytes,
            phase=_PHASES.get(status.phase or "", PodPhase.UNKNOWN),
            ready=seen.ready,
            ready_since_s=self._seconds(seen.ready_since),
            deleting=meta.deletion_timestamp is not None,
            created_at_s=self._seconds(meta.creation_timestamp),
            started_at_s=self._seconds(status.start_time),
            unschedulable_message=seen.unschedulable_message,
            disruption_reason=seen.disruption_reason,
        )

    def template_spec(self, raw: Raw | bytes, labels: LabelSet) -> PodSpec:
        """The spec of a pod template, for the pods that would be made from it now."""
        spec = self._decode_head(raw)
        _forget_own_names(spec)
        encoded = self._encode(spec)
        merged = repr(sorted(labels.items())).encode() if _MERGES in encoded else b""
        digest = _digest(merged + encoded)
        return self._specs.get(
            digest, lambda _: self._make_spec(encoded, self._encode(_amounts(spec)), labels)
        )

    def _seconds(self, time: dt.datetime | None) -> float:
        """Seconds since the epoch; the same object again for the same time, as a pod and its siblings often have."""
        if time is None:
            return 0.0
        seconds = time.timestamp()
        if seconds != self._time_before_s:
            self._time_before_s = seconds
        return self._time_before_s

    def _sibling(self, spec: PodSpecHead, reported: HeldKey) -> _Sibling:
        encoded = self._encode(spec)
        amounts = self._encode(_amounts(spec))
        record = self._specs.get(_digest(encoded), lambda _: self._make_spec(encoded, amounts))
        key = self._encode(reported)
        holds = self._held.get(_digest(amounts + key), lambda _: self._make_held(encoded, key))
        if holds.resources == record.requests:
            holds = holds._replace(resources=record.requests)  # one object for both, to save memory
        return _Sibling(spec, reported, record, holds)

    def _make_spec(self, encoded: bytes, amounts: bytes, merge: LabelSet | None = None) -> PodSpec:
        wire = self._decode_spec(encoded)
        requests = self._asked.get(amounts, lambda _: asked(wire))
        return self._equal_specs.get(pod_spec(wire, requests, merge), lambda same: same)

    def _make_held(self, encoded: bytes, reported: bytes) -> Requests:
        return held(self._decode_spec(encoded), self._decode_held(reported))


class _Sibling(NamedTuple):
    """A pod of stage one, and what was made of it: another with the same parts gets the same."""

    spec: PodSpecHead
    reported: HeldKey
    record: PodSpec
    holds: Requests


def _forget_own_names(spec: PodSpecHead) -> None:
    """Leave what pods of one template share: no node, and no names of volumes.

    Names stay where a claim is known by them, and where the scheduler may complain of the disk by name.
    """
    spec.node_name = None
    for volume in spec.volumes or ():
        if not (volume.ephemeral or volume.aws_elastic_block_store or volume.azure_disk):
            volume.name = None


def _amounts(spec: PodSpecHead) -> tuple[object, ...]:
    """The parts of a spec that its requests depend on: few combinations, which many templates share."""
    running, first = (
        [(c.name, c.resources, c.restart_policy) for c in containers or ()]
        for containers in (spec.containers, spec.init_containers)
    )
    return running, first, spec.overhead, spec.resources


def _digest(encoded: bytes) -> bytes:
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()


class _Conditions:
    """What a Pod record keeps of the conditions."""

    __slots__ = ("disruption_reason", "infeasible", "ready", "ready_since", "unschedulable_message")

    def __init__(self, conditions: Iterable[ConditionWire] | None) -> None:
        self.ready = False
        self.ready_since: dt.datetime | None = None
        self.infeasible = False
        self.unschedulable_message = ""
        self.disruption_reason = ""
        for condition in conditions or ():
            kind = condition.type
            if kind not in _LOOKED_AT:
                continue
            if kind == "Ready":
                self.ready = condition.status == "True"
                self.ready_since = condition.last_transition_time if self.ready else None
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
