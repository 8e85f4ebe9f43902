"""Whether Koordinator's Reservation is what was asked for: as the API server has stored it, and as its scheduler holds it (pure).

As ``placeholder_check`` for placeholders: admission of others may change it when it is created, and anybody with the right to patch it later.
Compared is what carries the promise: how much is held, where, for whom, and until when. A finalizer passes: no claimant waits for its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rescheduler.model import names
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import KoordinatorReservation, Reservation
from rescheduler.reservations.differences import METADATA, SPEC, Difference, of_amount, words_of
from rescheduler.reservations.koordinator import closed_to_others, owners_of

_TEMPLATE: Final = (SPEC, "f:template")


def unlike_asked(reservation: Reservation, held: KoordinatorReservation) -> str:
    """What makes Koordinator hold less than was asked, elsewhere, for others or for less long; "": nothing does."""
    found = list(_differences(reservation, held))
    if not found:
        return ""
    return (
        f"Koordinator's Reservation {held.name} is not as asked: {words_of(found, held.writers)}; leave Reservations of "
        f"scheduling.koordinator.sh with label {names.LABEL_PLACEHOLDER} out of what changes them"
    )


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
        words = f"node {asked}" if asked else "one node"
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
    closed = closed_to_others(reservation)
    if held.closed != closed:
        words = {True: "true", False: "false"}
        path = (SPEC, "f:unschedulable")
        yield Difference("spec.unschedulable", words[closed], words[held.closed], path)
    if not held.allocate_once:
        yield Difference("spec.allocateOnce", "true", "false", (SPEC, "f:allocateOnce"))
    if closed and held.ends:
        yield Difference("spec.ttl", "0s, which never ends", "an end", (SPEC, "f:ttl"))
    if held.owners != owners_of(reservation):
        yield Difference("spec.owners", "those of the Reservation", "others", (SPEC, "f:owners"))
