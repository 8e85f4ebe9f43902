"""The what-if state that all filters and scores look at: nodes as arrays, pods, aggregates, moves tried out.

Mutable, owned by one thread. It follows snapshots incrementally (``sync``: records are compared by
identity) and takes trial moves that can be rolled back. It must not be read while a trial is half done.
"""

from __future__ import annotations

from collections.abc import Sequence

from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.scheduling.framework import (
    BoolArray,
    FilterResult,
    IntArray,
    NodeVerdict,
    Profile,
    ScoreResult,
)


class SchedulingState:
    """What kube-scheduler would see, plus moves tried out.

    All arrays are in the order of ``node_names``. A pod with ``node`` set is judged as if it were taken
    off its node first only by ``explain``; ``filter`` and ``score`` judge the state as it is, so callers
    ``remove`` the pod first.
    """

    node_names: tuple[str, ...]
    node_index: dict[str, int]
    profile: Profile

    def __init__(self, snapshot: Snapshot, profile: Profile | None = None) -> None: ...

    def sync(self, snapshot: Snapshot) -> None:
        """Follow a newer snapshot; trial moves are undone first."""
        raise NotImplementedError

    def checkpoint(self) -> int:
        """A mark to roll back to. Marks nest."""
        raise NotImplementedError

    def rollback(self, mark: int) -> None:
        """Undo every remove and place since ``mark``."""
        raise NotImplementedError

    def remove(self, pod: Pod) -> None:
        """Take a pod off its node (or off the pending ones), as if it were gone."""
        raise NotImplementedError

    def place(self, pod: Pod, node: str) -> Pod:
        """Put a pod on a node as if bound there; gives the record that now stands there."""
        raise NotImplementedError

    def filter(self, pod: Pod) -> FilterResult:
        """Which nodes take the pod now."""
        raise NotImplementedError

    def score(self, pod: Pod, feasible: BoolArray) -> ScoreResult:
        """Scores over the feasible nodes, normalised over exactly those."""
        raise NotImplementedError

    def explain(self, pod: Pod) -> tuple[NodeVerdict, ...]:
        """Every node's verdict with reasons and scores; a bound pod is first taken off its node."""
        raise NotImplementedError

    def requested(self, resource: str) -> IntArray:
        """What the pods on each node hold: "cpu" (milli), "memory", "ephemeral-storage", "pods" or a scalar."""
        raise NotImplementedError

    def allocatable(self, resource: str) -> IntArray:
        """The same for what each node can hold."""
        raise NotImplementedError

    def pods_on(self, node: str) -> Sequence[Pod]:
        """Pods that count on the node (terminating ones included), by creation time and name."""
        raise NotImplementedError
