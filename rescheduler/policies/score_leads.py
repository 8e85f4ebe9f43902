"""By how much kube-scheduler would score other nodes higher than the one where a pod stands.

With the pod taken off its node first, as kube-scheduler would see it. To score all nodes for every pod takes time in
proportion to the square of the cluster, so a bound for all pods of a class comes first (``behind`` of the plugins): most pods
stand nearly as well as they could. It leaves out only pods that have no lead; what is left is judged by a few nodes, all pods of a
class together, or where these do not tell it one by one against all nodes. Pure.
"""

from __future__ import annotations

import math
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
from rescheduler.policies.score_potential import owners_spec
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray, NodeIndices
from rescheduler.scheduling.node_affinity import required_mask
from rescheduler.scheduling.plugin import PossibleNodes
from rescheduler.scheduling.taint_toleration import hard_taints_tolerated

_ROUNDING: Final = 1e-6
"""Bounds are compared in floating point."""
_ALONE: Final = 2
"""No more pods than this are judged one by one."""
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

    elsewhere: dict[Hashable, OtherNodesScores] = field(default_factory=dict)
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
        first: dict[str, Pod] = {}
        for pod in pods:
            if pod.node in asked:
                first.setdefault(pod.node, pod)
        known = self._leads(tuple(first.values()), kind)
        for pod in pods:
            lead = known.get(pod.node, -1.0)
            if lead >= self._least:
                yield pod, lead

    def _leads(self, pods: Sequence[Pod], standing: PodClass) -> dict[str, float]:
        """By node, of pods of one class on different nodes."""
        view, cluster = self._view, self._view.cluster
        probe = _probe(pods[0], view)
        kind = cluster.kind_of(probe)
        if not told_by_few(kind, cluster):
            return {pod.node: _lead(pod, view) for pod in pods}
        told = _Told() if tells_only_its_class(kind, cluster) else self._told_for_all
        groups: dict[Hashable, list[Pod]] = {}
        for pod in pods:
            alike = same_elsewhere(pod, kind, view.state.node_index[pod.node], cluster)
            groups.setdefault(alike, []).append(pod)
        here: NodeIndices = np.array([view.state.node_index[pod.node] for pod in pods], dtype=np.intp)
        leads: dict[str, float] = {}
        for alike, group in groups.items():
            fresh = [pod for pod in group if (alike, pod.node) not in told.leads]
            if len(fresh) <= _ALONE and told is not self._told_for_all:
                # Nothing is kept for others, and all nodes are scored for less than what the few take to find.
                told.leads.update(((alike, pod.node), _lead(pod, view)) for pod in fresh)
            elif fresh:
                elsewhere = self._elsewhere(probe, fresh, alike, (standing, here), told)
                found = elsewhere.leads(probe, fresh, view).tolist()
                for pod, lead in zip(fresh, found, strict=True):
                    told.leads[alike, pod.node] = self._checked(pod, probe, lead, elsewhere)
            leads.update((pod.node, told.leads[alike, pod.node]) for pod in group)
        return leads

    def _elsewhere(
        self,
        probe: Pod,
        pods: Sequence[Pod],
        alike: Hashable,
        standing: tuple[PodClass, NodeIndices],
        told: _Told,
    ) -> OtherNodesScores:
        """What is known already, unless it leaves out a node that matters to these pods."""
        known = told.elsewhere.get(alike)
        if known is not None and known.witness is None:
            return known
        asked = pods[:2] if known is None or known.witness is None else (pods[0], known.witness)
        found = told.elsewhere[alike] = OtherNodesScores.of(probe, asked, standing, self._view)
        return found

    def _checked(self, pod: Pod, probe: Pod, lead: float, elsewhere: OtherNodesScores) -> float:
        """The lead, if the pod's own node would take it again; worked out from all nodes where the few did not tell it."""
        if math.isnan(lead):
            return _lead(pod, self._view)
        if lead < self._least:
            return lead
        state, mark = self._view.state, self._view.state.checkpoint()
        here = state.node_index[pod.node]
        # A node that takes one more takes one again, unless that one must find others of its kind there.
        if elsewhere.takes(here) and not probe.spec.pod_affinity:
            return lead
        state.remove(pod)
        taken = state.feasible_at(probe, here)
        state.rollback(mark)
        return lead if taken else -1.0

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
