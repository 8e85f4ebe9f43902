"""How many pods of a topology spread constraint stand in each domain, as kube-scheduler counts them.

Counted are non-terminating pods of the pod's namespace that the selector (with matchLabelKeys) matches,
movable or not, on nodes that the constraint looks at. An empty selector counts none (a rule of the
scheduler since 1.25). Arrays over domains; pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rescheduler.model.records import PodSpec, SpreadConstraint
from rescheduler.model.selectors import LabelSelector, LabelSet, Operator, Requirement
from rescheduler.policies.framework import View
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """``codes``: domain of each node, -1 if it is not counted. ``counts``: pods by domain code.

    ``valid``: the domains that exist for this constraint. ``floor``: the least count is taken as 0,
    because there are fewer domains than minDomains.
    """

    constraint: SpreadConstraint
    codes: IntArray
    counts: IntArray
    valid: BoolArray
    floor: bool

    def least(self) -> int:
        """The global minimum that skew is measured from."""
        if self.floor or not self.valid.any():
            return 0
        return int(self.counts[self.valid].min())

    def excess(self) -> IntArray:
        """Pods above maxSkew in each domain."""
        above = self.counts - self.least() - self.constraint.max_skew
        return np.where(self.valid, np.maximum(above, 0), 0)

    def total_excess_after(self, source: int) -> FloatArray:
        """For each domain: the sum of all excess once one pod has gone there from ``source``."""
        after = np.where(self.valid, self.counts, 0)
        after[source] -= 1
        limit = self.constraint.max_skew
        least = 0 if self.floor else int(after[self.valid].min())
        over = np.where(self.valid, np.maximum(after - least - limit, 0), 0)
        over_with_one = np.maximum(after + 1 - least - limit, 0)
        total: FloatArray = (over.sum() - over + over_with_one).astype(np.float64)
        lowest = self.valid & (after == least)
        if not self.floor and lowest.sum() == 1:
            at = int(np.flatnonzero(lowest)[0])
            raised = after.copy()
            raised[at] += 1
            new_least = int(raised[self.valid].min())
            total[at] = np.where(self.valid, np.maximum(raised - new_least - limit, 0), 0).sum()
        total[source] = self.excess().sum()
        return total


def effective_selector(constraint: SpreadConstraint, labels: LabelSet) -> LabelSelector | None:
    """The selector with matchLabelKeys merged in, as the API server does it since 1.34."""
    selector = constraint.selector
    if selector is None or not constraint.match_label_keys:
        return selector
    present = {r.key for r in selector.requirements if r.operator is Operator.IN}
    added = tuple(
        Requirement(key, Operator.IN, (value,))
        for key in constraint.match_label_keys
        if (value := labels.get(key)) is not None and key not in present
    )
    return LabelSelector((*selector.requirements, *added), selector.invalid)


def counted_nodes(spec: PodSpec, constraint: SpreadConstraint, view: View) -> BoolArray:
    """Nodes that the constraint looks at."""
    keys = {c.topology_key for c in spec.spread if c.hard == constraint.hard}
    mask = np.ones(len(view.nodes), dtype=np.bool_)
    for key in keys:
        mask &= view.nodes.domains(key)[0] >= 0
    if constraint.node_affinity_honor and (spec.node_selector or spec.node_affinity):
        mask &= view.nodes.eligible(spec)
    if constraint.node_taints_honor:
        mask &= view.nodes.tolerated(spec)
    return mask


def domain_counts(
    namespace: str, spec: PodSpec, labels: LabelSet, constraint: SpreadConstraint, view: View
) -> DomainCounts:
    """Counts of one constraint of a pod in the current what-if state."""
    columns, values = view.nodes.domains(constraint.topology_key)
    counted = counted_nodes(spec, constraint, view)
    codes = np.where(counted, columns, -1)
    size = len(values)
    known = codes >= 0
    valid = np.bincount(codes[known], minlength=size) > 0
    selector = effective_selector(constraint, labels)
    counts = np.zeros(size, dtype=np.int64)
    if selector is not None and not selector.empty:
        for matched in view.index.matching((namespace,), selector):
            if matched.pods and not matched.deleting:
                where = codes[matched.where]
                counts += np.bincount(where[where >= 0], minlength=size)
    return DomainCounts(constraint, codes, counts, valid, int(valid.sum()) < constraint.min_domains)


def self_matches(labels: LabelSet, constraint: SpreadConstraint) -> bool:
    """True if moving the pod changes the counts of its own constraint."""
    selector = effective_selector(constraint, labels)
    return selector is not None and not selector.empty and selector.matches(labels)
