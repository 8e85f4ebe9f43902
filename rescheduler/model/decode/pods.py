"""Decodes pods: the parts that differ are decoded for each pod, the shared spec once per distinct content.

In a list the pods of one controller follow each other. So a pod is first compared with the pod before it, and
equal parts are taken from there without computing a key for the intern table.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable
from sys import intern
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from rescheduler.model.decode.interning import GENERATION_SIZE, InternTable, SharedParts, substitute_uid
from rescheduler.model.decode.pod_requests import Requests, held_resources, incoming_requests
from rescheduler.model.decode.pod_spec import LABEL_KEYS, SpecError, SpecParts, pod_spec
from rescheduler.model.decode.pod_wire_types import (
    KEPT_ANNOTATIONS,
    HeldHead,
    HeldWire,
    PodAnnotationsHead,
    PodHead,
    PodMetaHead,
    PodSpecWire,
    PodStatusHead,
)
from rescheduler.model.decode.wire_types import ABSENT, ConditionWire, Wire
from rescheduler.model.names import LABEL_PLACEHOLDER, LABEL_START_FIRST
from rescheduler.model.records import FieldWriter, Pod, PodPhase, PodSpec, PodState
from rescheduler.model.selectors import NO_LABELS, LabelSet

_PHASES: Final = {phase.value: phase for phase in PodPhase} | {"": PodPhase.PENDING}
_UNKNOWN: Final = PodPhase.UNKNOWN
_FAILED: Final = PodPhase.FAILED.value
_NO_ANNOTATIONS: Final = PodAnnotationsHead()
_NO_STATUS: Final = PodStatusHead()
_READ_CONDITIONS: Final = frozenset({"Ready", "PodScheduled", "PodResizePending", "DisruptionTarget"})
_REFUSALS: Final = frozenset(
    {"UnexpectedAdmissionError", "TopologyAffinityError", "InvalidNodeInfo", "NodeAffinity", "NodeShutdown"}
)
"""Reasons of the kubelet for a pod that it does not take, besides ``OutOf...`` of any resource."""
_REJECTED: Final = "Pod was rejected"
"""So the message of such a pod begins, since 1.27."""
_DIGEST_BYTES: Final = 16


class PodDecoder:
    """Makes records of pods of stage one (see ``pod_wire_types``). For one thread."""

    def __init__(self, shared: SharedParts) -> None:
        self._shared = shared
        self._encode = msgspec.json.Encoder().encode
        self._decode_spec = msgspec.json.Decoder(PodSpecWire).decode
        self._decode_held = msgspec.json.Decoder(HeldWire).decode
        self._specs: InternTable[bytes, PodSpec] = InternTable()
        self._templates: InternTable[bytes, tuple[PodSpec, str]] = InternTable()
        self._parts = SpecParts()
        self._equal_specs: InternTable[PodSpec, PodSpec] = InternTable()
        self._requests: InternTable[bytes, Requests] = InternTable()
        self._held: InternTable[bytes, Requests] = InternTable()
        self._states: InternTable[tuple[Any, ...], PodState] = InternTable()
        self._before: _Sibling | None = None
        self._state_before: tuple[tuple[Any, ...], PodState] = (), PodState()
        self._namespace_before = ""
        self._nodes: dict[str, str] = {}
        """Names of nodes, interned: to look one up in the table of all interned texts takes longer than all else of it."""
        self._time_before: tuple[dt.datetime | None, float] = None, 0.0

    def pod(self, wire: PodHead) -> Pod:
        """The record of a pod.

        Raises:
            ValueError: a part has a senseless value; the message names it.
            msgspec.ValidationError: a part has the wrong type.
        """
        meta, status = wire.metadata or PodMetaHead(), wire.status or _NO_STATUS
        spec: Any = wire.spec
        if not meta.name:
            raise SpecError("metadata.name is missing")
        if spec is None:
            raise SpecError("spec is missing")
        node = spec.node_name
        _clear_own_names(spec)
        namespace = meta.namespace or "default"
        if namespace == self._namespace_before:
            namespace = self._namespace_before
        else:
            namespace = self._namespace_before = intern(namespace)
        seen, restarts = _ReadConditions(status.conditions), _taken_restarts(status.container_statuses)
        init_restarts = _taken_restarts(status.init_container_statuses)
        reported = (
            status.container_statuses,
            status.init_container_statuses,
            status.resources,
            status.allocated_resources,
            seen.infeasible,
        )
        labels = self._shared.labels(meta.labels)
        before = self._before
        if before is None or before.spec != spec or before.reported != reported:
            before = self._before = self._sibling(spec, reported)
        owners = self._shared.owners(meta.owner_references, namespace)
        ours = LABEL_PLACEHOLDER in labels or (owners.controller is None and LABEL_START_FIRST in labels)
        return Pod(
            namespace=namespace,
            name=meta.name,
            uid=meta.uid or substitute_uid("Pod", namespace, meta.name),
            resource_version=meta.resource_version or "",
            node=self._nodes.get(node) or self._node(node) if node else "",
            nominated_node=intern(status.nominated_node_name) if status.nominated_node_name else "",
            spec=before.record,
            labels=labels,
            annotations=_annotations(meta.annotations),
            controller=owners.controller,
            ready_since_s=self._seconds(seen.ready_since),
            created_at_s=self._seconds(meta.creation_timestamp),
            started_at_s=self._seconds(status.start_time),
            state=self._state(
                (
                    owners.pods,
                    before.holds.resources,
                    before.holds.score_cpu_milli,
                    before.holds.score_memory_bytes,
                    _PHASES.get(status.phase or "", _UNKNOWN),
                    seen.ready,
                    meta.deletion_timestamp is not None,
                    restarts,
                    init_restarts,
                    seen.unschedulable_message,
                    self._seconds(seen.unschedulable_since),
                    _not_taken(status) if status.phase == _FAILED else "",
                    seen.disruption_reason,
                    tuple(meta.finalizers) if meta.finalizers else (),
                    field_writers(meta.managed_fields) if ours else (),
                )
            ),
        )

    def template_spec(self, raw: Raw | bytes, labels: LabelSet) -> tuple[PodSpec, str]:
        """The spec of the pods that a controller would create from a template with these labels, and the node that it names."""
        text = bytes(raw)
        merged = repr(sorted(labels.items())).encode() if LABEL_KEYS in text else b""
        return self._templates.get(_digest(merged + text), lambda _: self._make_template(text, labels))

    def _state(self, fields: tuple[Any, ...]) -> PodState:
        """The one record of these fields, in the order of PodState."""
        before, state = self._state_before
        if fields != before:
            state = self._states.get(fields, _make_state)
            self._state_before = fields, state
        return state

    def _node(self, name: str) -> str:
        if len(self._nodes) >= GENERATION_SIZE:
            self._nodes.clear()
        return self._nodes.setdefault(name, intern(name))

    def _seconds(self, time: dt.datetime | None) -> float:
        """Seconds since the epoch. Equal times of a pod and its siblings share one float, to save time and memory."""
        if time is None:
            return 0.0
        before, seconds = self._time_before
        if time != before:
            seconds = time.timestamp()
            self._time_before = time, seconds
        return seconds

    def _sibling(self, spec: Any, reported: tuple[Any, ...]) -> _Sibling:
        encoded = self._encode(spec)
        amounts = self._encode(_amounts(spec))
        record = self._specs.get(
            _digest(encoded), lambda _: self._record(self._decode_spec(encoded), amounts)
        )
        key = self._encode(HeldHead(*reported))
        holds = self._held.get(_digest(amounts + key), lambda _: self._make_held(encoded, key))
        if holds.resources == record.requests:
            holds = holds._replace(resources=record.requests)  # one object for both, to save memory
        return _Sibling(spec, reported, record, holds)

    def _make_template(self, text: bytes, labels: LabelSet) -> tuple[PodSpec, str]:
        wire = self._decode_spec(text)
        return self._record(wire, self._encode(_amounts(wire)), labels), wire.node_name or ""

    def _record(self, wire: PodSpecWire, amounts: bytes, merge: LabelSet | None = None) -> PodSpec:
        requests = self._requests.get(amounts, lambda _: incoming_requests(wire))
        return self._equal_specs.get(pod_spec(wire, requests, self._parts, merge), lambda same: same)

    def _make_held(self, encoded: bytes, reported: bytes) -> Requests:
        return held_resources(self._decode_spec(encoded), self._decode_held(reported))


class _Sibling(NamedTuple):
    """Parts of a pod of stage one, and the records made of them, which a pod with equal parts shares."""

    spec: Any
    reported: tuple[Any, ...]
    record: PodSpec
    holds: Requests


def _make_state(fields: tuple[Any, ...]) -> PodState:
    return PodState(**dict(zip(PodState.__struct_fields__, fields, strict=True)))


def _clear_own_names(spec: Any) -> None:
    """Clear the fields in which pods of one template differ: the node and the names of volumes.

    A name is kept where it is part of a claim's name, or of an error message of kube-scheduler, or where an annotation may name it.
    """
    spec.node_name = None
    for volume in spec.volumes or ():
        local = volume.empty_dir or volume.host_path
        if not (local or volume.ephemeral or volume.aws_elastic_block_store or volume.azure_disk):
            volume.name = None


def _not_taken(status: PodStatusHead) -> str:
    """Why the kubelet did not take a pod that has failed; "": it did."""
    reason, message = status.reason or "", status.message or ""
    known = reason in _REFUSALS or reason.startswith("OutOf") or message.startswith(_REJECTED)
    return reason if known and not status.container_statuses else ""


def _taken_restarts(statuses: Any) -> int:
    """How often the containers were restarted; cleared, so that pods that differ in nothing else share their parts."""
    restarts = 0
    for status in statuses or ():
        if status.restart_count:
            restarts += max(status.restart_count, 0)
        status.restart_count = None
    return restarts


def _amounts(spec: Any) -> tuple[object, ...]:
    """The parts of a spec that its requests depend on. There are few combinations; many templates share each."""
    containers, init_containers = (
        [(c.name, c.resources, c.restart_policy) for c in listed or ()]
        for listed in (spec.containers, spec.init_containers)
    )
    return containers, init_containers, spec.overhead, spec.resources


def _digest(encoded: bytes) -> bytes:
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()


class _ReadConditions:
    """The fields of a Pod record that come from conditions."""

    __slots__ = (
        "disruption_reason", "infeasible", "ready", "ready_since", "unschedulable_message", "unschedulable_since",
    )  # fmt: skip

    def __init__(self, conditions: Iterable[ConditionWire] | None) -> None:
        self.ready = False
        self.ready_since: dt.datetime | None = None
        self.infeasible = False
        self.unschedulable_message = ""
        self.unschedulable_since: dt.datetime | None = None
        self.disruption_reason = ""
        for condition in conditions or ():
            kind = condition.type
            if (
                kind not in _READ_CONDITIONS
            ):  # most conditions: one set lookup is cheaper than four comparisons
                continue
            if kind == "Ready":
                self.ready = condition.status == "True"
                self.ready_since = condition.last_transition_time if self.ready else None
            elif kind == "PodScheduled":
                if condition.status == "False" and condition.reason == "Unschedulable":
                    self.unschedulable_message = condition.message or ""
                    self.unschedulable_since = condition.last_transition_time
            elif kind == "PodResizePending":
                self.infeasible = condition.reason == "Infeasible"
            elif kind == "DisruptionTarget" and condition.status == "True":
                self.disruption_reason = condition.reason or ""


def _annotations(head: Any) -> LabelSet:
    if head is None or head == _NO_ANNOTATIONS:
        return NO_LABELS
    values = ((key, getattr(head, field)) for field, key in KEPT_ANNOTATIONS.items())
    return LabelSet({key: value for key, value in values if value is not None})


class ManagedFieldsWire(Wire):
    """v1.ManagedFieldsEntry."""

    manager: str | None = None
    fields_v1: Raw = ABSENT


_decode: Final = msgspec.json.Decoder(list[ManagedFieldsWire] | None).decode


def field_writers(managed_fields: Raw) -> tuple[FieldWriter, ...]:
    """Who has written which field; nothing where it cannot be read, because it only serves messages."""
    try:
        entries = _decode(managed_fields) if managed_fields != ABSENT else None
    except msgspec.MsgspecError:
        return ()
    return tuple(FieldWriter(e.manager or "", bytes(e.fields_v1)) for e in entries or ())
