"""What a policy says that wants overloaded nodes relieved: how far nodes are above their targets, and what may receive.

Its candidates are the pods that could leave. It does not say which of them go, nor where to: the planner looks for the
moves that leave the least above the targets (planning/relieve.py). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rescheduler.model.records import Pod
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.scheduling.framework import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class Overload:
    """All arrays are in the order of the nodes, for the what-if state now."""

    above: FloatArray
    """How much each node holds above its target, in the resource's own unit; below 0: less. Shape (resources, nodes)."""
    capacity: FloatArray
    """What each node can hold. Shape (resources, nodes)."""
    receives: BoolArray
    """Nodes that pods may go to, as long as none of them comes above its target."""
    weights: tuple[int, ...]
    """What a share of a node above its target counts for, by resource."""
    least: float
    """What a move must relieve at least: the fall of ``utilization.overload`` of its node, as a share of a node."""


@runtime_checkable
class RelievingPolicy(Policy, Protocol):
    """A policy whose candidates are pods on nodes that hold too much."""

    def overload(self, view: PolicyView) -> Overload | None:
        """How far nodes are above their targets; None if nothing is to be done now."""
        ...

    def gain_at(self, pod: Pod, node: int, view: PolicyView) -> float:
        """What ``gains`` says of one node (an index) for a candidate that is this pod."""
        ...

    def takes(self, pod: Pod, view: PolicyView) -> tuple[float, ...]:
        """What goes with the pod, wherever it goes, in the order of the rows of ``Overload.above``."""
        ...
