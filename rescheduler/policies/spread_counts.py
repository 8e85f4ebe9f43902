"""How many pods of a topology spread constraint stand in each domain, as kube-scheduler counts them.

Counted are non-terminating pods of the pod's namespace that the selector (with matchLabelKeys) matches,
movable or not, on nodes that the constraint looks at. An empty selector counts none (a rule of the
scheduler since 1.25). Arrays over domains; pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from rescheduler.model.records import PodSpec, SpreadConstraint
from rescheduler.model.selectors import LabelSet
from rescheduler.policies.framework import PolicyView
from rescheduler.scheduling.classes import PodGroup
from rescheduler.scheduling.counts import domain_sums
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray
from rescheduler.scheduling.matching import Matcher, NamespaceScope
from rescheduler.scheduling.nodes import Codes, Column, NodeTable
from rescheduler.scheduling.pod_topology_spread import included, merged_selector


class Domains:
    """Which domains a constraint looks at; one object for all constraints that look at the same ones."""

    def __init__(self, column: Column, counted: BoolArray, digest: bytes) -> None:
        """``digest``: tells sets of counted nodes apart."""
        self.column = column
        self.counted = counted
        self.digest = digest
        self.whole = bool(counted.all())
        self.codes: Codes = column.codes if self.whole else np.where(counted, column.codes, -1)
        """Domain of each node; -1 if the constraint does not look at it."""
        self.valid: BoolArray = np.bincount(self.codes[self.codes >= 0], minlength=len(column.values)) > 0
        """The domains that exist for the constraint."""
        self.number = int(self.valid.sum())

    @classmethod
    def of(cls, spec: PodSpec, constraint: SpreadConstraint, nodes: NodeTable) -> Domains:
        """Those of one constraint of a pod. Most pods name no nodes, so few questions are asked for thousands of workloads."""
        keys = frozenset(c.topology_key for c in spec.spread if c.hard == constraint.hard)
        affinity = (spec.node_selector, spec.node_affinity) if constraint.node_affinity_honor else None
        tolerations = spec.tolerations if constraint.node_taints_honor else None
        question = cls, constraint.topology_key, keys, affinity, tolerations

        def find() -> Domains:
            mask = included(constraint, spec, nodes).copy()
            for key in keys:
                mask &= nodes.column(key).present
            digest = blake2b(np.packbits(mask).tobytes(), digest_size=16).digest()
            column = nodes.column(constraint.topology_key)
            return nodes.memo.of((cls, column.key, digest), None, lambda: cls(column, mask, digest))

        return nodes.memo.of(question, None, find)

    def counts(self, pods: PodGroup) -> IntArray:
        """The pods in each domain. Do not change the array."""
        if self.whole:
            return pods.in_domains(self.column).dense()
        return domain_sums(self.column, np.where(self.counted, pods.per_node.dense(), 0))


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """Pods of one constraint by topology domain."""

    constraint: SpreadConstraint
    codes: Codes
    """Domain of each node; -1 if the constraint does not look at it."""
    counts: IntArray
    """Pods by domain. Do not change the array."""
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


def domain_counts(
    namespace: str, spec: PodSpec, labels: LabelSet, constraint: SpreadConstraint, view: PolicyView
) -> DomainCounts:
    """Counts of one constraint of a pod in the current what-if state."""
    domains = Domains.of(spec, constraint, view.nodes)
    group = counted_pods(namespace, labels, constraint, view)
    counts = np.zeros(len(domains.valid), dtype=np.int64) if group is None else domains.counts(group)
    floor = domains.number < constraint.min_domains
    return DomainCounts(constraint, domains.codes, counts, domains.valid, floor)


def self_matches(labels: LabelSet, constraint: SpreadConstraint) -> bool:
    """True if moving the pod changes the counts of its own constraint."""
    selector = merged_selector(constraint, labels)
    return selector is not None and not selector.empty and selector.matches(labels)
