"""Hand-overs on the same node, kept from counting each other's rooms twice.

kube-scheduler adds pods that are nominated to a node to what stands there. While a claimant is nominated and its
placeholder still stands, its room therefore counts twice, and a neighbour of the same priority that is let go at
that moment is refused and loses its nomination, and with it the room (measured: 7 of 20 at three rooms per node).
So neighbours go together: nobody is nominated once a room of the node is empty, and nobody is let go before the
room of every nominated neighbour is empty too.
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

Rooms = dict[str, ObservedReservation]


@dataclass(frozen=True, slots=True)
class _Flight:
    """A claimant on its way. ``lands``: nothing but the scheduler is awaited. ``doubled``: its room counts twice."""

    name: str
    lands: bool
    doubled: bool


def with_neighbours(rooms: Mapping[str, ObservedReservation], blind: Callable[[str], bool]) -> Rooms:
    """``rooms`` with ``after_landing`` and ``before_landing`` set.

    ``blind``: our last write for that Reservation is not seen yet; it may have been the nomination.
    """
    flights: dict[str, list[_Flight]] = defaultdict(list)
    for name, observed in rooms.items():
        pods = _claimants(observed)
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


def _claimants(observed: ObservedReservation) -> tuple[Pod, ...]:
    reservation = observed.reservation
    if (
        reservation.status.phase in FINISHED
        or reservation.deleting
        or observed.soft
        or observed.by_koordinator
    ):
        return ()
    return in_flight(observed) if reservation.allocate_once and reservation.status.current_owners else ()


def _flight(
    name: str, observed: ObservedReservation, pods: tuple[Pod, ...], blind: Callable[[str], bool]
) -> _Flight:
    claimant, node = pods[0], observed.reservation.status.node_name
    gated, empty = holds_gate(claimant), observed.placeholder is None
    nominated = claimant.nominated_node == node
    if not gated:
        return _Flight(name, lands=nominated or not claimant.unschedulable_message, doubled=False)
    return _Flight(name, lands=nominated and empty, doubled=not empty and (nominated or blind(name)))
