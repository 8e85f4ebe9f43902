"""Chooses the node for a preallocation (rows K14, K22, K55): by all filters except the amount that is free now. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from rescheduler.model.records import Pod
from rescheduler.model.resources import NO_RESOURCES
from rescheduler.planning.single_pod import Choice
from rescheduler.scheduling.node_resources_fit import checked_requests
from rescheduler.scheduling.state import SchedulingState

FloatArray = NDArray[np.float64]


def preallocation_node(
    state: SchedulingState, pod: Pod, only: str, nominated: Iterable[Pod], staying: Iterable[Pod]
) -> Choice:
    """The node that is large enough and on which the least is missing. ``only``: the only node to consider, if given.

    ``nominated``: pending pods that are nominated somewhere; they count as if they were bound, so that preallocations spread.
    ``staying``: bound pods that never leave their node: beside them the room must fit.
    """
    feasible = state.filter(weightless(pod)).feasible.copy()
    if only:
        feasible &= np.array([name == only for name in state.node_names], dtype=bool)
    if not feasible.any():
        return Choice(message=_refused(only, "can take it, even without the pods that run there"))
    counted, kept = tuple(nominated), tuple(staying)
    large = feasible.copy()
    missing = np.zeros(len(state.node_names))
    for resource, amount in checked_requests(pod.spec.requests, state.profile):
        large &= state.allocatable(resource) - _held(state, resource, kept) >= amount
        missing = np.maximum(missing, _lack(state, resource, amount, counted))
    if not large.any():
        beside = " beside the pods that never leave" if kept else ""
        return Choice(message=_refused(only, f"is large enough for it{beside}"))
    return Choice(node=state.node_names[int(np.where(large, missing, np.inf).argmin())])


def weightless(pod: Pod) -> Pod:
    """The pod without requests and host ports, which running pods could block."""
    spec = msgspec.structs.replace(pod.spec, requests=NO_RESOURCES, host_ports=())
    return msgspec.structs.replace(pod, spec=spec, held=NO_RESOURCES)


def _held(state: SchedulingState, resource: str, pods: Iterable[Pod]) -> FloatArray:
    """What the pods hold on each node."""
    held = np.zeros(len(state.node_names))
    for pod in pods:
        at = state.node_index.get(pod.node)
        if at is not None:
            held[at] += dict(pod.held.items()).get(resource, 0)
    return held


def _lack(state: SchedulingState, resource: str, amount: int, nominated: Iterable[Pod]) -> FloatArray:
    """The share of each node's total that is still missing; 0 or less if nothing is."""
    total = state.allocatable(resource)
    used = state.requested(resource) + amount
    for pod in nominated:
        at = state.node_index.get(pod.nominated_node)
        if at is not None:
            used[at] += dict(pod.spec.requests.items()).get(resource, 0)
    lack: FloatArray = (used - total) / np.maximum(total, 1)
    return lack


def _refused(only: str, what: str) -> str:
    return f"the template's node/{only} is not one that {what}" if only else f"no node {what}"
