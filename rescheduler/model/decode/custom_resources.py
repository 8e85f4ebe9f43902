"""Decodes Reservations and PodMigrations."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import Raw

from rescheduler.model.bounds import MOST_TEMPLATE_BYTES, OVERSIZED_TEMPLATE
from rescheduler.model.conditions import Condition
from rescheduler.model.decode.interning import SharedParts, created_at
from rescheduler.model.decode.pods import PodDecoder
from rescheduler.model.decode.selectors import label_selector
from rescheduler.model.decode.wire_types import (
    ABSENT,
    DAMAGE,
    LabelSelectorWire,
    MetaWire,
    ObjectWire,
    ResourceList,
    Wire,
)
from rescheduler.model.layout import check_layout
from rescheduler.model.migration import MigrationPhase, MigrationStatus, MoveMode, PodMigration
from rescheduler.model.records import ObjectKey, PodSpec
from rescheduler.model.reservation import (
    ControllerRef,
    MakingRoom,
    ObjectRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.model.resources import parse_resources
from rescheduler.model.selectors import NO_LABELS, LabelSet
from rescheduler.model.times import parse_duration, parse_timestamp


class ObjectRefWire(Wire):
    """Reference to a pod."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class ControllerRefWire(Wire):
    """Owner reference with a namespace."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    namespace: str | None = None


class OwnerWire(Wire):
    """One of spec.owners."""

    object: ObjectRefWire | None = None
    controller: ControllerRefWire | None = None
    label_selector: LabelSelectorWire | None = None


class ReservationTemplateMetaWire(Wire):
    """metadata of the template."""

    namespace: str | None = None
    labels: Raw = ABSENT


class ReservationTemplateWire(Wire):
    """The template of a Reservation."""

    metadata: ReservationTemplateMetaWire | None = None
    spec: Raw = ABSENT


class TemplateNodeWire(Wire):
    """The part of a template's spec that names a node."""

    node_name: str | None = None


class ReservationSpecWire(Wire):
    """spec of a Reservation."""

    template: Raw = ABSENT
    owners: list[OwnerWire] | None = None
    ttl: str | None = None
    expires: str | None = None
    pre_allocation: bool | None = None
    make_room: bool | None = None
    allocate_once: bool | None = None


