"""Hand-overs on the same node, kept from counting each other's rooms twice.

kube-scheduler adds pods that are nominated to a node to what stands there. While a claimant is nominated and its
placeholder still stands, its room therefore counts twice, and a neighbour of the same priority that is let go at
that moment is refused and loses its nomination, and with it the room (measured: 7 of 20 at three rooms per node).
So neighbours go together, rooms for one pod and rooms for several alike: nobody is nominated once a room of the
node is empty, and nobody is let go before the room of every nominated neighbour is empty too.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rescheduler.model.records import Pod
from rescheduler.reservations.handover import holds_gate, in_flight
from rescheduler.reservations.lifecycle import FINISHED
from rescheduler.reservations.observed import ObservedReservation
from rescheduler.reservations.sharing import emptied

Rooms = dict[str, ObservedReservation]


@dataclass(frozen=True, slots=True)
class _Flight:
    """The claimants of one room on their way. ``lands``: nothing but the scheduler is awaited. ``doubled``: its room counts twice."""

    name: str
    lands: bool
    doubled: bool


def with_neighbours(rooms: Mapping[str, ObservedReservation], blind: Callable[[str], bool]) -> Rooms:
    """``rooms`` with ``after_landing`` and ``before_landing`` set.

    ``blind``: our last write for that Reservation is not seen yet; it may have been the nomination.
    """
    flights: dict[str, list[_Flight]] = defaultdict(list)
    for name, observed in rooms.items():
        pods = claimants(observed)
        if pods:
            flights[observed.reservation.status.node_name].append(_flight(name, observed, pods, blind))
    result = dict(rooms)
    for here in flights.values():
        if len(here) > 1:
            for flight in here:
                others = [other for other in here if other.name != flight.name]
                result[flight.name] = dataclasses.replace(
                    rooms[flight.name],
                    after_landing=any(other.lands for other in others),
                    before_landing=any(other.doubled for other in others),
                )
    return result


def claimants(observed: ObservedReservation) -> tuple[Pod, ...]:
    """Pods on their way to a room that this controller hands over."""
    reservation = observed.reservation
    left_out = reservation.deleting or observed.soft or observed.by_koordinator
    if left_out or reservation.status.phase in FINISHED or not reservation.status.current_owners:
        return ()
    return in_flight(observed)


def given_up(observed: ObservedReservation) -> bool:
    """True if no placeholder stands in the room of the claimants any more."""
    return observed.placeholder is None if observed.reservation.allocate_once else emptied(observed)


def _flight(
    name: str, observed: ObservedReservation, pods: tuple[Pod, ...], blind: Callable[[str], bool]
) -> _Flight:
    node = observed.reservation.status.node_name
    gated = [pod for pod in pods if holds_gate(pod)]
    if not gated:
        lands = any(pod.nominated_node == node or not pod.unschedulable_message for pod in pods)
        return _Flight(name, lands=lands, doubled=False)
    empty = given_up(observed)
    once = observed.reservation.allocate_once
    rests = [] if once else [holder for holder in observed.holders if not holder.node and not holder.deleting]
    there = [pod.nominated_node == node for pod in (*gated, *rests)]
    return _Flight(name, lands=all(there) and empty, doubled=not empty and (any(there) or blind(name)))
