"""Hand-overs that would not end on their node: what is done instead of waiting for them. Pure.

A node that is cordoned, NotReady, deleted or tainted after the eviction may come back in a moment or never. A pod that another node
can take is released at once, and kube-scheduler places it; only one that nothing else can take stays gated, up to its limit.

A Reservation is contested while a pending pod of higher priority would take what its owners land in. That is asked right before a
claim, and before the placeholder of a claimed Reservation is deleted: later nothing could be given back. A pod that its scheduler
has refused ends the Reservation; then the pod gets the capacity, and the owners are released without it. Until a scheduler has
looked at the pod, it may be bound to another node: the owners stay gated for that moment. A landing is confirmed only once no
pending pod is about to preempt the owner (``reservations.handover``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from rescheduler.coordination.placement import Placement
from rescheduler.model import names
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.records import Node, Pod
from rescheduler.planning.priorities import HigherPriorityWaits
from rescheduler.reservations.assignment import Assignment
from rescheduler.reservations.observed_reservation import ObservedReservation
from rescheduler.reservations.reservation_lifecycle import FINISHED
from rescheduler.reservations.split import covering
from rescheduler.scheduling.taint_toleration import keeps_off

Rooms = Mapping[str, ObservedReservation]


def takes_no_pod(node: Node | None, pod: Pod) -> str:
    """Why the node takes no new pod like this one, whatever room it has; "": it does."""
    if node is None:
        return "does not exist any more"
    if not node.usable:
        return node.unusable_because
    for taint in node.taints:
        if taint.key != names.ANNOTATION_HANDOVER_TAINT and keeps_off(pod.spec.tolerations, taint):
            return f"has the taint {taint.key}:{taint.effect}"
    return ""


def lost_targets(rooms: Rooms, placement: Placement, replacements: Mapping[str, Iterable[Pod]]) -> Rooms:
    """The rooms, with the node that takes their pods instead. ``replacements``: gated pods without a claim, for rooms of evicted pods."""
    found = {
        name: dataclasses.replace(observed, other_node=other)
        for name, observed in rooms.items()
        if (other := _other_node(observed, placement, replacements.get(name, ())))
    }
    return {**rooms, **found} if found else rooms


def _other_node(observed: ObservedReservation, placement: Placement, replacements: Iterable[Pod]) -> str:
    reservation = observed.reservation
    node = reservation.status.node_name
    if reservation.deleting or reservation.status.phase in FINISHED or not node or observed.by_koordinator:
        return ""
    pods = [pod for pod in observed.in_flight if holds_gate(pod)] or list(replacements)
    lost = [pod for pod in pods if takes_no_pod(observed.node, pod)]
    others = [placement.other_node(pod, node) for pod in lost]
    return others[0] if others and all(others) else ""


def contested_rooms(
    rooms: Rooms, assignment: Assignment, waiting: Sequence[Pod], placement: Placement
) -> tuple[Rooms, Assignment]:
    """Both without hand-overs that would end in a preemption. ``waiting``: pods without a node and without scheduling gates."""
    highest = max((pod.spec.priority for pod in waiting), default=None)
    if highest is None:
        return rooms, assignment
    served = {pod.uid for pods in assignment.claims.values() for pod in pods}
    served |= {pod.uid for pod, _ in assignment.preparing}
    live = (observed for observed in rooms.values() if observed.reservation.status.phase not in FINISHED)
    served |= {pod.uid for observed in live for pod in observed.owners}
    found: dict[str, HigherPriorityWaits] = {}
    threatened: dict[str, ObservedReservation] = {}
    for name, observed in rooms.items():
        claimant = observed.claimant
        if claimant is not None and observed.landed_since_s and highest > claimant.spec.priority:
            higher = placement.taken_from_owners((claimant,), claimant.node, None, served)
            if higher is not None:
                threatened[name] = dataclasses.replace(observed, threatened=higher.message)
            continue
        pods = (*assignment.claims.get(name, ()), *_handed_over(observed))
        if not pods or observed.by_koordinator or highest <= min(pod.spec.priority for pod in pods):
            continue
        node = observed.reservation.status.node_name
        higher = placement.taken_from_owners(pods, node, observed.placeholder, served)
        if higher is not None:
            found[name] = higher
    if not found:
        return {**rooms, **threatened}, assignment
    kept = {name: pods for name, pods in assignment.claims.items() if name not in found}
    waits = [pod.uid for name in found for pod in assignment.claims.get(name, ())]
    settled = {
        name: dataclasses.replace(rooms[name], higher_waits=higher.message)
        for name, higher in found.items()
        if higher.settled
    }
    assigned = dataclasses.replace(assignment, claims=kept, held=assignment.held.union(waits))
    return {**rooms, **threatened, **settled}, assigned


def _handed_over(observed: ObservedReservation) -> tuple[Pod, ...]:
    """Claimants whose placeholder still stands."""
    reservation = observed.reservation
    if reservation.deleting or reservation.status.phase in FINISHED or not reservation.status.current_owners:
        return ()
    holder = observed.placeholder if reservation.allocate_once else covering(observed)
    standing = holder is not None and bool(holder.node) and not holder.deleting
    return observed.in_flight if standing and not observed.soft else ()
