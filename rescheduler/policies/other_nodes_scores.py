"""A few nodes that tell how all others score: for pods that differ in nothing but their node.

Without pod affinity to be scored, taking a pod off its node changes what that node has free and what soft spread constraints
count in its domains, and the scores of others only by what plugins normalise with: the highest number of any. So all nodes are scored
once, and a few of them, the best of each kind for spread and those with the extremes, together with its own node for each pod. All
pods are judged at once. Pure: trial moves are rolled back.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray, NodeIndices
from rescheduler.scheduling.inter_pod_affinity import is_scored, required_columns
from rescheduler.scheduling.node_affinity import NodeAffinity
from rescheduler.scheduling.pod_topology_spread import (
    PodTopologySpread,
    counted_domains,
    is_spread,
    spread_without,
)
from rescheduler.scheduling.spread_without import SpreadWithout
from rescheduler.scheduling.taint_toleration import TaintToleration

_OF_EACH: Final = 3
"""So many with an extreme: there is one left without the pod's own node."""
_SHARES: Final = frozenset({TaintToleration.name, NodeAffinity.name})
"""Plugins whose points are shares of the most that any node has, and do not depend on pods. Those of the others are by node alone."""
_AT_ONCE: Final = 1 << 20
"""So many points of spread constraints are worked out at once."""


def told_by_few(kind: PodClass, cluster: Cluster) -> bool:
    """True if pods of the class hold nothing but resources, and no pod affinity is scored for them."""
    return kind.plain and not is_scored(kind, cluster)


def tells_only_its_class(kind: PodClass, cluster: Cluster) -> bool:
    """True if it depends on the class of the pods which nodes take them, or what those score."""
    return (
        bool(required_columns(kind, cluster))
        or is_spread(kind, cluster, hard=True)
        or is_spread(kind, cluster, hard=False)
    )


def same_elsewhere(pod: Pod, kind: PodClass, node: int, cluster: Cluster) -> Hashable:
    """Equal for pods that leave alike which nodes but their own take them, once they are taken off.

    ``kind``: of the pod as it is asked about.
    """
    amounts = kind.spec, pod.held, pod.held_score_cpu_milli, pod.held_score_memory_bytes
    if not tells_only_its_class(kind, cluster):
        return amounts
    columns = required_columns(kind, cluster)
    # Where each node is a domain of its own, a pod that leaves changes no other.
    shared = tuple(column.code_list[node] for column in columns if not column.distinct)
    return kind, amounts, shared, counted_domains(kind, cluster, node)


class _Totals(NamedTuple):
    """Of some pods: what the few nodes score, what the pods' own nodes do, and the most that a node can score."""

    others: IntArray
    """By pod and node."""
    own: IntArray
    highest: IntArray


