"""One step of a Reservation: what is seen now -> the status that is true, and what to do about it.

Pure. The sub-states of the hand-over are read off the objects, never remembered, so a crash at any point
resumes where it stopped. Promises: ``Available`` only while the placeholder stands on a usable node; the
room is accounted for by placeholder, nomination or bound owner at every instant; no Reservation is deleted
while its claimant is pending; a pod is held by the gate no longer than its limit.
The claimed part of the life is in ``handover``; the table of transitions in ``lifecycle``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from rescheduler.model import names
from rescheduler.model.conditions import condition, seconds_of
from rescheduler.model.records import Pod
from rescheduler.model.reservation import ObjectRef, ReservationPhase, ReservationStatus
from rescheduler.model.resources import NO_RESOURCES
from rescheduler.reservations import actions as act
from rescheduler.reservations import koordinator_steps
from rescheduler.reservations.allocation import fits
from rescheduler.reservations.deadlines import end_of, expired, wake_for
from rescheduler.reservations.handover import Handover, hand_over, holds_gate, in_flight
from rescheduler.reservations.lifecycle import (
    CONDITION_READY,
    FINISHED,
    ReservationEvent,
    ReservationReason,
    partly_held,
    transition,
)
from rescheduler.reservations.not_held import not_held
from rescheduler.reservations.observed import ObservedReservation, ReservationSettings
from rescheduler.reservations.parts import Part
from rescheduler.reservations.placeholder import pinned_node
from rescheduler.reservations.promised import is_promised, promise_anew, wait_for_room, words
from rescheduler.reservations.sharing import claim, flying, nothing, rest_of, share
from rescheduler.reservations.validation import refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationStep:
    """The outcome of one look. ``wake_at_s``: look again then at the latest, even if nothing is heard."""

    status: ReservationStatus
    actions: tuple[act.ReservationAction, ...] = ()
    wake_at_s: float | None = None
    awaits: frozenset[str] = frozenset()
    """Schedulers that must be up to date before a room is given up."""


@dataclass(slots=True)
class _Draft:
    """A step while it is being worked out."""

    status: ReservationStatus
    actions: list[act.ReservationAction] = field(default_factory=list)
    wake_at_s: float | None = None
    awaits: frozenset[str] = frozenset()

    def wake(self, at_s: float | None) -> None:
        if at_s is not None:
            self.wake_at_s = at_s if self.wake_at_s is None else min(self.wake_at_s, at_s)


def step(observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> ReservationStep:
    """What to do for one Reservation now. At most one transition is taken per step."""
    reservation = observed.reservation
    if reservation.deleting:
        return ReservationStep(status=reservation.status, actions=_let_go(observed))
    draft = _Draft(
        msgspec.structs.replace(
            reservation.status,
            observed_generation=reservation.generation,
            expires_at_s=end_of(reservation, settings),
        )
    )
    phase = reservation.status.phase
    if phase in FINISHED:
        _finished(draft, observed, now_s, settings)
        draft.status = reservation.status
    elif observed.by_koordinator:
        _held_by_koordinator(draft, observed, now_s, settings)
    elif phase is ReservationPhase.PENDING:
        _pending(draft, observed, now_s, settings)
    elif not reservation.allocate_once:
        _shared(draft, observed, now_s, settings)
    elif reservation.status.current_owners:
        _claimed(draft, observed, now_s, settings)
    else:
        _holding(draft, observed, now_s, settings)
    return _close(draft, observed)


def _close(draft: _Draft, observed: ObservedReservation) -> ReservationStep:
    reservation = observed.reservation
    actions = tuple(draft.actions)
    if draft.status != reservation.status:
        write = act.WriteReservationStatus(
            reservation.name, reservation.uid, reservation.resource_version, draft.status
        )
        actions = (write, *actions)
        if draft.status.phase is not reservation.status.phase:
            actions = (*actions, _event(draft.status, observed))
    return ReservationStep(
        status=draft.status, actions=actions, wake_at_s=draft.wake_at_s, awaits=draft.awaits
    )


def _event(status: ReservationStatus, observed: ObservedReservation) -> act.RecordEvent:
    reservation = observed.reservation
    ready = condition(status.conditions, CONDITION_READY)
    return act.RecordEvent(
        kind="Reservation",
        namespace="",
        name=reservation.name,
        uid=reservation.uid,
        reason=(ready.reason if ready else "") or status.phase,
        message=(ready.message if ready else "") or f"the Reservation is {status.phase}",
        warning=status.phase is ReservationPhase.FAILED,
    )


# Before the room is held ---------------------------------------------------------------------------


def _pending(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    refused = refusal(observed.reservation)
    if refused is not None:
        _enter(draft, observed, refused.event, refused.message, now_s)
        return
    if _ended_early(draft, observed, now_s, settings):
        return
    placeholder = observed.placeholder
    if placeholder is None and observed.beyond_share:
        _enter(draft, observed, ReservationEvent.BEYOND_SHARE, observed.beyond_share, now_s)
    elif placeholder is None:
        _place(draft, observed, now_s)
    elif placeholder.deleting:
        return
    elif placeholder.terminal:
        draft.actions.append(act.delete_placeholder(placeholder))
        _say_unschedulable(draft, f"the node refused the placeholder {placeholder.key}", now_s)
    elif placeholder.node:
        _bound(draft, observed, placeholder, now_s)
    elif observed.reservation.pre_allocation:
        _promise(draft, observed, placeholder, now_s)
    else:
        _unbound(draft, observed, placeholder, now_s, settings)


def _place(draft: _Draft, observed: ObservedReservation, now_s: float) -> None:
    reservation = observed.reservation
    if observed.choice.node:
        part = Part(waits=reservation.pre_allocation, volumes=observed.volumes)
        draft.actions.append(act.CreatePlaceholder(reservation, observed.choice.node, part))
    else:
        _say_unschedulable(draft, _why_not_placed(observed), now_s)


def _why_not_placed(observed: ObservedReservation) -> str:
    message = observed.choice.message or "no node has been chosen yet"
    template = observed.reservation.template
    if template is not None and template.host_ports and "PodSecurity" in message:
        return f"the namespace of placeholders does not allow host ports, so they cannot be held: {message}"
    return message


def _promise(draft: _Draft, observed: ObservedReservation, placeholder: Pod, now_s: float) -> None:
    """Waiting for room that is not free yet (row K45)."""
    draft.actions.extend(wait_for_room(observed, placeholder))
    draft.status = msgspec.structs.replace(draft.status, node_name=pinned_node(placeholder))
    _enter(draft, observed, ReservationEvent.PROMISED, words(placeholder), now_s)


def _unbound(
    draft: _Draft,
    observed: ObservedReservation,
    placeholder: Pod,
    now_s: float,
    settings: ReservationSettings,
) -> None:
    if observed.beside_hand_over:  # it would take the room that is let go there, before the claimant does
        draft.actions.append(act.delete_placeholder(placeholder))
        return
    message = placeholder.unschedulable_message
    if message:
        _say_unschedulable(draft, message, now_s)
    if observed.reservation.template_node:
        if observed.choice.message:
            draft.actions.append(act.delete_placeholder(placeholder))
        return
    retarget_at_s = placeholder.created_at_s + settings.retarget_s
    if now_s < retarget_at_s and not observed.outrun:
        draft.wake(retarget_at_s)
    elif observed.choice.node and observed.choice.node != pinned_node(placeholder):
        draft.actions.append(act.delete_placeholder(placeholder))


def _bound(draft: _Draft, observed: ObservedReservation, placeholder: Pod, now_s: float) -> None:
    node = placeholder.node
    if observed.node is None:
        _enter(draft, observed, ReservationEvent.NODE_DELETED, f"node {node} does not exist any more", now_s)
        return
    template = observed.reservation.template
    held = NO_RESOURCES if template is None else template.requests
    draft.status = msgspec.structs.replace(draft.status, node_name=node, allocatable=held)
    lacking = not_held(observed.reservation, observed.unbound_claims)
    if lacking:
        draft.status = partly_held(draft.status, lacking, now_s)
    if observed.node_usable:
        message = f"room is held on node {node}"
        _enter(draft, observed, ReservationEvent.BECAME_AVAILABLE, message, now_s)
    else:
        message = f"node {node} is not Ready or not schedulable"
        _enter(draft, observed, ReservationEvent.SCHEDULED, message, now_s)


def _say_unschedulable(draft: _Draft, message: str, now_s: float) -> None:
    draft.status = transition(draft.status, ReservationEvent.UNSCHEDULABLE, message, now_s)


# While the room is held and nobody has claimed it --------------------------------------------------


def _holding(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    if _ended_early(draft, observed, now_s, settings) or _arrived(draft, observed, now_s):
        return
    node = draft.status.node_name
    if observed.node is None:
        _enter(draft, observed, ReservationEvent.NODE_DELETED, f"node {node} does not exist any more", now_s)
    elif _placeholder_lost(observed) and is_promised(draft.status):
        rest = rest_of(draft.status)
        draft.actions.extend(promise_anew(observed, draft.status, None if nothing(rest) else rest))
    elif _placeholder_lost(observed):
        message = f"the placeholder on node {node} is gone: the room is not held any more"
        _enter(draft, observed, ReservationEvent.PLACEHOLDER_LOST, message, now_s)
    elif not observed.node_usable:
        _node_bad(draft, observed, now_s, settings)
    elif observed.placeholder is not None and not observed.placeholder.node:
        _promise(draft, observed, observed.placeholder, now_s)
    elif observed.placeholder is not None and draft.status.phase is ReservationPhase.WAITING:
        _bound(draft, observed, observed.placeholder, now_s)
    elif observed.offered:
        _claim(draft, observed.offered[0], now_s)


def _node_bad(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    node = draft.status.node_name
    message = f"node {node} is not Ready or not schedulable"
    ready = condition(draft.status.conditions, CONDITION_READY)
    if ready is None or ready.reason != ReservationReason.NODE_NOT_READY:
        _enter(draft, observed, ReservationEvent.NODE_BAD, message, now_s)
        return
    limit_s = seconds_of(ready.last_probe_time) + settings.node_grace_s
    if now_s >= limit_s:
        _enter(draft, observed, ReservationEvent.NODE_NOT_READY, message, now_s)
    else:
        draft.wake(limit_s)


def _placeholder_lost(observed: ObservedReservation) -> bool:
    placeholder = observed.placeholder
    if placeholder is not None and not placeholder.deleting and not placeholder.terminal:
        return False
    migration = observed.migration
    yielded = observed.soft and migration is not None and bool(migration.eviction_requested_at_s)
    return not yielded


def _arrived(draft: _Draft, observed: ObservedReservation, now_s: float) -> bool:
    """Soft mode: the scheduler itself let the owner take the room, or put it somewhere else."""
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


def _shared(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    node = draft.status.node_name
    waiting = draft.status.phase is ReservationPhase.WAITING
    if not flying(observed) and _ended_early(draft, observed, now_s, settings):
        return
    if observed.node is None:
        _enter(draft, observed, ReservationEvent.NODE_DELETED, f"node {node} does not exist any more", now_s)
        return
    if waiting and not draft.status.current_owners:
        _holding(draft, observed, now_s, settings)
        return
    shared = share(observed, draft.status, now_s, settings)
    draft.status = shared.status
    draft.actions.extend(shared.actions)
    draft.wake(shared.wake_at_s)
    draft.awaits = shared.awaits
    if shared.event is ReservationEvent.OWNERS_CHANGED and not observed.node_usable:
        _node_bad(draft, observed, now_s, settings)
        return
    if shared.event is not None:
        _enter(draft, observed, shared.event, shared.message, now_s)
    served = tuple(pod for pod in observed.offered if fits(pod.spec.requests, rest_of(draft.status)))
    if shared.event is ReservationEvent.OWNERS_CHANGED and served and not flying(observed):
        draft.status = claim(draft.status, served)
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
    waits = not draft.status.current_owners and not koordinator_steps.given_away(observed)
    if waits and _ended_early(draft, observed, now_s, settings):
        return
    pending = draft.status.phase is ReservationPhase.PENDING
    if pending and observed.koordinator is None and observed.beyond_share:
        _enter(draft, observed, ReservationEvent.BEYOND_SHARE, observed.beyond_share, now_s)
        return
    found = koordinator_steps.follow(observed, draft.status, now_s, settings)
    draft.status = found.status
    draft.actions.extend(found.actions)
    draft.wake(found.wake_at_s)
    if found.event is ReservationEvent.CLAIM_DROPPED:
        draft.status = msgspec.structs.replace(draft.status, current_owners=(), allocated=NO_RESOURCES)
    if found.event is not None:
        _enter(draft, observed, found.event, found.message, now_s)


# After the claim, at the end, and ways out ---------------------------------------------------------


def _claimed(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    outcome: Handover = hand_over(observed, now_s, settings)
    draft.actions.extend(outcome.actions)
    draft.wake(outcome.wake_at_s)
    draft.awaits = outcome.awaits
    if outcome.event is ReservationEvent.CLAIM_DROPPED:
        draft.status = msgspec.structs.replace(draft.status, current_owners=(), allocated=NO_RESOURCES)
    if outcome.event is not None:
        _enter(draft, observed, outcome.event, outcome.message, now_s)


def _ended_early(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> bool:
    if expired(observed, now_s, settings):
        _enter(draft, observed, ReservationEvent.EXPIRED, _expiry_words(draft.status), now_s)
        return True
    abandoned = _abandoned(observed, now_s, settings)
    if abandoned:
        _enter(draft, observed, ReservationEvent.ABANDONED, abandoned, now_s)
        return True
    draft.wake(wake_for(observed, now_s, settings))
    return False


def _expiry_words(status: ReservationStatus) -> str:
    scheduled = condition(status.conditions, "Scheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"expired before it could be scheduled: {scheduled.message}"
    return "expired before anybody used it"


def _abandoned(observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> str:
    reservation, migration = observed.reservation, observed.migration
    if not made_for(observed):
        return ""
    if migration is None:
        if now_s < reservation.created_at_s + settings.orphan_grace_s:
            return ""
        return f"PodMigration {made_for(observed)} does not exist any more"
    if migration.finished:
        return f"PodMigration {migration.key} has ended"
    return ""


def made_for(observed: ObservedReservation) -> str:
    """NAMESPACE/NAME of the PodMigration that the Reservation was made for, or ""."""
    return observed.reservation.annotations.get(names.ANNOTATION_MIGRATION) or ""


def _enter(
    draft: _Draft, observed: ObservedReservation, event: ReservationEvent, message: str, now_s: float
) -> None:
    draft.status = transition(draft.status, event, message, now_s)
    if draft.status.phase in FINISHED:
        draft.actions.extend(_let_go(observed))


def _let_go(observed: ObservedReservation) -> tuple[act.ReservationAction, ...]:
    """Give everything back: the claimant's gate first, so that no pod waits for room that goes away."""
    why = f"Reservation {observed.reservation.name} has ended"
    result: list[act.ReservationAction] = [
        act.ReleasePod(pod.key, pod.uid, why) for pod in in_flight(observed) if holds_gate(pod)
    ]
    holders = observed.holders or ((observed.placeholder,) if observed.placeholder else ())
    result.extend(act.delete_placeholder(holder) for holder in holders if not holder.deleting)
    result.extend(koordinator_steps.let_go(observed))
    return tuple(result)


def _finished(
    draft: _Draft, observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> None:
    draft.actions.extend(_let_go(observed))
    reservation = observed.reservation
    if draft.actions or in_flight(observed):
        return
    if observed.migration is not None and not observed.migration.finished:
        return
    ready = condition(reservation.status.conditions, CONDITION_READY)
    collect_at_s = (seconds_of(ready.last_probe_time) if ready else 0.0) + settings.finished_ttl_s
    if now_s >= collect_at_s:
        draft.actions.append(act.DeleteReservation(reservation.name, reservation.uid))
    else:
        draft.wake(collect_at_s)
