"""The next step of a Reservation that Koordinator holds: its phases mapped to ours, and the hand-over (pure).

Pending -> Pending with its scheduler's words; Available -> Available, or Waiting while the node is not usable
(Koordinator never says Waiting); Succeeded -> Succeeded with its owner; Failed -> Failed by what we see ourselves, for
it calls a missing node Expired. A move claims and steers: gate off and the Reservation's name in one patch. There is
nothing to nominate or to give up: Koordinator admits no other pod until this one is bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rescheduler.calls.pods import remove_gate
from rescheduler.model import names
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import Pod
from rescheduler.model.reservation import (
    KoordinatorReservation,
    Reservation,
    ReservationPhase,
)
from rescheduler.model.room_of_move import made_for
from rescheduler.reservations.handover import wait_for_scheduler
from rescheduler.reservations.koordinator import create_koordinator_reservation, given_away, let_go
from rescheduler.reservations.node_request import asks_words
from rescheduler.reservations.reservation_draft import ReservationDraft
from rescheduler.reservations.reservation_lifecycle import FINISHED, ReservationEvent
from rescheduler.reservations.waits import claim_message, look_again_s


def follow(draft: ReservationDraft) -> None:
    """The next step of a live Reservation."""
    observed, status = draft.observed, draft.status
    if observed.changed and not status.current_owners and not given_away(observed):
        draft.enter(ReservationEvent.PLACEHOLDER_CHANGED, observed.changed)
    elif status.phase is ReservationPhase.PENDING:
        _pending(draft)
    elif status.current_owners:
        _claimed(draft)
    else:
        _holding(draft)


def unsteered(waiting: Iterable[Pod], reservations: Mapping[str, Reservation]) -> Iterable[Pod]:
    """Pending pods that we told to use a room which is not theirs any more, or not there.

    ``waiting``: pods without a node that no gate holds.
    """
    for pod in waiting:
        name = pod.annotations.get(names.ANNOTATION_RESERVATION)
        if not name or names.KOORDINATOR_AFFINITY not in pod.annotations:
            continue
        reservation = reservations.get(name)
        live = reservation is not None and reservation.status.phase not in FINISHED
        owners = reservation.status.current_owners if reservation is not None and live else ()
        if all(owner.uid != pod.uid for owner in owners):
            yield pod


# Before the room is held ---------------------------------------------------------------------------


def _pending(draft: ReservationDraft) -> None:
    observed, held = draft.observed, draft.observed.koordinator
    if held is None:
        _reserve(draft)
    elif held.deleting:
        return
    elif held.phase is ReservationPhase.FAILED:
        draft.do(*let_go(observed))
        words = f"Koordinator gave the room up: {held.failure or 'no reason given'}"
        draft.enter(ReservationEvent.UNSCHEDULABLE, words)
    elif not held.node or held.phase in (ReservationPhase.PENDING, ReservationPhase.WAITING):
        _unscheduled(draft, held)
    elif observed.node is None:
        draft.node_deleted(held.node)
    else:
        draft.change(node_name=held.node, allocatable=held.allocatable)
        if observed.node_usable:
            draft.enter(ReservationEvent.BECAME_AVAILABLE, f"Koordinator holds room on node/{held.node}")
        else:
            draft.enter(ReservationEvent.SCHEDULED, _bad(held.node))


def _reserve(draft: ReservationDraft) -> None:
    reservation, choice = draft.observed.reservation, draft.observed.choice
    if choice.node:
        draft.do(create_koordinator_reservation(reservation, choice.node, draft.settings))
    else:
        _no_node(draft, choice.message or "no node has been chosen yet")


def _unscheduled(draft: ReservationDraft, held: KoordinatorReservation) -> None:
    observed, again_s = draft.observed, held.created_at_s + draft.settings.retarget_s
    elsewhere = observed.choice.node and observed.choice.node != held.pinned_node
    if draft.now_s < again_s:
        draft.wake(again_s)
    elif not observed.reservation.template_node and elsewhere:
        draft.do(*let_go(observed))
    _no_node(draft, held.refusal or "Koordinator's scheduler has not looked at it yet")


def _no_node(draft: ReservationDraft, why: str) -> None:
    observed = draft.observed
    words = asks_words(observed.node_request, observed.node_request_refused, why)
    draft.enter(ReservationEvent.UNSCHEDULABLE, words)


# While the room is held and no pod has claimed it ---------------------------------------------------


def _holding(draft: ReservationDraft) -> None:
    observed, held, node = draft.observed, draft.observed.koordinator, draft.status.node_name
    if held is not None and held.current_owners:
        _given(draft, held)
    elif observed.node is None:
        draft.node_deleted(node)
    elif held is None or not held.holds:
        _lost(draft, held)
    elif not observed.node_usable:
        draft.node_bad()
    elif draft.status.phase is ReservationPhase.WAITING:
        draft.enter(ReservationEvent.BECAME_AVAILABLE, f"Koordinator holds room on node/{node}")
    elif observed.assigned:
        draft.claim(observed.assigned[0])


def _given(draft: ReservationDraft, held: KoordinatorReservation) -> None:
    owner = held.current_owners[0]
    name = f"{owner.namespace}/{owner.name}"
    if made_for(draft.observed.reservation):
        message = f"Koordinator gave the room to {name}, which this move knows nothing of"
        draft.enter(ReservationEvent.PLACEHOLDER_LOST, message)
        return
    draft.change(current_owners=(owner,), allocated=held.allocated)
    draft.enter(ReservationEvent.OWNER_BOUND, f"Koordinator gave the room on node/{held.node} to {name}")


# After the claim of a move -------------------------------------------------------------------------


def _claimed(draft: ReservationDraft) -> None:
    observed, claimant, held = draft.observed, draft.observed.claimant, draft.observed.koordinator
    target = draft.status.node_name
    if claimant is None or claimant.deleting:
        _claimant_gone(draft, held)
    elif claimant.node == target:
        draft.enter(ReservationEvent.OWNER_BOUND, f"{claimant.key} landed on node/{target}")
    elif claimant.node:
        message = f"{claimant.key} landed on node/{claimant.node} instead of {target}"
        draft.enter(ReservationEvent.LANDED_ELSEWHERE, message)
    elif observed.node is None:
        draft.node_deleted(target)
    elif held is None or not (held.holds or any(o.uid == claimant.uid for o in held.current_owners)):
        _lost(draft, held)
    elif holds_gate(claimant):
        _gated(draft, claimant, held)
    else:
        _steered(draft, claimant)


def _claimant_gone(draft: ReservationDraft, held: KoordinatorReservation | None) -> None:
    owner = draft.status.current_owners[0]
    name = f"{owner.namespace}/{owner.name}"
    if held is not None and held.holds and not held.current_owners:
        message = f"{name} went away before it was placed; the room is still held"
        draft.enter(ReservationEvent.CLAIM_DROPPED, message)
    else:
        draft.enter(ReservationEvent.CLAIMANT_LOST, f"{name} went away in the middle of the hand-over")


def _gated(draft: ReservationDraft, claimant: Pod, held: KoordinatorReservation) -> None:
    limit, wait = draft.settings.gate_limit_s, draft.observed.wait
    limit_s = claimant.created_at_s + limit
    if draft.now_s >= limit_s:
        message = f"{claimant.key} was held for {limit:g} s and is released: it may land anywhere"
        draft.enter(ReservationEvent.GATE_TIMEOUT, message)
        return
    if wait is None:
        draft.do(remove_gate(claimant, draft.observed.reservation.name, steered_to=held.name))
    message = claim_message((claimant,), draft.status.node_name, wait, draft.now_s)
    draft.enter(ReservationEvent.CLAIMED, message)
    draft.wake(look_again_s(wait, draft.now_s, limit_s))


def _steered(draft: ReservationDraft, claimant: Pod) -> None:
    limit_s = claimant.created_at_s + draft.settings.landing_limit_s
    if draft.now_s >= limit_s:
        said = claimant.unschedulable_message or "no word from the scheduler"
        draft.enter(ReservationEvent.EXPIRED, f"{claimant.key} is still pending: {said}")
    else:
        wait_for_scheduler(draft, claimant, limit_s)


def _lost(draft: ReservationDraft, held: KoordinatorReservation | None) -> None:
    what = "is gone" if held is None else f"is {held.phase}" + (f" ({held.failure})" if held.failure else "")
    node = draft.status.node_name
    message = f"Koordinator's Reservation on node/{node} {what}: the room is not held any more"
    draft.enter(ReservationEvent.PLACEHOLDER_LOST, message)


def _bad(node: str) -> str:
    return f"node/{node} is not Ready or not schedulable"
