"""What a search is about, and what it gives: the cluster as numbers. Pure data.

Nodes, resources (rows), budgets and topology spreads are numbers; the pods are those that may be moved. Three things may be wanted of a
search: badly placed and pending pods brought elsewhere (``MovablePod.repairs``), overloaded nodes relieved (``SearchProblem.strain``), nodes
emptied (``SearchProblem.sources``). The numbers are necessary conditions: whoever uses the result asks the scheduler's own rules about every pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray


class Mark(NamedTuple):
    """What a pod means for others: they may not join its domain (required anti-affinity of either side, host ports)."""

    key: int
    domains: IntArray
    """Domain of each node; below 0: in none."""


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """A hard topology spread."""

    domains: IntArray
    """Domain of each node; below 0: in none."""
    counts: Sequence[int]
    """How many pods are in each domain before any moves."""
    valid: Sequence[int]
    """Domains that exist."""
    max_skew: int


@dataclass(frozen=True, slots=True, eq=False)
class Replicas:
    """Where the replicas of one workload are."""

    counts: Mapping[int, int]
    """By node, how many."""
    zones: IntArray
    """Zone of each node; below 0: in none."""
    most: int = 0
    """So many may be on one node, or in one zone, if they are on several now; 0: not bounded."""


Amounts = Sequence[tuple[int, float]]
"""(row, amount) of what is wanted of a node, none of them 0."""


class MovablePod(msgspec.Struct, frozen=True, eq=False):
    """A pod that may be moved, or waits for a node."""

    source: int
    """Below 0: it waits."""
    needs: Amounts
    """What its target must have free."""
    allowed: Callable[[], BoolArray]
    """Nodes that it may go to, as far as ``bears``, ``minds`` and ``spreads`` do not say."""
    liked: BoolArray | None = None
    """Nodes that it likes no less than its own; None: all."""
    holds: Amounts = ()
    """What it leaves for moves of later stages."""
    cost: float = 1.0
    """Of its move, as a part of the price of a move."""
    takes: Sequence[float] = ()
    """What goes with it, wherever it goes, by resource of ``Strain``."""
    repairs: Mapping[int, float] = MappingProxyType({})
    """By node, how much a move there repairs; empty: it is not badly placed."""
    excess: bool = False
    """It is badly placed only as long as a domain of its ``spreads`` has too many."""
    owner: int = -1
    """Pods of one owner do not change places."""
    replicas: Replicas | None = None
    """Of its workload; None: they do not stand in for each other."""
    bears: tuple[Mark, ...] = ()
    minds: tuple[Mark, ...] = ()
    spreads: tuple[Spread, ...] = ()
    counted: tuple[Spread, ...] = ()
    """Those of others that count it, and do not bind it."""
    budgets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Strain:
    """How far nodes are above their targets. Arrays have the shape (resources, nodes)."""

    above: FloatArray
    """How much each node holds above its target; below 0: less."""
    capacity: FloatArray
    """What each node can hold."""
    weights: Sequence[int]
    """What a share above the target counts for, by resource."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A node that may be emptied, or a part of its pods that may go together."""

    node: int
    pods: tuple[int, ...]
    """Numbers of the pods."""
    price: int
    """What it is worth; only proportions count."""
    takes: Amounts | None = None
    """What of that which may come to its node may come no longer once it is emptied; None: nothing may come."""
    claims: tuple[int, ...] = ()
    """Of two sources with one of these in common one at most is emptied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProblem:
    """Nodes that are alike are taken in their order."""

    free: FloatArray
    """What may still come. Shape (rows, nodes)."""
    leaving: Sequence[FloatArray] = ()
    """What moves that are planned already leave in the first stage, in the second, and so on. Shape (rows, nodes)."""
    whole: FloatArray
    """What each node can hold of each row: says how much of it is room. Shape (rows, nodes)."""
    pods: Sequence[MovablePod]
    receives: BoolArray
    """Nodes that pods may go to."""
    stages: int = 1
    """Moves of one stage run at once, so none uses the room that another leaves; those of later stages use what earlier ones have left."""
    fault: float = 1.0
    """What one pod too many in a domain counts for, in the unit of ``MovablePod.repairs``; 0.0: nothing is repaired."""
    standing: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """By key of a mark and domain, how many pods that stand bear it; none of those that ``MovablePod.allowed`` tells of."""
    budgets: Sequence[int] = ()
    """What is left of each budget."""
    strain: Strain | None = None
    sources: Sequence[Source] = ()
    most_moves: int | None = None
    most_aside: int | None = None
    """So many pods step aside for one at most; None: not bounded."""


class Destination(NamedTuple):
    """Where a pod goes."""

    node: int
    stage: int = 1


class SearchSolution(NamedTuple):
    """Who goes where."""

    ways: Mapping[int, Destination]
    """By number of the pod."""
    emptied: tuple[int, ...] = ()
    """Numbers of the sources, in an order in which each fits after those before it."""
