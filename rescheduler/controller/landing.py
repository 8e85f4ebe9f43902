"""Which rooms a pod may be sent to now, where rules between pods forbid some orders of landing. Pure.

Rooms are chosen so that all of them may be full together. Pods come in any order, and the scheduler judges each by
those that have landed: one that is even over zones is refused in a zone that is ahead, though room is held there, and
a room that was let go for a pod that is refused is lost. So a room is given only if its pod may land whichever of the
pods that are on their way land before it; the others wait at the gate until those have landed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from rescheduler.controller.promising import weightless
from rescheduler.model.records import Node, Pod
from rescheduler.reservations.handover import HAND_OVER_TOLERATION
from rescheduler.scheduling.inter_pod_affinity import InterPodAffinity
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread
from rescheduler.scheduling.state import SchedulingState

_BETWEEN_PODS: Final = frozenset({InterPodAffinity.name, PodTopologySpread.name})


class Flight(NamedTuple):
    """``pod`` is to land on ``node``. ``name``: of its Reservation."""

    name: str
    pod: Pod
    node: str


def minds_others(pod: Pod) -> bool:
    """True if whether it may land on a node depends on which other pods have landed."""
    spec = pod.spec
    return any(c.hard for c in spec.spread) or bool(spec.pod_affinity or spec.pod_anti_affinity)


def landable(
    state: SchedulingState, nodes: Mapping[str, Node], rooms: Iterable[Flight], on_their_way: Sequence[Flight]
) -> frozenset[str]:
    """Names of ``rooms`` that may be given together now. ``state``: with those ``on_their_way`` standing nowhere.

    A room on a node that is gone is given to nobody; its Reservation is about to say so.
    """
    flights = [flight._replace(pod=weightless(flight.pod)) for flight in on_their_way]
    found: set[str] = set()
    refused: set[tuple[object, ...]] = set()
    for room in rooms:
        pod = _bare(room.pod)
        kind = (pod.spec, pod.labels, pod.namespace, room.node)
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
    """Who has landed before: nobody, all, and for each spread those only that count in the same place."""
    yield ()
    if not flights:
        return
    yield flights
    for key in {constraint.topology_key for constraint in pod.spec.spread if constraint.hard}:
        here = nodes[target].labels.get(key)
        yield [f for f in flights if f.node in nodes and nodes[f.node].labels.get(key) == here]


def _takes(state: SchedulingState, pod: Pod, target: str, landed: Sequence[Flight]) -> bool:
    """As far as other pods go: what else may be in the way is looked at by others."""
    mark = state.checkpoint()
    for flight in landed:
        if flight.node in state.node_index:
            state.place(flight.pod, flight.node)
    result, at = state.filter(pod), state.node_index[target]
    state.rollback(mark)
    if result.feasible[at] or result.everywhere is not None:
        return True
    return result.plugins[int(result.refused_by[at])] not in _BETWEEN_PODS


def _bare(pod: Pod) -> Pod:
    """The pod without what its room has in store for it."""
    light = weightless(pod)
    tolerations = (*light.spec.tolerations, HAND_OVER_TOLERATION)
    return msgspec.structs.replace(light, spec=msgspec.structs.replace(light.spec, tolerations=tolerations))
