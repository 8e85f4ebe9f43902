"""The hand-over of a claimed room, step by step, each read off the objects.

claimed -> (tainted) -> nominated -> placeholder deleting -> placeholder gone -> ungated -> bound.
The order is measured: nominate, delete the placeholder with one second of grace, wait until it is gone,
take the gate off; 30 of 30 replacements land under a stampede, 0 of 30 without the nomination. Where pods
of higher priority wait, the node is tainted for the time, and the claimant tolerates it: 10 of 10.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.model import names
from rescheduler.model.records import Node, Pod, Toleration
from rescheduler.reservations import actions as act
from rescheduler.reservations.deadlines import end_of
from rescheduler.reservations.lifecycle import ReservationEvent
from rescheduler.reservations.observed import ObservedReservation, ReservationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """What the claimed part wants: an event for the table, if something happened, and actions."""

    event: ReservationEvent | None = None
    message: str = ""
    actions: tuple[act.ReservationAction, ...] = ()
    wake_at_s: float | None = None
    awaits: frozenset[str] = frozenset()
    """Schedulers that must be up to date first."""


HAND_OVER_TOLERATION = Toleration(key=names.ANNOTATION_HANDOVER_TAINT, operator="Exists", effect="NoSchedule")


def holds_gate(pod: Pod) -> bool:
    """True if our gate holds the pod."""
    return names.GATE in pod.spec.gates


def tainted(node: Node | None) -> bool:
    """True if our hand-over taint is on the node."""
    return node is not None and any(t.key == names.ANNOTATION_HANDOVER_TAINT for t in node.taints)


def wants_taint(observed: ObservedReservation) -> bool:
    """True while the node should carry the hand-over taint: from the claim to the binding, if contended.

    Once set it stays until the claimant is bound or gone: taking it away in between would let the
    contenders in. It never stays against an ungated claimant that does not tolerate it.
    Also while a promise stands back on the node (``promised``).
    """
    if observed.stands_back and not observed.reservation.deleting:
        return True
    on_the_way = in_flight(observed)
    if not on_the_way or not observed.reservation.status.current_owners:
        return False
    if observed.reservation.deleting or observed.node is None or observed.by_koordinator:
        return False
    if any(holds_gate(pod) for pod in on_the_way):
        return observed.contended or tainted(observed.node)
    return tainted(observed.node) and all(tolerates_taint(pod) for pod in on_the_way)


def in_flight(observed: ObservedReservation) -> tuple[Pod, ...]:
    """Claimants that are not bound yet."""
    pods = observed.owners or ((observed.claimant,) if observed.claimant is not None else ())
    return tuple(pod for pod in pods if not pod.node and not pod.deleting)


def taint_is_settled(
    observed: ObservedReservation, now_s: float, settings: ReservationSettings
) -> float | None:
    """None if the placeholder may be given up as far as contenders go; else when to look again."""
    if not wants_taint(observed):
        return None
    if not observed.tainted_since_s:
        return now_s + settings.taint_settle_s
    settled_s = observed.tainted_since_s + settings.taint_settle_s
    return settled_s if now_s < settled_s else None


def tolerates_taint(pod: Pod) -> bool:
    """True if the hand-over taint does not keep the pod out."""
    return HAND_OVER_TOLERATION in pod.spec.tolerations


def hand_over(observed: ObservedReservation, now_s: float, settings: ReservationSettings) -> Handover:
    """The next step for a claimed Reservation."""
    claimant = observed.claimant
    target = observed.reservation.status.node_name
    if claimant is None or claimant.deleting:
        return _claimant_lost(observed)
    if claimant.node == target:
        return Handover(event=ReservationEvent.OWNER_BOUND, message=f"{claimant.key} landed on node {target}")
    if claimant.node:
        message = f"{claimant.key} landed on node {claimant.node} instead of {target}"
        return Handover(event=ReservationEvent.LANDED_ELSEWHERE, message=message)
    if observed.node is None:
        message = f"node {target} does not exist any more"
        return Handover(event=ReservationEvent.NODE_DELETED, message=message)
    if holds_gate(claimant):
        return _gated(observed, claimant, now_s, settings)
    return _ungated(observed, claimant, now_s, settings)


def _claimant_lost(observed: ObservedReservation) -> Handover:
    pod = observed.reservation.status.current_owners[0]
    placeholder = observed.placeholder
    if placeholder is not None and not placeholder.deleting and not placeholder.terminal:
        message = f"{pod.namespace}/{pod.name} went away before the hand-over; the room is still held"
        return Handover(event=ReservationEvent.CLAIM_DROPPED, message=message)
    message = f"{pod.namespace}/{pod.name} went away in the middle of the hand-over"
    return Handover(event=ReservationEvent.CLAIMANT_LOST, message=message)


def _gated(
    observed: ObservedReservation, claimant: Pod, now_s: float, settings: ReservationSettings
) -> Handover:
    limit_s = claimant.created_at_s + settings.gate_limit_s
    if now_s >= limit_s:
        message = (
            f"{claimant.key} was held for {settings.gate_limit_s:g} s and is let go: it may land anywhere"
        )
        return Handover(event=ReservationEvent.GATE_TIMEOUT, message=message)
    target = observed.reservation.status.node_name
    if not observed.node_usable:
        message = f"claimed by {claimant.key}; waiting for node {target} to be Ready and schedulable"
        return Handover(event=ReservationEvent.CLAIMED, message=message, wake_at_s=limit_s)
    placeholder = observed.placeholder
    if placeholder is not None and not placeholder.deleting:
        awaited = settings.lag.awaited((claimant,), now_s, limit_s=limit_s, held_s=settings.gate_limit_s)
        if awaited is not None:
            back = tuple(take_back((claimant,), placeholder))
            return Handover(actions=back, wake_at_s=awaited.until_s, awaits=awaited.schedulers)
    if claimant.nominated_node != target:
        if observed.after_landing:
            return Handover(wake_at_s=limit_s)
        nominate = act.Nominate(claimant.key, claimant.uid, target)
        return Handover(actions=(nominate,), wake_at_s=limit_s)
    if placeholder is None:
        actions = () if observed.before_landing else (ungate(observed, claimant),)
        return Handover(actions=actions, wake_at_s=limit_s)
    return _nominated(observed, placeholder, now_s, settings, limit_s)


def _nominated(
    observed: ObservedReservation,
    placeholder: Pod,
    now_s: float,
    settings: ReservationSettings,
    limit_s: float,
) -> Handover:
    """The scheduler knows for whom the room is: the placeholder goes, once nothing speaks against it."""
    if placeholder.deleting:
        return Handover(wake_at_s=limit_s)
    settled_s = taint_is_settled(observed, now_s, settings)
    if settled_s is not None:
        return Handover(wake_at_s=min(settled_s, limit_s))
    if observed.crowded:
        return Handover(wake_at_s=limit_s)
    return Handover(actions=(act.delete_placeholder(placeholder),), wake_at_s=limit_s)


def take_back(pods: Iterable[Pod], holder: Pod) -> Iterable[act.TakeBackNomination]:
    """Nominations that a scheduler may first hear of together with a gated pod: then it passes them over."""
    for pod in pods:
        if pod.nominated_node:
            yield act.TakeBackNomination(pod.key, pod.uid, holder.key, holder.uid)


def ungate(observed: ObservedReservation, claimant: Pod) -> act.Ungate:
    """Let the claimant go to its room, past our own taint."""
    tolerations: tuple[Toleration, ...] | None = None
    if (wants_taint(observed) or tainted(observed.node)) and not tolerates_taint(claimant):
        tolerations = (*claimant.spec.tolerations, HAND_OVER_TOLERATION)
    return act.Ungate(claimant.key, claimant.uid, observed.reservation.name, tolerations)


def _ungated(
    observed: ObservedReservation, claimant: Pod, now_s: float, settings: ReservationSettings
) -> Handover:
    """Nothing holds the claimant any more; kube-scheduler decides. Its words are passed on."""
    placeholder = observed.placeholder
    actions: tuple[act.ReservationAction, ...] = ()
    if placeholder is not None and not placeholder.deleting:
        actions = (act.delete_placeholder(placeholder),)
    end_s = end_of(observed.reservation, settings)
    landing_s = claimant.created_at_s + settings.landing_limit_s
    limit_s = landing_s if end_s is None else max(landing_s, end_s)
    if now_s >= limit_s:
        message = f"{claimant.key} is still pending: {claimant.unschedulable_message or 'no word from the scheduler'}"
        return Handover(event=ReservationEvent.EXPIRED, message=message, actions=actions)
    if claimant.unschedulable_message:
        message = f"claimed by {claimant.key}, which the scheduler refuses: {claimant.unschedulable_message}"
        return Handover(event=ReservationEvent.CLAIMED, message=message, actions=actions, wake_at_s=limit_s)
    return Handover(actions=actions, wake_at_s=limit_s)
