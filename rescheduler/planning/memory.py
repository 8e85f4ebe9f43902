"""What one decision hands on to the next: pods by class and nodes by label, which follow the snapshots.

A plan is the same with and without it; only the time differs. Owned by one thread, as the scheduling state is.
"""

from __future__ import annotations

from collections.abc import Callable

from rescheduler.model.records import Node, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.classes import PodClass
from rescheduler.policies.framework import View
from rescheduler.policies.index import PodIndex
from rescheduler.policies.nodes import NodeTable
from rescheduler.scheduling.snapshot_changes import NodeChange, changed_pods, node_change
from rescheduler.scheduling.state import SchedulingState


class Memory:
    """Keeps the index of pods and the table of nodes between decisions on one cluster."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._index: PodIndex | None = None
        self._nodes: NodeTable | None = None

    def view(
        self,
        snapshot: Snapshot,
        state: SchedulingState,
        movable: Callable[[Pod], bool],
        movable_class: Callable[[PodClass], bool | None],
    ) -> View:
        """A view of the snapshot without any planned move. ``state`` follows the same snapshot."""
        nodes = [snapshot.nodes[name] for name in state.node_names]
        if self._nodes is None or not _alike(self._nodes.nodes, nodes):
            self._nodes = NodeTable(nodes)
        else:
            self._nodes.renew(nodes)
        index = self._index = self._followed(snapshot) or PodIndex(snapshot, state.node_index)
        self._snapshot = snapshot
        return View(
            snapshot=snapshot,
            state=state,
            index=index,
            nodes=self._nodes,
            movable=movable,
            movable_class=movable_class,
        )

    def rest(self) -> None:
        """The decision is made: let go of what only it needed."""
        if self._index is not None:
            self._index.restart()

    def _followed(self, snapshot: Snapshot) -> PodIndex | None:
        old, index = self._snapshot, self._index
        if old is None or index is None or index.overgrown:
            return None
        if node_change(old, snapshot) is NodeChange.TOPOLOGY:
            return None
        gone, come = changed_pods(old, snapshot)
        index.follow(snapshot, gone, come)
        return index


def _alike(old: tuple[Node, ...], new: list[Node]) -> bool:
    """True if nothing changed that the table remembers an answer about."""
    if len(old) != len(new):
        return False
    return all(a is b or _judged(a) == _judged(b) for a, b in zip(old, new, strict=True))


def _judged(node: Node) -> tuple[object, ...]:
    return (
        node.name,
        node.labels,
        node.taints,
        node.ready,
        node.unschedulable,
        node.deleting,
        node.do_not_disrupt,
        node.avoid,
    )
