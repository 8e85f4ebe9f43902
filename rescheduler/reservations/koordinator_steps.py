"""The next step of a Reservation that Koordinator holds: its phases mapped to ours, and the hand-over (pure).

Pending -> Pending with its scheduler's words; Available -> Available, or Waiting while the node is not usable
(Koordinator never says Waiting); Succeeded -> Succeeded with its owner; Failed -> Failed by what we see ourselves, for
it calls a missing node Expired. A move claims and steers: gate off and the Reservation's name in one patch. There is
nothing to nominate or to give up: Koordinator admits no other pod until this one is bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from rescheduler.calls.call import AnyCall
from rescheduler.calls.pods import remove_gate, unsteer
from rescheduler.model import names
from rescheduler.model.conditions import condition, seconds_of
from rescheduler.model.records import Pod
from rescheduler.model.reservation import (
    KoordinatorPhase,
    KoordinatorReservation,
    ObjectRef,
    Reservation,
    ReservationPhase,
    ReservationStatus,
)
from rescheduler.reservations.handover import holds_gate
from rescheduler.reservations.koordinator import (
    create_koordinator_reservation,
    delete_koordinator_reservation,
    for_a_move,
)
from rescheduler.reservations.lifecycle import CONDITION_READY, FINISHED, ReservationEvent
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.waits import claim_message, look_again_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What is true now, an event for the table if something happened, and what to do."""

    status: ReservationStatus
    event: ReservationEvent | None = None
    message: str = ""
    calls: tuple[AnyCall, ...] = ()
    wake_at_s: float | None = None


def follow(
    observed: ObservedReservation, status: ReservationStatus, now_s: float, settings: ReservationSettings
) -> Followed:
    """The next step of a live Reservation. ``status``: as it is to be written, before this step."""
    if observed.changed and not status.current_owners and not given_away(observed):
        return Followed(status=status, event=ReservationEvent.PLACEHOLDER_CHANGED, message=observed.changed)
    if status.phase is ReservationPhase.PENDING:
        return _pending(observed, status, now_s, settings)
    if status.current_owners:
        return _claimed(observed, status, now_s, settings)
    return _holding(observed, status, now_s, settings)


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


def _pending(
    observed: ObservedReservation, status: ReservationStatus, now_s: float, settings: ReservationSettings
) -> Followed:
    held = observed.koordinator
    if held is None:
        return _reserve(observed, status, settings)
    if held.deleting:
        return Followed(status=status)
    if held.phase is KoordinatorPhase.FAILED:
        words = f"Koordinator gave the room up: {held.failure or 'no reason given'}"
        return Followed(
            status=status,
            event=ReservationEvent.UNSCHEDULABLE,
            message=words,
            calls=let_go(observed),
        )
    if not held.node or held.phase in (KoordinatorPhase.PENDING, KoordinatorPhase.WAITING):
        return _unscheduled(observed, held, status, now_s, settings)
    if observed.node is None:
        return _node_deleted(status, held.node)
    status = msgspec.structs.replace(status, node_name=held.node, allocatable=held.allocatable)
    if observed.node_usable:
        message = f"Koordinator holds room on node {held.node}"
        return Followed(status=status, event=ReservationEvent.BECAME_AVAILABLE, message=message)
    return Followed(status=status, event=ReservationEvent.SCHEDULED, message=_bad(held.node))


def _reserve(
    observed: ObservedReservation, status: ReservationStatus, settings: ReservationSettings
) -> Followed:
    reservation, choice = observed.reservation, observed.choice
    if choice.node:
        return Followed(
            status=status, calls=(create_koordinator_reservation(reservation, choice.node, settings),)
        )
    message = choice.message or "no node has been chosen yet"
    return Followed(status=status, event=ReservationEvent.UNSCHEDULABLE, message=message)


def _unscheduled(
    observed: ObservedReservation,
    held: KoordinatorReservation,
    status: ReservationStatus,
    now_s: float,
    settings: ReservationSettings,
) -> Followed:
    again_s = held.created_at_s + settings.retarget_s
    calls: tuple[AnyCall, ...] = ()
    elsewhere = observed.choice.node and observed.choice.node != held.pinned_node
    if not observed.reservation.template_node and elsewhere and now_s >= again_s:
        calls = let_go(observed)
    wake = again_s if now_s < again_s else None
    message = held.refusal or "Koordinator's scheduler has not looked at it yet"
    return Followed(
        status=status,
        event=ReservationEvent.UNSCHEDULABLE,
        message=message,
        calls=calls,
        wake_at_s=wake,
    )


# While the room is held and no pod has claimed it ---------------------------------------------------


def _holding(
    observed: ObservedReservation, status: ReservationStatus, now_s: float, settings: ReservationSettings
) -> Followed:
    held, node = observed.koordinator, status.node_name
    if held is not None and held.current_owners:
        return _given(observed, held, status)
    if observed.node is None:
        return _node_deleted(status, node)
    if held is None or not held.holds:
        return _lost(held, status)
    if not observed.node_usable:
        return _node_bad(status, now_s, settings)
    if status.phase is ReservationPhase.WAITING:
        message = f"Koordinator holds room on node {node}"
        return Followed(status=status, event=ReservationEvent.BECAME_AVAILABLE, message=message)
    if observed.assigned:
        return _claim(observed.assigned[0], status)
    return Followed(status=status)


