"""What a policy says that wants nodes emptied, or a part of their pods gone: which nodes pods may go to, how full those may become, what a node is worth.

Its candidates come in groups, one for each node that it wants emptied, or several for a node of which one is to go (the others
are spares). It does not say in which order, nor where the pods go: the planner looks for the most that can be emptied together (planning/consolidation.py). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from rescheduler.policies.framework import Policy, PolicyView
from rescheduler.policies.proposals import Candidate
from rescheduler.scheduling.framework import BoolArray, IntArray


@runtime_checkable
class EmptyingPolicy(Policy, Protocol):
    """A policy whose groups leave nodes together. All arrays are in the order of the nodes, for the what-if state now."""

    def receives(self, view: PolicyView) -> BoolArray:
        """Nodes that may receive at all: those in use that it does not find too full already."""
        ...

    def most_held(self, view: PolicyView) -> Mapping[str, IntArray]:
        """By resource, how much of it a node may hold after a move; resources that are not named may be filled up."""
        ...

    def takes(self, members: Sequence[Candidate], view: PolicyView) -> Mapping[str, int] | None:
        """By resource, what could come to the node of a group and may not any more once the group leaves; None: nothing may come."""
        ...

    def prices(self, view: PolicyView) -> IntArray:
        """What it is worth that a node is empty, at least 1; only proportions count."""
        ...
