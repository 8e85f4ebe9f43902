"""What a search for nodes to empty together is about, and what it gives: nodes and resources are numbers. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rescheduler.planning.placement_conflicts import Bound, Mark
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Occupant:
    """A pod that would have to go."""

    needs: tuple[tuple[int, int], ...]
    """(resource, amount) of what its replacement asks for, none of them 0."""
    size: float
    """How much it needs, as a share of what is free altogether."""
    allowed: Callable[[], BoolArray]
    """Nodes that take the replacement before any pod is moved."""
    bears: tuple[Mark, ...] = ()
    minds: tuple[Mark, ...] = ()
    """It does not join the domain of an item that bears such a mark."""
    spreads: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A node that may be emptied."""

    node: int
    items: tuple[Occupant, ...]
    """The largest first."""
    price: int
    takes: tuple[tuple[int, int], ...] | None = None
    """(resource, amount) of what may come to its node that may come no longer once it is emptied; None: nothing may."""
    claims: tuple[int, ...] = ()
    """Of two sources with one of these in common one at most is emptied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationProblem:
    """What a search is about. Nodes are numbers; equal nodes are taken in their order."""

    free: IntArray
    """What may still come. Shape (resources, nodes)."""
    shares: FloatArray
    """``free`` as a share of what each node can hold. Shape (resources, nodes)."""
    receives: BoolArray
    """Nodes that pods may go to."""
    sources: tuple[Source, ...]
    most_moves: int | None = None


class Emptied(NamedTuple):
    """One node that the search empties: which of ``sources``, and where its items go, in their order."""

    source: int
    targets: tuple[int, ...]
