"""The frame of the scheduling rules: verdicts as values, one plugin per module, arrays over nodes.

Mirrors kube-scheduler's framework (``Status``, ``PreFilter``/``Filter``, ``PreScore``/``Score``), but a
filter answers for all nodes at once. A refusal is a value with the scheduler's own reason string; it is
never an exception. All arrays have the shape (number of nodes,) in the order of ``SchedulingState.node_names``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


class Refusal(NamedTuple):
    """Why a plugin refuses a node. ``unresolvable``: evicting pods from the node could not help."""

    plugin: str
    reason: str
    unresolvable: bool = False


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """What the stock scheduler would say of one pod on one node (the JSON of ``explain``, design section 7)."""

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
    """Which nodes take a pod. ``refused_by``: index into ``plugins`` of the first refusing plugin, -1 = feasible."""

    feasible: BoolArray
    refused_by: npt.NDArray[np.int8]
    plugins: tuple[str, ...]
    everywhere: Refusal | None = None
    """Set when a PreFilter refuses the pod on every node."""

    def any(self) -> bool:
        """True if at least one node is feasible."""
        return bool(self.feasible.any())


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """Normalised scores by plugin (0-100) and the weighted total; meaningful on feasible nodes only."""

    total: IntArray
    by_plugin: dict[str, IntArray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One scheduler profile: weights and arguments. Defaults are those of kube-scheduler 1.37."""

    scheduler_name: str = "default-scheduler"
    disabled: frozenset[str] = frozenset()
    weights: tuple[tuple[str, int], ...] = (
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        ("NodeResourcesFit", 1),
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        ("VolumeBinding", 1),
    )
    hard_pod_affinity_weight: int = 1
    # Further arguments (scoring strategy, added affinity, default constraints, ignored resources) are
    # fields added by the module that reads KubeSchedulerConfiguration.
