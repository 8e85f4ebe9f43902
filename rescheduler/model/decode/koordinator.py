"""Decodes Koordinator's Reservations. ``docs/koordinator.md`` has the table of fields."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from rescheduler.model.decode.interning import SharedParts, created_at
from rescheduler.model.decode.pods import field_writers
from rescheduler.model.decode.wire_form import canonical_json, reader, wire_type
from rescheduler.model.decode.wire_types import ABSENT, MetaWire, ObjectWire, Wire
from rescheduler.model.holding import holding
from rescheduler.model.names import API_VERSION, KOORDINATOR_API_VERSION, LABEL_PLACEHOLDER
from rescheduler.model.own_objects import Condition
from rescheduler.model.records import OwnerRef, Pod, PodPhase, PodSpec
from rescheduler.model.reservation import KoordinatorReservation, ObjectRef, ReservationPhase
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.model.selectors import LabelSet


class KoordinatorMetaWire(MetaWire):
    """Its metadata, with who has written which field."""

    managed_fields: Raw = ABSENT


class PinnedSpecWire(Wire):
    """The part of the template's spec that is decoded."""

    node_name: str | None = None
    scheduler_name: str | None = None


class PinnedTemplateWire(Wire):
    """spec.template."""

    spec: PinnedSpecWire | None = None


class KoordinatorSpecWire(Wire):
    """spec of Koordinator's Reservation."""

    template: Raw = ABSENT
    owners: Raw = ABSENT
    ttl: str | None = None
    expires: str | None = None
    allocate_once: bool | None = None
    unschedulable: bool | None = None


class KoordinatorStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """status of Koordinator's Reservation."""

    phase: str = ""
    node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    allocatable: Resources = NO_RESOURCES
    allocated: Resources = NO_RESOURCES
    current_owners: tuple[ObjectRef, ...] = ()


KoordinatorReservationWire: Final[Any] = msgspec.defstruct(
    "KoordinatorReservationWire",
    [
        ("metadata", KoordinatorMetaWire | None, None),
        ("spec", KoordinatorSpecWire | None, None),
        ("status", wire_type(KoordinatorStatus) | None, None),
    ],
    bases=(ObjectWire,),
    gc=False,
)
"""scheduling.koordinator.sh/v1alpha1 Reservation."""

_NEVER: Final = ("0", "0s")
"""``ttl`` of a Reservation that does not end by itself. Without a ttl Koordinator ends it after a day."""
_NO_STATUS: Final = KoordinatorStatus()
_read_status: Final = reader(KoordinatorStatus)
_decode_template = msgspec.json.Decoder(PinnedTemplateWire).decode


def koordinator_reservation(wire: Any, meta: MetaWire, shared: SharedParts) -> KoordinatorReservation:
    """The record of Koordinator's Reservation. An unknown phase counts as Failed: no room is relied on."""
    spec: KoordinatorSpecWire = wire.spec or KoordinatorSpecWire()
    status: KoordinatorStatus = _read_status(wire.status) if wire.status is not None else _NO_STATUS
    pinned = _pinned(spec)
    controller = shared.owners(meta.owner_references, "").controller
    ours = controller if controller is not None and controller.api_version == API_VERSION else None
    record = KoordinatorReservation(
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        created_at_s=created_at(meta),
        deleting=meta.deletion_timestamp is not None,
        reservation=ours,
        pinned_node=pinned.node_name or "",
        scheduler_name=pinned.scheduler_name or "",
        closed=bool(spec.unschedulable),
        allocate_once=spec.allocate_once is not False,
        ends=spec.expires is not None or spec.ttl not in _NEVER,
        owners=_compact_owners(spec.owners) if ours is not None else b"",
        writers=field_writers(wire.metadata.managed_fields) if ours is not None and wire.metadata else (),
        phase=_phase(status.phase),
        node=status.node_name,
        refusal=_false(status, "Scheduled"),
        failure=_false(status, "Ready"),
        allocatable=status.allocatable,
        allocated=status.allocated,
        current_owners=status.current_owners,
    )
    return msgspec.structs.replace(record, room=_room(record)) if record.holds else record


def _phase(text: str) -> ReservationPhase:
    try:
        return ReservationPhase(text or "Pending")
    except ValueError:
        return ReservationPhase.FAILED


def _pinned(spec: KoordinatorSpecWire) -> PinnedSpecWire:
    template = _decode_template(spec.template) if spec.template != ABSENT else None
    return (template.spec if template is not None else None) or PinnedSpecWire()


def _compact_owners(owners: Raw) -> bytes:
    return canonical_json(msgspec.json.decode(owners)) if owners != ABSENT else b""


def _false(status: KoordinatorStatus, kind: str) -> str:
    """Message (or reason, or type) of a condition that is False; empty if it is not False."""
    for condition in status.conditions:
        if condition.type == kind and condition.status == "False":
            return condition.message or condition.reason or kind
    return ""


def _room(held: KoordinatorReservation) -> Pod:
    """The free part of the room as a pod on the node; the owners that run there count as pods themselves."""
    rest = (held.allocatable - held.allocated).not_below_zero()
    owner = held.reservation
    name = held.name if owner is None else owner.name
    spec = PodSpec(requests=rest, score_cpu_milli=rest.cpu_milli, score_memory_bytes=rest.memory_bytes)
    return Pod(
        namespace="",
        name=held.name,
        uid=held.uid,
        resource_version=held.resource_version,
        node=held.node,
        spec=spec,
        labels=LabelSet({LABEL_PLACEHOLDER: name}),
        controller=owner or OwnerRef(KOORDINATOR_API_VERSION, "Reservation", held.name, held.uid),
        created_at_s=held.created_at_s,
        state=holding(spec, phase=PodPhase.RUNNING, ready=True),
    )