class ConditionTextWire(Wire):
    """A condition whose times are kept as text."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_probe_time: str | None = None
    last_transition_time: str | None = None


class MakingRoomWire(Wire):
    """status.makingRoom."""

    node_name: str | None = None
    moves: int | None = None
    attempt: str | None = None
    since: str | None = None


class ReservationStatusWire(Wire):
    """status of a Reservation."""

    phase: str | None = None
    layout: int | None = None
    observed_generation: int | None = None
    node_name: str | None = None
    conditions: list[ConditionTextWire] | None = None
    allocatable: ResourceList | None = None
    allocated: ResourceList | None = None
    current_owners: list[ObjectRefWire] | None = None
    expires: str | None = None
    making_room: MakingRoomWire | None = None


class ReservationWire(ObjectWire):
    """rescheduler.dev/v1alpha1 Reservation."""

    spec: ReservationSpecWire | None = None
    status: ReservationStatusWire | None = None


class PodRefWire(Wire):
    """spec.podRef."""

    name: str | None = None
    uid: str | None = None


class TargetWire(Wire):
    """spec.target."""

    node_name: str | None = None


class NameRefWire(Wire):
    """spec.reservationRef."""

    name: str | None = None


class DeleteOptionsWire(Wire):
    """spec.deleteOptions."""

    grace_period_seconds: int | None = None


class MigrationSpecWire(Wire):
    """spec of a PodMigration."""

    pod_ref: PodRefWire | None = None
    target: TargetWire | None = None
    mode: str | None = None
    ttl: str | None = None
    paused: bool | None = None
    reservation_ref: NameRefWire | None = None
    delete_options: DeleteOptionsWire | None = None
    reason: str | None = None
    policy: str | None = None
    after: list[str] | None = None


class MigrationStatusWire(Wire):
    """status of a PodMigration."""

    phase: str | None = None
    layout: int | None = None
    observed_generation: int | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[ConditionTextWire] | None = None
    reservation_name: str | None = None
    reservation_uid: str | None = None
    source_node: str | None = None
    node_name: str | None = None
    mode: str | None = None
    replacement: ObjectRefWire | None = None
    started_at: str | None = None
    reserved_at: str | None = None
    eviction_requested_at: str | None = None
    evicted_at: str | None = None
    landed_at: str | None = None
    ready_at: str | None = None
    finished_at: str | None = None


class MigrationWire(ObjectWire):
    """rescheduler.dev/v1alpha1 PodMigration."""

    spec: MigrationSpecWire | None = None
    status: MigrationStatusWire | None = None


_decode_template = msgspec.json.Decoder(ReservationTemplateWire).decode
_decode_template_node = msgspec.json.Decoder(TemplateNodeWire).decode


def reservation(wire: ReservationWire, meta: MetaWire, shared: SharedParts, pods: PodDecoder) -> Reservation:
    """The record of a Reservation. A template that cannot be decoded is None; ``template_raw`` still contains it."""
    spec = wire.spec or ReservationSpecWire()
    template = read_template(spec.template, shared, pods)
    return Reservation(
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        generation=meta.generation or 0,
        created_at_s=created_at(meta),
        deleting=meta.deletion_timestamp is not None,
        labels=shared.labels(meta.labels),
        annotations=_annotations(meta),
        finalizers=tuple(meta.finalizers or ()),
        template=template.spec,
        template_labels=template.labels,
        template_namespace=template.namespace,
        template_node=template.node,
        template_raw=template.raw,
        owners=tuple(owner(one) for one in spec.owners or ()),
        ttl_s=None if spec.ttl is None else parse_duration(spec.ttl),
        expires_at_s=optional_time(spec.expires),
        pre_allocation=bool(spec.pre_allocation),
        make_room=bool(spec.make_room),
        allocate_once=spec.allocate_once is not False,
        status=_reservation_status(wire.status or ReservationStatusWire()),
    )


def migration(wire: MigrationWire, meta: MetaWire, shared: SharedParts) -> PodMigration:
    """The record of a PodMigration."""
    spec = wire.spec or MigrationSpecWire()
    pod = spec.pod_ref or PodRefWire()
    return PodMigration(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        generation=meta.generation or 0,
        created_at_s=created_at(meta),
        deleting=meta.deletion_timestamp is not None,
        labels=shared.labels(meta.labels),
        annotations=_annotations(meta),
        pod_name=pod.name or "",
        pod_uid=pod.uid or "",
        target_node=(spec.target.node_name or "") if spec.target else "",
        mode=MoveMode(spec.mode or MoveMode.AUTO),
        ttl_s=None if spec.ttl is None else parse_duration(spec.ttl),
        paused=bool(spec.paused),
        reservation_ref=(spec.reservation_ref.name or "") if spec.reservation_ref else "",
        grace_s=spec.delete_options.grace_period_seconds if spec.delete_options else None,
        reason=spec.reason or "",
        policy=spec.policy or "",
        after=tuple(map(_move_key, spec.after or ())),
        status=_migration_status(wire.status or MigrationStatusWire()),
    )


def _reservation_status(wire: ReservationStatusWire) -> ReservationStatus:
    check_layout(wire.layout)
    return ReservationStatus(
        phase=ReservationPhase(wire.phase or ReservationPhase.PENDING),
        observed_generation=wire.observed_generation or 0,
        node_name=wire.node_name or "",
        conditions=conditions(wire.conditions),
        allocatable=parse_resources(wire.allocatable),
        allocated=parse_resources(wire.allocated),
        current_owners=tuple(_object_ref(owner) for owner in wire.current_owners or ()),
        expires_at_s=optional_time(wire.expires),
        making_room=None if wire.making_room is None else _making_room(wire.making_room),
    )


def _making_room(wire: MakingRoomWire) -> MakingRoom:
    return MakingRoom(
        node=wire.node_name or "",
        moves=wire.moves or 0,
        attempt=wire.attempt or "",
        since_s=_optional_seconds(wire.since),
    )


def _migration_status(wire: MigrationStatusWire) -> MigrationStatus:
    check_layout(wire.layout)
    return MigrationStatus(
        phase=MigrationPhase(wire.phase or MigrationPhase.PENDING),
        observed_generation=wire.observed_generation or 0,
        reason=wire.reason or "",
        message=wire.message or "",
        conditions=conditions(wire.conditions),
        reservation_name=wire.reservation_name or "",
        reservation_uid=wire.reservation_uid or "",
        source_node=wire.source_node or "",
        node_name=wire.node_name or "",
        mode=MoveMode(wire.mode or MoveMode.RESERVE_FIRST),
        replacement=_object_ref(wire.replacement) if wire.replacement else None,
        started_at_s=_optional_seconds(wire.started_at),
        reserved_at_s=_optional_seconds(wire.reserved_at),
        eviction_requested_at_s=_optional_seconds(wire.eviction_requested_at),
        evicted_at_s=_optional_seconds(wire.evicted_at),
        landed_at_s=_optional_seconds(wire.landed_at),
        ready_at_s=_optional_seconds(wire.ready_at),
        finished_at_s=_optional_seconds(wire.finished_at),
    )


def _move_key(text: str) -> ObjectKey:
    """A PodMigration as ``spec.after`` names it; without a slash it names none, and none is found."""
    namespace, _, name = text.partition("/")
    return ObjectKey(namespace, name)


def _optional_seconds(text: str | None) -> float:
    return parse_timestamp(text) if text else 0.0


def optional_time(text: str | None) -> float | None:
    """A time, or None if it is not given."""
    return None if text is None else parse_timestamp(text)


def conditions(wires: list[ConditionTextWire] | None) -> tuple[Condition, ...]:
    """status.conditions."""
    return tuple(
        Condition(
            type=w.type or "",
            status=w.status or "",
            reason=w.reason or "",
            message=w.message or "",
            last_probe_time=w.last_probe_time or "",
            last_transition_time=w.last_transition_time or "",
        )
        for w in wires or ()
    )


def owner(wire: OwnerWire) -> ReservationOwner:
    """One of spec.owners."""
    controller = wire.controller
    return ReservationOwner(
        object=_object_ref(wire.object) if wire.object else None,
        controller=None
        if controller is None
        else ControllerRef(
            api_version=controller.api_version or "",
            kind=controller.kind or "",
            name=controller.name or "",
            uid=controller.uid or "",
            namespace=controller.namespace or "",
        ),
        label_selector=label_selector(wire.label_selector),
    )


def _object_ref(wire: ObjectRefWire) -> ObjectRef:
    return ObjectRef(wire.namespace or "", wire.name or "", wire.uid or "")


def _annotations(meta: MetaWire) -> LabelSet:
    annotations = {key: value or "" for key, value in (meta.annotations or {}).items()}
    return LabelSet(annotations) if annotations else NO_LABELS


def _compact(template: Raw) -> bytes:
    """The template as an object without white space; a missing or null one is empty."""
    content = bytes(template)
    return b"{}" if content in (b"", b"null") else msgspec.json.format(content, indent=-1)


class ReadTemplate(NamedTuple):
    """A PodTemplateSpec, as far as it can be read: the schema leaves most of it open."""

    spec: PodSpec | None
    labels: LabelSet
    namespace: str
    node: str
    raw: bytes


def read_template(template: Raw, shared: SharedParts, pods: PodDecoder) -> ReadTemplate:
    """What is read of spec.template; nothing is kept of one that is too large."""
    raw = _compact(template)
    if len(raw) > MOST_TEMPLATE_BYTES:
        return ReadTemplate(None, NO_LABELS, "", "", OVERSIZED_TEMPLATE)
    wire, labels = _template(raw, shared)
    head = wire.metadata or ReservationTemplateMetaWire()
    spec = _template_spec(wire.spec, labels, pods)
    return ReadTemplate(spec, labels, head.namespace or "", _template_node(wire.spec), raw)


def _template(raw: bytes, shared: SharedParts) -> tuple[ReservationTemplateWire, LabelSet]:
    """The template and its labels; empty if they cannot be read: the schema leaves the template's metadata open."""
    try:
        template = _decode_template(raw)
        return template, shared.labels((template.metadata or ReservationTemplateMetaWire()).labels)
    except DAMAGE:
        return ReservationTemplateWire(), NO_LABELS


def _template_spec(raw: Raw, labels: LabelSet, pods: PodDecoder) -> PodSpec | None:
    if bytes(raw) in (b"", b"null"):
        return None
    try:
        return pods.template_spec(raw, labels)
    except DAMAGE:
        return None


def _template_node(raw: Raw) -> str:
    return "" if bytes(raw) in (b"", b"null") else _decode_template_node(raw).node_name or ""
