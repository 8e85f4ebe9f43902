"""WorkloadSpread: the spread over nodes and zones that a workload has is a wish, also where nobody wrote it down.

It proposes no pod: it only counts. So no other policy gathers the replicas of a workload on one node or in one zone for the sake of
balance or of empty nodes, and a repair that has to do so shows it among its effects. kube-scheduler spreads pods without constraints
in the same way (its default constraints of PodTopologySpread). It is on unless the configuration switches it off. Pure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, islice
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np

from rescheduler.model.names import ZONE
from rescheduler.model.records import OwnerRef, Pod
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import ONE, Tier, nothing, unchanged
from rescheduler.policies.pod_costs import elsewhere
from rescheduler.policies.proposals import Proposals
from rescheduler.policies.wire import PolicyArgs
from rescheduler.scheduling.classes import PodClass, standing
from rescheduler.scheduling.cluster import Cluster
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.memo import Memo
from rescheduler.scheduling.nodes import Codes

MOST_WEIGHT: Final = 100.0
_NOT_REPLICAS: Final = frozenset({"DaemonSet", "Job", "Node"})
"""Controllers whose pods do not stand in for each other."""
_SHARE: Final = 0.75
"""Of the replicas of a workload: so many may be in one place."""
_Counts = dict[int, int]
"""Replicas by domain."""
_Counted = tuple[bool, ...]
"""By level, nodes and zones: whether the spread over its domains counts."""


class WorkloadSpreadArgs(PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """``weight``: what one replica too many in one place counts for, in pods (0.01 to 100)."""

    weight: Annotated[float, msgspec.Meta(ge=1 / MOST_WEIGHT, le=MOST_WEIGHT)] = 1.0


class WorkloadSpread:
    """Badness: of each workload the replicas above three quarters of them on one node, and in one zone, times the weight.

    Three quarters are rounded up, but are never all of several replicas. A workload whose replicas stand on one node only, or in one
    zone, has no spread to lose there, until it has one. The workload of a pod is its controller; DaemonSets and Jobs are none.
    Replicas that are not on a node do not count.
    """

    name: str = "WorkloadSpread"
    tier: ClassVar[Tier] = Tier.SOFT

    def __init__(self, args: WorkloadSpreadArgs) -> None:
        self._scope = args.scope()
        self._weight = round(args.weight * ONE)

    def candidates(self, view: PolicyView) -> Proposals:
        """None."""
        del view
        return Proposals([])

    def badness(self, view: PolicyView) -> IntArray:
        """By the rule of the class."""
        total = nothing()
        workloads = _Workloads.of(self, view.cluster).all()
        total[Tier.SOFT] = self._weight * sum(one.too_many(self._counted(one, view)) for one in workloads)
        return total

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """What the move changes in the workloads of the pod and of its replacement."""
        here, workloads = view.state.node_index[pod.node], _Workloads.of(self, view.cluster)
        leaves, comes = workloads.of_pod(pod), workloads.of_pod(replacement)
        if leaves is not comes:
            came = (self._with(comes, node, 1, view) for node in range(view.nodes.size))
            found = self._with(leaves, here, -1, view) + np.fromiter(came, np.int64, view.nodes.size)
        elif leaves is None or (same := leaves.moves(here, self._counted(leaves, view))) is None:
            return unchanged(view.nodes.size)
        else:
            found = same
        return elsewhere(Tier.SOFT, found * self._weight, here)

    def replicas(self, pod: Pod, view: PolicyView) -> Mapping[int, int]:
        """By node, how many replicas of the pod's workload are there; empty: they do not stand in for each other."""
        workload = _Workloads.of(self, view.cluster).of_pod(pod)
        return workload.by_node() if workload is not None else {}

    def _with(self, workload: _Workload | None, node: int, more: int, view: PolicyView) -> int:
        """What changes in one workload if a replica comes to the node (1) or leaves it (-1)."""
        if workload is None:
            return 0
        counted = self._counted(workload, view)
        return workload.too_many_with(node, more, counted) - workload.too_many(counted)

    def _counted(self, workload: _Workload, view: PolicyView) -> _Counted:
        """The levels at which it had a spread when this decision looked at it first, which is before it moves any replica."""
        moment = id(view.snapshot), view.snapshot.taken_at_s
        had: dict[_Workload, _Counted] = view.cluster.memo.of((WorkloadSpread, self), moment, dict)
        found = had.get(workload)
        if found is None:
            found = had[workload] = workload.spread()
        return found

    def counts(self, kind: PodClass) -> bool:
        """True if pods of the class are replicas whose spread matters."""
        owner = kind.controller
        replica = owner is not None and owner.kind not in _NOT_REPLICAS and not kind.holds_room
        return replica and self._scope.proposes(kind)


