"""All policies by name. A new one is one module and one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rescheduler.policies.framework import Policy
from rescheduler.policies.high_node_utilization import HighNodeUtilization, HighNodeUtilizationArgs
from rescheduler.policies.inter_pod_anti_affinity import InterPodAntiAffinity, InterPodAntiAffinityArgs
from rescheduler.policies.low_node_utilization import LowNodeUtilization, LowNodeUtilizationArgs
from rescheduler.policies.node_affinity import NodeAffinity, NodeAffinityArgs
from rescheduler.policies.node_taints import NodeTaints, NodeTaintsArgs
from rescheduler.policies.topology_spread import TopologySpread, TopologySpreadArgs
from rescheduler.policies.wire import ArgumentProblem, PolicyArgs


@dataclass(frozen=True, slots=True)
class PolicyType:
    """How a policy is named, configured and made."""

    name: str
    args: type[PolicyArgs]
    """The Struct that its YAML becomes."""
    build: Callable[[Any], Policy]
    """Makes the policy of those arguments."""

    def problems(self, args: PolicyArgs) -> Sequence[ArgumentProblem]:
        """Value errors of arguments that have the right types: (path, message)."""
        return tuple(args.problems())


_ALL: Final = (
    PolicyType("NodeTaints", NodeTaintsArgs, NodeTaints),
    PolicyType("NodeAffinity", NodeAffinityArgs, NodeAffinity),
    PolicyType("InterPodAntiAffinity", InterPodAntiAffinityArgs, InterPodAntiAffinity),
    PolicyType("TopologySpread", TopologySpreadArgs, TopologySpread),
    PolicyType("LowNodeUtilization", LowNodeUtilizationArgs, LowNodeUtilization),
    PolicyType("HighNodeUtilization", HighNodeUtilizationArgs, HighNodeUtilization),
)

REGISTRY: Final[dict[str, PolicyType]] = {kind.name: kind for kind in _ALL}
