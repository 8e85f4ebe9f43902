"""By how much kube-scheduler would score other nodes higher than the one where a pod stands.

With the pod taken off its node first, as kube-scheduler would see it. To score all nodes for every pod takes time in
proportion to the square of the cluster, so a bound for all pods of a class comes first (``behind`` of the plugins): most pods
stand nearly as well as they could. It leaves out only pods that have no lead; what is left is judged one by one. Pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.other_nodes_scores import (
    OtherNodesScores,
    same_elsewhere,
    tells_only_its_class,
    told_by_few,
)
from rescheduler.policies.owners_wishes import owners_spec
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray, NodeIndices
from rescheduler.scheduling.node_affinity import required_mask
from rescheduler.scheduling.plugin import PossibleNodes
from rescheduler.scheduling.taint_toleration import hard_taints_tolerated

_ROUNDING: Final = 1e-6
"""Bounds are compared in floating point."""
_KEPT: Final = 64
"""So many different wishes of pods about nodes are kept: in some clusters every workload has its own."""


def score_lead(pod: Pod, view: PolicyView) -> FloatArray:
    """Share (-1..1) of the highest possible score by which each node beats the pod's own; shape (nodes,).

    By all scores and weights of the profile, with the pod taken off its node first, as kube-scheduler would see
    it, but for the hint that admission adds: its owner does not wish to avoid those nodes. Plugins that have nothing to say of this pod on any node do not count into the highest score.

    -1 on nodes that refuse the pod, and everywhere if its own node would refuse it now: that is another
    policy's business.
    """
    leads = np.full(len(view.state.node_names), -1.0)
    scored = _scored(pod, view)
    if scored is not None:
        leads[scored.nodes] = (scored.totals - scored.own) / scored.highest
    return leads


class _Scored(NamedTuple):
    """What kube-scheduler would score."""

    nodes: NodeIndices
    """The feasible ones."""
    totals: IntArray
    own: int
    """Of the pod's own node."""
    highest: int
    """The most that a node could score; above 0."""


def _scored(pod: Pod, view: PolicyView) -> _Scored | None:
    """Of a pod that is taken off its node; None if its own node would refuse it, or if no plugin gives points."""
    state = view.state
    here, mark = state.node_index[pod.node], state.checkpoint()
    state.remove(pod)
    probe, found = _probe(pod, view), None
    if state.feasible_at(probe, here):
        nodes = np.flatnonzero(state.feasible(probe))
        totals = np.zeros(len(nodes), dtype=np.int64)
        highest = 0
        for _, weight, points in state.points(probe, nodes):
            if points.any():
                highest += MAX_NODE_SCORE * weight
                totals += weight * points
        if highest:
            found = _Scored(nodes, totals, int(totals[np.searchsorted(nodes, here)]), highest)
    state.rollback(mark)
    return found


@dataclass(frozen=True, slots=True)
class _Told:
    """What a few nodes told, by what pods have in common; leads by the node, too."""

    elsewhere: dict[Hashable, OtherNodesScores | None] = field(default_factory=dict)
    leads: dict[tuple[Hashable, str], float] = field(default_factory=dict)


class ScoreLeads:
    """Who leads in a state without changes, asked class by class; what pods of other classes told is kept."""

    def __init__(self, least: float, view: PolicyView) -> None:
        """``least``: smaller leads do not matter."""
        self._least = least
        self._view = view
        self._told_for_all = _Told()
        self._possible: dict[Hashable, PossibleNodes] = {}

    def of(self, pods: Sequence[Pod], kind: PodClass) -> Iterator[tuple[Pod, float]]:
        """Those of these pods of one class that a node which may be a target beats clearly, and by how much at most."""
        if not pods:
            return
        index = self._view.state.node_index
        nodes = list(dict.fromkeys(pod.node for pod in pods))
        here: NodeIndices = np.array([index[node] for node in nodes], dtype=np.intp)
        worth = self._may_be_beaten(pods[0], kind, here)
        if not worth.any():
            return
        asked = {nodes[i] for i in np.flatnonzero(worth).tolist()}
        probe = self._view.state.cluster.kind_of(_probe(pods[0], self._view))
        cluster = self._view.cluster
        few = told_by_few(probe, cluster)
        told = _Told() if tells_only_its_class(probe, cluster) else self._told_for_all
        known: dict[str, float] = {}
        for pod in pods:
            if pod.node in asked:
                if pod.node not in known:
                    known[pod.node] = self._told(pod, probe, told) if few else _lead(pod, self._view)
                if known[pod.node] >= self._least:
                    yield pod, known[pod.node]

    def _told(self, pod: Pod, kind: PodClass, told: _Told) -> float:
        alike = same_elsewhere(pod, kind, self._view.state.node_index[pod.node], self._view.cluster)
        key = alike, pod.node
        found = told.leads.get(key)
        if found is None:
            found = told.leads[key] = self._by_few(pod, alike, told)
        return found

    def _by_few(self, pod: Pod, alike: Hashable, told: _Told) -> float:
        state, here = self._view.state, self._view.state.node_index[pod.node]
        probe, mark = _probe(pod, self._view), state.checkpoint()
        lead: float | None = -1.0
        state.remove(pod)
        if state.feasible_at(probe, here):
            if alike not in told.elsewhere:
                told.elsewhere[alike] = OtherNodesScores.of(probe, here, self._view)
            elsewhere = told.elsewhere[alike]
            lead = elsewhere.lead(probe, here, self._view) if elsewhere is not None else None
        state.rollback(mark)
        return _lead(pod, self._view) if lead is None else lead

    def _may_be_beaten(self, pod: Pod, kind: PodClass, here: NodeIndices) -> BoolArray:
        """False for nodes that no other can beat clearly, for pods of the class that stand there."""
        possible = self._possible_nodes(kind)
        margin = np.zeros(len(here))
        if not len(possible.nodes):
            return margin > 0
        for _, weight, (most, certain) in self._view.state.behind(_probe(pod, self._view), here, possible):
            # What a plugin may add to the lead, less what it adds to the highest score if it takes part.
            added = weight * (most - self._least * MAX_NODE_SCORE)
            margin += np.where(certain, added, np.maximum(added, 0.0))
        return margin >= -_ROUNDING

    def _possible_nodes(self, kind: PodClass) -> PossibleNodes:
        """Nodes that could be targets for pods of the class by what does not depend on other pods."""
        spec, table = kind.spec, self._view.nodes
        key = spec.node_selector, spec.node_affinity, spec.tolerations
        known = self._possible.get(key)
        if known is None:
            nodes = table.usable
            if not self._view.cluster.profile.disabled:
                nodes = nodes & required_mask(spec, table) & hard_taints_tolerated(spec.tolerations, table)
            if len(self._possible) >= _KEPT:
                del self._possible[next(iter(self._possible))]
            known = self._possible[key] = PossibleNodes(np.flatnonzero(nodes))
        return known


def _lead(pod: Pod, view: PolicyView) -> float:
    """The greatest lead of a node that may be a target, or -1."""
    scored = _scored(pod, view)
    if scored is None:
        return -1.0
    totals = scored.totals[view.nodes.usable[scored.nodes]]
    return float((totals.max() - scored.own) / scored.highest) if len(totals) else -1.0


def _probe(pod: Pod, view: PolicyView) -> Pod:
    """The pod as kube-scheduler would be asked about it again."""
    spec = owners_spec(view.state.cluster.kind_of(pod), view)
    return msgspec.structs.replace(pod, node="", nominated_node="", spec=spec)
