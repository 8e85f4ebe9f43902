"""Runs the plugins as kube-scheduler's framework does: PreFilter, Filter in two passes, scores by weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.scheduling.classes import Ask, Nominated
from rescheduler.scheduling.cluster import Cluster
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
from rescheduler.scheduling.node_affinity import REASON_NARROWED, NodeAffinity, named_nodes
from rescheduler.scheduling.node_ports import NodePorts
from rescheduler.scheduling.node_volume_limits import NodeVolumeLimits
from rescheduler.scheduling.plugin import FilterPlugin, ScorePlugin
from rescheduler.scheduling.registry import FILTERS, SCORES
from rescheduler.scheduling.volume_binding import VolumeBinding
from rescheduler.scheduling.volume_restrictions import VolumeRestrictions
from rescheduler.scheduling.volume_zone import VolumeZone

NominatedByNode = Mapping[int, Sequence[Pod]]
OTHER_SCHEDULER = "SchedulerName"
_ABOUT_MORE = frozenset(
    plugin.name for plugin in (NodePorts, VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)
)
"""Filters that have nothing to say of pods that hold nothing on a node but resources."""
_NARROWED = Refusal(NodeAffinity.name, REASON_NARROWED, unresolvable=True)


class Pipeline:
    """The plugins of one profile."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._filters: tuple[FilterPlugin, ...] = tuple(f for f in FILTERS if f.name not in profile.disabled)
        weights = dict(profile.weights)
        self._scores: tuple[tuple[ScorePlugin, int], ...] = tuple(
            (plugin, weights[plugin.name]) for plugin in SCORES if plugin.name in weights
        )
        self._plain_filters = tuple(f for f in self._filters if f.name not in _ABOUT_MORE)
        self.names = (*(f.name for f in self._filters), OTHER_SCHEDULER)
        self._code = {name: code for code, name in enumerate(self.names)}

    def filter(self, ask: Ask, cluster: Cluster, nominated: NominatedByNode) -> FilterResult:
        """Which nodes take the pod."""
        size = cluster.nodes.size
        everywhere = self._everywhere(ask, cluster)
        if everywhere is not None:
            refused = np.full(size, self._code[everywhere.plugin], dtype=np.int8)
            return FilterResult(np.zeros(size, dtype=np.bool_), refused, self.names, everywhere)
        feasible = cluster.nodes.all.copy()
        refused_by = np.full(size, -1, dtype=np.int8)
        for code, plugin in enumerate(self._filters):
            mask = plugin.mask(ask, cluster)
            if mask is not None:
                refused_by[feasible & ~mask] = code
                feasible &= mask
        # kube-scheduler runs all filters twice where pods are nominated: with them and, above, without them.
        self._first_pass(ask, cluster, nominated, feasible, refused_by)
        # Last, because PreFilter's own reason goes before that of any filter on nodes that it leaves out.
        self._narrow(ask, cluster, feasible, refused_by)
        return FilterResult(feasible, refused_by, self.names)

    def feasible(self, ask: Ask, cluster: Cluster, nominated: NominatedByNode) -> BoolArray:
        """The same nodes as ``filter`` finds, without saying which plugin refuses the others."""
        if self._everywhere(ask, cluster) is not None:
            return np.zeros(cluster.nodes.size, dtype=np.bool_)
        feasible = cluster.nodes.all.copy()
        for plugin in self._filters:
            mask = plugin.mask(ask, cluster)
            if mask is not None:
                feasible &= mask
        if nominated or ask.kind.spec.node_affinity is not None:
            refused_by = np.full(cluster.nodes.size, -1, dtype=np.int8)
            self._first_pass(ask, cluster, nominated, feasible, refused_by)
            self._narrow(ask, cluster, feasible, refused_by)
        return feasible

    def feasible_at(self, ask: Ask, cluster: Cluster, nominated: NominatedByNode, node: int) -> bool:
        """The same for one node (an index), without looking at the others."""
        if self._everywhere(ask, cluster) is not None:
            return False
        named = named_nodes(ask.kind.spec)
        if named is not None and cluster.nodes.names[node] not in named and self._narrows():
            return False
        filters = self._plain_filters if ask.kind.plain else self._filters
        for plugin in filters:
            if plugin.refusals(ask, cluster, node):
                return False
        counted = _counted(ask, cluster, nominated[node]) if node in nominated else ()
        return not counted or not any(p.refusals(ask, cluster, node, counted) for p in filters)

    def score(self, ask: Ask, cluster: Cluster, feasible: BoolArray) -> ScoreResult:
        """Scores over the feasible nodes; plugins that skip the pod are missing."""
        nodes = np.flatnonzero(feasible)
        total: IntArray = np.zeros(cluster.nodes.size, dtype=np.int64)
        by_plugin: dict[str, IntArray] = {}
        sums = np.zeros(len(nodes), dtype=np.int64)
        for name, weight, points in self.points(ask, cluster, nodes):
            sums += weight * points
            spread = np.zeros(cluster.nodes.size, dtype=np.int64)
            spread[nodes] = points
            by_plugin[name] = spread
        total[nodes] = sums
        return ScoreResult(total, by_plugin)

    def totals(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> IntArray:
        """The weighted sums of ``score`` for the feasible ``nodes``, in their order."""
        sums: IntArray = np.zeros(len(nodes), dtype=np.int64)
        for _, weight, points in self.points(ask, cluster, nodes):
            sums += weight * points
        return sums

    def points(self, ask: Ask, cluster: Cluster, nodes: NodeIndices) -> Iterator[tuple[str, int, IntArray]]:
        """(plugin, weight, points of each of the feasible ``nodes``); plugins that skip the pod are missing."""
        if len(nodes):
            for plugin, weight in self._scores:
                points = plugin.score(ask, cluster, nodes)
                if points is not None:
                    yield plugin.name, weight, points

    def explain(self, ask: Ask, cluster: Cluster, nominated: NominatedByNode) -> tuple[NodeVerdict, ...]:
        """Every node's verdict with reasons, and scores where it is feasible."""
        result = self.filter(ask, cluster, nominated)
        scores = self.score(ask, cluster, result.feasible)
        verdicts: list[NodeVerdict] = []
        for node, name in enumerate(cluster.nodes.names):
            if result.feasible[node]:
                points = tuple((plugin, int(have[node])) for plugin, have in scores.by_plugin.items())
                total = int(scores.total[node])
                verdicts.append(NodeVerdict(name, feasible=True, scores=points, score=total))
            else:
                reasons = self.refusals(ask, cluster, node, result, nominated)
                verdicts.append(NodeVerdict(name, feasible=False, refusals=reasons))
        return tuple(verdicts)

    def refusals(
        self, ask: Ask, cluster: Cluster, node: int, result: FilterResult, nominated: NominatedByNode
    ) -> tuple[Refusal, ...]:
        """What the refusing plugin says of a node that ``result`` refuses."""
        if result.everywhere is not None:
            return (result.everywhere,)
        named = named_nodes(ask.kind.spec)
        if named is not None and cluster.nodes.names[node] not in named and self._narrows():
            return (_NARROWED,)
        plugin = self._filters[int(result.refused_by[node])]
        counted = _counted(ask, cluster, nominated.get(node, ()))
        return plugin.refusals(ask, cluster, node, counted) or plugin.refusals(ask, cluster, node)

    def _everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:
        # Of pods without volumes it follows from their class alone.
        if ask.kind.plain:
            return ask.kind.memo.of(Pipeline, self, lambda: self._judged_everywhere(ask, cluster))
        return self._judged_everywhere(ask, cluster)

    def _judged_everywhere(self, ask: Ask, cluster: Cluster) -> Refusal | None:
        wanted = ask.kind.spec.scheduler_name
        if not self._profile.judges(wanted):
            reason = (
                f"not judged: the pod asks for scheduler {wanted!r}, not {self._profile.scheduler_name!r}"
            )
            return Refusal(OTHER_SCHEDULER, reason, unresolvable=True)
        last: Refusal | None = None
        for plugin in self._filters:
            refusal = plugin.everywhere(ask, cluster)
            # The framework goes on after a refusal that preemption could resolve, and reports the last of those.
            if refusal is not None and refusal.unresolvable:
                return refusal
            last = refusal or last
        return last

    def _first_pass(
        self,
        ask: Ask,
        cluster: Cluster,
        nominated: NominatedByNode,
        feasible: BoolArray,
        refused_by: np.ndarray[tuple[int], np.dtype[np.int8]],
    ) -> None:
        """Nodes with nominated pods of the same process and at least the same priority must pass with them, too."""
        for node, pods in nominated.items():
            counted = _counted(ask, cluster, pods)
            if not counted:
                continue
            for code, plugin in enumerate(self._filters):
                if plugin.refusals(ask, cluster, node, counted):
                    feasible[node] = False
                    refused_by[node] = code
                    break

    def _narrow(
        self,
        ask: Ask,
        cluster: Cluster,
        feasible: BoolArray,
        refused_by: np.ndarray[tuple[int], np.dtype[np.int8]],
    ) -> None:
        """Nodes that PreFilter leaves out are not looked at by any filter."""
        named = named_nodes(ask.kind.spec)
        if named is None or not self._narrows():
            return
        outside = cluster.nodes.all.copy()
        outside[[cluster.nodes.index[name] for name in named if name in cluster.nodes.index]] = False
        feasible &= ~outside
        refused_by[outside] = self._code[NodeAffinity.name]

    def _narrows(self) -> bool:
        return NodeAffinity.name in self._code


def _counted(ask: Ask, cluster: Cluster, pods: Sequence[Pod]) -> tuple[Nominated, ...]:
    spec, counts = ask.kind.spec, cluster.profile.counts_nomination
    return tuple(
        Nominated(pod, cluster.kind_of(pod))
        for pod in pods
        if pod.spec.priority >= spec.priority
        and pod.uid != ask.pod.uid
        and counts(pod.spec.scheduler_name, spec.scheduler_name)
    )
