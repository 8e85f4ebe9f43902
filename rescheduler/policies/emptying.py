"""What a policy says that wants nodes emptied, or a part of their pods gone: which nodes pods may go to, how full those may become, what a node is worth.

Its candidates come in groups, one for each node that it wants emptied, or several for a node of which one is to go (the others
are spares). It does not say in which order, nor where the pods go: the planner looks for the most that can be emptied together (planning/empty.py). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from rescheduler.model.records import PodSpec
from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.proposals import Candidate
from rescheduler.scheduling.framework import BoolArray, IntArray


class NodeFilling(NamedTuple):
    """How much more of a resource nodes may take before a policy finds them too full."""

    left: IntArray
    """By node."""
    takes: Callable[[PodSpec], int] | None = None
    """What a pod with this spec takes of it; None: what it requests."""


class GroupWorth(NamedTuple):
    """What it means that a group leaves its node."""

    price: int
    """What it is worth, at least 1; only proportions count."""
    takes: Mapping[str, int] | None = None
    """By resource, what could come to the node and may not any more; None: nothing may come."""
    parts: tuple[int, ...] = (0,)
    """Parts of the node that are emptied. Of two groups with a part in common, or a pod, one at most goes."""


@runtime_checkable
class EmptyingPolicy(Policy, Protocol):
    """A policy whose groups leave nodes together. All arrays are in the order of the nodes, for the what-if state now."""

    def receives(self, view: PolicyView) -> BoolArray:
        """Nodes that may receive at all: those in use that it does not find too full already."""
        ...

    def left(self, view: PolicyView) -> Mapping[str, NodeFilling]:
        """By resource, how much more of it nodes may take; resources that are not named may be filled up."""
        ...

    def worth(self, members: Sequence[Candidate], view: PolicyView) -> GroupWorth:
        """What it means that this group leaves."""
        ...
