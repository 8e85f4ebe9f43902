"""Which domains a topology spread constraint looks at, and what it makes of the pods in each, as kube-scheduler does. Pure."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from rescheduler.model.records import PodSpec, SpreadConstraint
from rescheduler.scheduling.classes import PodGroup
from rescheduler.scheduling.counts import domain_sums
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.nodes import Codes, Column, NodeTable
from rescheduler.scheduling.pod_topology_spread import included


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


class Skew:
    """What one constraint makes of counts by domain: how many pods are above the least count and maxSkew."""

    def __init__(self, constraint: SpreadConstraint, domains: Domains) -> None:
        self._most = constraint.max_skew
        self._valid = domains.valid
        # With fewer domains than minDomains the least count is taken as 0.
        self._floor = domains.number < max(constraint.min_domains, 1)

    def least(self, counts: IntArray) -> int:
        """The global minimum that skew is measured from."""
        return 0 if self._floor else int(counts[self._valid].min())

    def excess(self, counts: IntArray) -> IntArray:
        """By domain. Those that do not exist for the constraint have no pods, and so no excess."""
        found: IntArray = np.maximum(counts - (self.least(counts) + self._most), 0)
        return found

    def total(self, counts: IntArray) -> int:
        """Of all domains."""
        return int(self.excess(counts).sum())

    def totals_with_one_more(self, counts: IntArray) -> IntArray:
        """For each domain: the total once one more pod stands there."""
        least = self.least(counts)
        totals = self.total(counts) + (counts >= least + self._most).astype(np.int64)
        # Where only one domain has the least count, a pod that goes there raises what all skews are measured from.
        if not self._floor:
            lowest = np.flatnonzero(self._valid & (counts == least))
            if len(lowest) == 1:
                raised = counts.copy()
                raised[lowest] += 1
                totals[lowest] = self.total(raised)
        return totals
