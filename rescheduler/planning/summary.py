"""The cluster before and after a plan, in numbers. Pure.

Told besides: which workloads have more replicas on one node or in one zone after it, so that nobody finds out when a node fails.
Imbalance: standard deviation of the requested share over the nodes that offer the resource (0..1).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from rescheduler.model.counted import plural, verb
from rescheduler.model.names import ASKS, LABEL_PLACEHOLDER, ZONE
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.node_marks import marks_of
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.room_pod import made_for_pod, pod_that_waits, wants_room
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.badness import Badness, MoveEffect, NodeCount, by_policy, tier_name
from rescheduler.planning.plan import ClusterSummary, NodeSummary, PolicySummary
from rescheduler.planning.steps import PlannedStep
from rescheduler.policies.framework import CountsNodes, Policy, PolicyView, PolicyWarning, WarnsOfCluster
from rescheduler.policies.measurement import is_fresh
from rescheduler.policies.proposals import Proposals
from rescheduler.replacements.controllers import JOB, group_kind
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
    touched: set[int] = field(default_factory=set)
    """Nodes (indices) of which moves have changed anything."""

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

    def follow(
        self, steps: Iterable[PlannedStep], arrivals: Iterable[tuple[Pod, str]], index: Mapping[str, int]
    ) -> None:
        """The figures once the moves are over and these pending pods stand on their nodes."""
        for step in steps:
            old, new = step.pod.held, step.replacement.held
            self._add(index[step.pod.node], old.cpu_milli, old.memory_bytes, -1)
            self._add(index[step.move.target], new.cpu_milli, new.memory_bytes, 1)
        for pod, node in arrivals:
            self._add(index[node], pod.spec.requests.cpu_milli, pod.spec.requests.memory_bytes, 1)
            if belongs_to_node(pod):  # a DaemonSet's: what it waits for is its own node
                self.counted[index[node]] -= 1

    def _add(self, node: int, cpu_milli: int, memory_bytes: int, sign: int) -> None:
        self.touched.add(node)
        self.cpu[node] += sign * cpu_milli
        self.memory[node] += sign * memory_bytes
        self.pods[node] += sign
        self.counted[node] += sign


def summarise(
    snapshot: Snapshot,
    state: SchedulingState,
    figures: Figures,
    policies: Sequence[PolicySummary],
    pending: int,
    *,
    before: ClusterSummary | None = None,
) -> ClusterSummary:
    """One summary; nodes by name. ``before``: that of the same cluster before ``figures`` followed the moves."""
    cpu, memory = state.allocatable("cpu"), state.allocatable("memory")
    pods = state.allocatable("pods")
    columns = (figures.pods, pods, figures.cpu, cpu, figures.memory, memory)
    if before is None:
        rows = sorted(zip(state.node_names, *(column.tolist() for column in columns), strict=True))
        nodes = tuple([_node_summary(snapshot, name, amounts) for name, *amounts in rows])
    else:
        names = {state.node_names[node]: node for node in figures.touched}
        nodes = tuple(
            [
                _node_summary(snapshot, one.name, [int(column[names[one.name]]) for column in columns])
                if one.name in names
                else one
                for one in before.nodes
            ]
        )
    return ClusterSummary(
        nodes=nodes,
        policies=tuple(policies),
        pods=int(figures.pods.sum()),
        pending_pods=pending,
        empty_nodes=int((figures.counted == 0).sum()),
        cpu_imbalance=_imbalance(figures.cpu, cpu),
        memory_imbalance=_imbalance(figures.memory, memory),
    )


def _node_summary(snapshot: Snapshot, name: str, amounts: Sequence[int]) -> NodeSummary:
    node = snapshot.nodes[name]
    used = snapshot.usage.get(name)
    if used is not None and not is_fresh(used, snapshot.taken_at_s):
        used = None
    return NodeSummary(
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


_LEAST: Final = 2
"""Replicas that one failure takes together ..."""
_HALF: Final = 0.5
"""... and what part of their workload they are."""


def gathered(snapshot: Snapshot, moves: Collection[tuple[Pod, str]]) -> Iterator[str]:
    """A sentence for nodes and one for zones, each if half of any workload comes together by these moves, and one for zones left empty."""
    moved = {pod.uid: target for pod, target in moves}
    owners = {
        pod.controller.uid: ObjectKey(pod.namespace, pod.controller.name)
        for pod, _ in moves
        if pod.controller is not None and group_kind(pod.controller) != JOB
    }
    if not owners:
        return
    places: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for pod in snapshot.pods.values():
        if pod.controller is not None and pod.controller.uid in owners and pod.node and not pod.terminal:
            places[pod.controller.uid].append((pod.node, moved.get(pod.uid, pod.node)))
    zones = {name: node.labels.get(ZONE) or "" for name, node in snapshot.nodes.items()}
    yield from _closer(owners, places, "on one node", "on node/", lambda node: node)
    yield from _closer(owners, places, "in one zone", "in zone ", lambda node: zones.get(node, ""))
    yield from _left_empty(snapshot, moves, moved, zones)


def _left_empty(
    snapshot: Snapshot, moves: Collection[tuple[Pod, str]], moved: Mapping[str, str], zones: Mapping[str, str]
) -> Iterator[str]:
    left = {zone for pod, _ in moves if (zone := zones.get(pod.node))}
    for pod in snapshot.pods.values() if left else ():
        zone = zones.get(moved.get(pod.uid, pod.node))
        if zone in left and not (pod.terminal or belongs_to_node(pod)):
            left.remove(zone)
            if not left:
                return
    if left:
        yield (
            f"no pods but those of DaemonSets are left in {'zone' if len(left) == 1 else 'zones'} {', '.join(sorted(left))}: "
            "an autoscaler may remove all nodes there"
        )


def _closer(
    owners: dict[str, ObjectKey],
    places: dict[str, list[tuple[str, str]]],
    where: str,
    at: str,
    domain: Callable[[str], str],
) -> Iterator[str]:
    found: list[tuple[int, int, ObjectKey, str]] = []
    for uid, moves in places.items():
        before, after = (Counter(d for m in moves if (d := domain(m[side]))) for side in (0, 1))
        most = max(after.values(), default=0)
        if most >= max(_LEAST, _HALF * len(moves)) and most > max(before.values(), default=0):
            name = min(name for name, number in after.items() if number == most)
            found.append((most, len(moves), owners[uid], name))
    if found:
        most, replicas, owner, name = min(found, key=lambda one: (-one[0] / one[1], one[2]))
        number = plural(len(found), "workload")
        yield (
            f"{number} {verb(len(found), 'has', 'have')} more replicas {where} after it than before, "
            f"such as {owner}: {most} of {replicas} {at}{name}"
        )
