"""One step of a Reservation: from what is observed now to its new status and the calls to take.

Pure. The sub-states of the hand-over are derived from the objects, never remembered, so that after a crash it goes on
where it stopped. Promises: a Reservation is ``Available`` only while its placeholder is bound to a usable node; at
every instant a placeholder, a nomination or a bound owner accounts for the room; no Reservation is deleted
while its claimant is pending; no pod is gated for longer than its limit.
``handover`` has the steps after the claim, ``lifecycle`` the table of transitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.calls.call import AnyCall
from rescheduler.calls.objects import delete_reservation, unreadable, write_status
from rescheduler.calls.pods import delete_placeholder
from rescheduler.model.own_objects import condition, seconds_of
from rescheduler.model.records import Pod
from rescheduler.model.reservation import ReservationPhase, ReservationStatus
from rescheduler.model.resources import NO_RESOURCES
from rescheduler.model.room_pod import made_for_pod
from rescheduler.reservations.assignment import fits, taken_by
from rescheduler.reservations.expiry import abandoned, end_of, expired, expiry_words, wake_for
from rescheduler.reservations.handover import hand_over
from rescheduler.reservations.koordinator import given_away
from rescheduler.reservations.koordinator_steps import follow
from rescheduler.reservations.node_request import asks_words
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.pending_claimant import hand_over_by_taint
from rescheduler.reservations.placeholder import Part, create_placeholder, pinned_node
from rescheduler.reservations.placeholder_check import held_by_others
from rescheduler.reservations.preallocation import (
    given_up,
    is_preallocated,
    keeps_another_node,
    made_elsewhere,
    recreate,
    wait,
)
from rescheduler.reservations.reservation_draft import ReservationDraft
from rescheduler.reservations.reservation_lifecycle import (
    CONDITION_READY,
    FINISHED,
    ReservationEvent,
    partly_held,
    transition,
)
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.split import claim, flying, nothing, rest_of, split, too_small
from rescheduler.reservations.standing_conditions import (
    is_told,
    not_held,
    phase_event,
    standing_conditions,
    standing_events,
)
from rescheduler.reservations.validation import refusal, try_template
from rescheduler.reservations.waits import PlaceholderTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationStep:
    """The outcome of one step. ``wake_at_s``: take the next step then at the latest, even if nothing changes."""

    status: ReservationStatus
    calls: tuple[AnyCall, ...] = ()
    wake_at_s: float | None = None


def step(observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> ReservationStep:
    """What to do for one Reservation now. At most one transition is taken per step."""
    reservation = observed.reservation
    if reservation.unreadable and not reservation.deleting and reservation.status.phase not in FINISHED:
        status, calls = unreadable(reservation, reservation.status, now_s)
        return ReservationStep(status=status, calls=calls)
    draft = ReservationDraft(observed=observed, now_s=now_s, settings=settings, status=reservation.status)
    if reservation.deleting:
        return _deleted(draft)
    if reservation.status.phase in FINISHED:
        _finished(draft)  # a finished status is never written again, not even its generation
    else:
        _live(draft)
    return _close(draft)


def _deleted(draft: ReservationDraft) -> ReservationStep:
    """It lets go of everything. Then, as only a finalizer of somebody else keeps the object, it says that it holds nothing."""
    draft.let_go()
    reservation, said = draft.observed.reservation, "it is being deleted, and holds nothing any more"
    if reservation.status.phase in FINISHED or reservation.status_unreadable:
        return ReservationStep(status=reservation.status, calls=tuple(draft.calls))
    status = transition(reservation.status, ReservationEvent.ABANDONED, said, draft.now_s)
    return ReservationStep(status=status, calls=(*draft.calls, write_status(reservation, status)))


def _live(draft: ReservationDraft) -> None:
    observed, reservation = draft.observed, draft.observed.reservation
    draft.change(
        observed_generation=reservation.generation,
        expires_at_s=end_of(reservation, draft.settings),
        conditions=standing_conditions(observed, draft.now_s),
    )
    if observed.by_koordinator:
        _held_by_koordinator(draft)
    elif why := _what_was_changed(observed):
        draft.enter(ReservationEvent.PLACEHOLDER_CHANGED, why)
    elif reservation.status.phase is ReservationPhase.PENDING:
        _pending(draft)
    elif observed.higher_waits:
        draft.enter(ReservationEvent.HIGHER_PRIORITY_WAITS, observed.higher_waits)
    elif not reservation.allocate_once:
        _split(draft)
    elif not reservation.status.current_owners:
        _holding(draft)
    elif not hand_over_by_taint(draft):
        hand_over(draft)


def _what_was_changed(observed: ObservedReservation) -> str:
    """Why the room ends because of what others have made of its placeholder; "": it does not.

    Once a pod has claimed a room for one pod, its placeholder is only deleted: then nothing matters but that this can be done. A
    claimant that waited for it would stay gated up to its limit. Of a room for several the rest has a new placeholder.
    """
    if not observed.reservation.allocate_once or not observed.reservation.status.current_owners:
        return observed.changed
    return observed.unremovable if observed.in_flight else ""


def _close(draft: ReservationDraft) -> ReservationStep:
    reservation, status = draft.observed.reservation, draft.status
    calls = tuple(draft.calls)
    if status != reservation.status:
        # First, by compare and swap: if it fails, the calls that follow from this status are not carried out.
        calls = (write_status(reservation, status), *calls)
        if status.phase is not reservation.status.phase and is_told(reservation, status.phase):
            calls = (*calls, phase_event(reservation, status))
        calls = (*calls, *standing_events(reservation, status))
    return ReservationStep(status=status, calls=calls, wake_at_s=draft.wake_at_s)


# Before the room is held ---------------------------------------------------------------------------


def _pending(draft: ReservationDraft) -> None:
    observed = draft.observed
    refused = refusal(observed.reservation, observed.template_refused)
    if refused is not None:
        draft.enter(refused.event, refused.message)
        return
    if _ended_early(draft) or given_up(draft):
        return
    placeholder, making = observed.placeholder, draft.status.making_room
    if placeholder is None:
        _place(draft)
    elif placeholder.deleting:
        return
    elif placeholder.terminal:
        draft.delete_ended()
        draft.enter(ReservationEvent.UNSCHEDULABLE, f"the node refused the placeholder {placeholder.key}")
    elif placeholder.node:
        _bound(draft, placeholder)
    elif making is not None and keeps_another_node(placeholder, making):
        draft.do(delete_placeholder(placeholder))
    elif observed.reservation.preallocated:
        wait(draft, placeholder)
    else:
        _unbound(draft, placeholder)


def _place(draft: ReservationDraft) -> None:
    observed, reservation = draft.observed, draft.observed.reservation
    making, settings = draft.status.making_room, draft.settings
    node = making.node if making is not None else observed.choice.node
    if observed.beyond_quota:
        draft.enter(ReservationEvent.BEYOND_QUOTA, observed.beyond_quota)
    elif observed.template_refused is None:
        draft.do(try_template(reservation, settings))
    elif node:
        part = Part(waits=reservation.preallocated, volumes=observed.volumes)
        draft.do(create_placeholder(reservation, node, settings, part))
    else:
        why = _why_not_placed(draft)
        draft.enter(ReservationEvent.UNSCHEDULABLE, why)


def _why_not_placed(draft: ReservationDraft) -> str:
    """Why a Reservation without a placeholder has no node: a reason that a person can act on."""
    observed = draft.observed
    message = observed.choice.message or "no node has been chosen yet"
    template = observed.reservation.template
    if template is not None and template.host_ports and "PodSecurity" in message:
        return f"the namespace of placeholders does not allow host ports, so they cannot be held: {message}"
    if observed.reservation.make_room and not draft.settings.makes_room:
        return (
            f"{message}; makeRoom: policy PendingPods is not configured, so no running pods are moved for it"
        )
    return asks_words(observed.node_request, observed.node_request_refused, message)


def _unbound(draft: ReservationDraft, placeholder: Pod) -> None:
    observed = draft.observed
    if observed.turn is PlaceholderTurn.GIVE_WAY:
        draft.do(delete_placeholder(placeholder))
        return
    # A refusal may pass by itself, so the chosen node is given some time before another one is tried.
    retarget_at_s = placeholder.created_at_s + draft.settings.retarget_s
    if draft.now_s < retarget_at_s:
        draft.wake(retarget_at_s)
    _say_why_unbound(draft, placeholder, retarget_at_s)
    if draft.status.phase in FINISHED:
        return
    if observed.reservation.template_node:
        if observed.choice.message:
            draft.do(delete_placeholder(placeholder))
    elif draft.now_s < retarget_at_s and observed.turn is not PlaceholderTurn.MOVE:
        return
    elif observed.choice.node and observed.choice.node != pinned_node(placeholder):
        draft.do(delete_placeholder(placeholder))


def _say_why_unbound(draft: ReservationDraft, holder: Pod, silent_from_s: float) -> None:
    """What its scheduler says of its placeholder, or, from then on, that it says nothing. A gate of others ends the room then."""
    if gated := held_by_others(holder):
        lasts = draft.now_s >= silent_from_s  # a queue may let it through in a moment
        draft.enter(ReservationEvent.PLACEHOLDER_CHANGED if lasts else ReservationEvent.NOT_SCHEDULED, gated)
    elif holder.unschedulable_message:
        draft.enter(ReservationEvent.UNSCHEDULABLE, holder.unschedulable_message)
    elif draft.now_s >= silent_from_s:
        silent = (
            f"{holder.spec.scheduler_name} has neither bound nor refused its placeholder {holder.key} since it was created: "
            "is that scheduler running?"
        )
        draft.enter(ReservationEvent.NOT_SCHEDULED, silent)


def _bound(draft: ReservationDraft, placeholder: Pod) -> None:
    node, reservation = placeholder.node, draft.observed.reservation
    if draft.observed.node is None:
        draft.node_deleted(node)
        return
    held = NO_RESOURCES if reservation.template is None else reservation.template.requests
    if not reservation.allocate_once and not fits(held, placeholder.spec.requests):
        held = placeholder.spec.requests  # that of a rest; what its owners left is taken back afterwards
    making = draft.status.making_room if made_for_pod(reservation) is not None else None
    draft.change(node_name=node, allocatable=held, making_room=making)
    lacking = not_held(reservation, draft.observed.unbound_claims)
    if lacking:
        draft.status = partly_held(draft.status, lacking, draft.now_s)
    if draft.observed.node_usable:
        draft.enter(ReservationEvent.BECAME_AVAILABLE, f"room is held on node/{node}")
    else:
        draft.enter(ReservationEvent.SCHEDULED, f"node/{node} is not Ready or not schedulable")


# While the room is held and no pod has claimed it ---------------------------------------------------


def _holding(draft: ReservationDraft) -> None:
    if _ended_early(draft) or _arrived(draft) or given_up(draft) or made_elsewhere(draft):
        return
    observed, node = draft.observed, draft.status.node_name
    if observed.node is None:
        draft.node_deleted(node)
    elif _placeholder_lost(observed) and is_preallocated(draft.status):
        # Nothing was held yet, so nothing is lost.
        rest = rest_of(draft.status)
        recreate(draft, None if nothing(rest) else rest)
    elif _placeholder_lost(observed):
        message = f"the placeholder on node/{node} {observed.lost}: the room is not held any more"
        draft.enter(ReservationEvent.PLACEHOLDER_LOST, message)
    elif not observed.node_usable:
        draft.node_bad()
    elif observed.placeholder is not None and not observed.placeholder.node:
        wait(draft, observed.placeholder)
    elif observed.placeholder is not None and draft.status.phase is ReservationPhase.WAITING:
        _bound(draft, observed.placeholder)
    elif observed.assigned:
        draft.claim(observed.assigned[0])


def _placeholder_lost(observed: ObservedReservation) -> bool:
    """True if nothing holds the room any more, and no pod was to take it from its placeholder."""
    placeholder = observed.placeholder
    if placeholder is not None and not placeholder.deleting and not placeholder.terminal:
        return False
    migration = observed.migration
    # In mode Soft the replacement takes the room by preempting the placeholder: after the intent that is no loss.
    yielded = observed.soft and migration is not None and bool(migration.status.eviction_requested_at_s)
    return not yielded


def _arrived(draft: ReservationDraft) -> bool:
    """Soft mode: the scheduler has bound the owner, in the room or on another node."""
    pod = draft.observed.arrival
    if pod is None or not pod.node:
        return False
    draft.take_owner(pod)
    message = f"{pod.key} landed on node/{pod.node}"
    if pod.node == draft.status.node_name:
        draft.enter(ReservationEvent.OWNER_BOUND, message)
    else:
        message = f"{message}; a soft Reservation does not bind the destination"
        draft.enter(ReservationEvent.LANDED_ELSEWHERE, message)
    return True


# Room for several pods ----------------------------------------------------------------------------


def _split(draft: ReservationDraft) -> None:
    observed = draft.observed
    waiting = draft.status.phase is ReservationPhase.WAITING
    # It does not expire while claimants are unbound: their room would be lost in the middle of the hand-over.
    if not flying(observed) and _ended_early(draft):
        return
    if observed.node is None:
        draft.node_deleted(draft.status.node_name)
        return
    if waiting and not draft.status.current_owners:
        draft.do(*too_small(observed, draft.status))
        if not draft.calls:
            _holding(draft)
        return
    event, message = split(draft)
    # Only between two hand-overs: claimants that are not bound stay gated until the node is usable again.
    if event is ReservationEvent.OWNERS_CHANGED and not observed.node_usable:
        draft.node_bad()
        return
    if event is not None:
        draft.enter(event, message)
    # Claimed in the same write. The assignment was computed from the old status, and owners that ended since have taken
    # their parts with them, so each pod is checked against what is left now.
    served = tuple(
        pod for pod in observed.assigned if fits(taken_by(pod, observed.reservation), rest_of(draft.status))
    )
    if event is ReservationEvent.OWNERS_CHANGED and served and not flying(observed):
        claim(draft, served)


# Room that Koordinator holds ------------------------------------------------------------------------


def _held_by_koordinator(draft: ReservationDraft) -> None:
    observed, pending = draft.observed, draft.status.phase is ReservationPhase.PENDING
    refused = refusal(observed.reservation) if pending else None
    if refused is not None:
        draft.enter(refused.event, refused.message)
        return
    # Once a pod uses the room, or Koordinator has given it to one, neither expiry nor the end of the move takes it back.
    waits = not draft.status.current_owners and not given_away(observed)
    if waits and _ended_early(draft):
        return
    if pending and observed.koordinator is None and observed.beyond_quota:
        draft.enter(ReservationEvent.BEYOND_QUOTA, observed.beyond_quota)
    else:
        follow(draft)


# At the end ----------------------------------------------------------------------------------------


def _ended_early(draft: ReservationDraft) -> bool:
    observed, now_s, settings = draft.observed, draft.now_s, draft.settings
    if expired(observed, now_s, settings):
        draft.enter(ReservationEvent.EXPIRED, expiry_words(observed, draft.status))
        return True
    why = abandoned(observed, now_s, settings)
    if why:
        draft.enter(ReservationEvent.ABANDONED, why)
        return True
    draft.wake(wake_for(observed, now_s, settings))
    return False


def _finished(draft: ReservationDraft) -> None:
    observed = draft.observed
    draft.let_go()
    # The object is kept while something is left to release, a claimant is unbound, or its move still reads the outcome.
    if draft.calls or observed.in_flight:
        return
    if observed.migration is not None and not observed.migration.finished:
        return
    ready = condition(observed.reservation.status.conditions, CONDITION_READY)
    collect_at_s = (seconds_of(ready.last_probe_time) if ready else 0.0) + draft.settings.finished_ttl_s
    if draft.now_s >= collect_at_s:
        draft.do(delete_reservation(observed.reservation))
    else:
        draft.wake(collect_at_s)
