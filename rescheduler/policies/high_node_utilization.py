"""HighNodeUtilization: under-utilised nodes are emptied, so that they can go.

A node is under-utilised below ``thresholds`` in all resources. It is emptied only if every pod that counts
(not DaemonSet, static or mirror pods) finds room on nodes that stay; its pods are one group.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import msgspec
import numpy as np

from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Pod
from rescheduler.policies.framework import PolicyView, nowhere
from rescheduler.policies.proposals import Batch, Candidate, Proposals
from rescheduler.policies.utilization import REQUESTS, Load
from rescheduler.policies.wire import PERCENT, ArgumentProblem, PolicyArgs, percent_problems
from rescheduler.scheduling.framework import BoolArray, FloatArray

_EPSILON: Final = 1e-9


class HighNodeUtilizationArgs(
    PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """``thresholds``: percent of allocatable below which (in all of them) a node is emptied.

    ``target_thresholds``: percent above which no node is filled; resources not named may be filled up.
    ``number_of_nodes``: under-utilised nodes that there must be before anything is done.
    """

    thresholds: dict[str, float] = msgspec.field(default_factory=lambda: {"cpu": 20.0, "memory": 20.0})
    target_thresholds: dict[str, float] = msgspec.field(default_factory=lambda: {"cpu": 90.0, "memory": 90.0})
    number_of_nodes: int = 1

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
        if self.number_of_nodes < 1:
            yield ("numberOfNodes",), f"is {self.number_of_nodes}: must be at least 1"


class HighNodeUtilization:
    """Gain = (1 - pressure here) x (0.5 + 0.5 x pressure there after the move).

    Pressure: share of the fullest resource of a node. So the emptiest node goes first and the fullest node
    that has room receives. Targets: nodes that stay. A node that is emptier than the candidate's own is to
    go itself, and so is one that this plan emptied; nodes without pods receive none; a node that received
    pods in this plan stays.
    """

    name: ClassVar[str] = "HighNodeUtilization"

    def __init__(self, args: HighNodeUtilizationArgs) -> None:
        self._args = args
        self._scope = args.scope()
        self._resources = tuple(sorted(args.thresholds.keys() | args.target_thresholds.keys()))

    def candidates(self, view: PolicyView) -> Proposals:
        """Per under-utilised node, the emptiest first: all of its pods that count, as one group."""
        load = Load.now(view, self._resources, REQUESTS)
        low = self._low(load, view)
        if int(low.sum()) < self._args.number_of_nodes:
            return Proposals([])
        pressure = load.pressure()
        found: list[tuple[Batch]] = []
        for node in _rank(np.flatnonzero(low).tolist(), pressure, view):
            found.extend((batch,) for batch in self._group(node, float(pressure[node]), view))
        return Proposals(found)

    def gains(self, candidate: Candidate, view: PolicyView) -> FloatArray:
        """By the formula of the class."""
        load = Load.now(view, self._resources, REQUESTS)
        pod = candidate.pod
        here = view.state.node_index[pod.node]
        if view.planned.arrived("pods")[here] > 0:
            return nowhere(view)
        pressure = load.pressure()
        after = np.zeros(view.nodes.size)
        fits = self._staying(here, load, view) & (view.planned.departed("pods") == 0)
        for resource in self._resources:
            share = load.share(resource) + load.part(pod, resource)
            limit = self._args.target_thresholds.get(resource, PERCENT) / PERCENT
            fits &= share <= limit + _EPSILON
            after = np.maximum(after, share)
        gain = (1.0 - self._before(here, load)) * (0.5 + 0.5 * np.minimum(after, 1.0))
        gain = np.where(fits & (pressure > 0), gain, 0.0)
        return np.clip(gain, 0.0, 1.0)

    def _low(self, load: Load, view: PolicyView) -> BoolArray:
        """Nodes to be emptied: under-utilised, neither cordoned nor protected, with nothing arriving."""
        low: BoolArray = view.nodes.usable.copy()
        for resource, percent in self._args.thresholds.items():
            low &= load.share(resource) < percent / PERCENT - _EPSILON
        low &= view.planned.arrived("pods") == 0
        kept = [i for i, node in enumerate(view.nodes.records) if node.do_not_disrupt]
        low[kept] = False
        return low

    def _staying(self, here: int, load: Load, view: PolicyView) -> BoolArray:
        """Nodes that are not to be emptied before this one."""
        low = self._low(load, view)
        # The pod's own node may have left the under-utilised ones while its group was planned.
        low[here] = True
        order = _rank(np.flatnonzero(low).tolist(), self._all_before(load), view)
        stays = np.ones(view.nodes.size, dtype=np.bool_)
        stays[order[: order.index(here) + 1]] = False
        return stays

    def _before(self, node: int, load: Load) -> float:
        return float(self._all_before(load)[node])

    def _all_before(self, load: Load) -> FloatArray:
        """Pressure before this plan took pods away, so that the order of nodes does not change under way."""
        shares = [load.before(r) + load.gained(r) for r in self._resources]
        highest: FloatArray = np.max(shares, axis=0)
        return highest

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
                    message=f"node {name} is used by {pressure:.0%} and can be emptied",
                    gain=1.0 - pressure,
                    group=f"{self.name}/{name}",
                )


def _largest_first(pod: Pod) -> tuple[int, int, str, str]:
    return -pod.held.cpu_milli, -pod.held.memory_bytes, pod.namespace, pod.name


def _rank(nodes: list[int], pressure: FloatArray, view: PolicyView) -> list[int]:
    return sorted(nodes, key=lambda i: (round(float(pressure[i]), 9), view.nodes.names[i]))
