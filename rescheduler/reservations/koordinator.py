"""Rooms held by Koordinator's own Reservation, for pods that its scheduler places (pure).

Chosen for each Reservation: template with ``schedulerName: koord-scheduler``, one pod, owners that Koordinator reads
as we do. All others keep placeholders. A room for a move is closed (``unschedulable``) to every pod but the one that
names it: Koordinator would let any pod of the owner in, a scale-up before the eviction as well.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rescheduler.calls.call import Call, create, delete
from rescheduler.model import names
from rescheduler.model.decode.wire_form import canonical_json, encode
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import ControllerRef, KoordinatorReservation, Reservation, ReservationOwner
from rescheduler.model.room_pod import namespace_of_pods
from rescheduler.reservations.expiry import end_of
from rescheduler.reservations.naming import label_value
from rescheduler.reservations.observed import soft_mode
from rescheduler.reservations.placeholder import placeholder_name
from rescheduler.reservations.settings import ReservationSettings

Json = dict[str, Any]

_ABOVE: Final = frozenset({"Deployment", "CronJob"})
"""Kinds that control controllers: Koordinator looks at a pod's own owner references only."""


def backs(reservation: Reservation, scheduler: str) -> bool:
    """True if Koordinator can hold this room as it is meant. ``scheduler``: its name; "": it is not in force."""
    template = reservation.template
    return (
        bool(scheduler)
        and template is not None
        and template.scheduler_name == scheduler
        and reservation.allocate_once
        and not reservation.pre_allocation
        and not reservation.make_room
        and not soft_mode(reservation)
        and all(_read_alike(owner) for owner in reservation.owners)
    )


def _read_alike(owner: ReservationOwner) -> bool:
    """Its CRD wants all four fields of a controller, and it matches nothing above the pod's own controller."""
    ref = owner.controller
    if ref is None or ref == ControllerRef():
        return True
    return bool(ref.api_version and ref.kind and ref.name and ref.uid) and ref.kind not in _ABOVE


def for_a_move(reservation: Reservation) -> bool:
    """True if a PodMigration made it: then we assign the room, else Koordinator's scheduler does."""
    return names.ANNOTATION_MIGRATION in reservation.annotations


def closed_to_others(reservation: Reservation) -> bool:
    """True if only the pod that names Koordinator's Reservation may use it."""
    return for_a_move(reservation)


def owners_of(reservation: Reservation) -> bytes:
    """Its ``spec.owners`` as ``KoordinatorReservation.owners`` has them."""
    return canonical_json(_owners(reservation))


def create_koordinator_reservation(
    reservation: Reservation, node: str, settings: ReservationSettings
) -> Call:
    """Let Koordinator hold the room, on ``node``. Its Reservation is called as the placeholder would be."""
    key, body = (
        ObjectKey("", placeholder_name(reservation)),
        koordinator_manifest(reservation, node, settings),
    )
    return create("create_koordinator_reservation", Kind.KOORDINATOR_RESERVATION, key, body, holds_on=node)


def delete_koordinator_reservation(held: KoordinatorReservation) -> Call:
    """Delete Koordinator's Reservation."""
    kind, key = Kind.KOORDINATOR_RESERVATION, ObjectKey("", held.name)
    return delete("delete_koordinator_reservation", kind, key, held.uid)


def koordinator_manifest(reservation: Reservation, node: str, settings: ReservationSettings) -> bytes:
    """Koordinator's Reservation, pinned to ``node``."""
    spec: Json = {
        "template": _template(reservation, node),
        "owners": _owners(reservation),
        "ttl": f"{_ttl_s(reservation, settings)}s",
        "allocateOnce": True,
    }
    if closed_to_others(reservation):
        spec["unschedulable"] = True
    return msgspec.json.encode(
        {
            "apiVersion": names.KOORDINATOR_API_VERSION,
            "kind": "Reservation",
            "metadata": {
                "name": placeholder_name(reservation),
                "labels": {
                    names.LABEL_PLACEHOLDER: label_value(reservation.name),
                    names.LABEL_CREATED_BY: names.CREATED_BY,
                },
                "ownerReferences": [
                    {
                        "apiVersion": names.API_VERSION,
                        "kind": "Reservation",
                        "name": reservation.name,
                        "uid": reservation.uid,
                        "controller": True,
                        "blockOwnerDeletion": False,
                    }
                ],
            },
            "spec": spec,
        }
    )


def _ttl_s(reservation: Reservation, settings: ReservationSettings) -> int:
    """That of our Reservation; 0 (never) for a move, whose room must not end between eviction and landing."""
    end_s = end_of(reservation, settings)
    if end_s is None or for_a_move(reservation):
        return 0
    return max(1, int(end_s - reservation.created_at_s))


def _template(reservation: Reservation, node: str) -> Json:
    template: Json = msgspec.json.decode(reservation.template_raw)
    metadata = {**(template.get("metadata") or {})}
    metadata.setdefault("namespace", namespace_of_pods(reservation))
    return {**template, "metadata": metadata, "spec": {**(template.get("spec") or {}), "nodeName": node}}


def _owners(reservation: Reservation) -> list[Json]:
    return [_owner(owner) for owner in reservation.owners]


def _owner(owner: ReservationOwner) -> Json:
    """Only what is given: an empty part would match everything there."""
    return {key: value for key, value in encode(owner).items() if value}
