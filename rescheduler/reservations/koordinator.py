"""Rooms held by Koordinator's own Reservation, for pods that its scheduler places (pure).

Chosen for each Reservation: template with ``schedulerName: koord-scheduler``, one pod, owners that Koordinator reads
as we do. All others keep placeholders. A room for a move is closed (``unschedulable``) to every pod but the one that
names it: Koordinator would let any pod of the owner in, a scale-up before the eviction as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from rescheduler.calls.call import AnyCall, Call, create, delete
from rescheduler.calls.pods import unsteer
from rescheduler.model import names
from rescheduler.model.decode.wire_form import canonical_json, encode
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey, PodSpec
from rescheduler.model.reservation import ControllerRef, KoordinatorReservation, Reservation, ReservationOwner
from rescheduler.model.room_of_move import made_for
from rescheduler.model.room_pod import namespace_of_pods
from rescheduler.reservations.differences import METADATA, SPEC, Difference, not_as_asked, of_amount
from rescheduler.reservations.expiry import end_of
from rescheduler.reservations.observed_reservation import ObservedReservation, soft_mode
from rescheduler.reservations.placeholder import owner_reference, placeholder_labels, placeholder_name
from rescheduler.reservations.settings import ReservationSettings

Json = dict[str, Any]

_TEMPLATE: Final = (SPEC, "f:template")
_ENDS_LATER_S: Final = 10
"""Koordinator's end is for the case that this program is away. At the same time as ours it would come first now and then, as a lost room."""
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
    if made_for(reservation):
        spec["unschedulable"] = True
    return msgspec.json.encode(
        {
            "apiVersion": names.KOORDINATOR_API_VERSION,
            "kind": "Reservation",
            "metadata": {
                "name": placeholder_name(reservation),
                "labels": placeholder_labels(reservation),
                "ownerReferences": [owner_reference(reservation)],
            },
            "spec": spec,
        }
    )


def _ttl_s(reservation: Reservation, settings: ReservationSettings) -> int:
    """A little more than that of our Reservation, which ends it; 0 (never) for a move, whose room must not end between eviction and landing."""
    end_s = end_of(reservation, settings)
    if end_s is None or made_for(reservation):
        return 0
    return max(1, int(end_s - reservation.created_at_s)) + _ENDS_LATER_S


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


def given_away(observed: ObservedReservation) -> bool:
    """True if Koordinator has given the room to a pod: then it cannot expire any more."""
    return observed.koordinator is not None and bool(observed.koordinator.current_owners)


def let_go(observed: ObservedReservation) -> tuple[AnyCall, ...]:
    """Give Koordinator's Reservation back; before it the pod that must use it, for its deletion wakes that pod."""
    held, claimant = observed.koordinator, observed.claimant
    result: list[AnyCall] = []
    if claimant is not None and not claimant.node and names.KOORDINATOR_AFFINITY in claimant.annotations:
        result.append(unsteer(claimant))
    if held is not None and not held.deleting:
        result.append(delete_koordinator_reservation(held))
    return tuple(result)


# Whether it is what was asked for: as the API server has stored it, and as its scheduler holds it


def unlike_asked(reservation: Reservation, held: KoordinatorReservation) -> str:
    """What makes Koordinator hold less than was asked, elsewhere, for others or for less long; "": nothing does.

    Compared is what carries the promise, as ``placeholder_check`` does for placeholders. A finalizer passes: no claimant waits for its
    end.
    """
    remedy = f"leave Reservations of scheduling.koordinator.sh with label {names.LABEL_PLACEHOLDER} out of what changes them"
    found = _differences(reservation, held)
    return not_as_asked(f"Koordinator's Reservation {held.name}", found, held.writers, remedy)


def _differences(reservation: Reservation, held: KoordinatorReservation) -> Iterator[Difference]:
    if held.reservation is None:
        path = (METADATA, "f:ownerReferences")
        yield Difference("metadata.ownerReferences", f"Reservation {reservation.name}", "none", path)
        return
    yield from _place(reservation, held)
    yield from _amounts(reservation, held)
    yield from _users(reservation, held)


def _place(reservation: Reservation, held: KoordinatorReservation) -> Iterator[Difference]:
    asked, pin = reservation.template_node or reservation.status.node_name, held.pinned_node
    if not pin or (asked and pin != asked):
        words = f"node/{asked}" if asked else "one node"
        yield Difference("spec.template.spec.nodeName", words, pin or "absent", _TEMPLATE)
    elif held.node and held.node != pin:
        yield Difference("status.nodeName", pin, held.node, ("f:status", "f:nodeName"))
    scheduler = (reservation.template or PodSpec()).scheduler_name
    if held.scheduler_name != scheduler:
        stored = held.scheduler_name or "absent"
        yield Difference("spec.template.spec.schedulerName", scheduler, stored, _TEMPLATE)


def _amounts(reservation: Reservation, held: KoordinatorReservation) -> Iterator[Difference]:
    """What its scheduler holds is known once it has chosen the node."""
    if not held.holds:
        return
    for name, want in sorted((reservation.template or PodSpec()).requests.items()):
        yield from of_amount(name, want, want, held.allocatable.amount(name), _TEMPLATE)


def _users(reservation: Reservation, held: KoordinatorReservation) -> Iterator[Difference]:
    closed = bool(made_for(reservation))
    if held.closed != closed:
        words = {True: "true", False: "false"}
        path = (SPEC, "f:unschedulable")
        yield Difference("spec.unschedulable", words[closed], words[held.closed], path)
    if not held.allocate_once:
        yield Difference("spec.allocateOnce", "true", "false", (SPEC, "f:allocateOnce"))
    if closed and held.ends:
        yield Difference("spec.ttl", "0s, which never ends", "an end", (SPEC, "f:ttl"))
    if held.owners != canonical_json(_owners(reservation)):
        yield Difference("spec.owners", "those of the Reservation", "others", (SPEC, "f:owners"))
