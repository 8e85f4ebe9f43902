"""A Reservation whose room is not free yet: it keeps its node until pods have left it (rows K6, K14, K22, K23, K45, K55, K56, K84). Pure.

The placeholder is gated and nominated to its node. The scheduler counts it there against all pods of the same or lower
priority, so each piece of room that becomes free stays free for it, and no running pod is disturbed. Once all of its
room is free, its gate is removed. A placeholder that was only pending lost such room to smaller pods in 8 of 8 tries; a
gated and nominated one kept it in 8 of 8.

| who leaves | the node is chosen | it waits until | it waits in vain if |
|---|---|---|---|
| pods, by themselves (``preAllocation``) | when it is created; another one that has room takes its place | its ttl ends | - |
| an owner of a room for several (``split``) | it is that of the room | the part is held again | its ttl ends |
| pods that step aside (``makeRoom``, pending pods) | by a decision, which writes ``status.makingRoom`` (``room_decisions``) | all of its room is free | ``coordination.waiting_room`` says so: it is Pending again, that of a pending pod is deleted (``coordination.leftovers``) |

When it takes a step beside hand-overs and other preallocations of the node: ``coordination.handover_order``.
"""

from __future__ import annotations

from typing import Final

from rescheduler.calls.call import AnyCall
from rescheduler.calls.pods import admit_placeholder, delete_placeholder, nominate
from rescheduler.model import names
from rescheduler.model.counted import plural, verb
from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.own_objects import condition
from rescheduler.model.records import Pod
from rescheduler.model.reservation import MakingRoom, Reservation, ReservationPhase, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.model.room_pod import decision_of, made_for_pod
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.placeholder import Part, create_placeholder, pinned_node
from rescheduler.reservations.placeholder_check import held_by_others
from rescheduler.reservations.reservation_draft import ReservationDraft
from rescheduler.reservations.reservation_lifecycle import (
    CONDITION_READY,
    ReservationEvent,
    ReservationReason,
)
from rescheduler.reservations.standing_conditions import reservation_event
from rescheduler.reservations.waits import PlaceholderTurn

LOOK_EVERY_S: Final = 5.0
"""How often a preallocation on a node that nobody named looks whether another node has room (``coordination.room_turns``)."""
GIVEN_UP: Final = "RoomGivenUp"
LOOKS_FOR_OTHERS: Final = "LooksForOthers"
"""Reasons of Events."""


def waits_for_room(pod: Pod) -> bool:
    """True if the placeholder is gated until its room is free."""
    return names.GATE_ROOM in pod.spec.gates


def about_to_bind(pod: Pod) -> bool:
    """True if the placeholder was admitted and the scheduler has not refused it: it will be bound in a moment."""
    return not waits_for_room(pod) and not pod.unschedulable_message


def wait_for_room(observed: ObservedReservation, holder: Pod) -> tuple[AnyCall, ...]:
    """The next call for a placeholder that is not bound; () while it waits."""
    match observed.turn:
        case PlaceholderTurn.GIVE_WAY:
            return (delete_placeholder(holder),)
        case PlaceholderTurn.WITHDRAW:
            return (nominate(holder, ""),)
        case PlaceholderTurn.NOMINATE:
            return (nominate(holder, pinned_node(holder)),)
        case PlaceholderTurn.ADMIT:
            return (admit_placeholder(holder),)
        case PlaceholderTurn.WAIT | PlaceholderTurn.MOVE:
            return ()


def is_preallocated(status: ReservationStatus) -> bool:
    """True while a placeholder waits for room on the chosen node, and nothing is held yet."""
    ready = condition(status.conditions, CONDITION_READY)
    waits = status.phase is ReservationPhase.WAITING
    return waits and ready is not None and ready.reason == ReservationReason.WAITING_FOR_ROOM


def wait(draft: ReservationDraft, holder: Pod) -> None:
    """The next step while the placeholder waits, and what it waits for."""
    draft.do(*wait_for_room(draft.observed, holder))
    if not draft.observed.reservation.template_node:
        draft.wake(draft.now_s + LOOK_EVERY_S)
    if _goes_elsewhere(draft, holder):
        return
    draft.change(node_name=pinned_node(holder))
    making = draft.status.making_room or decision_of(draft.observed.reservation)
    aside = f"; {_who_steps_aside(draft.observed, making)}" if making is not None else ""
    draft.enter(ReservationEvent.PREALLOCATED, f"{waiting_message(holder)}{aside}")


def _goes_elsewhere(draft: ReservationDraft, holder: Pod) -> bool:
    """True if another node has room: it waits for that one from now on, once its nomination to the first one is gone."""
    observed, node = draft.observed, draft.observed.choice.node
    if observed.turn is not PlaceholderTurn.MOVE or not node or observed.reservation.status.current_owners:
        return False
    draft.change(node_name=node)
    draft.do(delete_placeholder(holder))
    return True


def recreate(draft: ReservationDraft, size: Resources | None) -> None:
    """Make a new placeholder for one that is gone. Nothing was held, so nothing is lost."""
    observed = draft.observed
    if observed.placeholders:
        draft.delete_ended()
    elif observed.turn is not PlaceholderTurn.GIVE_WAY:
        part = Part(size=size, waits=True, volumes=observed.volumes)
        draft.do(create_placeholder(observed.reservation, draft.status.node_name, draft.settings, part))


def waiting_message(holder: Pod) -> str:
    """The message of the condition Ready while ``holder`` waits for room."""
    node = pinned_node(holder)
    if not waits_for_room(holder) and (gated := held_by_others(holder)):
        return f"waiting for room on node/{node}: {gated}"
    if not waits_for_room(holder) and holder.unschedulable_message:
        return f"waiting for room on node/{node}: {holder.unschedulable_message}"
    return f"preallocated on node/{node}; waiting until pods there have left enough room"


# Others step aside for it ---------------------------------------------------------------------------


def keeps_another_node(holder: Pod, making: MakingRoom) -> bool:
    """True for a placeholder from before the decision: for another node, or never gated, so that it keeps nothing."""
    if holder.node:
        return False
    gated = waits_for_room(holder) or bool(holder.nominated_node)
    return pinned_node(holder) != making.node or (not gated and holder.created_at_s < making.since_s)


def given_up(draft: ReservationDraft) -> bool:
    """True if its room is not made any more: it waits again, on any node.

    If one of the pods stayed after others had left, the node is kept for a while, and decided about again.
    """
    observed, making = draft.observed, decision_of(draft.observed.reservation)
    if making is not None and making.moves and observed.making.others_wanted:
        waits = MakingRoom(node=making.node, moves=0, attempt="", since_s=draft.now_s)
        draft.change(making_room=waits)
        why = f"{observed.making.others_wanted}; other pods are looked for"
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
    return (observed.beyond_quota or observed.making.given_up) if begun else ""


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
    return Event(ObjectReference("Pod", pod.name, pod.namespace, owner.uid), reason, text, warning=True)


def _who_steps_aside(observed: ObservedReservation, making: MakingRoom) -> str:
    if not making.moves:
        return "other pods are looked for that could step aside for the rest"
    who = f": {', '.join(observed.making.step_aside)}" if observed.making.step_aside else ""
    return f"{plural(making.moves, 'pod')} {verb(making.moves, 'steps', 'step')} aside{who}"
