"""HighNodeUtilization: under-utilised nodes are emptied, so that they can go: as many as possible, or the most expensive.

A node is under-utilised at or below ``thresholds`` in all resources. It is emptied only if every pod that counts
(not DaemonSet, static or mirror pods) finds room on nodes that stay; its pods are one group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np

from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Pod
from rescheduler.model.written import SECONDS, Positive, document_key
from rescheduler.policies.framework import GroupWorth, NodeFilling, PolicyView, PolicyWarning, with_room
from rescheduler.policies.keeping_empty import LEAST_S, MOST_S, EmptiedNodes, KeepingRule
from rescheduler.policies.missing_requests import missing_requests
from rescheduler.policies.node_prices import PricedNodesArgs
from rescheduler.policies.objective import Tier, nothing, unchanged
from rescheduler.policies.proposals import Batch, Candidate, Proposals, reluctance
from rescheduler.policies.utilization import REQUESTS, Counting, Load
from rescheduler.policies.wire import PERCENT, ArgumentProblem, percent_problems
from rescheduler.scheduling.framework import BoolArray, IntArray
from rescheduler.scheduling.nodes import NodeTable

_EPSILON: Final = 1e-9
_MANY: Final = 1024
"""More pods than a node to be emptied has."""


class HighNodeUtilizationArgs(PricedNodesArgs, frozen=True, kw_only=True, rename=document_key):
    """``thresholds``: percent of allocatable up to which (in all of them) a node is emptied.

    ``target_thresholds``: percent above which no node is filled; resources not named may be filled up.
    ``number_of_nodes``: under-utilised nodes that there must be before anything is done. Prices: ``PricedNodesArgs``.
    ``use_default_requests``: a container without a CPU or memory request counts as in kube-scheduler's scores; else as nothing.
    ``emptied_nodes``: what becomes of nodes that are emptied, for ``kept_empty_for_s``.
    """

    thresholds: dict[str, float] = msgspec.field(default_factory=lambda: {"cpu": 20.0, "memory": 20.0})
    target_thresholds: dict[str, float] = msgspec.field(default_factory=lambda: {"cpu": 90.0, "memory": 90.0})
    number_of_nodes: Positive = 1
    use_default_requests: bool = True
    emptied_nodes: EmptiedNodes = EmptiedNodes.NONE
    kept_empty_for_s: Annotated[float, SECONDS, msgspec.Meta(ge=LEAST_S, le=MOST_S)] = 3600.0

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        yield from percent_problems("thresholds", self.thresholds)
        yield from percent_problems("targetThresholds", self.target_thresholds)
        if not self.thresholds:
            yield ("thresholds",), "is empty: name at least one resource"
        for resource in sorted(self.thresholds.keys() & self.target_thresholds.keys()):
            low, high = self.thresholds[resource], self.target_thresholds[resource]
            if low >= high:
                yield ("thresholds", resource), f"is {low:g}, not below its targetThreshold {high:g}"

    def keeping(self) -> KeepingRule | None:
        """How nodes that are emptied are kept so; None: they are not. The arguments must be right."""
        hold = self.emptied_nodes.hold
        if not self.enabled or hold is None:
            return None
        return KeepingRule(
            policy=HighNodeUtilization.name,
            hold=hold,
            node_labels=tuple(sorted(self.node_selector.items())),
            kept_for_s=self.kept_empty_for_s,
        )

    def unknown_to(self, nodes: NodeTable) -> Iterator[ArgumentProblem]:
        """Resources that no node offers."""
        yield from super().unknown_to(nodes)
        for resource in sorted(self.thresholds):
            if not self.offered(resource, nodes):
                yield (
                    ("thresholds", resource),
                    "no node that takes part offers any, so the policy does nothing",
                )
        for resource in sorted(self.target_thresholds.keys() - self.thresholds.keys()):
            if not self.offered(resource, nodes):
                yield (
                    ("targetThresholds", resource),
                    "no node that takes part offers any, so it changes nothing",
                )


class HighNodeUtilization:
    """Badness: the prices of nodes in use. Pressure: share of the fullest resource of a node.

    Nodes without pods receive none, and neither do nodes that moves of this plan leave; a node that received pods in this plan stays.
    """

    name: str = "HighNodeUtilization"
    tier: ClassVar[Tier] = Tier.CONSOLIDATION

    def __init__(self, args: HighNodeUtilizationArgs) -> None:
        self._args = args
        self._scope = args.scope()
        hold = args.emptied_nodes.hold
        self._then = f" and is then {hold.lower()} for {SECONDS.show(args.kept_empty_for_s)}" if hold else ""
        self._resources = tuple(sorted(args.thresholds.keys() | args.target_thresholds.keys()))

    def candidates(self, view: PolicyView) -> Proposals:
        """Per under-utilised node, the most expensive first, then the emptiest: all of its pods that count, as one group.

        Of equal nodes the one goes first whose pods are the least reluctant and whose moves disturb least.
        """
        load = self._load(view)
        low = self._low(load, view)
        if int(low.sum()) < self._args.number_of_nodes:
            low &= _begun(view)
        pressure, prices = load.pressure(), self.prices(view)
        found: list[tuple[tuple[object, ...], list[Batch]]] = []
        for node in np.flatnonzero(low).tolist():
            group = list(self._group(node, float(pressure[node]), view))
            pods = [pod for batch in group for pod in batch.pods]
            most = max(map(reluctance, pods), default=())
            costs = round(sum(map(view.disruption, pods)), 2)
            equal = -int(prices[node]), round(float(pressure[node]), 9), len(pods)
            rank = *equal, most, costs, view.nodes.names[node]
            found.append((rank, group))
        found.sort(key=itemgetter(0))
        return Proposals([(batch,) for _, group in found for batch in group])

    def receivers(self, candidate: Candidate, view: PolicyView) -> BoolArray:
        """Those with room; none if pods come to its own node."""
        stays = view.arrived("pods")[view.state.node_index[candidate.pod.node]] > 0
        return ~view.nodes.all if stays else with_room(self, candidate.pod, view)

    def receives(self, view: PolicyView) -> BoolArray:
        """Nodes in use that moves of this plan do not leave, and that are not too full already."""
        load = self._load(view)
        fits = self._open(view)
        for resource in self._resources:
            fits &= load.share(resource) <= self._limit(resource) + _EPSILON
        return fits

    def left(self, view: PolicyView) -> dict[str, NodeFilling]:
        """What may come to each node until it is at its ``targetThresholds``."""
        load = self._load(view)
        found: dict[str, NodeFilling] = {}
        for resource in self._args.target_thresholds:
            most = np.floor(view.state.allocatable(resource) * (self._limit(resource) + _EPSILON))
            found[resource] = load.left(resource, most.astype(np.int64))
        return found

    def worth(self, members: Sequence[Candidate], view: PolicyView) -> GroupWorth:
        """The price of the node; nothing may come to it any more."""
        return GroupWorth(int(self.prices(view)[view.state.node_index[members[0].pod.node]]))

    def prices(self, view: PolicyView) -> IntArray:
        """What each node costs, in millionths; the same for all without prices. Do not change the array."""
        table = view.nodes
        found: IntArray = table.memo.of((self, "prices"), None, lambda: self._args.prices_of(table))
        return found

    def warnings(self, view: PolicyView) -> Iterator[PolicyWarning]:
        """It cannot know what pods without requests take."""
        return missing_requests(
            self.name,
            view,
            self._args.nodes(view.nodes),
            self._resources,
            defaults=self._args.use_default_requests,
        )

    def _load(self, view: PolicyView) -> Load:
        return Load.now(view, self._resources, Counting(REQUESTS, self._args.use_default_requests))

    def _limit(self, resource: str) -> float:
        return self._args.target_thresholds.get(resource, PERCENT) / PERCENT

    def _open(self, view: PolicyView) -> BoolArray:
        """Nodes in use, without a fault, that moves of this plan do not leave. A new array."""
        in_use = self._taking_part(self._load(view), view) & (_counted(view) > 0)
        found: BoolArray = in_use & view.nodes.healthy & (view.departed("pods") == 0)
        return found

    def badness(self, view: PolicyView) -> IntArray:
        """In tier CONSOLIDATION the prices of nodes in use; in tier EMPTYING the pods on nodes that are to be emptied."""
        load = self._load(view)
        taking_part = self._taking_part(load, view)
        counted = _counted(view)
        found = nothing()
        found[Tier.CONSOLIDATION] = self.prices(view)[taking_part & (counted > 0)].sum()
        found[Tier.EMPTYING] = _to_empty(counted)[self._under(load, view)].sum()
        return found

    def nodes_counted(self, view: PolicyView) -> int:
        """The nodes in use."""
        load = self._load(view)
        return int(np.count_nonzero(self._taking_part(load, view) & (_counted(view) > 0)))

    def change(self, pod: Pod, replacement: Pod, view: PolicyView) -> IntArray:
        """What that would change by."""
        load = self._load(view)
        here = view.state.node_index[pod.node]
        if belongs_to_node(pod):
            return unchanged(view.nodes.size)
        counted, taking_part = _counted(view), self._taking_part(load, view)
        leaves = np.arange(view.nodes.size) == here
        after = np.where(leaves, counted - 1, counted + 1)
        low = self._under(load, view)
        low_after = self._candidate_nodes(load, view)
        for resource, percent in self._args.thresholds.items():
            gone, comes = load.carried(pod, replacement, resource)
            amounts = load.amounts[resource] + np.where(leaves, -gone, comes)
            low_after &= load.divide(amounts, resource) <= percent / PERCENT + _EPSILON
        change = np.zeros_like(unchanged(view.nodes.size))
        used = taking_part & (counted > 0)
        change[Tier.CONSOLIDATION] = self.prices(view) * ((taking_part & (after > 0)).astype(np.int64) - used)
        change[Tier.EMPTYING] = np.where(low_after, _to_empty(after), 0) - np.where(
            low, _to_empty(counted), 0
        )
        # So far each column tells of one node alone: of the one that receives, and of the one that is left.
        change += change[:, [here]]
        change[:, here] = 0
        return change

    def _taking_part(self, load: Load, view: PolicyView) -> BoolArray:
        """The nodes of the policy that offer all the resources it goes by: of the others it cannot say how full they are."""

        def find() -> BoolArray:
            offering = self._args.nodes(view.nodes).copy()
            for resource in self._args.thresholds:
                offering &= load.offers(resource)
            return offering

        return view.memo.of((self, "taking part"), None, find)

    def _candidate_nodes(self, load: Load, view: PolicyView) -> BoolArray:
        """Nodes that may be emptied, however full they are: neither cordoned nor protected. A new array."""

        def find() -> BoolArray:
            records = view.nodes.records
            # One that an autoscaler is about to delete is no target, but to be emptied all the more.
            goes = (node.usable and node.may_be_taken_away for node in records)
            able = np.fromiter(goes, np.bool_, len(records)) | _begun(view)
            return np.asarray(able & self._taking_part(load, view), dtype=np.bool_)

        found: BoolArray = view.memo.of((self, "may be emptied"), None, find).copy()
        return found

    def _under(self, load: Load, view: PolicyView) -> BoolArray:
        """Those of them that are under-utilised. Do not change the array."""

        def find() -> BoolArray:
            low = self._candidate_nodes(load, view)
            for resource, percent in self._args.thresholds.items():
                low &= load.share(resource) <= percent / PERCENT + _EPSILON
            return low

        under: BoolArray = view.memo.of((self, "under"), view.cluster.version, find)
        return under

    def _low(self, load: Load, view: PolicyView) -> BoolArray:
        """Nodes to be emptied: under-utilised ones with nothing arriving. A new array."""
        low: BoolArray = self._under(load, view) & (view.arrived("pods") == 0)
        return low

    def _group(self, node: int, pressure: float, view: PolicyView) -> Iterator[Batch]:
        name = view.nodes.names[node]
        pods = [p for p in view.state.pods_on(name) if not belongs_to_node(p)]
        # A node with a pod that this policy must not propose cannot be emptied, so none of its pods is proposed.
        if any(not self._scope.admits(p) for p in pods):
            return
        for pod in sorted(pods, key=_largest_first):
            if not pod.deleting:
                yield Batch(
                    kind=view.cluster.kind_of(pod),
                    pods=(pod,),
                    policy=self.name,
                    reason="NodeUnderutilized",
                    message=f"node/{name} is used by {pressure:.0%} and can be emptied{self._then}",
                    gain=1.0,
                    tier=Tier.CONSOLIDATION,
                    group=f"{self.name}/{name}",
                )


def _largest_first(pod: Pod) -> tuple[int, int, str, str]:
    return -pod.held.cpu_milli, -pod.held.memory_bytes, pod.namespace, pod.name


def _counted(view: PolicyView) -> IntArray:
    """Pods on each node that do not belong to it: a node without any is not in use."""

    def find() -> IntArray:
        # A pending pod may go elsewhere once this plan is carried out, so it makes no node one in use.
        standing = view.state.requested("pods") - view.planned.expected
        found: IntArray = standing - view.cluster.pods_of_nodes()
        return found

    return view.memo.of(_counted, view.cluster.version, find)


def _begun(view: PolicyView) -> BoolArray:
    """Nodes that pods have begun to leave in an earlier decision: they are held, and pods still stand there."""

    def find() -> BoolArray:
        records = view.nodes.records
        held = (node.held_empty and node.may_be_taken_away for node in records)
        return np.fromiter(held, np.bool_, len(records))

    return view.memo.of(_begun, None, find) & (_counted(view) > 0)


def _to_empty(pods: IntArray) -> IntArray:
    """What is left to do on nodes that are to be emptied, by their number of pods.

    Each pod more adds less than the one before: so a step that takes a pod from the node with fewer to the node with
    more lowers the sum, also while both are to be emptied.
    """
    few: IntArray = np.minimum(pods, _MANY)
    return few * (2 * _MANY - few)
