"""One step of a Reservation: from what is observed now to its new status and the calls to take.

Pure. The sub-states of the hand-over are derived from the objects, never remembered, so that after a crash it goes on
where it stopped. Promises: a Reservation is ``Available`` only while its placeholder is bound to a usable node; at
every instant a placeholder, a nomination or a bound owner accounts for the room; no Reservation is deleted
while its claimant is pending; no pod is gated for longer than its limit.
``handover`` has the steps after the claim, ``lifecycle`` the table of transitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from rescheduler.calls.call import AnyCall
from rescheduler.calls.objects import delete_reservation, unreadable, write_status
from rescheduler.calls.pods import delete_placeholder, release
from rescheduler.errors import TransitionError
from rescheduler.model.conditions import condition, seconds_of
from rescheduler.model.made_room import made_for_pod
from rescheduler.model.readability import with_readable
from rescheduler.model.records import Pod
from rescheduler.model.reservation import ObjectRef, ReservationPhase, ReservationStatus
from rescheduler.model.resources import NO_RESOURCES
from rescheduler.reservations import koordinator_steps
from rescheduler.reservations.assignment import fits, taken_by
from rescheduler.reservations.expiry import abandoned, end_of, expired, expiry_words, wake_for
from rescheduler.reservations.handover import hand_over, holds_gate, in_flight
from rescheduler.reservations.lifecycle import (
    CONDITION_READY,
    FINISHED,
    ReservationEvent,
    ReservationReason,
    partly_held,
    transition,
)
from rescheduler.reservations.lost_node import LOSSES, goes_elsewhere, placeholder_lost, without_node
from rescheduler.reservations.making_room import (
    given_up,
    gives_up,
    keeps_another_node,
    looks_for_others,
    waiting_words,
    what_is_given_back,
)
from rescheduler.reservations.not_held import not_held
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.owners_wait import standing_conditions, standing_events
from rescheduler.reservations.pending_claimant import hand_over_by_taint
from rescheduler.reservations.phase_event import is_told, phase_event
from rescheduler.reservations.placeholder import Part, create_placeholder, pinned_node
from rescheduler.reservations.preallocation import (
    LOOK_EVERY_S,
    goes_to,
    is_preallocated,
    recreated,
    wait_for_room,
)
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.split import claim, flying, nothing, rest_of, split, too_small
from rescheduler.reservations.template_trial import try_template
from rescheduler.reservations.unbound import what_was_changed, why_not_placed, why_unbound
from rescheduler.reservations.validation import refusal
from rescheduler.reservations.waits import PlaceholderTurn


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationStep:
    """The outcome of one step. ``wake_at_s``: take the next step then at the latest, even if nothing changes."""

    status: ReservationStatus
    calls: tuple[AnyCall, ...] = ()
    wake_at_s: float | None = None


@dataclass(slots=True)
class _Draft:
    """A step while it is being worked out."""

    status: ReservationStatus
    calls: list[AnyCall] = field(default_factory=list)
    wake_at_s: float | None = None

    def wake(self, at_s: float | None) -> None:
        if at_s is not None:
            self.wake_at_s = at_s if self.wake_at_s is None else min(self.wake_at_s, at_s)


def step(observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> ReservationStep:
    """What to do for one Reservation now. At most one transition is taken per step."""
    reservation = observed.reservation
    if reservation.deleting:
        return ReservationStep(status=reservation.status, calls=_let_go(observed))
    if reservation.unreadable and reservation.status.phase not in FINISHED:
        return _unreadable(observed, now_s)
    draft = _Draft(
        msgspec.structs.replace(
            reservation.status,
            observed_generation=reservation.generation,
            expires_at_s=end_of(reservation, settings),
            conditions=standing_conditions(observed, now_s),
        )
    )
    phase = reservation.status.phase
    if phase in FINISHED:
        _finished(draft, observed, now_s, settings)
        draft.status = reservation.status  # a finished status is never written again, not even its generation
    elif observed.by_koordinator:
        _held_by_koordinator(draft, observed, now_s, settings)
    elif why := what_was_changed(observed):
        _enter(draft, observed, ReservationEvent.PLACEHOLDER_CHANGED, why, now_s)
    elif phase is ReservationPhase.PENDING:
        _pending(draft, observed, now_s, settings)
    elif observed.higher_waits:
        _enter(draft, observed, ReservationEvent.HIGHER_PRIORITY_WAITS, observed.higher_waits, now_s)
    elif not reservation.allocate_once:
        _split(draft, observed, now_s, settings)
    elif reservation.status.current_owners:
        _claimed(draft, observed, now_s, settings)
    else:
        _holding(draft, observed, now_s, settings)
    return _close(draft, observed)


def _unreadable(observed: ObservedReservation, now_s: float) -> ReservationStep:
    """It stays as it is, room included, and its author is told what cannot be read.

    Raises:
        TransitionError: its status cannot be read, so nothing can be told there.
    """
    reservation = observed.reservation
    if reservation.status_unreadable:
        raise TransitionError(reservation.unreadable)
    conditions = with_readable(reservation.status.conditions, reservation.unreadable, now_s)
    status = msgspec.structs.replace(reservation.status, conditions=conditions)
    if status == reservation.status:
        return ReservationStep(status=status)
    write = write_status(reservation, status)
    return ReservationStep(
        status=status,
        calls=(
            write,
            unreadable("Reservation", reservation.name, reservation.uid, reservation.unreadable),
        ),
    )


def _close(draft: _Draft, observed: ObservedReservation) -> ReservationStep:
    reservation = observed.reservation
    calls = tuple(draft.calls)
    if draft.status != reservation.status:
        # First, by compare and swap: if it fails, the calls that follow from this status are not carried out.
        calls = (write_status(reservation, draft.status), *calls)
        if draft.status.phase is not reservation.status.phase and is_told(reservation, draft.status.phase):
            calls = (*calls, phase_event(reservation, draft.status))
        calls = (*calls, *standing_events(reservation, draft.status))
    return ReservationStep(status=draft.status, calls=calls, wake_at_s=draft.wake_at_s)


# Before the room is held ---------------------------------------------------------------------------


def _pending(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    refused = refusal(observed.reservation, observed.template_refused)
    if refused is not None:
        _enter(draft, observed, refused.event, refused.message, now_s)
        return
    if _ended_early(draft, observed, now_s, settings):
        return
    if _room_given_up(draft, observed, now_s):
        return
    placeholder, making = observed.placeholder, draft.status.making_room
    if placeholder is None:
        _place(draft, observed, now_s, settings)
    elif placeholder.deleting:
        return
    elif placeholder.terminal:
        draft.calls.append(delete_placeholder(placeholder))
        message = f"the node refused the placeholder {placeholder.key}"
        _enter(draft, observed, ReservationEvent.UNSCHEDULABLE, message, now_s)
    elif placeholder.node:
        _bound(draft, observed, placeholder, now_s)
    elif making is not None and keeps_another_node(placeholder, making):
        draft.calls.append(delete_placeholder(placeholder))
    elif observed.reservation.preallocated:
        _preallocated(draft, observed, placeholder, now_s)
    else:
        _unbound(draft, observed, placeholder, now_s, settings)


def _place(draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> None:
    reservation, making = observed.reservation, draft.status.making_room
    node = making.node if making is not None else observed.choice.node
    if observed.beyond_quota:
        _enter(draft, observed, ReservationEvent.BEYOND_QUOTA, observed.beyond_quota, now_s)
    elif observed.template_refused is None:
        draft.calls.append(try_template(reservation, settings))
    elif node:
        part = Part(waits=reservation.preallocated, volumes=observed.volumes)
        draft.calls.append(create_placeholder(reservation, node, settings, part))
    else:
        why = why_not_placed(observed, makes_room=settings.makes_room)
        _enter(draft, observed, ReservationEvent.UNSCHEDULABLE, why, now_s)


def _preallocated(draft: _Draft, observed: ObservedReservation, placeholder: Pod, now_s: float) -> None:
    """The placeholder is gated and waits for room that is not free yet (row K45)."""
    draft.calls.extend(wait_for_room(observed, placeholder))
    if not observed.reservation.template_node:
        draft.wake(now_s + LOOK_EVERY_S)
    if moved := goes_to(observed, draft.status, placeholder):
        draft.status = moved[0]
        draft.calls.append(moved[1])
        return
    draft.status = msgspec.structs.replace(draft.status, node_name=pinned_node(placeholder))
    message = waiting_words(observed, draft.status, placeholder)
    _enter(draft, observed, ReservationEvent.PREALLOCATED, message, now_s)


def _unbound(
    draft: _Draft,
    observed: ObservedReservation,
    placeholder: Pod,
    now_s: float,
    settings: ReservationSettings,
) -> None:
    if observed.turn is PlaceholderTurn.GIVE_WAY:
        draft.calls.append(delete_placeholder(placeholder))
        return
    # A refusal may pass by itself, so the chosen node is given some time before another one is tried.
    retarget_at_s = placeholder.created_at_s + settings.retarget_s
    if now_s < retarget_at_s:
        draft.wake(retarget_at_s)
    if unbound := why_unbound(placeholder, retarget_at_s, now_s):
        _enter(draft, observed, unbound.event, unbound.message, now_s)
    if draft.status.phase in FINISHED:
        return
    if observed.reservation.template_node:
        if observed.choice.message:
            draft.calls.append(delete_placeholder(placeholder))
    elif now_s < retarget_at_s and observed.turn is not PlaceholderTurn.MOVE:
        return
    elif observed.choice.node and observed.choice.node != pinned_node(placeholder):
        draft.calls.append(delete_placeholder(placeholder))


def _bound(draft: _Draft, observed: ObservedReservation, placeholder: Pod, now_s: float) -> None:
    node = placeholder.node
    if observed.node is None:
        _enter(draft, observed, ReservationEvent.NODE_DELETED, f"node {node} does not exist any more", now_s)
        return
    template = observed.reservation.template
    held = NO_RESOURCES if template is None else template.requests
    making = draft.status.making_room if made_for_pod(observed.reservation) is not None else None
    draft.status = msgspec.structs.replace(draft.status, node_name=node, allocatable=held, making_room=making)
    lacking = not_held(observed.reservation, observed.unbound_claims)
    if lacking:
        draft.status = partly_held(draft.status, lacking, now_s)
    if observed.node_usable:
        message = f"room is held on node {node}"
        _enter(draft, observed, ReservationEvent.BECAME_AVAILABLE, message, now_s)
    else:
        message = f"node {node} is not Ready or not schedulable"
        _enter(draft, observed, ReservationEvent.SCHEDULED, message, now_s)


# While the room is held and no pod has claimed it ---------------------------------------------------


def _holding(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    if _ended_early(draft, observed, now_s, settings) or _arrived(draft, observed, now_s):
        return
    if _room_given_up(draft, observed, now_s) or _made_elsewhere(draft, observed):
        return
    node = draft.status.node_name
    if observed.node is None:
        _enter(draft, observed, ReservationEvent.NODE_DELETED, f"node {node} does not exist any more", now_s)
    elif placeholder_lost(observed) and is_preallocated(
        draft.status
    ):  # nothing was held yet, so nothing is lost
        rest = rest_of(draft.status)
        draft.calls.extend(recreated(observed, draft.status, None if nothing(rest) else rest, settings))
    elif placeholder_lost(observed):
        message = f"the placeholder on node {node} is gone: the room is not held any more"
        _enter(draft, observed, ReservationEvent.PLACEHOLDER_LOST, message, now_s)
    elif not observed.node_usable:
        _node_bad(draft, observed, now_s, settings)
    elif observed.placeholder is not None and not observed.placeholder.node:
        _preallocated(draft, observed, observed.placeholder, now_s)
    elif observed.placeholder is not None and draft.status.phase is ReservationPhase.WAITING:
        _bound(draft, observed, observed.placeholder, now_s)
    elif observed.assigned:
        _claim(draft, observed.assigned[0], now_s)


def _room_given_up(draft: _Draft, observed: ObservedReservation, now_s: float) -> bool:
    others = looks_for_others(observed, draft.status, now_s)
    if others is not None:
        draft.status = others[0]
        draft.calls.append(others[1])
        return False
    why = gives_up(observed)
    if why:
        draft.status = given_up(draft.status, why, now_s)
        draft.calls.extend(what_is_given_back(observed, why))
    return bool(why)


def _made_elsewhere(draft: _Draft, observed: ObservedReservation) -> bool:
    """It was preallocated on one node, and others step aside for it, perhaps on another one."""
    making, holder = draft.status.making_room, observed.placeholder
    if making is None or holder is None or not keeps_another_node(holder, making):
        return False
    draft.status = msgspec.structs.replace(draft.status, node_name=making.node)
    if not holder.deleting:
        draft.calls.append(delete_placeholder(holder))
    return True


def _node_bad(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    node = draft.status.node_name
    message = f"node {node} is not Ready or not schedulable"
    if observed.other_node and observed.migration is not None:  # its pod has come and is not kept waiting
        message = f"{message}; node {observed.other_node} would take the replacement"
        _enter(draft, observed, ReservationEvent.NODE_NOT_READY, message, now_s)
        return
    ready = condition(draft.status.conditions, CONDITION_READY)
    if ready is None or ready.reason != ReservationReason.NODE_NOT_READY:
        _enter(draft, observed, ReservationEvent.NODE_BAD, message, now_s)
        return
    # A node that is not Ready often comes back; the pods on it are not evicted at once either.
    limit_s = seconds_of(ready.last_probe_time) + settings.node_grace_s
    if now_s >= limit_s:
        _enter(draft, observed, ReservationEvent.NODE_NOT_READY, message, now_s)
    else:
        draft.wake(limit_s)


def _arrived(draft: _Draft, observed: ObservedReservation, now_s: float) -> bool:
    """Soft mode: the scheduler has bound the owner, in the room or on another node."""
    pod = observed.arrival
    if pod is None or not pod.node:
        return False
    _take_owner(draft, pod)
    if pod.node == draft.status.node_name:
        _enter(draft, observed, ReservationEvent.OWNER_BOUND, f"{pod.key} landed on node {pod.node}", now_s)
    else:
        message = f"{pod.key} landed on node {pod.node}; a soft Reservation does not bind the destination"
        _enter(draft, observed, ReservationEvent.LANDED_ELSEWHERE, message, now_s)
    return True


def _claim(draft: _Draft, pod: Pod, now_s: float) -> None:
    _take_owner(draft, pod)
    draft.status = transition(draft.status, ReservationEvent.CLAIMED, f"claimed by {pod.key}", now_s)


def _take_owner(draft: _Draft, pod: Pod) -> None:
    owner = ObjectRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
    draft.status = msgspec.structs.replace(draft.status, current_owners=(owner,), allocated=pod.spec.requests)


# Room for several pods ----------------------------------------------------------------------------


def _split(draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> None:
    node = draft.status.node_name
    waiting = draft.status.phase is ReservationPhase.WAITING
    # It does not expire while claimants are unbound: their room would be lost in the middle of the hand-over.
    if not flying(observed) and _ended_early(draft, observed, now_s, settings):
        return
    if observed.node is None:
        _enter(draft, observed, ReservationEvent.NODE_DELETED, f"node {node} does not exist any more", now_s)
        return
    if waiting and not draft.status.current_owners:
        draft.calls.extend(too_small(observed, draft.status))
        if not draft.calls:
            _holding(draft, observed, now_s, settings)
        return
    result = split(observed, draft.status, now_s, settings)
    draft.status = result.status
    draft.calls.extend(result.calls)
    draft.wake(result.wake_at_s)
    # Only between two hand-overs: claimants that are not bound stay gated until the node is usable again.
    if result.event is ReservationEvent.OWNERS_CHANGED and not observed.node_usable:
        _node_bad(draft, observed, now_s, settings)
        return
    if result.event is not None:
        _enter(draft, observed, result.event, result.message, now_s)
    # Claimed in the same write. The assignment was computed from the old status, and owners that ended since have taken
    # their parts with them, so each pod is checked against what is left now.
    served = tuple(
        pod for pod in observed.assigned if fits(taken_by(pod, observed.reservation), rest_of(draft.status))
    )
    if result.event is ReservationEvent.OWNERS_CHANGED and served and not flying(observed):
        draft.status = claim(observed.reservation, draft.status, served)
        message = f"claimed by {', '.join(str(pod.key) for pod in served)}"
        draft.status = transition(draft.status, ReservationEvent.CLAIMED, message, now_s)


# Room that Koordinator holds ------------------------------------------------------------------------


def _held_by_koordinator(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    if draft.status.phase is ReservationPhase.PENDING:
        refused = refusal(observed.reservation)
        if refused is not None:
            _enter(draft, observed, refused.event, refused.message, now_s)
            return
    # Once a pod uses the room, or Koordinator has given it to one, neither expiry nor the end of the move takes it back.
    waits = not draft.status.current_owners and not koordinator_steps.given_away(observed)
    if waits and _ended_early(draft, observed, now_s, settings):
        return
    pending = draft.status.phase is ReservationPhase.PENDING
    if pending and observed.koordinator is None and observed.beyond_quota:
        _enter(draft, observed, ReservationEvent.BEYOND_QUOTA, observed.beyond_quota, now_s)
        return
    found = koordinator_steps.follow(observed, draft.status, now_s, settings)
    draft.status = found.status
    draft.calls.extend(found.calls)
    draft.wake(found.wake_at_s)
    if found.event is ReservationEvent.CLAIM_DROPPED:
        draft.status = msgspec.structs.replace(draft.status, current_owners=(), allocated=NO_RESOURCES)
    if found.event is not None:
        _enter(draft, observed, found.event, found.message, now_s)


# After the claim, at the end, and ways out ---------------------------------------------------------


def _claimed(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    outcome = hand_over_by_taint(observed, now_s, settings) or hand_over(observed, now_s, settings)
    draft.calls.extend(outcome.calls)
    draft.wake(outcome.wake_at_s)
    if outcome.event is ReservationEvent.CLAIM_DROPPED:
        draft.status = msgspec.structs.replace(draft.status, current_owners=(), allocated=NO_RESOURCES)
    _enter(draft, observed, outcome.event, outcome.message, now_s)


def _ended_early(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> bool:
    if expired(observed, now_s, settings):
        _enter(draft, observed, ReservationEvent.EXPIRED, expiry_words(observed, draft.status), now_s)
        return True
    why = abandoned(observed, now_s, settings)
    if why:
        _enter(draft, observed, ReservationEvent.ABANDONED, why, now_s)
        return True
    draft.wake(wake_for(observed, now_s, settings))
    return False


def _enter(
    draft: _Draft, observed: ObservedReservation, event: ReservationEvent, message: str, now_s: float
) -> None:
    if event in LOSSES and goes_elsewhere(observed, draft.status):
        draft.status = without_node(draft.status, message, now_s)
        draft.calls.extend(delete_placeholder(pod) for pod in observed.placeholders if not pod.deleting)
        return
    draft.status = transition(draft.status, event, message, now_s)
    if draft.status.phase in FINISHED:
        draft.calls.extend(_let_go(observed))


def _let_go(observed: ObservedReservation) -> tuple[AnyCall, ...]:
    """Release everything: the claimant's gate first, so that no pod waits for room that is being freed."""
    why = f"Reservation {observed.reservation.name} has ended"
    result: list[AnyCall] = [release(pod, why) for pod in in_flight(observed) if holds_gate(pod)]
    standing = (pod for pod in observed.placeholders if not pod.deleting)
    result.extend(map(delete_placeholder, standing))
    result.extend(koordinator_steps.let_go(observed))
    return tuple(result)


def _finished(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    draft.calls.extend(_let_go(observed))
    # The object is kept while something is left to release, a claimant is unbound, or its move still reads the outcome.
    if draft.calls or in_flight(observed):
        return
    if observed.migration is not None and not observed.migration.finished:
        return
    ready = condition(observed.reservation.status.conditions, CONDITION_READY)
    collect_at_s = (seconds_of(ready.last_probe_time) if ready else 0.0) + settings.finished_ttl_s
    if now_s >= collect_at_s:
        draft.calls.append(delete_reservation(observed.reservation))
    else:
        draft.wake(collect_at_s)
