"""The policies of this package by name, and what a policy of another package gives to be one of them.

A new policy here is one module and one line. A policy of another package is a ``PolicyType`` that an entry point of the
group ``rescheduler.policies`` names (docs/policies.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rescheduler.policies.defragmentation import Defragmentation, DefragmentationArgs
from rescheduler.policies.duplicates import Duplicates, DuplicatesArgs
from rescheduler.policies.framework import Policy
from rescheduler.policies.high_node_utilization import HighNodeUtilization, HighNodeUtilizationArgs
from rescheduler.policies.inter_pod_anti_affinity import InterPodAntiAffinity, InterPodAntiAffinityArgs
from rescheduler.policies.low_node_utilization import LowNodeUtilization, LowNodeUtilizationArgs
from rescheduler.policies.node_affinity import NodeAffinity, NodeAffinityArgs
from rescheduler.policies.node_health import NodeHealth, NodeHealthArgs
from rescheduler.policies.node_taints import NodeTaints, NodeTaintsArgs
from rescheduler.policies.pending_pods import PendingPods, PendingPodsArgs
from rescheduler.policies.pod_affinity import PodAffinity, PodAffinityArgs
from rescheduler.policies.pod_life_time import PodLifeTime, PodLifeTimeArgs
from rescheduler.policies.too_many_restarts import TooManyRestarts, TooManyRestartsArgs
from rescheduler.policies.topology_spread import TopologySpread, TopologySpreadArgs
from rescheduler.policies.wire import ArgumentProblem, PolicyArgs
from rescheduler.policies.workload_spread import WorkloadSpread, WorkloadSpreadArgs

INTERFACE: Final = 1
"""The version of what policies are given and asked for: ``framework.Policy``, ``simple.SimplePolicy``, the
records of pods and nodes. It rises when a policy that was written for it would have to be changed."""


@dataclass(frozen=True, slots=True)
class PolicyType:
    """How a policy is named, configured and made."""

    name: str
    args: type[PolicyArgs]
    """The Struct that its YAML becomes."""
    build: Callable[[Any], Policy]
    """Makes the policy of those arguments."""
    interface: int = INTERFACE
    """The version that the policy was written for. Other packages write the number, not the name."""

    def problems(self, args: PolicyArgs) -> Sequence[ArgumentProblem]:
        """Value errors of arguments that have the right types: (path, message)."""
        return tuple(args.problems())


_ALL: Final = (
    PolicyType("NodeTaints", NodeTaintsArgs, NodeTaints),
    PolicyType("NodeAffinity", NodeAffinityArgs, NodeAffinity),
    PolicyType("NodeHealth", NodeHealthArgs, NodeHealth),
    PolicyType("InterPodAntiAffinity", InterPodAntiAffinityArgs, InterPodAntiAffinity),
    PolicyType("PodAffinity", PodAffinityArgs, PodAffinity),
    PolicyType("TopologySpread", TopologySpreadArgs, TopologySpread),
    PolicyType("Duplicates", DuplicatesArgs, Duplicates),
    PolicyType("TooManyRestarts", TooManyRestartsArgs, TooManyRestarts),
    PolicyType("PodLifeTime", PodLifeTimeArgs, PodLifeTime),
    PolicyType("LowNodeUtilization", LowNodeUtilizationArgs, LowNodeUtilization),
    PolicyType("HighNodeUtilization", HighNodeUtilizationArgs, HighNodeUtilization),
    PolicyType("Defragmentation", DefragmentationArgs, Defragmentation),
    PolicyType("PendingPods", PendingPodsArgs, PendingPods),
    PolicyType("WorkloadSpread", WorkloadSpreadArgs, WorkloadSpread),
)

REGISTRY: Final[dict[str, PolicyType]] = {kind.name: kind for kind in _ALL}
