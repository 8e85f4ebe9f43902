"""The cluster before and after a plan, in numbers. Pure.

Imbalance: standard deviation of the requested share over the nodes that offer the resource (0..1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rescheduler.model.names import ZONE
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.plan import ClusterSummary, NodeSummary, PolicySummary
from rescheduler.policies.proposals import Proposals
from rescheduler.scheduling.framework import IntArray
from rescheduler.scheduling.state import SchedulingState


@dataclass(slots=True)
class Figures:
    """Requested amounts and pods by node, which moves are added to."""

    cpu: IntArray
    """Milli-CPU."""
    memory: IntArray
    """Bytes."""
    pods: IntArray
    counted: IntArray
    """Pods that do not belong to their node: a node without any of them is empty."""

    @classmethod
    def of(cls, state: SchedulingState) -> Figures:
        """The cluster as it stands, before any trial."""
        pods = state.requested("pods")
        return cls(
            state.requested("cpu").copy(),
            state.requested("memory").copy(),
            pods.copy(),
            pods - state.cluster.pods_of_nodes(),
        )

    def move(self, pod: Pod, replacement: Pod, source: int, target: int) -> None:
        """The figures once the move is over."""
        for pod_, node, sign in ((pod, source, -1), (replacement, target, 1)):
            self.cpu[node] += sign * pod_.held.cpu_milli
            self.memory[node] += sign * pod_.held.memory_bytes
            self.pods[node] += sign
            self.counted[node] += sign


def summarise(
    snapshot: Snapshot,
    state: SchedulingState,
    figures: Figures,
    policies: Sequence[PolicySummary],
    pending: int,
) -> ClusterSummary:
    """One summary; nodes by name."""
    cpu, memory = state.allocatable("cpu"), state.allocatable("memory")
    pods = state.allocatable("pods")
    columns = [c.tolist() for c in (figures.pods, pods, figures.cpu, cpu, figures.memory, memory)]
    nodes: list[NodeSummary] = []
    for name, *amounts in sorted(zip(state.node_names, *columns, strict=True)):
        node = snapshot.nodes[name]
        nodes.append(
            NodeSummary(
                name=name,
                zone=node.labels.get(ZONE) or "",
                schedulable=node.usable,
                pods=amounts[0],
                pods_allocatable=amounts[1],
                cpu_requested_milli=amounts[2],
                cpu_allocatable_milli=amounts[3],
                memory_requested_bytes=amounts[4],
                memory_allocatable_bytes=amounts[5],
            )
        )
    return ClusterSummary(
        nodes=tuple(nodes),
        policies=tuple(policies),
        pods=int(figures.pods.sum()),
        pending_pods=pending,
        empty_nodes=int((figures.counted == 0).sum()),
        cpu_imbalance=_imbalance(figures.cpu, cpu),
        memory_imbalance=_imbalance(figures.memory, memory),
    )


def policy_summary(name: str, proposals: Proposals) -> PolicySummary:
    """What a policy sees; spares are not badly placed by themselves."""
    gains = proposals.gains()
    return PolicySummary(name=name, badly_placed=len(gains), gain=round(sum(gains), 4))


def _imbalance(requested: IntArray, allocatable: IntArray) -> float:
    offers = allocatable > 0
    if not offers.any():
        return 0.0
    # Sorted, so that the sum does not depend on the order in which nodes were read.
    shares = np.sort(requested[offers] / allocatable[offers])
    return round(float(shares.std()), 4)
