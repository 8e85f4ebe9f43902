"""Where room may be promised that is not free yet (rows K14, K22, K55): every rule but the free amount is judged."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from rescheduler.model.records import Pod
from rescheduler.model.resources import NO_RESOURCES
from rescheduler.planning.target import Choice
from rescheduler.scheduling.state import SchedulingState

FloatArray = NDArray[np.float64]


def promising_node(state: SchedulingState, pod: Pod, only: str, promises: Iterable[Pod]) -> Choice:
    """The node that is large enough and has the least left to wait for. ``only``: no other one, if given.

    ``promises``: pending pods that are nominated somewhere; they count as if they were there, so that promises spread.
    """
    feasible = state.filter(weightless(pod)).feasible.copy()
    if only:
        feasible &= np.array([name == only for name in state.node_names], dtype=bool)
    if not feasible.any():
        return Choice(message=_refused(only, "suits it, even without the pods that run there"))
    promised = tuple(promises)
    large = feasible.copy()
    missing = np.zeros(len(state.node_names))
    for resource, amount in pod.spec.requests.items():
        if amount <= 0:
            continue
        large &= state.allocatable(resource) >= amount
        missing = np.maximum(missing, _lack(state, resource, amount, promised))
    if not large.any():
        return Choice(message=_refused(only, "is large enough for it"))
    return Choice(node=state.node_names[int(np.where(large, missing, np.inf).argmin())])


def weightless(pod: Pod) -> Pod:
    """The pod without what running pods could be in the way of: its requests and host ports."""
    spec = msgspec.structs.replace(pod.spec, requests=NO_RESOURCES, host_ports=())
    return msgspec.structs.replace(pod, spec=spec, held=NO_RESOURCES)


def _lack(state: SchedulingState, resource: str, amount: int, promises: Iterable[Pod]) -> FloatArray:
    """Which share of each node's total is still missing; 0 and less where nothing is."""
    total = state.allocatable(resource)
    used = state.requested(resource) + amount
    for pod in promises:
        at = state.node_index.get(pod.nominated_node)
        if at is not None:
            used[at] += dict(pod.spec.requests.items()).get(resource, 0)
    lack: FloatArray = (used - total) / np.maximum(total, 1)
    return lack


def _refused(only: str, what: str) -> str:
    return f"the template's node {only} is not one that {what}" if only else f"no node {what}"