def _given(
    observed: ObservedReservation, held: KoordinatorReservation, status: ReservationStatus
) -> Followed:
    owner = held.current_owners[0]
    name = f"{owner.namespace}/{owner.name}"
    if for_a_move(observed.reservation):
        message = f"Koordinator gave the room to {name}, which this move knows nothing of"
        return Followed(status=status, event=ReservationEvent.PLACEHOLDER_LOST, message=message)
    status = msgspec.structs.replace(status, current_owners=(owner,), allocated=held.allocated)
    message = f"Koordinator gave the room on node {held.node} to {name}"
    return Followed(status=status, event=ReservationEvent.OWNER_BOUND, message=message)


def _claim(pod: Pod, status: ReservationStatus) -> Followed:
    owner = ObjectRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
    status = msgspec.structs.replace(status, current_owners=(owner,), allocated=pod.spec.requests)
    return Followed(status=status, event=ReservationEvent.CLAIMED, message=f"claimed by {pod.key}")


def _node_bad(status: ReservationStatus, now_s: float, settings: ReservationSettings) -> Followed:
    message = _bad(status.node_name)
    if status.phase is ReservationPhase.AVAILABLE:
        return Followed(status=status, event=ReservationEvent.NODE_BAD, message=message)
    ready = condition(status.conditions, CONDITION_READY)
    limit_s = (seconds_of(ready.last_transition_time) if ready else 0.0) + settings.node_grace_s
    if now_s < limit_s:
        return Followed(status=status, wake_at_s=limit_s)
    return Followed(status=status, event=ReservationEvent.NODE_NOT_READY, message=message)


# After the claim of a move -------------------------------------------------------------------------


def _claimed(
    observed: ObservedReservation, status: ReservationStatus, now_s: float, settings: ReservationSettings
) -> Followed:
    claimant, held, target = observed.claimant, observed.koordinator, status.node_name
    if claimant is None or claimant.deleting:
        return _claimant_gone(held, status)
    if claimant.node:
        return _landed(claimant, status)
    if observed.node is None:
        return _node_deleted(status, target)
    if held is None or (not held.holds and not _has(held, claimant)):
        return _lost(held, status)
    if holds_gate(claimant):
        return _gated(observed, claimant, held, status, now_s=now_s, settings=settings)
    return _steered(observed, claimant, status, now_s, settings)


def _claimant_gone(held: KoordinatorReservation | None, status: ReservationStatus) -> Followed:
    owner = status.current_owners[0]
    name = f"{owner.namespace}/{owner.name}"
    if held is not None and held.holds and not held.current_owners:
        message = f"{name} went away before it was placed; the room is still held"
        return Followed(status=status, event=ReservationEvent.CLAIM_DROPPED, message=message)
    message = f"{name} went away in the middle of the hand-over"
    return Followed(status=status, event=ReservationEvent.CLAIMANT_LOST, message=message)


def _landed(claimant: Pod, status: ReservationStatus) -> Followed:
    message = f"{claimant.key} landed on node {claimant.node}"
    if claimant.node == status.node_name:
        return Followed(status=status, event=ReservationEvent.OWNER_BOUND, message=message)
    message = f"{message} instead of {status.node_name}"
    return Followed(status=status, event=ReservationEvent.LANDED_ELSEWHERE, message=message)


def _gated(
    observed: ObservedReservation,
    claimant: Pod,
    held: KoordinatorReservation,
    status: ReservationStatus,
    *,
    now_s: float,
    settings: ReservationSettings,
) -> Followed:
    limit_s = claimant.created_at_s + settings.gate_limit_s
    if now_s >= limit_s:
        message = (
            f"{claimant.key} was held for {settings.gate_limit_s:g} s and is released: it may land anywhere"
        )
        return Followed(status=status, event=ReservationEvent.GATE_TIMEOUT, message=message)
    wait = observed.wait
    steer = remove_gate(claimant, observed.reservation.name, steered_to=held.name)
    return Followed(
        status=status,
        event=ReservationEvent.CLAIMED,
        message=claim_message((claimant,), status.node_name, wait, now_s),
        calls=(steer,) if wait is None else (),
        wake_at_s=look_again_s(wait, now_s, limit_s),
    )


def _steered(
    observed: ObservedReservation,
    claimant: Pod,
    status: ReservationStatus,
    now_s: float,
    settings: ReservationSettings,
) -> Followed:
    limit_s = claimant.created_at_s + settings.landing_limit_s
    said = claimant.unschedulable_message
    if now_s >= limit_s:
        message = f"{claimant.key} is still pending: {said or 'no word from the scheduler'}"
        return Followed(status=status, event=ReservationEvent.EXPIRED, message=message)
    message = claim_message((claimant,), status.node_name, observed.wait, now_s)
    if said:
        message = f"claimed by {claimant.key}, which the scheduler refuses: {said}"
    wake_at_s = look_again_s(observed.wait, now_s, limit_s)
    return Followed(status=status, event=ReservationEvent.CLAIMED, message=message, wake_at_s=wake_at_s)


def _has(held: KoordinatorReservation, pod: Pod) -> bool:
    return any(owner.uid == pod.uid for owner in held.current_owners)


def _lost(held: KoordinatorReservation | None, status: ReservationStatus) -> Followed:
    what = "is gone" if held is None else f"is {held.phase}" + (f" ({held.failure})" if held.failure else "")
    message = f"Koordinator's Reservation on node {status.node_name} {what}: the room is not held any more"
    return Followed(status=status, event=ReservationEvent.PLACEHOLDER_LOST, message=message)


def _node_deleted(status: ReservationStatus, node: str) -> Followed:
    message = f"node {node} does not exist any more"
    return Followed(status=status, event=ReservationEvent.NODE_DELETED, message=message)


def _bad(node: str) -> str:
    return f"node {node} is not Ready or not schedulable"
