"""The hand-over of a claimed room, step by step. Which step comes next is derived from the objects, never remembered.

claimed -> (node tainted) -> nominated -> placeholder terminating -> placeholder gone -> released -> bound.
The order was measured: nominate, delete the placeholder with one second of grace, wait until it is gone, remove
the gate. While many other pods competed for the room, 30 of 30 replacements were bound in it; without the nomination 0
of 30. If pods of higher priority are pending, the node is tainted meanwhile and the claimant tolerates the taint: 10 of 10.
What a claimant must wait for is decided in ``coordination.handover_order`` (reasons: ``waits``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from rescheduler.calls.call import AnyCall, Call, ReadThenCall
from rescheduler.calls.pods import delete_placeholder, nominate, release, remove_gate, take_back_nomination
from rescheduler.model import names
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import Node, Pod, PodPhase, Taint, Toleration
from rescheduler.reservations.expiry import end_of
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.placeholder import label_value
from rescheduler.reservations.reservation_draft import ReservationDraft
from rescheduler.reservations.reservation_lifecycle import ReservationEvent
from rescheduler.reservations.waits import (
    TOLD_AFTER_S,
    WAIT_MESSAGES,
    HandoverWait,
    claim_message,
    look_again_s,
)

STARTS_WITHIN_S: Final = 2.0
"""A kubelet that refuses a pod does so within this time. Nobody waits longer for images to be pulled."""
THREATENED_FOR_S: Final = 10.0
"""kube-scheduler tries a pending pod again within this time: its longest back-off."""


def hand_over_taint(node: str) -> Taint:
    """Our taint on that node. Its value is the node's, so that who tolerates it here does not tolerate it elsewhere.

    Without that a claimant could be bound in the empty room of another one, on another node (20 of 30 were).
    """
    return Taint(names.ANNOTATION_HANDOVER_TAINT, label_value(node), "NoSchedule")


def hand_over_toleration(node: str) -> Toleration:
    """The toleration of our taint on that node."""
    taint = hand_over_taint(node)
    return Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)


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


def hand_over(draft: ReservationDraft) -> None:
    """The next step for a claimed Reservation."""
    # A claimant that is bound comes before a node that is gone: the hand-over was successful, whatever happened since.
    observed, claimant = draft.observed, draft.observed.claimant
    target = observed.reservation.status.node_name
    if claimant is not None and claimant.deleting and claimant.node == target:
        why = f" ({claimant.disruption_reason})" if claimant.disruption_reason else ""
        message = f"{claimant.key} landed on node/{claimant.node} and was deleted within seconds{why}"
        draft.enter(ReservationEvent.CLAIMANT_LOST, message)
    elif claimant is None or claimant.deleting:
        _claimant_lost(draft)
    elif claimant.node == target:
        _landed(draft, claimant)
    elif claimant.node:
        message = f"{claimant.key} landed on node/{claimant.node} instead of {target}"
        draft.enter(ReservationEvent.LANDED_ELSEWHERE, message)
    elif observed.node is None:
        draft.node_deleted(target)
    elif holds_gate(claimant):
        _gated(draft, claimant)
    else:
        _released(draft, claimant)


def _landed(draft: ReservationDraft, claimant: Pod) -> None:
    """The claimant is bound to the node of its room: when that counts as a success.

    Being bound is not enough. A pending pod of higher priority can preempt the owner in the next second, and the kubelet can
    refuse it (OutOfcpu). So a Reservation has Succeeded once the owner runs, or has been bound for ``STARTS_WITHIN_S``, and no
    pending pod is about to preempt it. An owner that ends before is a failure, and the Reservation and its move say so. That it
    has not started is told once it has lasted ``TOLD_AFTER_S``, as every wait of a hand-over.
    """
    observed, now_s = draft.observed, draft.now_s
    where = f"{claimant.key} landed on node/{claimant.node}"
    if claimant.phase is PodPhase.FAILED:
        message = f"{where} and failed there before it had started"
        draft.enter(ReservationEvent.CLAIMANT_LOST, message)
        return
    since_s = observed.landed_since_s or now_s
    until_s = since_s + (THREATENED_FOR_S if observed.threatened else STARTS_WITHIN_S)
    started = claimant.phase in (PodPhase.RUNNING, PodPhase.SUCCEEDED)
    told_s = since_s + TOLD_AFTER_S
    if now_s >= until_s or (started and not observed.threatened):
        draft.enter(ReservationEvent.OWNER_BOUND, where)
    elif not observed.threatened and now_s < told_s:
        draft.enter(ReservationEvent.CLAIMED, claim_message((claimant,), claimant.node, None, now_s))
        draft.wake(told_s)
    else:
        why = observed.threatened or "it has not started yet"
        draft.enter(ReservationEvent.CLAIMED, f"{where}; {why}")
        draft.wake(until_s)


def _claimant_lost(draft: ReservationDraft) -> None:
    pod, placeholder = draft.observed.reservation.status.current_owners[0], draft.observed.placeholder
    name = f"{pod.namespace}/{pod.name}"
    if placeholder is not None and not placeholder.deleting and not placeholder.terminal:
        message = f"{name} was deleted before the hand-over; the room is still held"
        draft.enter(ReservationEvent.CLAIM_DROPPED, message)
    else:
        # The placeholder is gone or ending, so without the claimant's nomination nothing holds the room any more.
        message = f"{name} was deleted during the hand-over; the room is not held any more"
        draft.enter(ReservationEvent.CLAIMANT_LOST, message)


def _gated(draft: ReservationDraft, claimant: Pod) -> None:
    observed, settings = draft.observed, draft.settings
    limit_s = claimant.created_at_s + settings.gate_limit_s
    target, wait = observed.reservation.status.node_name, observed.wait
    if draft.now_s >= limit_s:
        message = f"{claimant.key} was gated for {settings.gate_limit_s:g} s and is released without its room"
        if observed.refused:
            message = f"{message}, if it can be: the API server refuses what the hand-over needs: {observed.refused}"
        why = f": {WAIT_MESSAGES[wait.reason].format(node=target)}" if wait is not None else ""
        draft.enter(ReservationEvent.GATE_TIMEOUT, message + why)
    elif observed.other_node:
        _target_lost(draft, claimant)
    else:
        draft.do(*(_next_step(observed, claimant) if wait is None else taken_back(observed, (claimant,))))
        draft.enter(ReservationEvent.CLAIMED, claim_message((claimant,), target, wait, draft.now_s))
        draft.wake(look_again_s(wait, draft.now_s, limit_s))


def _target_lost(draft: ReservationDraft, claimant: Pod) -> None:
    """The node takes no pods, and another one would take the claimant: it is not kept waiting for what may never come.

    A room that people reserved is kept for later owners while its placeholder stands; that of a move was for this pod.
    """
    observed = draft.observed
    why = f"node/{observed.reservation.status.node_name} takes no pods now"
    message = f"{why}: {claimant.key} is released, and node/{observed.other_node} would take it"
    if observed.held and observed.migration is None and observed.node is not None:
        draft.do(release(claimant, message))
        draft.enter(ReservationEvent.CLAIM_DROPPED, message)
    else:
        draft.enter(ReservationEvent.NODE_NOT_READY, message)


def _next_step(observed: ObservedReservation, claimant: Pod) -> tuple[AnyCall, ...]:
    target, placeholder = observed.reservation.status.node_name, observed.placeholder
    # Nominate first: otherwise the scheduler would see the free room before the nomination, and give it to another pod.
    if claimant.nominated_node != target:
        first = nominate(claimant, target)
        if placeholder is None or placeholder.deleting or not observed.passes_on:
            return (first,)
        return first, delete_placeholder(placeholder)  # sent only once the nomination is answered
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


def _released(draft: ReservationDraft, claimant: Pod) -> None:
    """The claimant is not gated any more and waits for kube-scheduler, whose message is passed on."""
    observed, settings = draft.observed, draft.settings
    placeholder, said = observed.placeholder, claimant.unschedulable_message
    # Another client removed the gate early: the placeholder must not keep the claimant out of its own room.
    if placeholder is not None and not placeholder.deleting:
        draft.do(delete_placeholder(placeholder))
    end_s = end_of(observed.reservation, settings)
    landing_s = max(claimant.created_at_s, observed.claimed_since_s) + settings.landing_limit_s
    limit_s = landing_s if end_s is None else max(landing_s, end_s)
    if draft.now_s >= limit_s:
        message = f"{claimant.key} is still pending: {said or 'the scheduler has not reported why'}"
        draft.enter(ReservationEvent.EXPIRED, message)
    else:
        wait_for_scheduler(draft, claimant, limit_s)


def wait_for_scheduler(draft: ReservationDraft, claimant: Pod, limit_s: float) -> None:
    """The claimant is to be bound by its scheduler, whose message is passed on. ``limit_s``: at the latest."""
    target, wait = draft.observed.reservation.status.node_name, draft.observed.wait
    message = claim_message((claimant,), target, wait, draft.now_s)
    if said := claimant.unschedulable_message:
        message = f"claimed by {claimant.key}, which the scheduler refuses: {said}"
    draft.enter(ReservationEvent.CLAIMED, message)
    draft.wake(look_again_s(wait, draft.now_s, limit_s))
