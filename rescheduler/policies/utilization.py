"""How full nodes are: shares of what they can hold, by requests or by measured usage. Pure.

A container without a CPU or memory request counts as kube-scheduler's scores count it (``scheduling.amounts``), unless
the policy asks for bare requests: else a node could be filled with pods without requests and stay empty by the numbers.
Shares are 0..1 of allocatable, one array per resource in the order of the nodes; a node that offers none of
a resource has the share 0 and is told apart by ``offers``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

import numpy as np

from rescheduler.model.measured import UsageStatistic
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.usage import MEASURED, PodUsage, Samples
from rescheduler.policies.framework import NodeFilling, PodColumns, PolicyView
from rescheduler.policies.measurement import measured as measured_nodes
from rescheduler.policies.objective import ONE
from rescheduler.policies.sampled_use import More, Most, SampledUse, highest
from rescheduler.scheduling.amounts import held_amount, incoming_amount
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray, NodeIndices
from rescheduler.scheduling.resource_scores import scored_use

REQUESTS: Final = "requests"
ACTUAL: Final = "actual"
_ALL_NODES: Final = slice(None)
STANDARD_ERRORS: Final = 3.0
"""So far a mean may be off by chance: of a thousand even nodes about one is further."""
STEEPNESS: Final = 4
"""How fast it gets worse: on a node 25 points above its target a point counts three times as much as on one just above it."""
WEIGHTS: Final[Mapping[str, int]] = {"memory": 2}
"""What a point above the target counts for, by resource, 1 for those not named: too much CPU slows pods down, too much memory ends them."""


Above = TypeVar("Above", int, IntArray)


def overload(above: Above) -> Above:
    """How bad it is that a node is so far above its target, both in millionths and at least 0. Convex."""
    return above + STEEPNESS * above * above // ONE


Part = TypeVar("Part", float, FloatArray)


def weight_of(resource: str) -> int:
    """What a point of it above the target counts for."""
    return WEIGHTS.get(resource, 1)


def fall(part: Part, excess: Part) -> Part:
    """By how much the ``overload`` of a node falls that is so far above its target, without a pod that takes that part of it; shares of a node."""
    return part * (1.0 + STEEPNESS * (2.0 * excess - part))


def relief(resource: str, part: Part, excess: Part) -> Part:
    """``fall`` with the weight of the resource."""
    return weight_of(resource) * fall(part, excess)


def goes_by_measurement(resources: Collection[str], usage: str) -> bool:
    """True if any of the resources is measured."""
    return usage == ACTUAL and not set(MEASURED).isdisjoint(resources)


class Counting(NamedTuple):
    """What counts for a ``Load``."""

    usage: str
    defaults: bool
    """Containers without requests count with kube-scheduler's defaults."""
    rooms: bool = True
    """What empty rooms hold counts, the standard error of a measurement, and the hours of the last day, as they do for a node that pods are to
    go to. It is no load that pods could take away, so a node is judged as too full without it."""
    statistic: UsageStatistic | None = None
    """Which number stands for the samples of a node or a pod; None: the one that is configured for all."""


