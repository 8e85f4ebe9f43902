"""Which nodes count as overloaded: above their targets by more than chance does, in enough samples, and above what starts relief. Pure.

A node that is above a target, and not surely so, takes no part: it neither gives nor receives. One that the policy has begun to relieve is
relieved down to its targets: else one decision would begin what the next one leaves half done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np

from rescheduler.model.snapshot import Snapshot
from rescheduler.model.usage import MEASURED
from rescheduler.model.written import Positive
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.utilization import Load
from rescheduler.policies.wire import ArgumentProblem
from rescheduler.scheduling.framework import BoolArray

_EPSILON: Final = 1e-9
RELIEVED_S: Final = 1800.0
"""A node that a pod left so long ago at most is being relieved."""
MOST_SAMPLES: Final = 48


class AnomalyArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """So many of the newest samples of a node must be above before anything is done."""

    samples: Positive
    of: Annotated[int, msgspec.Meta(ge=1, le=MOST_SAMPLES)]

    def problems(self) -> Iterator[ArgumentProblem]:
        """Numbers that no window can meet."""
        if self.samples > self.of:
            yield ("anomaly", "samples"), f"is {self.samples}, more than the {self.of} of `of`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliefBounds:
    """When a policy relieves a node."""

    highs: Mapping[str, float]
    """By resource the share at which relief ends."""
    starts: Mapping[str, float]
    """Where it begins, if that is higher."""
    anomaly: AnomalyArgs | None
    policy: str


def doubtful(view: PolicyView, load: Load, bounds: ReliefBounds) -> BoolArray:
    """Nodes that are above a target, and of which it is not sure that something is to be done."""
    above, sure = np.zeros_like(load.known), np.zeros_like(load.known)
    begun = _relieved(view, bounds.policy)
    starts, anomaly = bounds.starts, bounds.anomaly
    for resource, high in bounds.highs.items():
        shares, noise = load.before(resource), load.noise(resource)
        least = shares - (0.0 if noise is None else noise)
        above |= shares > high + _EPSILON
        started = least > starts.get(resource, high) + _EPSILON
        if anomaly is not None and resource in MEASURED and noise is not None:
            started &= _often(load, resource, starts.get(resource, high), anomaly)
        sure |= started | (begun & (least > high + _EPSILON))
    return above & ~sure


def _often(load: Load, resource: str, share: float, anomaly: AnomalyArgs) -> BoolArray:
    above = load.above_often(resource, share + _EPSILON, anomaly.of)
    if above is None:  # one look at a cluster has one sample
        return np.ones_like(load.known)
    often: BoolArray = above >= anomaly.samples
    return often


def _relieved(view: PolicyView, policy: str) -> BoolArray:
    """The nodes that the policy has begun to relieve."""
    found = np.zeros(view.nodes.size, dtype=np.bool_)
    snapshot: Snapshot = view.snapshot
    for move in snapshot.migrations.values():
        status = move.status
        if move.policy == policy and snapshot.taken_at_s - status.evicted_at_s <= RELIEVED_S:
            node = view.state.node_index.get(status.source_node)
            if node is not None:
                found[node] = True
    return found
