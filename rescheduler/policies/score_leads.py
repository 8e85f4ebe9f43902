"""By how much kube-scheduler would score other nodes higher than the one where a pod stands.

With the pod taken off its node first, as kube-scheduler would see it. To score all nodes for every pod takes time in
proportion to the square of the cluster, so a bound for all pods of a class comes first (``behind`` of the plugins): most pods
stand nearly as well as they could. It leaves out only pods that have no lead; what is left is judged one by one. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.owners_wishes import owners_spec
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import MAX_NODE_SCORE, BoolArray, FloatArray, NodeIndices
from rescheduler.scheduling.node_affinity import required_mask
from rescheduler.scheduling.plugin import PossibleNodes
from rescheduler.scheduling.taint_toleration import hard_taints_tolerated

_ROUNDING: Final = 1e-6
"""Bounds are compared in floating point."""


def score_lead(pod: Pod, view: PolicyView) -> FloatArray:
    """Share (-1..1) of the highest possible score by which each node beats the pod's own; shape (nodes,).

    By all scores and weights of the profile, with the pod taken off its node first, as kube-scheduler would see
    it, but for the hint that admission adds: its owner does not wish to avoid those nodes. Plugins that have nothing to say of this pod on any node do not count into the highest score.

    -1 on nodes that refuse the pod, and everywhere if its own node would refuse it now: that is another
    policy's business.
    """
    state = view.state
    here, size = state.node_index[pod.node], len(state.node_names)
    mark = state.checkpoint()
    state.remove(pod)
    probe = _probe(pod, view)
    leads = np.full(size, -1.0)
    if state.feasible_at(probe, here):
        feasible = state.feasible(probe)
        nodes = np.flatnonzero(feasible)
        total = np.zeros(size, dtype=np.int64)
        plugins: set[str] = set()
        for name, weight, points in state.points(probe, nodes):
            if points.any():
                plugins.add(name)
                total[nodes] += weight * points
        highest = sum(MAX_NODE_SCORE * weight for name, weight in state.profile.weights if name in plugins)
        if highest:
            leads = np.where(feasible, (total - total[here]) / highest, -1.0)
    state.rollback(mark)
    return leads


def leads(pods: Sequence[Pod], kind: PodClass, least: float, view: PolicyView) -> Iterator[tuple[Pod, float]]:
    """The pods of one class that another node beats by at least that share, with the greatest lead of a node that may be a target."""
    if not pods:
        return
    known: dict[str, float] = {}
    index = view.state.node_index
    nodes = list(dict.fromkeys(pod.node for pod in pods))
    here: NodeIndices = np.array([index[node] for node in nodes], dtype=np.intp)
    may = set(np.flatnonzero(_may_be_beaten(pods[0], kind, here, least, view)).tolist())
    worth = {node for i, node in enumerate(nodes) if i in may}
    for pod in pods:
        if pod.node in worth:
            if pod.node not in known:
                known[pod.node] = float(score_lead(pod, view)[view.nodes.usable].max())
            if known[pod.node] >= least:
                yield pod, known[pod.node]


def _may_be_beaten(pod: Pod, kind: PodClass, here: NodeIndices, least: float, view: PolicyView) -> BoolArray:
    """False for nodes that no other can beat by that share, for pods of the class that stand there."""
    possible = _possible_nodes(kind, view)
    margin = np.zeros(len(here))
    if not len(possible.nodes):
        return margin > 0
    for _, weight, (most, certain) in view.state.behind(_probe(pod, view), here, possible):
        # What a plugin may add to the lead, less what it adds to the highest score if it takes part.
        added = weight * (most - least * MAX_NODE_SCORE)
        margin += np.where(certain, added, np.maximum(added, 0.0))
    return margin >= -_ROUNDING


def _possible_nodes(kind: PodClass, view: PolicyView) -> PossibleNodes:
    """Nodes that could be targets for pods of the class by what does not depend on other pods."""
    spec, table = kind.spec, view.nodes

    def find() -> PossibleNodes:
        nodes = table.usable
        if not view.cluster.profile.disabled:
            nodes = nodes & required_mask(spec, table) & hard_taints_tolerated(spec.tolerations, table)
        return PossibleNodes(np.flatnonzero(nodes))

    return table.memo.of(
        (_possible_nodes, spec.node_selector, spec.node_affinity, spec.tolerations), None, find
    )


def _probe(pod: Pod, view: PolicyView) -> Pod:
    """The pod as kube-scheduler would be asked about it again."""
    spec = owners_spec(view.state.cluster.kind_of(pod), view)
    return msgspec.structs.replace(pod, node="", nominated_node="", spec=spec)
