"""What a Reservation must be before anything is done for it: refusals as values, with words for its author.

The admission rules of the CRD refuse the same; this is the second line, for objects that came in before
them or through another API server.
"""

from __future__ import annotations

from typing import NamedTuple

from rescheduler.model.bounds import MOST_TEMPLATE_BYTES, OVERSIZED_TEMPLATE
from rescheduler.model.reservation import Reservation
from rescheduler.reservations.gate_keys import MOST_KEYS, can_be_found, keys_needed
from rescheduler.reservations.observed_reservation import soft_mode
from rescheduler.reservations.owners import empty_owner
from rescheduler.reservations.reservation_lifecycle import ReservationEvent


class Refused(NamedTuple):
    """Why a Reservation cannot be served: INVALID (its author can mend it) or NOT_SUPPORTED."""

    event: ReservationEvent
    message: str


def refusal(reservation: Reservation, template_refused: str | None = "") -> Refused | None:
    """The first reason to refuse ``reservation``, or None. ``template_refused``: the API server's words, if it was asked."""
    if reservation.template_raw == OVERSIZED_TEMPLATE:
        return _invalid(
            f"spec.template is larger than {MOST_TEMPLATE_BYTES // 1024} KiB (leave out what holds no room: commands, "
            "environment, probes, annotations)"
        )
    if reservation.template is None:
        return _invalid("spec.template is missing or cannot be read")
    owners = _owners_refusal(reservation)
    if owners is not None:
        return owners
    if reservation.ttl_s is not None and reservation.expires_at_s is not None:
        return _invalid("spec.ttl and spec.expires exclude each other (give one)")
    if reservation.ttl_s is not None and reservation.ttl_s < 0:
        return _invalid("spec.ttl is negative")
    if any(amount < 0 for _, amount in reservation.template.requests.items()):
        return _invalid("spec.template requests a negative amount")
    if template_refused:
        return _invalid(f"spec.template: the API server takes no such pod: {template_refused}")
    return _unsupported_part(reservation)


def _unsupported_part(reservation: Reservation) -> Refused | None:
    ahead = reservation.pre_allocation or reservation.make_room
    if soft_mode(reservation) and (ahead or not reservation.allocate_once):
        return _unsupported("a soft Reservation serves one pod, with room that is free now")
    if not reservation.allocate_once and reservation.template is not None:
        if not any(amount > 0 for _, amount in reservation.template.requests.items()):
            return _invalid("spec.template requests nothing: several pods cannot share a room of no size")
        if reservation.template.host_ports:
            return _unsupported("several pods cannot use the same host ports of one node")
    if reservation.template is not None and reservation.template.resource_claims:
        return _unsupported("spec.template uses resourceClaims: devices cannot be held by a placeholder")
    return None


def _owners_refusal(reservation: Reservation) -> Refused | None:
    if not reservation.owners:
        return _invalid("spec.owners is empty: no pod could use the room")
    needed = keys_needed(reservation.owners)
    if needed > MOST_KEYS:
        return _invalid(
            f"spec.owners needs {needed} keys for the gate to find their pods, and {MOST_KEYS} are the most: "
            "name controllers or a label that they share, or make several Reservations"
        )
    for index, owner in enumerate(reservation.owners):
        if empty_owner(owner):
            return _invalid(
                f"spec.owners[{index}] names no pod: it needs object, controller or labelSelector"
            )
        if owner.label_selector is not None and owner.label_selector.invalid:
            return _invalid(f"spec.owners[{index}].labelSelector: {owner.label_selector.invalid}")
        if not can_be_found(owner):
            return _invalid(
                f"spec.owners[{index}] says nothing by which a new pod can be found: "
                "a labelSelector needs matchLabels, In or Exists, an object needs a name"
            )
    return None


def _invalid(message: str) -> Refused:
    return Refused(ReservationEvent.INVALID, message)


def _unsupported(message: str) -> Refused:
    return Refused(ReservationEvent.NOT_SUPPORTED, message)
