"""The what-if state that filters, scores and policies look at: nodes, pods, aggregates, moves tried out.

Mutable, owned by one thread. It follows snapshots incrementally (``sync``: records are compared by
identity) and takes trial moves that can be rolled back. It is the only structure that follows pods: whatever is
found out about them is kept in ``cluster``, with a stamp (see ``memo``), so that it outlives a decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rescheduler.model.holding import placed_on
from rescheduler.model.records import ObjectKey, Pod, PodPhase
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.cluster import Change, Cluster
from rescheduler.scheduling.framework import (
    BoolArray,
    FilterResult,
    IntArray,
    NodeIndices,
    NodeVerdict,
    Profile,
    Refusal,
    ScoreResult,
)
from rescheduler.scheduling.nodes import NodeTable
from rescheduler.scheduling.pipeline import Pipeline
from rescheduler.scheduling.snapshot_changes import NodeChange, changed_pods, node_change, objects_differ


@dataclass(slots=True)
class _Standing:
    """Where pods stand now, trial moves included."""

    on_node: list[list[Pod]]
    """Per node, each known by the identity of its record: so few that an index by identity would only cost memory."""
    unplaced: dict[ObjectKey, Pod] = field(default_factory=dict)
    """Pods that are not finished and on no known node."""
    nominated: dict[int, dict[int, Pod]] = field(default_factory=dict)
    """Per node: those of them that wait and are nominated to it."""
    ended: dict[ObjectKey, Pod] = field(default_factory=dict)


class _Step(NamedTuple):
    """A pod entered or left by a trial move."""

    entered: bool
    pod: Pod
    change: Change | None
    """What it changed on its node; None for a pod without one."""


class SchedulingState:
    """What kube-scheduler would see, plus moves tried out.

    All arrays are in the order of ``node_names``. A pod with ``node`` set is judged as if it were taken
    off its node first only by ``explain``; ``filter`` and ``score`` judge the state as it is, so callers
    ``remove`` the pod first. Pods that are done, or bound to nodes that do not exist, do not count.
    """

    node_names: tuple[str, ...]
    """Names of all nodes, in the order of the snapshot."""
    node_index: dict[str, int]
    """Name of a node -> its index."""
    profile: Profile
    cluster: Cluster
    """Pods by class, counts and nodes. Readers change nothing in it."""
    _snapshot: Snapshot
    _standing: _Standing

    def __init__(self, snapshot: Snapshot, profile: Profile | None = None) -> None:
        self.profile = profile or Profile()
        self._pipeline = Pipeline(self.profile)
        self._journal: list[_Step] = []
        """Trial moves that stand."""
        self._build(snapshot)

    def sync(self, snapshot: Snapshot) -> None:
        """Follow a newer snapshot; trial moves are undone first.

        Pods that came, changed or left are applied one by one. The state is built again where nodes came, left or
        changed their labels, where labels of namespaces changed, and where most pod classes have no pods left.
        """
        self.rollback(0)
        old = self._snapshot
        change = node_change(old, snapshot)
        if change is NodeChange.TOPOLOGY or self.cluster.overgrown():
            self._build(snapshot)
            return
        self._snapshot = self.cluster.snapshot = snapshot
        if change is NodeChange.CONTENT:
            self.cluster.nodes_changed(tuple(snapshot.nodes.values()))
            self.node_names, self.node_index = self.cluster.nodes.names, self.cluster.nodes.index
        gone, come = changed_pods(old, snapshot)
        for pod in gone:
            self._leave(pod)
        for pod in come:
            self._enter(pod)
        changes = objects_differ(old, snapshot)
        if changes.selectors:
            self.cluster.selectors_changed()
        if changes.volumes:
            self.cluster.volumes_changed()

    def forget_answers(self) -> None:
        """Release what is kept about the cluster as a whole, which the next decision would use again."""
        for memo in (self.cluster.memo, self.cluster.nodes.memo):
            memo.clear()
        self.cluster.occupancy.answers.forget()

    def checkpoint(self) -> int:
        """A mark to roll back to. Marks nest."""
        return len(self._journal)

    def rollback(self, mark: int) -> None:
        """Undo every remove and place since ``mark``."""
        while len(self._journal) > mark:
            self._undo(self._journal.pop())

    def remove(self, pod: Pod) -> None:
        """Take a pod off its node (or off the pending ones), as if it were gone.

        Raises:
            LookupError: the pod does not stand where its record says.
        """
        standing = self._find(pod)
        if standing.node in self.node_index:
            self._journal.append(_Step(entered=False, pod=standing, change=self._leave(standing)))
        elif self._withdraw(standing):
            self._journal.append(_Step(entered=False, pod=standing, change=None))

    def place(self, pod: Pod, node: str) -> Pod:
        """Put a pod on a node as if bound there; gives the record that now stands there.

        Raises:
            KeyError: there is no such node.
        """
        self.node_index[node]
        placed = placed_on(node, pod, deleting=False)
        self._journal.append(_Step(True, placed, self._enter(placed, hypothetical=True)))
        return placed

    def wait(self, pod: Pod) -> None:
        """A pod without a node waits, and counts where it is nominated."""
        self._journal.append(_Step(True, pod, None))
        self._wait(pod)

    def place_terminating(self, pod: Pod) -> None:
        """Put a pod that was taken off back on its node, terminating: spread does not count it any more, the rest does.

        Raises:
            KeyError: its node does not exist.
        """
        self.node_index[pod.node]
        ending = pod.with_state(deleting=True)
        self._journal.append(_Step(True, ending, self._enter(ending, hypothetical=True)))

    def filter(self, pod: Pod) -> FilterResult:
        """Which nodes take the pod now."""
        return self._pipeline.filter(self.cluster.ask(pod), self.cluster, self._nominated())

    def feasible(self, pod: Pod) -> BoolArray:
        """The nodes that ``filter`` finds, at less cost."""
        return self._pipeline.feasible(self.cluster.ask(pod), self.cluster, self._nominated())

    def feasible_at(self, pod: Pod, node: int) -> bool:
        """``feasible`` of one node (an index), at the cost of one node."""
        return self._pipeline.feasible_at(self.cluster.ask(pod), self.cluster, self._nominated(), node)

    def totals(self, pod: Pod, nodes: NodeIndices) -> IntArray:
        """The totals of ``score`` for the feasible ``nodes`` in their order, at less cost."""
        return self._pipeline.totals(self.cluster.ask(pod), self.cluster, nodes)

    def points(self, pod: Pod, nodes: NodeIndices) -> Iterator[tuple[str, int, IntArray]]:
        """Plugin, weight and points of ``score`` for the feasible ``nodes`` in their order, at less cost."""
        return self._pipeline.points(self.cluster.ask(pod), self.cluster, nodes)

    def score(self, pod: Pod, feasible: BoolArray) -> ScoreResult:
        """Scores over the feasible nodes, normalised over exactly those."""
        return self._pipeline.score(self.cluster.ask(pod), self.cluster, feasible)

    def refusals(self, pod: Pod, node: str, result: FilterResult) -> tuple[Refusal, ...]:
        """The words of the plugin that refuses the node; ``result``: what ``filter`` says of the pod now."""
        cluster, at = self.cluster, self.node_index[node]
        return self._pipeline.refusals(cluster.ask(pod), cluster, at, result, self._nominated())

    def explain(self, pod: Pod) -> tuple[NodeVerdict, ...]:
        """Every node's verdict with reasons and scores; a bound pod is first taken off its node."""
        mark = self.checkpoint()
        if self._stands(pod):
            self.remove(pod)
        verdicts = self._pipeline.explain(self.cluster.ask(pod), self.cluster, self._nominated())
        self.rollback(mark)
        return verdicts

    def requested(self, resource: str) -> IntArray:
        """What the pods on each node hold: "cpu" (milli), "memory", "ephemeral-storage", "pods" or a scalar."""
        return self.cluster.requested(resource)

    def allocatable(self, resource: str) -> IntArray:
        """The same for what each node can hold."""
        return self.cluster.nodes.allocatable(resource)

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Pods that count on the node (terminating ones included), by creation time and name."""
        standing = self._standing.on_node[self.node_index[node]]
        return sorted(standing, key=lambda pod: (pod.created_at_s, pod.namespace, pod.name))

    @property
    def nodes(self) -> NodeTable:
        """The nodes as columns; another table after a ``sync`` in which one of them changed."""
        return self.cluster.nodes

    @property
    def unplaced(self) -> Mapping[ObjectKey, Pod]:
        """Pods that are not finished and on no known node."""
        return self._standing.unplaced

    @property
    def ended(self) -> Mapping[ObjectKey, Pod]:
        """Pods that have succeeded or failed; they count nowhere."""
        return self._standing.ended

    def nominated_to(self, node: str) -> Sequence[Pod]:
        """Pods without a node that are nominated to this one."""
        return tuple(self._standing.nominated.get(self.node_index[node], {}).values())

    def _build(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._journal.clear()
        self.cluster = Cluster(snapshot, self.profile, tuple(snapshot.nodes.values()))
        self.node_names = self.cluster.nodes.names
        self.node_index = self.cluster.nodes.index
        self._standing = _Standing([[] for _ in self.node_names])
        index, on_node, ended = self.node_index, self._standing.on_node, self._standing.ended
        succeeded, failed = PodPhase.SUCCEEDED, PodPhase.FAILED
        pods: list[Pod] = []
        nodes: list[int] = []
        for key, pod in snapshot.pods.items():
            node = index.get(pod.node)
            phase = pod.phase
            if phase is succeeded or phase is failed:
                ended[key] = pod
                continue
            if node is None:
                self._wait(pod)
                continue
            on_node[node].append(pod)
            pods.append(pod)
            nodes.append(node)
        self.cluster.fill(pods, nodes)

    def _enter(self, pod: Pod, *, hypothetical: bool = False) -> Change | None:
        if pod.terminal:
            self._standing.ended[pod.key] = pod
            return None
        node = self.node_index.get(pod.node)
        if node is None:
            self._wait(pod)
            return None
        self._standing.on_node[node].append(pod)
        return self.cluster.add(pod, node, hypothetical=hypothetical)

    def _leave(self, pod: Pod) -> Change | None:
        if pod.terminal:
            self._standing.ended.pop(pod.key, None)
            return None
        node = self.node_index.get(pod.node)
        if node is None:
            self._withdraw(pod)
            return None
        if not _take(self._standing.on_node[node], pod):
            return None
        return self.cluster.remove(pod, node)

    def _undo(self, step: _Step) -> None:
        change = step.change
        if change is None:
            (self._withdraw if step.entered else self._wait)(step.pod)
            return
        here = self._standing.on_node[change.node]
        if step.entered:
            _take(here, step.pod)
        else:
            here.append(step.pod)
        self.cluster.undo(change)

    def _wait(self, pod: Pod) -> None:
        """The pod, which is not finished, is on no known node."""
        self._standing.unplaced[pod.key] = pod
        node = self.node_index.get(pod.nominated_node)
        if node is not None and not pod.node:
            self._standing.nominated.setdefault(node, {})[id(pod)] = pod

    def _withdraw(self, pod: Pod) -> bool:
        """The pod is not waiting any more; False if it was not."""
        if self._standing.unplaced.get(pod.key) is not pod:
            return False
        del self._standing.unplaced[pod.key]
        node = self.node_index.get(pod.nominated_node)
        pods = self._standing.nominated.get(node) if node is not None else None
        if pods is not None and node is not None and pods.pop(id(pod), None) is not None and not pods:
            del self._standing.nominated[node]
        return True

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
        if any(p is pod for p in here):
            return pod
        return next((p for p in here if p.uid == pod.uid and p.key == pod.key), None)


def _take(pods: list[Pod], pod: Pod) -> bool:
    """Take out this very record; False: it is not there."""
    for at in range(len(pods) - 1, -1, -1):  # a trial move takes back what came last
        if pods[at] is pod:
            del pods[at]
            return True
    return False


class SharedSchedulingState:
    """The one state of a process, for all that judge by it in turns: decisions, and steps of moves between them.

    It is made at its first use, follows every snapshot that it is asked for, and is made again for another profile.
    """

    def __init__(self) -> None:
        self._state: SchedulingState | None = None

    def at(self, snapshot: Snapshot, profile: Profile | None = None) -> SchedulingState:
        """The state of a snapshot without any trial move. What was given for earlier snapshots is the same object."""
        state = self._state
        if state is None or state.profile != (profile or Profile()):
            self._state = state = SchedulingState(snapshot, profile)
        else:
            self._state = None  # kept only if it follows: what is brought up to date half way is wrong
            state.sync(snapshot)
            self._state = state
        return state

    def forget(self) -> None:
        """Make it again at the next use: answers that are kept for policies of before are released."""
        self._state = None