class Load:
    """Amounts on nodes in the current what-if state, by requests or by measured usage.

    With usage "actual", cpu and memory come from measurements, of nodes and of pods, and planned moves carry along what their pods
    use, sample by sample: what stands for a node with a pod is the statistic of the sum of their samples, which is less than the sum of
    two statistics where their peaks come at different times. Where nobody measures pods, a pod's part of its node's usage is taken in proportion to what it counts for by requests.
    Nodes without a fresh measurement are neither too full nor free (``known``); of a pod that comes from one, or that is not
    measured itself while others are, its requests are counted.
    """

    def __init__(self, view: PolicyView, resources: Sequence[str], how: Counting) -> None:
        self._view = view
        self._rooms, self._defaults = how.rooms, how.defaults
        self.resources = tuple(resources)
        self._scale: dict[str, FloatArray] = {}
        self._shares: dict[str, FloatArray] = {}
        self._pods: PodUsage | None = None
        """What pods use, if it is measured and counts."""
        self._unmoved: dict[str, FloatArray] = {}
        self._use: dict[str, SampledUse] = {}
        """Of the resources that are measured."""
        self._statistic = how.statistic
        self.known: BoolArray = view.nodes.all
        self.capacity, self._divisors = self._capacities()
        self._held = {r: view.cluster.held_by_rooms(r, defaults=how.defaults) for r in self.resources}
        """By resource what empty rooms hold; None: nothing."""
        self._requested = {r: self._counted(r) for r in self.resources}
        self._amounts: dict[str, FloatArray] = {}
        if goes_by_measurement(self.resources, how.usage):
            self._measured()

    @classmethod
    def now(cls, view: PolicyView, resources: Sequence[str], how: Counting) -> Load:
        """The load of this moment, made once until the next move is planned or taken back."""
        key = cls, tuple(resources), how
        return view.memo.of(key, view.cluster.version, lambda: cls(view, resources, how))

    @property
    def amounts(self) -> Mapping[str, FloatArray]:
        """By resource, what the pods on each node take of it."""
        # Most questions are about single nodes: columns are made for the first one that is not.
        for resource in self.resources:
            if resource not in self._amounts:
                self._amounts[resource] = self._requested[resource].astype(np.float64)
        return self._amounts

    def amount_at(self, resource: str, node: int) -> float:
        """The same of one node."""
        return float(self._amounts.get(resource, self._requested[resource])[node])

    def share(self, resource: str) -> FloatArray:
        """Amount / capacity on each node."""
        found = self._shares.get(resource)
        if found is None:
            found = self._shares[resource] = self.divide(self.amounts[resource], resource)
        return found

    def before(self, resource: str) -> FloatArray:
        """The share of each node before the moves planned so far."""
        if self._view.settled:
            return self.share(resource)
        if resource in self._unmoved:
            return self.divide(self._unmoved[resource], resource)
        planned = self._view.planned
        arrived = planned.arrived(resource, defaults=self._defaults)
        departed = planned.departed(resource, defaults=self._defaults)
        return self.divide(self.amounts[resource] - arrived + departed, resource)

    def noise(self, resource: str) -> FloatArray | None:
        """By how much the share of each node may be off by chance; None: it is no measurement, so it is not."""
        use = self._use.get(resource)
        return None if use is None else self.divide(STANDARD_ERRORS * use.error, resource)

    def above_often(self, resource: str, share: float, newest: int) -> IntArray | None:
        """In how many of the newest samples each node is above a share; None: they are not known."""
        use = self._use.get(resource)
        if use is None or self._view.snapshot.node_samples is None:
            return None
        return use.above_often(self.capacity[resource] * share, newest)

    def day(self, resource: str) -> FloatArray:
        """The share of each node in each part of the last day: shape (nodes, parts), NaN: not known; no parts: none is."""
        use = self._use.get(resource)
        if use is None:
            return np.zeros((len(self.known), 0))
        shares: FloatArray = use.of_day / self._divisors[resource][:, np.newaxis]
        return shares

    def above_with(self, pod: Pod, resource: str, most: Most) -> FloatArray:
        """How far the share of each node would be above ``most`` with the pod, now or in the part of the last day when that is most."""
        whole = self._divisors[resource]
        use = self._use.get(resource)
        if use is None:
            amounts = self._amounts.get(resource, self._requested[resource])
            above: FloatArray = (amounts + self.taken(pod, resource)) / whole - most.now
            return above
        now, day = use.with_more(*self._samples_of(pod, resource))
        return np.fmax(now / whole - most.now, highest(day / whole[:, np.newaxis] - most.day))

    def part(self, pod: Pod, resource: str) -> FloatArray:
        """The share of each node that the pod would take there; by requests."""
        return self.divide(self.taken(pod, resource), resource)

    def taken(self, pod: Pod, resource: str) -> float:
        """How much of the resource the pod takes, wherever it stands."""
        node = self._view.state.node_index.get(pod.node)
        scaled = node is not None and resource in self._scale
        if scaled and self._pods is not None:
            used = self._pods.of(pod.key, resource, self._statistic)
            if used is not None:
                return used
        held = float(held_amount(pod, resource, defaults=self._defaults))
        return held * float(self._scale[resource][node]) if scaled else held

    def taken_by_each(self, columns: PodColumns, rows: IntArray, resource: str) -> FloatArray:
        """The same of many pods; NaN: it is not measured, although usage is asked for and that of other pods is measured."""
        if self._pods is not None and resource in self._scale:
            keys = (columns.pods[i].key for i in rows.tolist())
            return self._pods.column(keys, resource, self._statistic)
        amounts = (held_amount(kind, resource, defaults=self._defaults) for kind in columns.classes)
        held = np.fromiter(amounts, dtype=np.float64, count=len(columns.classes))[columns.kinds[rows]]
        scale = self._scale.get(resource)
        return held if scale is None else held * scale[columns.nodes[rows]]

    def nodes_left(self, pod: Pod, policy: str) -> list[int]:
        """Nodes that the pod left for this policy in the last day, by what is measured."""
        names = () if self._pods is None else self._pods.left(pod.key, policy)
        return [at for name in names if (at := self._view.state.node_index.get(name)) is not None]

    @property
    def measures_pods(self) -> bool:
        """True if what pods take is measured."""
        return self._pods is not None

    def left(self, resource: str, most: IntArray) -> NodeFilling:
        """How much more each node may take until it holds so much; by requests, rooms included."""
        standing = self._standing(resource)
        if np.array_equal(standing, self._view.state.requested(resource)):
            return NodeFilling(most - standing)
        takes = partial(incoming_amount, resource=resource, defaults=self._defaults)
        return NodeFilling(most - standing, takes)

    def offers(self, resource: str) -> BoolArray:
        """Nodes that have any of the resource to give."""
        offered: BoolArray = self.capacity[resource] > 0
        return offered

    def millionths(self, resource: str) -> IntArray:
        """The share of each node in whole millionths."""
        return self.millionths_with(0.0, resource)

    def millionths_with(self, more: More, resource: str, nodes: NodeIndices | slice = _ALL_NODES) -> IntArray:
        """The same with so much more on each node."""
        amounts = self.amounts_with(more, resource, nodes)
        return np.rint(amounts / self._divisors[resource][nodes] * ONE).astype(np.int64)

    def amounts_with(self, more: More, resource: str, nodes: NodeIndices | slice = _ALL_NODES) -> FloatArray:
        """What the pods on each node take of it, with so much more there."""
        if isinstance(more, float):
            standing: FloatArray | IntArray = self._amounts.get(resource, self._requested[resource])[nodes]
            return standing.astype(np.float64) + more
        return self._use[resource].amounts_with(more, nodes)

    def overloads(self, resource: str, target: int) -> IntArray:
        """``overload`` of each node. Not to be changed, and valid until the next move."""

        def judge(nodes: NodeIndices | slice) -> IntArray:
            return overload(np.maximum(self.millionths_with(0.0, resource, nodes) - target, 0))

        return self._per_node((resource,), ("overload", resource, target), judge)

    def rises(self, coming: Sequence[tuple[str, More, int]]) -> IntArray:
        """By how much the ``overload`` of each node would rise, over some resources. Not to be changed, and valid until the next move.

        ``coming``: resource, how much more of it there would be, and the target.
        """

        def judge(nodes: NodeIndices | slice) -> IntArray:
            rise: IntArray = np.zeros(len(self.known[nodes]), dtype=np.int64)
            for resource, more, target in coming:
                then = overload(np.maximum(self.millionths_with(more, resource, nodes) - target, 0))
                now = overload(np.maximum(self.millionths_with(0.0, resource, nodes) - target, 0))
                rise += weight_of(resource) * (then - now)
            return rise

        return self._per_node([resource for resource, _, _ in coming], ("rises", *coming), judge)

    def _per_node(
        self,
        resources: Iterable[str],
        question: tuple[object, ...],
        judge: Callable[[NodeIndices | slice], IntArray],
    ) -> IntArray:
        if any(resource in self._scale for resource in resources):
            return judge(_ALL_NODES)
        # By requests it follows from the node alone: only nodes touched since the last question are looked at.
        return self._view.cluster.occupancy.answers.of((Load, self._rooms, self._defaults, *question), judge)

    def millionths_at(self, more: More, resource: str, node: int) -> int:
        """``millionths_with`` of one node."""
        if isinstance(more, float):
            return round(
                (self.amount_at(resource, node) + more) / float(self._divisors[resource][node]) * ONE
            )
        return int(self.millionths_with(more, resource, slice(node, node + 1))[0])

    def rise_at(self, more: More, resource: str, node: int, target: int) -> int:
        """``rises`` of one node and resource."""
        now, then = self.millionths_at(0.0, resource, node), self.millionths_at(more, resource, node)
        return weight_of(resource) * (overload(max(then - target, 0)) - overload(max(now - target, 0)))

    def carried(self, pod: Pod, replacement: Pod, resource: str) -> tuple[More, More]:
        """What a move takes from the pod's node, and what it brings to its target."""
        if resource in self._use and self._pods is not None:
            samples, _ = self._samples_of(pod, resource)
            return samples, samples
        leaves = comes = self.taken(pod, resource)
        if resource not in self._scale:
            comes = float(incoming_amount(replacement.spec, resource, defaults=self._defaults))
        return leaves, comes

    def _samples_of(self, pod: Pod, resource: str) -> tuple[FloatArray, FloatArray]:
        """What the pod uses, as samples of the window and of the day; where it was not measured, what stands for it now."""
        found = None if self._pods is None else self._pods.samples(pod.key, resource)
        usual, use = self.taken(pod, resource), self._use[resource]
        if found is None:
            return np.full(use.parts, usual), np.full(use.day.shape[1], usual)
        window, day = (np.where(np.isnan(some), usual, some).astype(np.float64) for some in found)
        # Of the mean one number is kept, and where usage was measured once there is one.
        return (window if len(window) == use.parts else np.full(use.parts, usual)), day

    def pressure(self) -> FloatArray:
        """The share of the fullest resource of each node."""
        fullest: FloatArray = np.max([self.share(r) for r in self.resources], axis=0)
        return fullest

    def divide(self, amounts: FloatArray | float, resource: str) -> FloatArray:
        """Amounts on each node as shares of what it can hold."""
        shares: FloatArray = amounts / self._divisors[resource]
        return shares

    def _counted(self, resource: str) -> IntArray:
        requested = self._standing(resource)
        held = self._held[resource]
        return requested if self._rooms or held is None else requested - held

    def _standing(self, resource: str) -> IntArray:
        """What all pods on each node count for by requests. Do not change the array."""
        cluster = self._view.cluster
        return scored_use(cluster, resource) if self._defaults else cluster.requested(resource)

    def _capacities(self) -> tuple[Mapping[str, FloatArray], Mapping[str, FloatArray]]:
        """What each node can hold; and the same to divide by, so that nothing is a share of what is not offered."""

        def find() -> tuple[Mapping[str, FloatArray], Mapping[str, FloatArray]]:
            capacity = {r: self._view.state.allocatable(r).astype(np.float64) for r in self.resources}
            return capacity, {r: np.where(held > 0, held, np.inf) for r, held in capacity.items()}

        return self._view.memo.of((Load, self.resources), None, find)

    def _measured(self) -> None:
        snapshot, names = self._view.snapshot, self._view.state.node_names
        self.known = measured_nodes(snapshot, names)
        self._pods = snapshot.pod_usage
        found, usual = _samples(snapshot, names)
        self._statistic = self._statistic or usual
        for number, resource in enumerate(MEASURED):
            if resource not in self.resources:
                continue
            use = SampledUse.of(found.window[number], found.day[number], self._statistic, self.known)
            measured = use.amounts
            planned = self._view.planned
            held = self._held[resource]
            requested = self._standing(resource) - planned.arrived(resource, defaults=self._defaults)
            requested += planned.departed(resource, defaults=self._defaults)
            requested -= 0 if held is None else held
            factor = np.divide(measured, requested, out=np.zeros_like(measured), where=requested > 0)
            factor[~self.known] = 1.0
            if self._pods is not None:
                factor[:] = 1.0
            self._scale[resource] = factor
            if self._rooms:
                # Nothing is measured of an empty room; and what may be there by chance is no room either.
                use = use.plus(use.error + (0 if held is None else held))
            self._unmoved[resource] = use.amounts
            self._use[resource] = use = use.copy()
            for move in planned.moves:
                use.carry(move.source, move.target, *self._samples_of(move.pod, resource))
            self._amounts[resource] = use.amounts


def _samples(snapshot: Snapshot, names: Sequence[str]) -> tuple[Samples, UsageStatistic]:
    """Of these nodes, and which number stands for them."""
    if snapshot.node_samples is not None:
        return snapshot.node_samples.of_each(names), snapshot.node_samples.statistic
    amounts = np.full((len(MEASURED), len(names)), np.nan)
    for number, name in enumerate(names):
        if (used := snapshot.usage.get(name)) is not None:
            amounts[:, number] = used.cpu_milli, used.memory_bytes
    return Samples.of_one(amounts), UsageStatistic.MEAN
