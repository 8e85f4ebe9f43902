"""Decodes Koordinator's Reservations. ``docs/koordinator.md`` has the table of fields."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from rescheduler.model.decode.custom_resources import ConditionTextWire, ObjectRefWire
from rescheduler.model.decode.interning import SharedParts, created_at
from rescheduler.model.decode.wire_types import ABSENT, MetaWire, ObjectWire, ResourceList, Wire
from rescheduler.model.names import API_VERSION, KOORDINATOR_API_VERSION, LABEL_PLACEHOLDER
from rescheduler.model.records import OwnerRef, Pod, PodPhase, PodSpec
from rescheduler.model.reservation import KoordinatorPhase, KoordinatorReservation, ObjectRef
from rescheduler.model.resources import Resources, parse_resources
from rescheduler.model.selectors import LabelSet


class PinnedSpecWire(Wire):
    """The part of the template's spec that is decoded."""

    node_name: str | None = None


class PinnedTemplateWire(Wire):
    """spec.template."""

    spec: PinnedSpecWire | None = None


class KoordinatorSpecWire(Wire):
    """spec of Koordinator's Reservation."""

    template: Raw = ABSENT


class KoordinatorStatusWire(Wire):
    """status of Koordinator's Reservation."""

    phase: str | None = None
    node_name: str | None = None
    conditions: list[ConditionTextWire] | None = None
    allocatable: ResourceList | None = None
    allocated: ResourceList | None = None
    current_owners: list[ObjectRefWire] | None = None


class KoordinatorReservationWire(ObjectWire):
    """scheduling.koordinator.sh/v1alpha1 Reservation."""

    spec: KoordinatorSpecWire | None = None
    status: KoordinatorStatusWire | None = None


_decode_template = msgspec.json.Decoder(PinnedTemplateWire).decode


def koordinator_reservation(
    wire: KoordinatorReservationWire, meta: MetaWire, shared: SharedParts
) -> KoordinatorReservation:
    """The record of Koordinator's Reservation. An unknown phase counts as Failed: no room is relied on."""
    status = wire.status or KoordinatorStatusWire()
    controller = shared.controller(meta.owner_references, "")
    ours = controller if controller is not None and controller.api_version == API_VERSION else None
    phase = _phase(status.phase)
    allocatable, allocated = parse_resources(status.allocatable), parse_resources(status.allocated)
    record = KoordinatorReservation(
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        created_at_s=created_at(meta),
        deleting=meta.deletion_timestamp is not None,
        reservation=ours,
        pinned_node=_pinned_node(wire.spec),
        phase=phase,
        node=status.node_name or "",
        refusal=_false(status, "Scheduled"),
        failure=_false(status, "Ready"),
        allocatable=allocatable,
        allocated=allocated,
        current_owners=tuple(
            ObjectRef(namespace=ref.namespace or "", name=ref.name or "", uid=ref.uid or "")
            for ref in status.current_owners or ()
        ),
    )
    return msgspec.structs.replace(record, room=_room(record)) if record.holds else record


def _phase(text: str | None) -> KoordinatorPhase:
    try:
        return KoordinatorPhase(text or "Pending")
    except ValueError:
        return KoordinatorPhase.FAILED


def _pinned_node(spec: KoordinatorSpecWire | None) -> str:
    template = _decode_template(spec.template) if spec is not None and spec.template != ABSENT else None
    return (template.spec.node_name or "") if template is not None and template.spec is not None else ""


def _false(status: KoordinatorStatusWire, kind: str) -> str:
    """Message (or reason, or type) of a condition that is False; empty if it is not False."""
    for condition in status.conditions or ():
        if condition.type == kind and condition.status == "False":
            return condition.message or condition.reason or kind
    return ""


def _room(held: KoordinatorReservation) -> Pod:
    """The free part of the room as a pod on the node; the owners that run there count as pods themselves."""
    rest = _not_negative(held.allocatable - held.allocated)
    owner = held.reservation
    name = held.name if owner is None else owner.name
    return Pod(
        namespace="",
        name=held.name,
        uid=held.uid,
        resource_version=held.resource_version,
        node=held.node,
        spec=PodSpec(requests=rest, score_cpu_milli=rest.cpu_milli, score_memory_bytes=rest.memory_bytes),
        labels=LabelSet({LABEL_PLACEHOLDER: name}),
        controller=owner or OwnerRef(KOORDINATOR_API_VERSION, "Reservation", held.name, held.uid),
        held=rest,
        held_score_cpu_milli=rest.cpu_milli,
        held_score_memory_bytes=rest.memory_bytes,
        phase=PodPhase.RUNNING,
        ready=True,
        created_at_s=held.created_at_s,
    )


def _not_negative(amount: Resources) -> Resources:
    return Resources(
        cpu_milli=max(0, amount.cpu_milli),
        memory_bytes=max(0, amount.memory_bytes),
        ephemeral_bytes=max(0, amount.ephemeral_bytes),
        scalars=tuple((name, max(0, value)) for name, value in amount.scalars),
    )
