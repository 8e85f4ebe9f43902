"""What a policy says that wants room for pods that have no node: its candidates wait, and others would step aside for them.

It does not say who steps aside, nor where to: the planner looks for the cheapest moves (planning/room_search.py). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rescheduler.policies.framework import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomBounds:
    """How far the search for one pod may go."""

    depth: int
    """1: pods leave the node and go where there is room; 2: for one of them another one makes room; and so on."""
    most_moves: int
    """Pods that may be moved for one pod."""
    higher_priorities: bool
    """True: also pods of a higher priority than that of the pod that waits may be moved for it."""


@runtime_checkable
class RoomMakingPolicy(Policy, Protocol):
    """A policy whose candidates are pods without a node."""

    @property
    def bounds(self) -> RoomBounds:
        """How far the search may go."""
        ...
