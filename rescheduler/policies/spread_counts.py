"""How many pods of a topology spread constraint stand in each domain, as kube-scheduler counts them.

Counted are non-terminating pods of the pod's namespace that the selector (with matchLabelKeys) matches,
movable or not, on nodes that the constraint looks at. An empty selector counts none (a rule of the
scheduler since 1.25). Arrays over domains; pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rescheduler.model.records import PodSpec, SpreadConstraint
from rescheduler.model.selectors import LabelSet
from rescheduler.policies.framework import PolicyView
from rescheduler.scheduling.classes import PodGroup
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray
from rescheduler.scheduling.matching import Matcher, NamespaceScope
from rescheduler.scheduling.nodes import Codes, NodeTable
from rescheduler.scheduling.pod_topology_spread import included, merged_selector


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """Pods of one constraint by topology domain."""

    constraint: SpreadConstraint
    codes: Codes
    """Domain of each node; -1 if the constraint does not look at it."""
    counts: IntArray
    """Pods by domain."""
    valid: BoolArray
    """The domains that exist for this constraint."""
    floor: bool
    """True: the least count is taken as 0, because there are fewer domains than minDomains."""

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
        # Where only one domain has the least count, a pod that goes there raises what all skews are measured from.
        lowest = self.valid & (after == least)
        if not self.floor and lowest.sum() == 1:
            at = int(np.flatnonzero(lowest)[0])
            raised = after.copy()
            raised[at] += 1
            new_least = int(raised[self.valid].min())
            total[at] = np.where(self.valid, np.maximum(raised - new_least - limit, 0), 0).sum()
        total[source] = self.excess().sum()
        return total


def counted_pods(
    namespace: str, labels: LabelSet, constraint: SpreadConstraint, view: PolicyView
) -> PodGroup | None:
    """The pods that a constraint counts, for a pod with these labels; None if it counts none."""
    selector = merged_selector(constraint, labels)
    if selector is None or selector.empty:
        return None
    return view.cluster.group((Matcher(NamespaceScope(frozenset((namespace,))), selector),), living=True)


def counted_nodes(spec: PodSpec, constraint: SpreadConstraint, nodes: NodeTable) -> BoolArray:
    """Nodes that the constraint looks at: with all keys of the constraints of its kind, by its inclusion policies."""
    mask = included(constraint, spec, nodes).copy()
    for key in {c.topology_key for c in spec.spread if c.hard == constraint.hard}:
        mask &= nodes.column(key).present
    return mask


def domain_counts(
    namespace: str, spec: PodSpec, labels: LabelSet, constraint: SpreadConstraint, view: PolicyView
) -> DomainCounts:
    """Counts of one constraint of a pod in the current what-if state."""
    column = view.nodes.column(constraint.topology_key)
    codes = np.where(counted_nodes(spec, constraint, view.nodes), column.codes, -1)
    size = len(column.values)
    valid = np.bincount(codes[codes >= 0], minlength=size) > 0
    counts = np.zeros(size, dtype=np.int64)
    group = counted_pods(namespace, labels, constraint, view)
    if group is not None:
        for known in group.classes:
            where = codes[known.where]
            counts += np.bincount(where[where >= 0], minlength=size)
    return DomainCounts(constraint, codes, counts, valid, int(valid.sum()) < constraint.min_domains)


def self_matches(labels: LabelSet, constraint: SpreadConstraint) -> bool:
    """True if moving the pod changes the counts of its own constraint."""
    selector = merged_selector(constraint, labels)
    return selector is not None and not selector.empty and selector.matches(labels)
