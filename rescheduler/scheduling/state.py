"""The what-if state that all filters and scores look at: nodes as arrays, pods, aggregates, moves tried out.

Mutable, owned by one thread. It follows snapshots incrementally (``sync``: records are compared by
identity) and takes trial moves that can be rolled back. It must not be read while a trial is half done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from rescheduler.model.records import Pod, PodPhase
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import (
    BoolArray,
    FilterResult,
    IntArray,
    NodeVerdict,
    Profile,
    Refusal,
    ScoreResult,
)
from rescheduler.scheduling.pipeline import Pipeline
from rescheduler.scheduling.plugin import NodeIndices
from rescheduler.scheduling.snapshot_changes import NodeChange, changed_pods, node_change, objects_differ


@dataclass(slots=True)
class _Standing:
    """Where pods stand now, trial moves included."""

    on_node: list[dict[int, Pod]]
    """Per node: identity of the record -> record."""
    nominated: dict[int, dict[int, Pod]] = field(default_factory=dict)
    """Per node: pending pods nominated to it."""


class SchedulingState:
    """What kube-scheduler would see, plus moves tried out.

    All arrays are in the order of ``node_names``. A pod with ``node`` set is judged as if it were taken
    off its node first only by ``explain``; ``filter`` and ``score`` judge the state as it is, so callers
    ``remove`` the pod first. Pods that are done, or bound to nodes that do not exist, do not count.
    """

    node_names: tuple[str, ...]
    node_index: dict[str, int]
    profile: Profile
    _snapshot: Snapshot
    _cluster: Cluster
    _standing: _Standing

    def __init__(self, snapshot: Snapshot, profile: Profile | None = None) -> None:
        self.profile = profile or Profile()
        self._pipeline = Pipeline(self.profile)
        self._journal: list[tuple[bool, Pod]] = []
        """Trial moves: (pod entered, its record)."""
        self._build(snapshot)

    def sync(self, snapshot: Snapshot) -> None:
        """Follow a newer snapshot; trial moves are undone first.

        Pods that came, changed or left are applied one by one. Nodes that came, left or changed their
        labels, and changed labels of namespaces, build the state anew; so do many forgotten pod classes.
        """
        self.rollback(0)
        old = self._snapshot
        change = node_change(old, snapshot)
        if change is NodeChange.TOPOLOGY or self._cluster.overgrown():
            self._build(snapshot)
            return
        self._snapshot = self._cluster.snapshot = snapshot
        if change is NodeChange.CONTENT:
            self._cluster.nodes_changed(tuple(snapshot.nodes.values()))
            self.node_names, self.node_index = self._cluster.nodes.names, self._cluster.nodes.index
        gone, come = changed_pods(old, snapshot)
        for pod in gone:
            self._leave(pod)
        for pod in come:
            self._enter(pod)
        changes = objects_differ(old, snapshot)
        if changes.selectors:
            self._cluster.selectors_changed()
        if changes.volumes:
            self._cluster.volumes_changed()

    def checkpoint(self) -> int:
        """A mark to roll back to. Marks nest."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo every remove and place since ``mark``."""
        while len(self._journal) > mark:
            entered, pod = self._journal.pop()
            if entered:
                self._leave(pod)
            else:
                self._enter(pod)

    def remove(self, pod: Pod) -> None:
        """Take a pod off its node (or off the pending ones), as if it were gone.

        Raises:
            LookupError: the pod does not stand where its record says.
        """
        standing = self._find(pod)
        self._leave(standing)
        self._journal.append((False, standing))

    def place(self, pod: Pod, node: str) -> Pod:
        """Put a pod on a node as if bound there; gives the record that now stands there.

        Raises:
            KeyError: there is no such node.
        """
        self.node_index[node]
        placed = msgspec.structs.replace(
            pod,
            node=node,
            nominated_node="",
            held=pod.spec.requests,
            held_score_cpu_milli=pod.spec.score_cpu_milli,
            held_score_memory_bytes=pod.spec.score_memory_bytes,
            deleting=False,
        )
        self._enter(placed)
        self._journal.append((True, placed))
        return placed

    def linger(self, pod: Pod) -> None:
        """Put a pod that was taken off back on its node, terminating: spread does not count it any more, the rest does.

        Raises:
            KeyError: its node does not exist.
        """
        self.node_index[pod.node]
        ending = msgspec.structs.replace(pod, deleting=True)
        self._enter(ending)
        self._journal.append((True, ending))

    def filter(self, pod: Pod) -> FilterResult:
        """Which nodes take the pod now."""
        return self._pipeline.filter(self._cluster.ask(pod), self._cluster, self._nominated())

    def feasible(self, pod: Pod) -> BoolArray:
        """The nodes that ``filter`` finds, at less cost."""
        return self._pipeline.feasible(self._cluster.ask(pod), self._cluster, self._nominated())

    def totals(self, pod: Pod, nodes: NodeIndices) -> IntArray:
        """The totals of ``score`` for the feasible ``nodes`` in their order, at less cost."""
        return self._pipeline.totals(self._cluster.ask(pod), self._cluster, nodes)

    def score(self, pod: Pod, feasible: BoolArray) -> ScoreResult:
        """Scores over the feasible nodes, normalised over exactly those."""
        return self._pipeline.score(self._cluster.ask(pod), self._cluster, feasible)

    def refusals(self, pod: Pod, node: str, result: FilterResult) -> tuple[Refusal, ...]:
        """The words of the plugin that refuses the node; ``result``: what ``filter`` says of the pod now."""
        cluster, at = self._cluster, self.node_index[node]
        return self._pipeline.refusals(cluster.ask(pod), cluster, at, result, self._nominated())

    def explain(self, pod: Pod) -> tuple[NodeVerdict, ...]:
        """Every node's verdict with reasons and scores; a bound pod is first taken off its node."""
        mark = self.checkpoint()
        if self._stands(pod):
            self.remove(pod)
        verdicts = self._pipeline.explain(self._cluster.ask(pod), self._cluster, self._nominated())
        self.rollback(mark)
        return verdicts

    def requested(self, resource: str) -> IntArray:
        """What the pods on each node hold: "cpu" (milli), "memory", "ephemeral-storage", "pods" or a scalar."""
        return self._cluster.requested(resource)

    def allocatable(self, resource: str) -> IntArray:
        """The same for what each node can hold."""
        return self._cluster.nodes.allocatable(resource)

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Pods that count on the node (terminating ones included), by creation time and name."""
        standing = self._standing.on_node[self.node_index[node]].values()
        return sorted(standing, key=lambda pod: (pod.created_at_s, pod.namespace, pod.name))

    def nominated_to(self, node: str) -> Sequence[Pod]:
        """Pods without a node that are nominated to this one."""
        return tuple(self._standing.nominated.get(self.node_index[node], {}).values())

    def _build(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._journal.clear()
        self._cluster = Cluster(snapshot, self.profile, tuple(snapshot.nodes.values()))
        self.node_names = self._cluster.nodes.names
        self.node_index = self._cluster.nodes.index
        self._standing = _Standing([{} for _ in self.node_names])
        index, on_node = self.node_index, self._standing.on_node
        succeeded, failed = PodPhase.SUCCEEDED, PodPhase.FAILED
        pods: list[Pod] = []
        nodes: list[int] = []
        for pod in snapshot.pods.values():
            node = index.get(pod.node)
            if node is None:
                self._nominate(pod)
                continue
            phase = pod.phase
            if phase is not succeeded and phase is not failed:
                on_node[node][id(pod)] = pod
                pods.append(pod)
                nodes.append(node)
        self._cluster.fill(pods, nodes)

    def _enter(self, pod: Pod) -> None:
        node = self.node_index.get(pod.node)
        if node is None:
            self._nominate(pod)
        elif not pod.terminal:
            self._standing.on_node[node][id(pod)] = pod
            self._cluster.add(pod, node)

    def _leave(self, pod: Pod) -> None:
        node = self.node_index.get(pod.node)
        if node is None:
            self._withdraw(pod)
        elif self._standing.on_node[node].pop(id(pod), None) is not None:
            self._cluster.remove(pod, node)

    def _nominate(self, pod: Pod) -> None:
        node = self.node_index.get(pod.nominated_node)
        if node is not None and not pod.node and not pod.terminal:
            self._standing.nominated.setdefault(node, {})[id(pod)] = pod

    def _withdraw(self, pod: Pod) -> None:
        node = self.node_index.get(pod.nominated_node)
        pods = self._standing.nominated.get(node) if node is not None else None
        if pods is not None and node is not None and pods.pop(id(pod), None) is not None and not pods:
            del self._standing.nominated[node]

    def _nominated(self) -> dict[int, Sequence[Pod]]:
        return {node: tuple(pods.values()) for node, pods in self._standing.nominated.items()}

    def _stands(self, pod: Pod) -> bool:
        node = self.node_index.get(pod.node)
        return node is not None and self._standing_record(pod, node) is not None

    def _find(self, pod: Pod) -> Pod:
        node = self.node_index.get(pod.node)
        if node is None:
            return pod
        found = self._standing_record(pod, node)
        if found is None:
            raise LookupError(f"pod {pod.namespace}/{pod.name} does not stand on node {pod.node}")
        return found

    def _standing_record(self, pod: Pod, node: int) -> Pod | None:
        here = self._standing.on_node[node]
        if id(pod) in here:
            return pod
        wanted = (pod.key, pod.uid)
        return next((p for p in here.values() if (p.key, p.uid) == wanted), None)
