"""Which rooms may be assigned now, where rules between pods forbid some orders of binding. Pure.

Rooms are chosen so that all of them may be in use together. Pods are bound in any order, and the scheduler filters each
against those that are bound already: a pod with a topology spread constraint is refused in a zone that is ahead of the
others, although room is held there, and its room is lost if its placeholder was deleted. So a room is assigned only if
its pod fits whichever of the pods in flight are bound before it. The other pods stay gated until those are bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from rescheduler.model.records import Node, Pod
from rescheduler.planning.single_pod import weightless
from rescheduler.reservations.handover import as_released
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread
from rescheduler.scheduling.state import SchedulingState

_BETWEEN_PODS: Final = frozenset({InterPodAffinity.name, PodTopologySpread.name})


class Flight(NamedTuple):
    """A pod in flight: ``pod`` is going to be bound to ``node``."""

    name: str
    """Of its Reservation."""
    pod: Pod
    node: str


def minds_others(pod: Pod) -> bool:
    """True if it depends on other bound pods whether this pod fits on a node."""
    spec = pod.spec
    return any(c.hard for c in spec.spread) or bool(spec.pod_affinity or spec.pod_anti_affinity)


def landable(
    state: SchedulingState, nodes: Mapping[str, Node], rooms: Iterable[Flight], on_their_way: Sequence[Flight]
) -> frozenset[str]:
    """Names of ``rooms`` that may be assigned together now. ``state``: without the pods ``on_their_way``.

    A room on a node that is gone is not assigned; its Reservation is about to fail.
    """
    flights = [flight._replace(pod=weightless(flight.pod)) for flight in on_their_way]
    found: set[str] = set()
    refused: set[tuple[object, ...]] = set()
    # Each room that is found is in flight for those after it. Equal pods on one node get equal answers, so that a
    # refusal is computed once.
    for room in rooms:
        pod = as_released(weightless(room.pod), room.node)
        kind = (pod.spec, pod.labels, pod.namespace, room.node)
        # Its room is held, so only the rules between pods are left to check.
        if kind in refused or room.node not in state.node_index:
            continue
        if all(_takes(state, pod, room.node, before) for before in _worst(pod, nodes, room.node, flights)):
            found.add(room.name)
            flights.append(room._replace(pod=pod))
        else:
            refused.add(kind)
    return frozenset(found)


def _worst(
    pod: Pod, nodes: Mapping[str, Node], target: str, flights: Sequence[Flight]
) -> Iterable[Sequence[Flight]]:
    """The worst cases of which pods are bound before: none, all, and for each spread constraint those of its own domain."""
    yield ()
    if not flights:
        return
    yield flights
    for key in {constraint.topology_key for constraint in pod.spec.spread if constraint.hard}:
        here = nodes[target].labels.get(key)
        yield [f for f in flights if f.node in nodes and nodes[f.node].labels.get(key) == here]


def _takes(state: SchedulingState, pod: Pod, target: str, landed: Sequence[Flight]) -> bool:
    """True unless a rule between pods refuses it; all other filters are checked elsewhere."""
    mark = state.checkpoint()
    for flight in landed:
        if flight.node in state.node_index:
            state.place(flight.pod, flight.node)
    result, at = state.filter(pod), state.node_index[target]
    state.rollback(mark)
    if result.feasible[at] or result.everywhere is not None:
        return True
    return result.plugins[int(result.refused_by[at])] not in _BETWEEN_PODS
