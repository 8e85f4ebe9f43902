"""The cluster before and after a plan, in numbers. Pure.

Imbalance: standard deviation of the requested share over the nodes that offer the resource (0..1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from rescheduler.model.names import ASKS, LABEL_PLACEHOLDER, ZONE
from rescheduler.model.node_marks import marks_of
from rescheduler.model.records import Pod
from rescheduler.model.room_pod import made_for_pod, pod_that_waits, wants_room
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.badness import Badness, MoveEffect, NodeCount, by_policy, tier_name
from rescheduler.planning.plan import ClusterSummary, NodeSummary, PolicySummary
from rescheduler.policies.framework import CountsNodes, Policy, PolicyView, PolicyWarning, WarnsOfCluster
from rescheduler.policies.measurement import is_fresh
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

    def arrive(self, pod: Pod, node: int) -> None:
        """The figures once a pending pod stands on the node."""
        self.cpu[node] += pod.spec.requests.cpu_milli
        self.memory[node] += pod.spec.requests.memory_bytes
        self.pods[node] += 1
        self.counted[node] += 1


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
        used = snapshot.usage.get(name)
        if used is not None and not is_fresh(used, snapshot.taken_at_s):
            used = None
        nodes.append(
            NodeSummary(
                name=name,
                zone=node.labels.get(ZONE) or "",
                schedulable=node.usable,
                marks=marks_of(node),
                pods=amounts[0],
                pods_allocatable=amounts[1],
                cpu_requested_milli=amounts[2],
                cpu_allocatable_milli=amounts[3],
                memory_requested_bytes=amounts[4],
                memory_allocatable_bytes=amounts[5],
                cpu_used_milli=used.cpu_milli if used is not None else msgspec.UNSET,
                memory_used_bytes=used.memory_bytes if used is not None else msgspec.UNSET,
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


def warnings_of(policies: Sequence[Policy], view: PolicyView) -> list[PolicyWarning]:
    """What the policies say of the cluster as a whole, each sentence once."""
    said = (one for policy in policies if isinstance(policy, WarnsOfCluster) for one in policy.warnings(view))
    return list(dict.fromkeys(said))


def policy_summary(policy: Policy, proposals: Proposals, view: PolicyView | None) -> PolicySummary:
    """What a policy sees in the state of ``view``; None: how bad it is is not asked. Spares are not badly placed by themselves."""
    gains = proposals.gains()
    found = PolicySummary(name=policy.name, badly_placed=len(gains), gain=round(sum(gains), 4))
    if view is None:
        return found
    return msgspec.structs.replace(
        found,
        badness=Badness.of(policy.badness(view)),
        nodes=_node_count(policy, view) if isinstance(policy, CountsNodes) else None,
    )


def badness_now(
    snapshot: Snapshot, policies: Sequence[Policy], state: SchedulingState
) -> Mapping[str, Badness]:
    """How bad the placement is, by name of the policy; what entries of one name find is added up. ``state`` follows the snapshot."""
    mark = state.checkpoint()
    try:
        for pod in _rooms_that_wait(snapshot):
            state.wait(pod)
        view = PolicyView.of(snapshot, state)
        return by_policy(MoveEffect(policy.name, Badness.of(policy.badness(view))) for policy in policies)
    finally:
        state.rollback(mark)


def _rooms_that_wait(snapshot: Snapshot) -> Iterator[Pod]:
    """The pods of Reservations that fit nowhere, as in a plan (``planning.present``). Pending pods wait by themselves."""
    for reservation in snapshot.reservations.values():
        if made_for_pod(reservation) is None and wants_room(reservation):
            yield pod_that_waits(reservation, snapshot.priority_classes)


def _node_count(policy: CountsNodes, view: PolicyView) -> NodeCount:
    return NodeCount(tier_name(policy.tier), policy.nodes_counted(view))


def _imbalance(requested: IntArray, allocatable: IntArray) -> float:
    offers = allocatable > 0
    if not offers.any():
        return 0.0
    # Sorted, so that the sum does not depend on the order in which nodes were read.
    shares = np.sort(requested[offers] / allocatable[offers])
    return round(float(shares.std()), 4)


def waits(pod: Pod) -> bool:
    """True for a pending pod; those of ours that only ask a scheduler or the node autoscaler are none."""
    return not pod.node and not pod.deleting and pod.labels.get(LABEL_PLACEHOLDER) not in ASKS
