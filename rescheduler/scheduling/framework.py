"""The frame of the scheduling rules: verdicts as values, one plugin per module, arrays over nodes.

Mirrors kube-scheduler's framework (``Status``, ``PreFilter``/``Filter``, ``PreScore``/``Score``), but a
filter answers for all nodes at once. A refusal is a value with the scheduler's own reason string; it is
never an exception. All arrays have the shape (number of nodes,) in the order of ``SchedulingState.node_names``.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.records import PreferredNodeTerm, SpreadConstraint
from rescheduler.model.selectors import NodeSelector

MAX_NODE_SCORE = 100

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
NodeIndices = npt.NDArray[np.intp]


class Refusal(NamedTuple):
    """Why a plugin refuses a node."""

    plugin: str
    reason: str
    """In the words of kube-scheduler."""
    unresolvable: bool = False
    """True: evicting pods from the node could not help."""


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What the stock scheduler would say of one pod on one node (the JSON of ``explain``)."""

    node: str
    feasible: bool
    refusals: tuple[Refusal, ...] = ()
    """Of the first plugin that refuses, as kube-scheduler reports them (several for resources)."""
    scores: tuple[tuple[str, int], ...] = ()
    """(plugin, 0-100 after normalisation), feasible nodes only."""
    score: int = 0
    """Weighted sum of the scores."""


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Which nodes take a pod."""

    feasible: BoolArray
    refused_by: npt.NDArray[np.int8]
    """Index into ``plugins`` of the first plugin that refuses the node; -1: feasible."""
    plugins: tuple[str, ...]
    everywhere: Refusal | None = None
    """Set when a PreFilter refuses the pod on every node."""

    def any(self) -> bool:
        """True if at least one node is feasible."""
        return bool(self.feasible.any())

    def counts(self) -> Counter[str]:
        """How many nodes each plugin refuses, by its name."""
        numbers = np.bincount(self.refused_by + 1, minlength=len(self.plugins) + 1)[1:].tolist()
        return Counter({name: n for name, n in zip(self.plugins, numbers, strict=True) if n})


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """Normalised scores by plugin (0-100) and the weighted total; meaningful on feasible nodes only."""

    total: IntArray
    by_plugin: dict[str, IntArray] = field(default_factory=dict)


class ScoringStrategy(enum.StrEnum):
    """How NodeResourcesFit scores."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class ResourceWeight(NamedTuple):
    """A resource that is scored, and its weight."""

    name: str
    weight: int = 1


class ShapePoint(NamedTuple):
    """One point of a broken line: utilisation in percent, score 0-10 as in the configuration."""

    utilization: int
    score: int


CPU_AND_MEMORY = (ResourceWeight("cpu"), ResourceWeight("memory"))

SYSTEM_DEFAULT_SPREAD = (
    SpreadConstraint(max_skew=3, topology_key="kubernetes.io/hostname", hard=False, selector=None),
    SpreadConstraint(max_skew=5, topology_key="topology.kubernetes.io/zone", hard=False, selector=None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One scheduler profile: weights and arguments. Defaults are those of kube-scheduler 1.37."""

    scheduler_name: str = "default-scheduler"
    process: frozenset[str] = frozenset()
    """Names of the other profiles of the same kube-scheduler process."""
    stands_for: frozenset[str] = frozenset()
    """Other schedulers whose pods are judged by this profile, too: an estimate, their own rules are not known."""
    disabled: frozenset[str] = frozenset()
    """Plugins that do not filter."""
    weights: tuple[tuple[str, int], ...] = (
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("NodeResourcesFit", 1),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        ("VolumeBinding", 1),
        ("DynamicResources", 2),
    )
    """Plugins that score; one that is not named does not."""
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    fit_strategy: ScoringStrategy = ScoringStrategy.LEAST_ALLOCATED
    fit_resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY
    fit_shape: tuple[ShapePoint, ...] = ()
    balanced_resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    added_affinity: NodeSelector | None = None
    added_affinity_preferred: tuple[PreferredNodeTerm, ...] = ()
    default_spread: tuple[SpreadConstraint, ...] = SYSTEM_DEFAULT_SPREAD
    system_default_spread: bool = True
    """The default constraints are the system's: nodes without the zone label still spread over hosts."""
    volume_shape: tuple[ShapePoint, ...] = (ShapePoint(0, 10), ShapePoint(100, 0))

    def judges(self, scheduler_name: str) -> bool:
        """True if pods of that scheduler are judged by this profile."""
        return scheduler_name == self.scheduler_name or scheduler_name in self.stands_for

    def counts_nomination(self, nominated_by: str, asked: str) -> bool:
        """True if a pod of scheduler ``nominated_by`` counts, where it is nominated, for a pod of scheduler ``asked``.

        A kube-scheduler process knows the nominated pods of its own profiles only (``responsibleForPod``). A scheduler
        that is no profile of this document is taken as a process of its own.
        """
        return nominated_by == asked or {nominated_by, asked} <= {self.scheduler_name, *self.process}
