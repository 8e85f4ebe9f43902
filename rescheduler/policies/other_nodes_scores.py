"""A few nodes that tell how all others score: for pods that differ in nothing but their node.

Without spread constraints and pod affinity to be scored, taking a pod off its node changes the score of that node alone, and
that of others only by what plugins normalise with: their lowest and highest score. So all nodes are scored for one pod, and a few
of them, the best and those with the extremes, together with its own node for each other pod. Where the extremes are others then,
nothing is told. Pure.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import MAX_NODE_SCORE, IntArray, NodeIndices
from rescheduler.scheduling.inter_pod_affinity import is_scored, required_columns
from rescheduler.scheduling.pod_topology_spread import counted_domains, is_spread

_OF_EACH: Final = 3
"""So many with an extreme: there is one left without the pod's own node."""


def told_by_few(kind: PodClass, cluster: Cluster) -> bool:
    """True if pods of the class leave the scores of other nodes as they are, and hold nothing but resources."""
    return kind.plain and not is_spread(kind, cluster, hard=False) and not is_scored(kind, cluster)


def tells_only_its_class(kind: PodClass, cluster: Cluster) -> bool:
    """True if it depends on the class of the pods which nodes take them."""
    return bool(required_columns(kind, cluster)) or is_spread(kind, cluster, hard=True)


def same_elsewhere(pod: Pod, kind: PodClass, node: int, cluster: Cluster) -> Hashable:
    """Equal for pods that leave all nodes but their own alike, once they are taken off.

    ``kind``: of the pod as it is asked about.
    """
    amounts = kind.spec, pod.held, pod.held_score_cpu_milli, pod.held_score_memory_bytes
    if not tells_only_its_class(kind, cluster):
        return amounts
    columns = required_columns(kind, cluster)
    # Where each node is a domain of its own, a pod that leaves changes no other.
    shared = tuple(column.code_list[node] for column in columns if not column.distinct)
    return kind, amounts, shared, counted_domains(kind, cluster, node)


class OtherNodesScores(NamedTuple):
    """What all nodes but one score, the pod that stood there taken off."""

    left_out: int
    """That node."""
    telling: NodeIndices
    """Feasible nodes among which are the best and all extremes, also without any one of them."""
    points: dict[str, IntArray]
    """Their points by plugin, without the node that is left out."""

    @classmethod
    def of(cls, probe: Pod, here: int, view: PolicyView) -> OtherNodesScores | None:
        """In the state of the view, where the pod is taken off; None if no other node takes it."""
        feasible = view.state.feasible(probe)
        feasible[here] = False
        nodes = np.flatnonzero(feasible)
        if not len(nodes):
            return None
        total = np.zeros(len(nodes), dtype=np.int64)
        by_plugin: dict[str, IntArray] = {}
        picked: list[NodeIndices] = []
        for name, weight, points in view.state.points(probe, nodes):
            by_plugin[name] = points
            total += weight * points
            picked += [_highest(points), _highest(-points)]
        usable = np.flatnonzero(view.nodes.usable[nodes])
        picked.append(usable[_highest(total[usable])])
        few = np.unique(np.concatenate(picked))
        return cls(here, nodes[few], {name: points[few] for name, points in by_plugin.items()})

    def lead(self, probe: Pod, here: int, view: PolicyView) -> float | None:
        """The greatest lead over the node of another such pod, which is taken off; None if the few nodes do not tell it."""
        state = view.state
        others = self.telling[self.telling != here]
        asked = [here]
        if self.left_out != here and state.feasible_at(probe, self.left_out):
            asked.append(self.left_out)
        nodes: NodeIndices = np.concatenate([others, np.array(asked, dtype=np.intp)])
        total = np.zeros(len(nodes), dtype=np.int64)
        highest, number = 0, 0
        for name, weight, points in state.points(probe, nodes):
            number += 1
            if not self._tells(name, points[: len(others)], here):
                return None
            if points.any():
                highest += weight * MAX_NODE_SCORE
                total += weight * points
        targets = view.nodes.usable[nodes]
        if number != len(self.points) or not highest or not targets.any():
            return None
        return float((total[targets].max() - total[len(others)]) / highest)

    def _tells(self, plugin: str, points: IntArray, here: int) -> bool:
        """True if the plugin gives the others the same points as before, and they still have its extremes among them."""
        before = self.points.get(plugin)
        if before is None or not len(points):
            return False
        known = before[self.telling != here]
        return bool(
            np.array_equal(points, known) and points.min() == before.min() and points.max() == before.max()
        )


def _highest(points: IntArray) -> NodeIndices:
    if len(points) <= _OF_EACH:
        return np.arange(len(points), dtype=np.intp)
    return np.argpartition(points, -_OF_EACH)[-_OF_EACH:]
