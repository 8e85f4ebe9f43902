"""Which Reservations are not handed over, because a pending pod of higher priority would take what their owners land in. Pure.

Asked right before a claim, and before the placeholder of a claimed Reservation is deleted: later nothing could be given back. A
pod that its scheduler has refused ends the Reservation; then the pod gets the capacity, and the owners are released
without it. Until a scheduler has looked at the pod, it may be bound to another node: the owners stay gated for that moment.
A landing is confirmed only once no pending pod is about to preempt the owner (``reservations.landed``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rescheduler.coordination.placement import Placement
from rescheduler.model.records import Pod
from rescheduler.planning.higher_priority import HigherPriorityWaits
from rescheduler.reservations.assignment import Assignment
from rescheduler.reservations.handover import in_flight
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.split import covering

Rooms = Mapping[str, ObservedReservation]


@dataclass(frozen=True, slots=True)
class ContestedRooms:
    """The Reservations and the assignment of one round, without hand-overs that would end in a preemption."""

    rooms: Rooms
    assignment: Assignment


def contested_rooms(
    rooms: Rooms, assignment: Assignment, waiting: Sequence[Pod], placement: Placement
) -> ContestedRooms:
    """``waiting``: pods without a node and without scheduling gates."""
    highest = max((pod.spec.priority for pod in waiting), default=None)
    if highest is None:
        return ContestedRooms(rooms, assignment)
    served = {pod.uid for pods in assignment.claims.values() for pod in pods}
    served |= {pod.uid for pod, _ in assignment.preparing}
    served |= {pod.uid for observed in rooms.values() for pod in observed.owners}
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
        return ContestedRooms({**rooms, **threatened}, assignment)
    kept = {name: pods for name, pods in assignment.claims.items() if name not in found}
    waits = [pod.uid for name in found for pod in assignment.claims.get(name, ())]
    settled = {
        name: dataclasses.replace(rooms[name], higher_waits=higher.message)
        for name, higher in found.items()
        if higher.settled
    }
    return ContestedRooms(
        {**rooms, **threatened, **settled},
        dataclasses.replace(assignment, claims=kept, held=assignment.held.union(waits)),
    )


def _handed_over(observed: ObservedReservation) -> tuple[Pod, ...]:
    """Claimants whose placeholder still stands."""
    reservation = observed.reservation
    if reservation.deleting or reservation.status.phase in FINISHED or not reservation.status.current_owners:
        return ()
    holder = observed.placeholder if reservation.allocate_once else covering(observed)
    standing = holder is not None and bool(holder.node) and not holder.deleting
    return in_flight(observed) if standing and not observed.soft else ()
