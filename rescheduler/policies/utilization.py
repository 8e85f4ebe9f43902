"""How full nodes are: shares of what they can hold, by requests or by measured usage. Pure.

Shares are 0..1 of allocatable, one array per resource in the order of the nodes; a node that offers none of
a resource has the share 0 and is told apart by ``offers``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.amounts import amount
from rescheduler.policies.classes import PodClass
from rescheduler.policies.framework import View
from rescheduler.scheduling.framework import BoolArray, FloatArray

REQUESTS: Final = "requests"
ACTUAL: Final = "actual"
MEASURED: Final = ("cpu", "memory")


class Load:
    """Amounts on nodes in the current what-if state. ``usage``: "requests" or "actual".

    With "actual", cpu and memory come from measurements: a pod's part of its node's usage is taken in
    proportion to its requests, and planned moves carry that part along. Nodes that nobody measured are
    neither too full nor free (``known``).
    """

    def __init__(self, view: View, resources: Sequence[str], usage: str) -> None:
        self._view = view
        self.resources = tuple(resources)
        self._scale: Mapping[str, FloatArray] = {}
        self._shares: dict[str, FloatArray] = {}
        self._unmoved: dict[str, FloatArray] = {}
        self.known: BoolArray = view.nodes.targetable | True
        self.capacity = {r: self._capacity(r)[0] for r in self.resources}
        self.amounts = {r: view.state.requested(r).astype(np.float64) for r in self.resources}
        if usage == ACTUAL:
            self._measured()

    @classmethod
    def now(cls, view: View, resources: Sequence[str], usage: str) -> Load:
        """The load of this moment, made once until the next move is planned or taken back."""
        key = cls, tuple(resources), usage
        memo = view.memo.get(key)
        if memo is None or memo[0] != view.index.moment:
            memo = view.memo[key] = view.index.moment, cls(view, resources, usage)
        found: Load = memo[1]
        return found

    def share(self, resource: str) -> FloatArray:
        """Amount / capacity on each node."""
        found = self._shares.get(resource)
        if found is None:
            found = self._shares[resource] = self._divide(self.amounts[resource], resource)
        return found

    def before(self, resource: str) -> FloatArray:
        """The share of each node before the moves planned so far."""
        if resource in self._unmoved:
            return self._divide(self._unmoved[resource], resource)
        index = self._view.index
        return self._divide(
            self.amounts[resource] - index.arrived(resource) + index.departed(resource), resource
        )

    def gained(self, resource: str) -> FloatArray:
        """The share of each node that the moves planned so far brought."""
        return self._divide(self._view.index.arrived(resource).astype(np.float64), resource)

    def part(self, pod: Pod, resource: str) -> FloatArray:
        """The share of each node that the pod would take there."""
        return self._divide(self.taken(pod, resource), resource)

    def taken(self, pod: Pod, resource: str) -> float:
        """How much of the resource the pod takes, wherever it stands."""
        held = float(amount(pod.held, resource))
        node = self._view.state.node_index.get(pod.node)
        return held * self._scale[resource][node] if node is not None and resource in self._scale else held

    def taken_by(self, kinds: Sequence[PodClass], resource: str) -> FloatArray:
        """How much of the resource a pod of each class requests; times ``scale`` it is what it takes on a node."""
        return np.fromiter(
            (amount(kind.held, resource) for kind in kinds), dtype=np.float64, count=len(kinds)
        )

    def scale(self, resource: str) -> FloatArray:
        """For each node what its pods take in proportion to what they request; 1 unless usage is measured."""
        found = self._scale.get(resource)
        return np.ones(len(self._view.nodes)) if found is None else found

    def pressure(self) -> FloatArray:
        """The share of the fullest resource of each node."""
        fullest: FloatArray = np.max([self.share(r) for r in self.resources], axis=0)
        return fullest

    def _divide(self, amounts: FloatArray | float, resource: str) -> FloatArray:
        shares: FloatArray = amounts / self._capacity(resource)[1]
        return shares

    def _capacity(self, resource: str) -> tuple[FloatArray, FloatArray]:
        """What each node can hold; and the same to divide by, so that nothing is a share of what is not offered."""
        memo = self._view.memo
        found: tuple[FloatArray, FloatArray] | None = memo.get((Load, resource))
        if found is None:
            capacity = self._view.state.allocatable(resource).astype(np.float64)
            found = memo[Load, resource] = capacity, np.where(capacity > 0, capacity, np.inf)
        return found

    def _measured(self) -> None:
        usage = self._view.snapshot.usage
        names = self._view.state.node_names
        self.known = np.array([name in usage for name in names], dtype=np.bool_)
        scale: dict[str, FloatArray] = {}
        for resource in MEASURED:
            if resource not in self.resources:
                continue
            measured = np.array(
                [
                    float(usage[name].cpu_milli if resource == "cpu" else usage[name].memory_bytes)
                    if name in usage
                    else 0.0
                    for name in names
                ]
            )
            index = self._view.index
            requested = self.amounts[resource] - index.arrived(resource) + index.departed(resource)
            factor = np.divide(measured, requested, out=np.zeros_like(measured), where=requested > 0)
            self._unmoved[resource] = measured.copy()
            for shift in self._view.index.shifts:
                moved = amount(shift.pod.held, resource) * factor[shift.source]
                measured[shift.source] -= moved
                measured[shift.target] += moved
            scale[resource] = factor
            self.amounts[resource] = measured
        self._scale = scale
