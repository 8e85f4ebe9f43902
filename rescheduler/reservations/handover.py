"""The hand-over of a claimed room, step by step. Which step comes next is derived from the objects, never remembered.

claimed -> (node tainted) -> nominated -> placeholder terminating -> placeholder gone -> released -> bound.
The order was measured: nominate, delete the placeholder with one second of grace, wait until it is gone, remove
the gate. While many other pods competed for the room, 30 of 30 replacements were bound in it; without the nomination 0
of 30. If pods of higher priority are pending, the node is tainted meanwhile and the claimant tolerates the taint: 10 of 10.
What a claimant must wait for is decided in ``coordination.handover_order`` (reasons: ``waits``).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rescheduler.calls.call import AnyCall, Call, ReadThenCall
from rescheduler.calls.pods import delete_placeholder, nominate, release, remove_gate, take_back_nomination
from rescheduler.model import names
from rescheduler.model.records import Node, Pod, Taint, Toleration
from rescheduler.reservations.expiry import end_of
from rescheduler.reservations.handover_outcome import Handover
from rescheduler.reservations.landed import landed, lost_after_landing
from rescheduler.reservations.lifecycle import ReservationEvent
from rescheduler.reservations.naming import label_value
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.settings import ReservationSettings
from rescheduler.reservations.waits import WAIT_MESSAGES, HandoverWait, claim_message, look_again_s


def hand_over_taint(node: str) -> Taint:
    """Our taint on that node. Its value is the node's, so that who tolerates it here does not tolerate it elsewhere.

    Without that a claimant could be bound in the empty room of another one, on another node (20 of 30 were).
    """
    return Taint(names.ANNOTATION_HANDOVER_TAINT, label_value(node), "NoSchedule")


def hand_over_toleration(node: str) -> Toleration:
    """The toleration of our taint on that node."""
    taint = hand_over_taint(node)
    return Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)


def holds_gate(pod: Pod) -> bool:
    """True if the pod has our scheduling gate."""
    return names.GATE in pod.spec.gates


def tainted(node: Node | None) -> bool:
    """True if the node has our hand-over taint."""
    return node is not None and any(t.key == names.ANNOTATION_HANDOVER_TAINT for t in node.taints)


def tolerates_taint(pod: Pod, node: str) -> bool:
    """True if the pod tolerates the hand-over taint of that node."""
    taint = hand_over_taint(node)
    return any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)


def as_released(pod: Pod, node: str) -> Pod:
    """The pod as kube-scheduler sees it once it is released to ``node``: without gates, tolerating our taint there."""
    tolerations = pod.spec.tolerations
    if not tolerates_taint(pod, node):
        tolerations = (*tolerations, hand_over_toleration(node))
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, gates=(), tolerations=tolerations)
    )


def in_flight(observed: ObservedReservation) -> tuple[Pod, ...]:
    """Claimants that are not bound yet."""
    return tuple(pod for pod in observed.owners if not pod.node and not pod.deleting)


def hand_over(observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> Handover:
    """The next step for a claimed Reservation."""
    # A claimant that is bound comes before a node that is gone: the hand-over was successful, whatever happened since.
    claimant = observed.claimant
    target = observed.reservation.status.node_name
    if claimant is not None and claimant.deleting and claimant.node == target:
        return lost_after_landing(claimant)
    if claimant is None or claimant.deleting:
        return _claimant_lost(observed)
    if claimant.node == target:
        return landed(observed, claimant, now_s)
    if claimant.node:
        message = f"{claimant.key} landed on node {claimant.node} instead of {target}"
        return Handover(event=ReservationEvent.LANDED_ELSEWHERE, message=message)
    if observed.node is None:
        message = f"node {target} does not exist any more"
        return Handover(event=ReservationEvent.NODE_DELETED, message=message)
    if holds_gate(claimant):
        return _gated(observed, claimant, now_s, settings)
    return _released(observed, claimant, now_s, settings)


def _claimant_lost(observed: ObservedReservation) -> Handover:
    pod = observed.reservation.status.current_owners[0]
    placeholder = observed.placeholder
    if placeholder is not None and not placeholder.deleting and not placeholder.terminal:
        message = f"{pod.namespace}/{pod.name} was deleted before the hand-over; the room is still held"
        return Handover(event=ReservationEvent.CLAIM_DROPPED, message=message)
    # The placeholder is gone or ending, so without the claimant's nomination nothing holds the room any more.
    message = f"{pod.namespace}/{pod.name} was deleted during the hand-over; the room is not held any more"
    return Handover(event=ReservationEvent.CLAIMANT_LOST, message=message)


def _gated(
    observed: ObservedReservation, claimant: Pod, now_s: float, settings: ReservationSettings
) -> Handover:
    limit_s = claimant.created_at_s + settings.gate_limit_s
    target, wait = observed.reservation.status.node_name, observed.wait
    if now_s >= limit_s:
        message = f"{claimant.key} was gated for {settings.gate_limit_s:g} s and is released without its room"
        why = f": {WAIT_MESSAGES[wait.reason].format(node=target)}" if wait is not None else ""
        return Handover(event=ReservationEvent.GATE_TIMEOUT, message=message + why)
    if observed.other_node:
        return _target_lost(observed, claimant)
    return Handover(
        event=ReservationEvent.CLAIMED,
        message=claim_message((claimant,), target, wait, now_s),
        calls=_next_step(observed, claimant) if wait is None else taken_back(observed, (claimant,)),
        wake_at_s=look_again_s(wait, now_s, limit_s),
    )


def _target_lost(observed: ObservedReservation, claimant: Pod) -> Handover:
    """The node takes no pods, and another one would take the claimant: it is not kept waiting for what may never come.

    A room that people reserved is kept for later owners while its placeholder stands; that of a move was for this pod.
    """
    why = f"node {observed.reservation.status.node_name} takes no pods now"
    message = f"{why}: {claimant.key} is released, and node {observed.other_node} would take it"
    kept = observed.held and observed.migration is None and observed.node is not None
    event = ReservationEvent.CLAIM_DROPPED if kept else ReservationEvent.NODE_NOT_READY
    calls = (release(claimant, message),) if kept else ()
    return Handover(event=event, message=message, calls=calls)


def _next_step(observed: ObservedReservation, claimant: Pod) -> tuple[AnyCall, ...]:
    target, placeholder = observed.reservation.status.node_name, observed.placeholder
    # Nominate first: otherwise the scheduler would see the free room before the nomination, and give it to another pod.
    if claimant.nominated_node != target:
        return (nominate(claimant, target),)
    if placeholder is None:
        return (ungate(observed, claimant),)
    # The placeholder must be gone, not only terminating: until then the scheduler counts it besides the claimant.
    return () if placeholder.deleting else (delete_placeholder(placeholder, (claimant,), target),)


def taken_back(observed: ObservedReservation, pods: Iterable[Pod]) -> tuple[ReadThenCall, ...]:
    """Nominations to withdraw while a scheduler may be behind, or another program keeps the pod from being scheduled.

    A nomination beside a placeholder counts twice, so the neighbours would wait for that program. A scheduler that reads a new list may see the gated pod and its nomination in one event, and then it ignores the
    nomination. Written again later, the nomination is an update, which it does not ignore.
    """
    holder, wait = observed.placeholder, observed.wait
    if wait is None or wait.reason not in (HandoverWait.SCHEDULER_BEHIND, HandoverWait.FOREIGN_GATE):
        return ()
    if holder is None or not holder.node or holder.deleting:
        return ()  # without a bound placeholder the nomination is all that holds the room
    return tuple(take_back_nomination(pod, holder) for pod in pods if pod.nominated_node)


def ungate(observed: ObservedReservation, claimant: Pod) -> Call:
    """Remove the claimant's gate; add a toleration if the node has, or will have, our taint."""
    tolerations: tuple[Toleration, ...] | None = None
    node = observed.reservation.status.node_name
    if (observed.needs_taint or tainted(observed.node)) and not tolerates_taint(claimant, node):
        tolerations = as_released(claimant, node).spec.tolerations
    return remove_gate(claimant, observed.reservation.name, tolerations)