@dataclass(frozen=True, slots=True)
class OtherNodesScores:
    """What all nodes score for pods that stand on other ones."""

    witness: Pod | None
    """The one pod that was asked about, so that nothing is known of its node; None: all is known of all nodes."""
    telling: NodeIndices
    """Feasible nodes among which are the best and all extremes, also without any one of them."""
    points: dict[str, IntArray]
    """Their points by plugin, but for spread constraints."""
    spread: SpreadWithout | None
    _feasible: npt.NDArray[np.uint8]
    """A bit for each node."""

    @classmethod
    def of(
        cls, probe: Pod, pods: Sequence[Pod], standing: tuple[PodClass, NodeIndices], view: PolicyView
    ) -> OtherNodesScores:
        """``pods``: one or two that leave which nodes take them alike; ``standing``: their class and where its pods stand."""
        state, first = view.state, view.state.node_index[pods[0].node]
        mark = state.checkpoint()
        state.remove(pods[0])
        feasible = state.feasible(probe)
        state.rollback(mark)
        feasible[first] = False
        for other in pods[1:]:
            state.remove(other)
            feasible[first] = state.feasible_at(probe, first)
            state.rollback(mark)
        nodes = np.flatnonzero(feasible)
        total = np.zeros(len(nodes), dtype=np.int64)
        by_plugin: dict[str, IntArray] = {}
        picked: list[NodeIndices] = []
        for name, weight, points in state.points(probe, nodes, but=PodTopologySpread.name):
            by_plugin[name] = points
            total += weight * points
            # A pod's own node is among all nodes, too, and what counts in shares stays with it.
            given = np.flatnonzero(points)[:_OF_EACH]
            picked.append(np.array([points.argmin(), points.argmax()]) if name in _SHARES else given)
        spread = spread_without(view.cluster.kind_of(probe), standing, view.cluster, nodes)
        usable = view.nodes.usable[nodes]
        if spread is not None:
            picked.append(_best_of_each(spread.kinds(nodes), total, usable))
        else:
            asked = np.flatnonzero(usable)
            picked.append(asked[_highest(total[asked])])
        few = np.unique(np.concatenate(picked))
        told = {name: points[few] for name, points in by_plugin.items()}
        return cls(pods[0] if len(pods) == 1 else None, nodes[few], told, spread, np.packbits(feasible))

    def takes(self, node: int) -> bool:
        """True if the node (an index) takes another such pod, although one stands there."""
        return bool(self._feasible[node >> 3] & (128 >> (node & 7)))

    def leads(self, probe: Pod, pods: Sequence[Pod], view: PolicyView) -> FloatArray:
        """The greatest lead over the node of each of these pods, which stand on different nodes that would take them again.

        -1: there is no target; not a number: the few nodes do not tell it.
        """
        if not len(self.telling):
            return np.full(len(pods), -1.0)
        at_once = max(_AT_ONCE // len(self.telling), 1)
        if len(pods) > at_once:
            parts = [pods[i : i + at_once] for i in range(0, len(pods), at_once)]
            return np.concatenate([self.leads(probe, part, view) for part in parts])
        here: NodeIndices = np.array([view.state.node_index[pod.node] for pod in pods], dtype=np.intp)
        found = self._totals(probe, pods, here, view)
        if found is None and len(pods) == 1:
            return np.full(1, np.nan)
        if found is None:
            return np.concatenate([self.leads(probe, (pod,), view) for pod in pods])
        usable = view.nodes.usable
        targets = usable[self.telling] & (self.telling != here[:, None])
        far = int(found.own.min()) - int(found.highest.max()) - 1
        best = np.where(targets, found.others, far).max(axis=1)
        best = np.where(usable[here], np.maximum(best, found.own), best)
        told = (best > far) & (found.highest > 0)
        leads: FloatArray = np.where(told, (best - found.own) / np.maximum(found.highest, 1), -1.0)
        return leads

    def _totals(self, probe: Pod, pods: Sequence[Pod], here: NodeIndices, view: PolicyView) -> _Totals | None:
        """None if the pods' own nodes change what the others score: perhaps only some of them, or only together."""
        state, number = view.state, len(self.telling)
        nodes = np.concatenate([self.telling, here])
        together = state.points_alone(probe, pods[0], here, nodes, but=PodTopologySpread.name)
        others = np.zeros(number, dtype=np.int64)
        own, highest = np.zeros(len(here), dtype=np.int64), np.zeros(len(here), dtype=np.int64)
        beside = self.telling != here[:, None]
        for name, weight, points in together:
            elsewhere, alone = self.points[name], points[number:]
            if name in _SHARES:
                several = len(here) > 1
                if not _same_shares(elsewhere, points[:number], alone, several=several):
                    return None
            others += weight * elsewhere
            own += weight * alone
            given = (beside & (elsewhere != 0)).any(axis=1) | (alone != 0)
            highest += weight * MAX_NODE_SCORE * given
        totals = _Totals(np.broadcast_to(others, beside.shape), own, highest)
        return totals if self.spread is None else self._with_spread(totals, self.spread, here, view)

    def _with_spread(
        self, totals: _Totals, spread: SpreadWithout, here: NodeIndices, view: PolicyView
    ) -> _Totals:
        weight = dict(view.cluster.profile.weights)[PodTopologySpread.name]
        points = spread.points(here, self.telling)
        given = (points != 0).any(axis=1)
        return _Totals(
            totals.others + weight * points[:, :-1],
            totals.own + weight * points[:, -1],
            totals.highest + weight * MAX_NODE_SCORE * given,
        )


def _same_shares(before: IntArray, now: IntArray, own: IntArray, *, several: bool) -> bool:
    """True if the few nodes still have what the plugin normalises with, for each of ``several`` pods alone."""
    if not np.array_equal(before, now):
        return False
    # Where none of the few has anything, their points are the same whatever others have.
    return not several or bool(before.min() < before.max() or (own == before[0]).all())


def _highest(points: IntArray) -> NodeIndices:
    if len(points) <= _OF_EACH:
        return np.arange(len(points), dtype=np.intp)
    return np.argpartition(points, -_OF_EACH)[-_OF_EACH:]


def _best_of_each(kinds: IntArray, total: IntArray, usable: BoolArray) -> NodeIndices:
    """Some nodes of each kind: those that may be targets first, then by total."""
    behind = int(total.max(initial=0)) - total
    behind = np.where(usable, behind, behind + int(behind.max(initial=0)) + 1)
    order = _sorted(behind)
    order = order[_sorted(kinds[order])]
    ordered = kinds[order]
    first = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    place = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    picked: NodeIndices = order[place < _OF_EACH]
    return picked


def _sorted(keys: IntArray) -> NodeIndices:
    """The order of numbers that are not negative. Small ones are sorted in linear time."""
    small = int(keys.max(initial=0)) < 1 << 16
    order: NodeIndices = np.argsort(keys.astype(np.uint16) if small else keys, kind="stable")
    return order
