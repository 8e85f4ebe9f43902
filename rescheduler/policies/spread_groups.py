"""Spread constraints that pods carry, each counted once: how many pods are too many, and what a move changes in it.

Pods of many classes can carry one constraint: those of one namespace whose selector, key, limits and counted nodes are the
same. It counts as long as one pod that carries it stands. Its excess is the pods above the least count and maxSkew, summed
over the domains: a function of where pods stand. Constraints are kept for a cluster and follow its pods. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.records import Pod, PodSpec, SpreadConstraint
from rescheduler.model.selectors import LabelSelector
from rescheduler.policies.framework import PolicyView
from rescheduler.scheduling.classes import PodClass, PodGroup, standing
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.counts import domain_sums
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.memo import Memo
from rescheduler.scheduling.nodes import Codes, Column, NodeTable
from rescheduler.scheduling.pod_topology_spread import included, spread_group


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


Wanted = Callable[[PodClass], Sequence[tuple[SpreadConstraint, LabelSelector | None]]]
"""The constraints of a class of pods that are looked at, each with its final selector."""


_MOST_ABOUT_A_POD: Final = 20
"""Constraints that count one pod; no more are looked at. Each of them is asked about each of its moves, so the owner of a namespace
could make a decision take as long as he likes."""
_FEW: Final = 16
"""Of more classes it costs less to count again than to ask whether any of them changed."""


class ExcessChange(NamedTuple):
    """How many pods more (or fewer, below 0) are too many for one constraint."""

    hard: bool
    by_node: IntArray


class SpreadGroup:
    """One constraint of some pods, bound to the counts of the cluster."""

    def __init__(self, constraint: SpreadConstraint, domains: Domains, pods: PodGroup) -> None:
        self.constraint = constraint
        self.hard = constraint.hard
        self.carriers: dict[PodClass, None] = {}
        """The classes whose pods carry it, those without pods now included."""
        self.skew = Skew(constraint, domains)
        self.pods = pods
        """Those that it counts."""
        self.codes = domains.codes
        """Domain of each node; -1 if the constraint does not look at it."""
        self._domains = domains
        self.memo = Memo()

    def excess(self) -> int:
        """Pods above the least count and maxSkew; 0 while no pod carries the constraint."""
        if not any(kind.pods for kind in self.carriers):
            return 0
        classes = self.pods.classes
        if len(classes) > _FEW:
            return self.skew.total(self.counts())
        return self.memo.of("excess", standing(classes), lambda: self.skew.total(self.counts()))

    def change(self, kind: PodClass, then: PodClass, here: int) -> IntArray | None:
        """What the excess changes by, by node, if a pod of class ``kind`` left node ``here`` and one of class ``then`` came.

        None if nothing changes.
        """
        found = self._change(kind, then, here)
        if isinstance(found, int):
            return np.full(len(self.codes), found) if found else None
        return found[self.codes] if found.any() else None

    def _change(self, kind: PodClass, then: PodClass, here: int) -> IntArray | int:
        """The same by domain, the last one for nodes that the constraint does not look at; a number: the same on all nodes."""
        leaves, comes = self.pods in kind.groups, self.pods in then.groups
        before = self.excess()
        stays = then in self.carriers or any(len(known.pods) > (known is kind) for known in self.carriers)
        if not stays:
            return -before
        counts, source = self.counts(), int(self.codes[here])
        if leaves and source >= 0:
            counts = counts.copy()
            counts[source] -= 1
        if not comes:
            return self.skew.total(counts) - before
        # Code -1 finds the last one by itself.
        return np.append(self.skew.totals_with_one_more(counts), self.skew.total(counts)) - before

    def counts(self) -> IntArray:
        """Pods by domain. Do not change the array."""
        return self._domains.counts(self.pods)


class SpreadGroups:
    """All constraints of one cluster."""

    def __init__(self, cluster: Cluster, wanted: Wanted) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._seen = 0
        self._groups: dict[tuple[object, ...], SpreadGroup] = {}
        self._by_pods: dict[PodGroup, list[SpreadGroup]] = {}
        self._carried: dict[PodClass, tuple[SpreadGroup, ...]] = {}

    @classmethod
    def of(cls, owner: object, view: PolicyView, wanted: Wanted) -> SpreadGroups:
        """Those of the view's cluster, kept for ``owner`` until nodes or selectors of Services change."""
        cluster = view.cluster
        stamp = cluster.nodes.epoch, cluster.selector_epoch
        found = cluster.memo.of((cls, owner), stamp, lambda: cls(cluster, wanted))
        found.follow()
        return found

    def all(self) -> Iterable[SpreadGroup]:
        """Every constraint that pods carry."""
        return self._groups.values()

    def excess(self) -> tuple[int, int]:
        """Of all hard constraints, and of all soft ones."""
        hard = soft = 0
        for group in self._groups.values():
            if group.hard:
                hard += group.excess()
            else:
                soft += group.excess()
        return hard, soft

    def changes(self, pod: Pod, replacement: Pod, view: PolicyView) -> Iterator[ExcessChange]:
        """By constraint, what a move to each node changes. The pod's own node is meant like any other here."""
        kind, then = self._cluster.kind_of(pod), self._cluster.kind_of(replacement)
        here = view.state.node_index[pod.node]
        for group in self._touched(kind, then):
            found = group.change(kind, then, here)
            if found is not None:
                yield ExcessChange(group.hard, found)

    def counts(self, kind: PodClass) -> bool:
        """True if a constraint is carried by pods of the class, or counts them."""
        self.follow()
        return any(True for _ in self._about(kind))

    def _touched(self, kind: PodClass, then: PodClass) -> Iterable[SpreadGroup]:
        """The constraints that pods of either class carry, or that count them."""
        self.follow()
        return dict.fromkeys((*self._about(kind), *(() if then is kind else self._about(then))))

    def _about(self, kind: PodClass) -> Iterator[SpreadGroup]:
        yield from self._carried[kind]
        for pods in kind.groups:
            yield from self._by_pods.get(pods, ())

    def follow(self) -> None:
        """Look at classes of pods that are new."""
        classes = self._cluster.classes
        if len(classes) == self._seen:
            return
        for kind in islice(classes, self._seen, None):
            self._carried[kind] = tuple(self._bind(kind))
        self._seen = len(classes)

    def _bind(self, kind: PodClass) -> Iterator[SpreadGroup]:
        for constraint, selector in self._wanted(kind):
            group = self._of_class(kind, constraint, selector)
            if group is not None and kind not in group.carriers:
                group.carriers[kind] = None
                yield group

    def _of_class(
        self, kind: PodClass, constraint: SpreadConstraint, selector: LabelSelector | None
    ) -> SpreadGroup | None:
        """A constraint of a class of pods with its final selector; None if it does not count them, or enough others do.

        What does not count them is met or not by where the pods of others stand.
        """
        if selector is None or selector.empty or not selector.matches(kind.labels):
            return None
        domains = Domains.of(kind.spec, constraint, self._cluster.nodes)
        key = (
            kind.namespace,
            selector,
            (constraint.topology_key, domains.digest),
            constraint.max_skew,
            constraint.min_domains,
            constraint.hard,
        )
        group = self._groups.get(key)
        if group is None and self._constraints_of(kind) < _MOST_ABOUT_A_POD:
            pods = spread_group(kind, selector, self._cluster)
            group = self._groups[key] = SpreadGroup(constraint, domains, pods)
            self._by_pods.setdefault(pods, []).append(group)
        return group

    def _constraints_of(self, kind: PodClass) -> int:
        """How many constraints that are looked at count pods of the class."""
        return sum(len(self._by_pods.get(pods, ())) for pods in kind.groups)
