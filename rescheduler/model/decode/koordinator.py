"""Decodes Koordinator's Reservations. ``docs/koordinator.md`` has the table of fields."""

from __future__ import annotations

import msgspec

from rescheduler.model.decode.interning import SharedParts
from rescheduler.model.decode.pods import field_writers
from rescheduler.model.decode.wire_types import MetaWire
from rescheduler.model.holding import holding
from rescheduler.model.names import API_VERSION, KOORDINATOR_API_VERSION, LABEL_PLACEHOLDER
from rescheduler.model.records import OwnerRef, Pod, PodPhase, PodSpec
from rescheduler.model.reservation import KoordinatorReservation
from rescheduler.model.selectors import LabelSet


def completed(found: KoordinatorReservation, meta: MetaWire, shared: SharedParts) -> KoordinatorReservation:
    """With whom it serves, who has written it, and its room."""
    controller = shared.owners(meta.owner_references, "").controller
    ours = controller if controller is not None and controller.api_version == API_VERSION else None
    record = msgspec.structs.replace(
        found,
        reservation=ours,
        owners=found.owners if ours is not None else b"",
        writers=field_writers(meta.managed_fields) if ours is not None else (),
    )
    return msgspec.structs.replace(record, room=_room(record)) if record.holds else record


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
