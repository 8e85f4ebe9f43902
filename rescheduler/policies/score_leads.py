"""By how much kube-scheduler would score other nodes higher than the one where a pod stands.

With the pod taken off its node first, as kube-scheduler would see it. To score all nodes for every pod takes time in
proportion to the square of the cluster, so a bound for all pods of a class comes first (``behind`` of the plugins): most pods
stand nearly as well as they could. It leaves out only pods that no node leads. Of the others those are judged first that may be
furthest behind, one pod of each class and node for all of them; and no more than ``MOST_JUDGED``. Pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np

from rescheduler.model.records import ObjectKey, Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.score_potential import owners_spec
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import MAX_NODE_SCORE, FloatArray, IntArray, NodeIndices
from rescheduler.scheduling.node_affinity import required_mask
from rescheduler.scheduling.plugin import PossibleNodes
from rescheduler.scheduling.taint_toleration import hard_taints_tolerated

_ROUNDING: Final = 1e-6
"""Bounds are compared in floating point."""
_KEPT: Final = 64
"""So many different wishes of pods about nodes are kept: in some clusters every workload has its own."""
MOST_JUDGED: Final = 1_000
"""Pods that are judged at once: so many that a plan moves others before it comes to the rest, which the next one finds."""


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

    def lead(self, view: PolicyView) -> float:
        """The greatest lead of a node that may be a target, or -1."""
        totals = self.totals[view.nodes.usable[self.nodes]]
        return float((totals.max() - self.own) / self.highest) if len(totals) else -1.0


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


def clearly_beaten(
    standing: Iterable[tuple[PodClass, Sequence[Pod]]], least: float, view: PolicyView
) -> Iterator[tuple[PodClass, float, list[Pod]]]:
    """Those of these pods, by class, that a node which may be a target beats by ``least``, and by how much at most."""
    possible: dict[Hashable, PossibleNodes] = {}
    questions: list[tuple[float, ObjectKey, PodClass, list[Pod]]] = []
    for kind, pods in standing:
        by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            by_node.setdefault(pod.node, []).append(pod)
        if by_node:
            margins = _margins(list(by_node.values()), least, _possible_nodes(kind, possible, view), view)
            questions += [
                (-margin, min(pod.key for pod in alike), kind, alike)
                for margin, alike in zip(margins.tolist(), by_node.values(), strict=True)
                if margin >= -_ROUNDING
            ]
    judged = 0
    for _, _, kind, alike in sorted(questions, key=itemgetter(0, 1)):
        scored = _scored(alike[0], view)
        if scored is None:  # which costs little
            continue
        lead = scored.lead(view)
        if lead >= least:
            yield kind, lead, alike
        judged += 1
        if judged == MOST_JUDGED:
            return


def _margins(
    by_node: Sequence[Sequence[Pod]], least: float, possible: PossibleNodes, view: PolicyView
) -> FloatArray:
    """By how much some node may beat that of each of these pods of a class by more than ``least``; below 0: none does."""
    index = view.state.node_index
    here: NodeIndices = np.array([index[pods[0].node] for pods in by_node], dtype=np.intp)
    if not len(possible.nodes):
        return np.full(len(here), -1.0)
    margins = np.zeros(len(here))
    for _, weight, (most, certain) in view.state.behind(_probe(by_node[0][0], view), here, possible):
        # What a plugin may add to the lead, less what it adds to the highest score if it takes part.
        added = weight * (most - least * MAX_NODE_SCORE)
        margins += np.where(certain, added, np.maximum(added, 0.0))
    return margins


def _possible_nodes(kind: PodClass, known: dict[Hashable, PossibleNodes], view: PolicyView) -> PossibleNodes:
    """Nodes that could be targets for pods of the class by what does not depend on other pods. ``known``: those of others."""
    spec, table = kind.spec, view.nodes
    key = spec.node_selector, spec.node_affinity, spec.tolerations
    if key not in known:
        if len(known) >= _KEPT:
            known.clear()
        nodes = table.usable
        if not view.cluster.profile.disabled:
            nodes = nodes & required_mask(spec, table) & hard_taints_tolerated(spec.tolerations, table)
        known[key] = PossibleNodes(np.flatnonzero(nodes))
    return known[key]


def _probe(pod: Pod, view: PolicyView) -> Pod:
    """The pod as kube-scheduler would be asked about it again."""
    spec = owners_spec(view.state.cluster.kind_of(pod), view)
    return msgspec.structs.replace(pod, node="", nominated_node="", spec=spec)
