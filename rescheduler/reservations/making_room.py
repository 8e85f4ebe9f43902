"""A Reservation for which running pods step aside: it keeps the chosen node from the first moment, as a preallocation does (pure).

The controller decides who steps aside and writes ``status.makingRoom``; the moves are PodMigrations, which evict nobody before the
placeholder is nominated to the node (``coordination.made_rooms``). When all of the room is free, or the moves cannot make it,
``status.makingRoom`` goes; a Reservation without room is Pending again and may be decided about anew.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rescheduler.calls.call import AnyCall, Event
from rescheduler.calls.pods import delete_placeholder
from rescheduler.model import names
from rescheduler.model.counted import plural, verb
from rescheduler.model.made_room import decision_of, made_for_pod
from rescheduler.model.records import Pod
from rescheduler.model.reservation import MakingRoom, Reservation, ReservationPhase, ReservationStatus
from rescheduler.reservations.lifecycle import ReservationEvent, transition
from rescheduler.reservations.lost_node import without_node
from rescheduler.reservations.naming import digest
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.placeholder import pinned_node
from rescheduler.reservations.preallocation import waiting_message, waits_for_room

GIVEN_UP: Final = "RoomGivenUp"
LOOKS_FOR_OTHERS: Final = "LooksForOthers"
"""Reasons of Events."""


def making_room(reservation: Reservation, node: str, moves: int, decided_at_s: float) -> MakingRoom:
    """What a decision writes into its status. ``moves``: how many pods are moved for it."""
    attempt = digest(f"{reservation.uid}/{decided_at_s:.3f}")
    return MakingRoom(node=node, moves=moves, attempt=attempt, since_s=decided_at_s)


def keeps_another_node(holder: Pod, making: MakingRoom) -> bool:
    """True for a placeholder from before the decision: for another node, or never gated, so that it keeps nothing."""
    if holder.node:
        return False
    gated = waits_for_room(holder) or bool(holder.nominated_node)
    return pinned_node(holder) != making.node or (not gated and holder.created_at_s < making.since_s)


def gives_up(observed: ObservedReservation) -> str:
    """Why its room is not made any more; "": it is, or was not begun, or is there."""
    status, holder = observed.reservation.status, observed.placeholder
    begun = status.making_room is not None and not (holder is not None and holder.node)
    if made_for_pod(observed.reservation) is not None:
        return ""  # it is deleted (``coordination.leftovers``)
    return (observed.beyond_quota or observed.room_given_up) if begun else ""


def looks_for_others(
    observed: ObservedReservation, status: ReservationStatus, now_s: float
) -> tuple[ReservationStatus, Event] | None:
    """One of the pods stayed after others had left: the node is kept for a while, and decided about again. None: it is not so."""
    making, why = decision_of(observed.reservation), observed.others_wanted
    if making is None or not making.moves or not why:
        return None
    waits = MakingRoom(node=making.node, moves=0, attempt="", since_s=now_s)
    text = f"{why}; other pods are looked for"
    return msgspec.structs.replace(status, making_room=waits), _told(
        observed.reservation, LOOKS_FOR_OTHERS, text
    )


def given_up(status: ReservationStatus, why: str, now_s: float) -> ReservationStatus:
    """The status of a Reservation that waits again, on any node."""
    status = msgspec.structs.replace(status, making_room=None)
    if status.phase is ReservationPhase.PENDING:
        return transition(status, ReservationEvent.UNSCHEDULABLE, why, now_s)
    return without_node(status, why, now_s)


def what_is_given_back(observed: ObservedReservation, why: str) -> tuple[AnyCall, ...]:
    """Its placeholder goes, and people are told."""
    reservation = observed.reservation
    standing = (pod for pod in observed.placeholders if not pod.deleting)
    return (*map(delete_placeholder, standing), _told(reservation, GIVEN_UP, why))


def _told(reservation: Reservation, reason: str, text: str) -> Event:
    """An Event of who wanted the room: the pending pod that it is for, or the Reservation."""
    pod, name = made_for_pod(reservation), reservation.name
    owner = reservation.owners[0].object if reservation.owners else None
    if pod is None or owner is None:
        return Event(names.API_VERSION, "Reservation", "", name, reservation.uid, reason, text, warning=True)
    return Event("v1", "Pod", pod.namespace, pod.name, owner.uid, reason, text, warning=True)


def waiting_words(observed: ObservedReservation, status: ReservationStatus, holder: Pod) -> str:
    """What it waits for, and who steps aside for it, for people."""
    making = status.making_room or decision_of(observed.reservation)
    waiting = waiting_message(holder)
    return waiting if making is None else f"{waiting}; {who_steps_aside(observed, making)}"


def who_steps_aside(observed: ObservedReservation, making: MakingRoom) -> str:
    """For people."""
    if not making.moves:
        return "other pods are looked for that could step aside for the rest"
    who = f": {', '.join(observed.step_aside)}" if observed.step_aside else ""
    return f"{plural(making.moves, 'pod')} {verb(making.moves, 'steps', 'step')} aside{who}"
