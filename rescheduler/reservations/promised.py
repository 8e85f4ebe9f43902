"""Room that is promised before it is free (rows K6, K14, K22, K23, K45, K55, K56, K84).

A placeholder that is gated and nominated to its node: the scheduler counts it there against everybody of the same or
lower priority, so each piece of room that is freed stays free for it, and nothing that runs is disturbed. Once there
is room for the whole of it, its gate goes off. A plainly pending placeholder lost such room to smaller pods in 8 of 8
tries; this one kept it in 8 of 8.
"""

from __future__ import annotations

from rescheduler.model import names
from rescheduler.model.conditions import condition
from rescheduler.model.records import Pod
from rescheduler.model.reservation import ReservationPhase, ReservationStatus
from rescheduler.model.resources import Resources
from rescheduler.reservations import actions as act
from rescheduler.reservations.lifecycle import CONDITION_READY, ReservationReason
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.parts import Part
from rescheduler.reservations.placeholder import pinned_node


def waits_for_room(pod: Pod) -> bool:
    """True if the placeholder is held until its room is free."""
    return names.GATE_ROOM in pod.spec.gates


def lands(pod: Pod) -> bool:
    """True if the placeholder was let in and the scheduler has not refused it: it is bound in a moment."""
    return not waits_for_room(pod) and not pod.unschedulable_message


def wait_for_room(observed: ObservedReservation, holder: Pod) -> tuple[act.ReservationAction, ...]:
    """The next thing to do for a placeholder that is not bound; () while there is nothing but to wait.

    While another room on the node is handed over, or an older promise there can be kept now, the nomination is taken
    back: it would count against them. Not before the node is shut to everybody else: what is freed in between would
    be lost. One that was let in and refused would take the room of a hand-over: no gate can be put back on it, so it
    goes, and is made anew afterwards.
    """
    node = pinned_node(holder)
    if observed.beside_hand_over and not waits_for_room(holder) and not lands(holder):
        return (act.delete_placeholder(holder),)
    if observed.yields:
        withdraw = act.Nominate(holder.key, holder.uid, "")
        return (withdraw,) if holder.nominated_node and observed.shut and not lands(holder) else ()
    if holder.nominated_node != node:
        return (act.Nominate(holder.key, holder.uid, node),)
    if waits_for_room(holder) and observed.room_free and observed.node_usable:
        return (act.AdmitPlaceholder(holder.key, holder.uid),)
    return ()


def is_promised(status: ReservationStatus) -> bool:
    """True while nothing is held yet, but a placeholder waits for room on a node that is chosen."""
    ready = condition(status.conditions, CONDITION_READY)
    waits = status.phase is ReservationPhase.WAITING
    return waits and ready is not None and ready.reason == ReservationReason.WAITING_FOR_ROOM


def promise_anew(
    observed: ObservedReservation, status: ReservationStatus, size: Resources | None
) -> tuple[act.ReservationAction, ...]:
    """Another placeholder for one that has gone, once no other room is handed over there. Nothing was held, so nothing is lost."""
    left = observed.holders or ((observed.placeholder,) if observed.placeholder else ())
    if left:
        return tuple(act.delete_placeholder(pod) for pod in left if pod.terminal and not pod.deleting)
    if observed.beside_hand_over:
        return ()
    part = Part(size=size, waits=True, volumes=observed.volumes)
    return (act.CreatePlaceholder(observed.reservation, status.node_name, part),)


def words(holder: Pod) -> str:
    """What people are told meanwhile."""
    node = pinned_node(holder)
    if not waits_for_room(holder) and holder.unschedulable_message:
        return f"waiting for room on node {node}: {holder.unschedulable_message}"
    return f"promised on node {node}; waiting until its pods have left enough room"
