"""A Reservation for which running pods step aside: it keeps the chosen node from the first moment, as a preallocation does (pure).

The controller decides who steps aside and writes ``status.makingRoom``; the moves are PodMigrations, which evict nobody before the
placeholder is nominated to the node (``coordination.made_rooms``). When all of the room is free, or the moves cannot make it,
``status.makingRoom`` goes; a Reservation without room is Pending again and may be decided about anew.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rescheduler.calls.call import Event
from rescheduler.calls.pods import delete_placeholder
from rescheduler.model import names
from rescheduler.model.counted import plural, verb
from rescheduler.model.decode.wire_form import manifest
from rescheduler.model.records import Pod
from rescheduler.model.reservation import (
    MakingRoom,
    ObjectRef,
    Reservation,
    ReservationOwner,
    ReservationPhase,
)
from rescheduler.model.room_pod import decision_of, made_for_pod
from rescheduler.model.selectors import LabelSet
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.placeholder import digest, pinned_node, slug
from rescheduler.reservations.preallocation import waiting_message, waits_for_room
from rescheduler.reservations.reservation_draft import ReservationDraft
from rescheduler.reservations.reservation_lifecycle import ReservationEvent
from rescheduler.reservations.standing_conditions import reservation_event
from rescheduler.reservations.template import template_of

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


def room_given_up(draft: ReservationDraft) -> bool:
    """True if its room is not made any more: it waits again, on any node.

    If one of the pods stayed after others had left, the node is kept for a while, and decided about again.
    """
    observed, making = draft.observed, decision_of(draft.observed.reservation)
    if making is not None and making.moves and observed.others_wanted:
        waits = MakingRoom(node=making.node, moves=0, attempt="", since_s=draft.now_s)
        draft.change(making_room=waits)
        why = f"{observed.others_wanted}; other pods are looked for"
        draft.do(_told(observed.reservation, LOOKS_FOR_OTHERS, why))
        return False
    why = _gives_up(observed)
    if not why:
        return False
    draft.change(making_room=None)
    if draft.status.phase is ReservationPhase.PENDING:
        draft.enter(ReservationEvent.UNSCHEDULABLE, why)
    else:
        draft.without_node(why)
    draft.delete_placeholders()
    draft.do(_told(observed.reservation, GIVEN_UP, why))
    return True


def _gives_up(observed: ObservedReservation) -> str:
    """Why its room is not made any more; "": it is, or was not begun, or is there."""
    status, holder = observed.reservation.status, observed.placeholder
    begun = status.making_room is not None and not (holder is not None and holder.node)
    if made_for_pod(observed.reservation) is not None:
        return ""  # it is deleted (``coordination.leftovers``)
    return (observed.beyond_quota or observed.room_given_up) if begun else ""


def made_elsewhere(draft: ReservationDraft) -> bool:
    """True if it was preallocated on one node, and others step aside for it on another one."""
    making, holder = draft.status.making_room, draft.observed.placeholder
    if making is None or holder is None or not keeps_another_node(holder, making):
        return False
    draft.change(node_name=making.node)
    if not holder.deleting:
        draft.do(delete_placeholder(holder))
    return True


def _told(reservation: Reservation, reason: str, text: str) -> Event:
    """An Event of who wanted the room: the pending pod that it is for, or the Reservation."""
    pod = made_for_pod(reservation)
    owner = reservation.owners[0].object if reservation.owners else None
    if pod is None or owner is None:
        return reservation_event(reservation, reason, text)
    return Event("v1", "Pod", pod.namespace, pod.name, owner.uid, reason, text, warning=True)


def waiting_words(draft: ReservationDraft, holder: Pod) -> str:
    """What it waits for, and who steps aside for it, for people."""
    making = draft.status.making_room or decision_of(draft.observed.reservation)
    waiting = waiting_message(holder)
    return waiting if making is None else f"{waiting}; {_who_steps_aside(draft.observed, making)}"


def _who_steps_aside(observed: ObservedReservation, making: MakingRoom) -> str:
    if not making.moves:
        return "other pods are looked for that could step aside for the rest"
    who = f": {', '.join(observed.step_aside)}" if observed.step_aside else ""
    return f"{plural(making.moves, 'pod')} {verb(making.moves, 'steps', 'step')} aside{who}"


# The Reservation of a pending pod


def pending_room_name(pod: str, uid: str, decided_at_s: float) -> str:
    """Deterministic for one decision; a later try for the same pod has another name."""
    return f"{slug(pod, 'pod')}-{digest(f'{uid}/{decided_at_s:.3f}')}{names.PENDING_SUFFIX}"


def pending_room_manifest(name: str, pod: Pod, node: str, *, moves: int, ttl_s: float) -> dict[str, Any]:
    """A Reservation that stands before anybody is evicted for the pod. ``moves``: how many pods are moved for it.

    It is preallocated: its placeholder is nominated to the node, so whatever becomes free there stays free for the pod. The pod
    owns it by uid, and is handed the room as every pending owner is (``reservations.pending_claimant``).
    """
    notes = {names.ANNOTATION_PENDING_POD: str(pod.key), names.ANNOTATION_PENDING_POD_MOVES: str(moves)}
    return manifest(
        Reservation(
            name=name,
            template_raw=msgspec.json.encode(template_of(pod.namespace, pod.spec, (), node)),
            owners=(ReservationOwner(object=ObjectRef(pod.namespace, pod.name, pod.uid)),),
            ttl_s=ttl_s,
            pre_allocation=True,
            labels=LabelSet({names.LABEL_CREATED_BY: names.CREATED_BY}),
            annotations=LabelSet(notes),
        )
    )
