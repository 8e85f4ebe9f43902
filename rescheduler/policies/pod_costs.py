"""Badness of pods one by one: what a pod costs on each node depends on the pod and on the nodes, not on other pods.

A policy says what pods of a class cost on some nodes; the sum over the cluster, and what a move changes in it, follow. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import TIERS, Tier, in_tier, nothing, unchanged
from rescheduler.policies.wire import Scope
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.framework import BoolArray, IntArray, NodeIndices

EVERYWHERE: Final = slice(None)

CostRows = Sequence[tuple[Tier, IntArray]]
"""Whole numbers for some nodes, by tier; a tier may come more than once."""
PodCost = Callable[[PodClass, NodeIndices | slice, PolicyView], CostRows]
"""What one pod of a class costs on each of these nodes; no rows: nothing anywhere."""


def sum_of_costs(cost: PodCost, view: PolicyView) -> IntArray:
    """What all pods cost where they stand. Shape (tiers,)."""
    total = nothing()
    for known in view.cluster.classes:
        if known.pods:
            for tier, costs in cost(known, known.where, view):
                total[tier] += costs.sum()
    return total


def change_of_cost(cost: PodCost, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
    """What the sum changes by if the pod goes and its replacement stands on each node. Shape (tiers, nodes)."""
    cluster, here = view.cluster, view.state.node_index[pod.node]
    kind = cluster.kind_of(pod)
    then = kind if _alike(pod, replacement) else cluster.kind_of(replacement)
    new = cost(then, EVERYWHERE, view)
    old = new if then is kind else cost(kind, EVERYWHERE, view)
    if not new and not old:
        return unchanged(view.nodes.size)
    change = np.zeros((TIERS, view.nodes.size), dtype=np.int64)
    for tier, costs in new:
        change[tier] += costs
    for tier, costs in old:
        change[tier] -= costs[here]
    change[:, here] = 0
    return change


def pods_on(nodes: BoolArray, scope: Scope, view: PolicyView) -> Iterator[tuple[Pod, PodClass, int]]:
    """Pods on these nodes that may be proposed, each with its class and the index of its node."""
    columns = view.columns
    rows = np.flatnonzero((nodes & scope.nodes(view.nodes))[columns.nodes])
    proposed: dict[int, bool] = {}
    for row, kind in zip(rows.tolist(), columns.kinds[rows].tolist(), strict=True):
        known = columns.classes[kind]
        if kind not in proposed:
            proposed[kind] = scope.proposes(known)
        if proposed[kind]:
            yield columns.pods[row], known, columns.nodes.item(row)


def elsewhere(tier: Tier, by_node: IntArray, here: int) -> IntArray:
    """A change in one tier, for every node but the pod's own. Shape (tiers, nodes); ``by_node`` is left as it is."""
    change = in_tier(tier, by_node)
    change[:, here] = 0
    return change


def _alike(pod: Pod, replacement: Pod) -> bool:
    """True if nothing that a cost may depend on tells them apart."""
    return (
        pod.spec is replacement.spec
        and pod.labels is replacement.labels
        and pod.controller is replacement.controller
        and pod.annotations is replacement.annotations
        and pod.namespace == replacement.namespace
        and not pod.deleting
    )