class _Workload:
    """The replicas of one controller: where they stand, and what one more or fewer changes."""

    def __init__(self, levels: Sequence[Codes], places: Sequence[Sequence[int]]) -> None:
        """``levels``: of nodes and of zones, the domain of each node; ``places``: the same as lists, which count faster."""
        self.classes: list[PodClass] = []
        self._levels, self._places = levels, places
        self._memo = Memo()

    def spread(self) -> _Counted:
        """By level, whether its replicas stand in more than one place."""
        return tuple(places > 1 for places, _ in self._sums())

    def too_many(self, counted: _Counted) -> int:
        """Replicas above what may be in one place, over the levels that count."""
        return sum(above for _, above in compress(self._sums(), counted))

    def moves(self, here: int, counted: _Counted) -> IntArray | None:
        """What a move of one replica to each node changes; None if nothing changes anywhere."""
        most = most_together(self._number)
        change: IntArray | None = None
        full = self._memo.of("full", self._stamp, self._full)
        for level, codes in enumerate(self._levels):
            if not counted[level]:
                continue
            source = int(codes[here])
            less = source >= 0 and self._by_domain()[level][source] > most
            more = full[level]
            if more is None and not less:
                continue
            one: IntArray = np.where(codes == source, 0, (0 if more is None else more) - np.int64(less))
            change = one if change is None else change + one
        return change

    def too_many_with(self, node: int, more: int, counted: _Counted) -> int:
        """``too_many`` with one more on the node, or one fewer (-1)."""
        found: list[_Counts] = []
        for codes, counts in zip(self._levels, self._by_domain(), strict=True):
            domain = int(codes[node])
            found.append(counts if domain < 0 else counts | {domain: counts.get(domain, 0) + more})
        return _excess(found, self._number + more, counted)

    def by_node(self) -> _Counts:
        """Replicas by node. Not to be changed."""
        return self._by_domain()[0]

    @property
    def _number(self) -> int:
        return sum(len(kind.pods) for kind in self.classes)

    def _full(self) -> list[BoolArray | None]:
        """By level: on which nodes one more replica is one too many; None: nowhere."""
        most = most_together(self._number)
        found: list[BoolArray | None] = []
        for codes, counts in zip(self._levels, self._by_domain(), strict=True):
            crowded = [domain for domain, count in counts.items() if count >= most]
            found.append(np.isin(codes, crowded) if crowded else None)
        return found

    def _sums(self) -> list[tuple[int, int]]:
        """By level, in how many places its replicas stand, and how many are above what may be in one place."""
        return self._memo.of("sums", self._stamp, self._sum)

    def _sum(self) -> list[tuple[int, int]]:
        # The counts are kept only where a move is judged: of all workloads they would be much memory.
        number = self._number
        return [(len(counts), _excess((counts,), number, (True,))) for counts in self._count()]

    def _by_domain(self) -> list[_Counts]:
        return self._memo.of("counts", self._stamp, self._count)

    def _count(self) -> list[_Counts]:
        nodes = list(chain.from_iterable([kind.nodes for kind in self.classes]))
        found: list[_Counts] = []
        for places in self._places:
            counts = dict(Counter([places[node] for node in nodes]))
            counts.pop(-1, None)
            found.append(counts)
        return found

    @property
    def _stamp(self) -> object:
        return standing(self.classes)


class _Workloads:
    """All workloads of a cluster."""

    def __init__(self, policy: WorkloadSpread, cluster: Cluster) -> None:
        self._policy, self._cluster = policy, cluster
        self._levels = (
            np.arange(cluster.nodes.size, dtype=np.int32),
            cluster.nodes.column(ZONE).codes,
        )
        self._places = range(cluster.nodes.size), cluster.nodes.column(ZONE).code_list
        self._seen = 0
        self._known: dict[OwnerRef, _Workload] = {}
        self._of: dict[PodClass, _Workload] = {}

    @classmethod
    def of(cls, policy: WorkloadSpread, cluster: Cluster) -> _Workloads:
        """Those of the cluster, kept until nodes change."""
        found = cluster.memo.of((cls, policy), cluster.nodes.epoch, lambda: cls(policy, cluster))
        found.follow()
        return found

    def all(self) -> Iterable[_Workload]:
        """Those of all controllers."""
        return self._known.values()

    def of_pod(self, pod: Pod) -> _Workload | None:
        """Whose replica it is; None: its spread does not matter."""
        kind = self._cluster.kind_of(pod)
        self.follow()
        return self._of.get(kind)

    def follow(self) -> None:
        """Look at classes of pods that are new."""
        classes = self._cluster.classes
        if len(classes) == self._seen:
            return
        for kind in islice(classes, self._seen, None):
            if kind.controller is not None and self._policy.counts(kind):
                workload = self._known.setdefault(kind.controller, _Workload(self._levels, self._places))
                workload.classes.append(kind)
                self._of[kind] = workload
        self._seen = len(classes)


def most_together(number: int) -> int:
    """So many of so many replicas may be in one place by WorkloadSpread."""
    return max(1, min(number - 1, math.ceil(_SHARE * number)))


def _excess(levels: Sequence[_Counts], number: int, counted: _Counted) -> int:
    most = most_together(number)
    return sum(n - most for counts in compress(levels, counted) for n in counts.values() if n > most)
