"""Why a placeholder is not bound: what its scheduler says, or why it says nothing (pure).

A Pending Reservation always has a reason that a person can act on, also where no scheduler has looked at its placeholder.
"""

from __future__ import annotations

from typing import NamedTuple

from rescheduler.model.records import Pod
from rescheduler.reservations.lifecycle import ReservationEvent
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.placeholder_check import gates_of_others


class Unbound(NamedTuple):
    """What a Reservation is told of its placeholder."""

    event: ReservationEvent
    message: str


def what_was_changed(observed: ObservedReservation) -> str:
    """Why the room ends because of what others have made of its placeholder; "": it does not.

    Once a pod has claimed a room for one pod, its placeholder is only deleted: then nothing matters but that this can be done. A
    claimant that waited for it would stay gated up to its limit. Of a room for several the rest has a new placeholder.
    """
    if not observed.reservation.allocate_once or not observed.reservation.status.current_owners:
        return observed.changed
    return observed.unremovable if observed.in_flight else ""


def held_by_others(holder: Pod) -> str:
    """For people, if another program has put a scheduling gate on the placeholder; "" if none has."""
    gates = gates_of_others(holder)
    if not gates:
        return ""
    return (
        f"another program keeps its placeholder {holder.key} from being scheduled by the scheduling gate {', '.join(gates)}: "
        f"it must leave out namespace {holder.namespace}"
    )


def why_unbound(holder: Pod, silent_from_s: float, now_s: float) -> Unbound | None:
    """None: its scheduler has been given no time to answer yet, which is until ``silent_from_s``. A gate of others ends the room then."""
    if gated := held_by_others(holder):
        lasts = now_s >= silent_from_s  # a queue may let it through in a moment
        return Unbound(
            ReservationEvent.PLACEHOLDER_CHANGED if lasts else ReservationEvent.NOT_SCHEDULED, gated
        )
    if holder.unschedulable_message:
        return Unbound(ReservationEvent.UNSCHEDULABLE, holder.unschedulable_message)
    if now_s < silent_from_s:
        return None
    scheduler = holder.spec.scheduler_name
    silent = (
        f"{scheduler} has neither bound nor refused its placeholder {holder.key} since it was created: "
        "is that scheduler running?"
    )
    return Unbound(ReservationEvent.NOT_SCHEDULED, silent)


def why_not_placed(observed: ObservedReservation, *, makes_room: bool) -> str:
    """Why a Reservation without a placeholder has no node. ``makes_room``: a policy moves pods for those with makeRoom."""
    message = observed.choice.message or "no node has been chosen yet"
    template = observed.reservation.template
    if template is not None and template.host_ports and "PodSecurity" in message:
        return f"the namespace of placeholders does not allow host ports, so they cannot be held: {message}"
    if observed.reservation.make_room and not makes_room:
        return (
            f"{message}; makeRoom: policy PendingPods is not configured, so no running pods are moved for it"
        )
    if observed.node_autoscaler and observed.choice.message and not observed.reservation.template_node:
        return f"{message}; the node autoscaler adds no node for it, because it sees no pod"
    return message