def _released(
    observed: ObservedReservation, claimant: Pod, now_s: float, settings: ReservationSettings
) -> Handover:
    """The claimant is not gated any more and waits for kube-scheduler, whose message is passed on."""
    placeholder, said = observed.placeholder, claimant.unschedulable_message
    calls: tuple[AnyCall, ...] = ()
    # Another client removed the gate early: the placeholder must not keep the claimant out of its own room.
    if placeholder is not None and not placeholder.deleting:
        calls = (delete_placeholder(placeholder),)
    end_s = end_of(observed.reservation, settings)
    landing_s = max(claimant.created_at_s, observed.claimed_since_s) + settings.landing_limit_s
    limit_s = landing_s if end_s is None else max(landing_s, end_s)
    if now_s >= limit_s:
        message = f"{claimant.key} is still pending: {said or 'the scheduler has not reported why'}"
        return Handover(event=ReservationEvent.EXPIRED, message=message, calls=calls)
    target = observed.reservation.status.node_name
    message = claim_message((claimant,), target, observed.wait, now_s)
    if said:
        message = f"claimed by {claimant.key}, which the scheduler refuses: {said}"
    return Handover(
        event=ReservationEvent.CLAIMED,
        message=message,
        calls=calls,
        wake_at_s=look_again_s(observed.wait, now_s, limit_s),
    )
