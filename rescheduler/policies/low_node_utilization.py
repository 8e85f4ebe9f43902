"""LowNodeUtilization: overloaded nodes shed pods to under-utilised ones.

A node is overloaded above ``targetThresholds`` in any resource, under-utilised below ``thresholds`` in all.
Between the two it neither sheds nor receives: this is the hysteresis that keeps pods from going to and fro.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import ClassVar, Final

import msgspec
import numpy as np

from rescheduler.model.records import Pod
from rescheduler.policies.framework import Candidate, View, nowhere
from rescheduler.policies.kinds import never_moves
from rescheduler.policies.order import reluctance
from rescheduler.policies.utilization import ACTUAL, REQUESTS, Load
from rescheduler.policies.wire import PERCENT, ArgumentProblem, PolicyArgs, percent_problems
from rescheduler.scheduling.framework import BoolArray, FloatArray

_EPSILON: Final = 1e-9


class LowNodeUtilizationArgs(
    PolicyArgs, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Percent of allocatable per resource; both maps name the same resources.

    ``use_deviation_thresholds``: thresholds are taken below, targetThresholds above the mean of all nodes.
    ``usage``: requests, or actual where measured. ``number_of_nodes``: under-utilised nodes that there must
    be before anything is done.
    """

    thresholds: dict[str, float] = msgspec.field(
        default_factory=lambda: {"cpu": 20.0, "memory": 20.0, "pods": 20.0}
    )
    target_thresholds: dict[str, float] = msgspec.field(
        default_factory=lambda: {"cpu": 50.0, "memory": 50.0, "pods": 50.0}
    )
    use_deviation_thresholds: bool = False
    usage: str = REQUESTS
    number_of_nodes: int = 1

    def problems(self) -> Iterator[ArgumentProblem]:
        """Value errors."""
        yield from super().problems()
        yield from percent_problems("thresholds", self.thresholds)
        yield from percent_problems("targetThresholds", self.target_thresholds)
        if not self.thresholds:
            yield ("thresholds",), "is empty: name at least one resource"
        for resource in sorted(self.thresholds.keys() ^ self.target_thresholds.keys()):
            missing = "targetThresholds" if resource in self.thresholds else "thresholds"
            yield (missing,), f"misses {resource}: both maps must name the same resources"
        for resource in self.thresholds.keys() & self.target_thresholds.keys():
            low, high = self.thresholds[resource], self.target_thresholds[resource]
            if low > high and not self.use_deviation_thresholds:
                yield ("thresholds", resource), f"is {low:g}, above its targetThreshold {high:g}"
        if self.usage not in (REQUESTS, ACTUAL):
            yield ("usage",), f"is {self.usage!r}: must be {REQUESTS} or {ACTUAL}"
        if self.number_of_nodes < 1:
            yield ("numberOfNodes",), f"is {self.number_of_nodes}: must be at least 1"


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Shares (0..1) by resource, and which nodes were under-utilised before any move of this plan."""

    low: dict[str, float]
    high: dict[str, float]
    free: BoolArray


class LowNodeUtilization:
    """Gain = (pressure here - pressure there after the move) x (0.5 + 0.5 x relief), at least 0.

    Pressure: share of the fullest resource of a node. Relief: part of the node's excess that the pod takes
    away, at most 1; a pod that takes nothing of an overloaded resource is not wanted. A target must have
    been under-utilised before the plan, and must not be above ``targetThresholds`` after the move.
    """

    name: ClassVar[str] = "LowNodeUtilization"

    def __init__(self, args: LowNodeUtilizationArgs) -> None:
        self._args = args
        self._scope = args.scope()
        self._resources = tuple(sorted(args.target_thresholds))

    def candidates(self, view: View) -> Sequence[Candidate]:
        """Per overloaded node, most overloaded first: the pods that just cover its excess, then spares."""
        load = self._load(view)
        bounds = self._bounds(view, load)
        if int(bounds.free.sum()) < self._args.number_of_nodes:
            return []
        excess = self._excess(load, bounds)
        worst = np.max(list(excess.values()), axis=0)
        loaded = np.flatnonzero((worst > _EPSILON) & load.known).tolist()
        over = sorted(loaded, key=lambda i: (-worst[i], view.nodes.names[i]))
        wanted: list[Candidate] = []
        spares: list[Candidate] = []
        for node in over:
            for candidate in self._shed(node, load, bounds, excess, view):
                (spares if candidate.spare else wanted).append(candidate)
        return wanted + spares

    def gains(self, candidate: Candidate, view: View) -> FloatArray:
        """By the formula of the class."""
        load = self._load(view)
        bounds = self._bounds(view, load)
        pod = candidate.pod
        here = view.state.node_index[pod.node]
        relief = self._relief(pod, here, load, bounds)
        if relief <= 0:
            return nowhere(view)
        after = np.zeros(len(view.nodes))
        fits = bounds.free & load.known
        for resource in self._resources:
            share = load.share(resource) + load.part(pod, resource)
            fits = fits & (share <= bounds.high[resource] + _EPSILON)
            after = np.maximum(after, share)
        gain = (load.pressure()[here] - after) * (0.5 + 0.5 * relief)
        return np.where(fits, np.clip(gain, 0.0, 1.0), 0.0)

    def overfull_with(self, pod: Pod, view: View) -> BoolArray:
        """Nodes above ``targetThresholds`` with the pod; none where there is no node to shed to."""
        load = self._load(view)
        bounds = self._bounds(view, load)
        over = np.zeros(len(view.nodes), dtype=np.bool_)
        if int(bounds.free.sum()) < self._args.number_of_nodes:
            return over
        for resource in self._resources:
            over |= load.share(resource) + load.part(pod, resource) > bounds.high[resource] + _EPSILON
        return over & load.known

    def _load(self, view: View) -> Load:
        usage = self._args.usage if view.snapshot.usage else REQUESTS
        return Load(view, self._resources, usage)

    def _bounds(self, view: View, load: Load) -> _Bounds:
        low = {r: self._args.thresholds[r] / PERCENT for r in self._resources}
        high = {r: self._args.target_thresholds[r] / PERCENT for r in self._resources}
        if self._args.use_deviation_thresholds:
            for resource in self._resources:
                shares = load.share(resource)[load.known]
                mean = float(shares.mean()) if shares.size else 0.0
                low[resource] = max(0.0, mean - low[resource])
                high[resource] = min(1.0, mean + high[resource])
        free = view.nodes.targetable & load.known
        for resource in self._resources:
            free = free & (load.before(resource) < low[resource] - _EPSILON)
        return _Bounds(low, high, free)

    def _excess(self, load: Load, bounds: _Bounds) -> dict[str, FloatArray]:
        return {r: np.maximum(load.share(r) - bounds.high[r], 0.0) for r in self._resources}

    def _relief(self, pod: Pod, node: int, load: Load, bounds: _Bounds) -> float:
        """Part of the node's excess that goes with the pod: the least over its overloaded resources it has."""
        best = 0.0
        for resource in self._resources:
            excess = float(load.share(resource)[node]) - bounds.high[resource]
            if excess > _EPSILON and load.known[node]:
                part = load.taken(pod, resource) / max(float(load.capacity[resource][node]), 1.0)
                best = max(best, min(1.0, part / excess))
        return best

    def _shed(
        self, node: int, load: Load, bounds: _Bounds, excess: dict[str, FloatArray], view: View
    ) -> Iterator[Candidate]:
        name = view.nodes.names[node]
        over = [r for r in self._resources if excess[r][node] > _EPSILON]
        shares = _Parts(over, load)
        pods = [
            pod
            for pod in view.state.pods_on(name)
            if not pod.deleting and not never_moves(pod) and self._scope.admits(pod) and any(shares.of(pod))
        ]
        able = [view.movable(pod) for pod in pods]
        movable = list(compress(pods, able))
        need = {r: float(excess[r][node] * load.capacity[r][node]) for r in over}
        chosen = _cover(movable, need, shares)
        full = ", ".join(f"{r} {load.share(r)[node]:.0%} of {bounds.high[r]:.0%}" for r in over)
        pressure = float(load.pressure()[node])
        picked = {pod.uid for pod in chosen}
        reliefs: dict[tuple[float, ...], float] = {}
        # Where what may move does not cover the excess, what is protected is wanted too, and reported.
        covered = all(sum(load.taken(p, r) for p in chosen) >= need[r] - _EPSILON for r in over)
        held_back = [] if covered else [pod for pod, free in zip(pods, able, strict=True) if not free]
        spare = view.spares or not covered
        rest = [pod for pod in movable if pod.uid not in picked] if spare else []
        for pod in [*chosen, *held_back, *rest]:
            taken = shares.of(pod)
            relief = reliefs.get(taken)
            if relief is None:
                relief = reliefs[taken] = self._relief(pod, node, load, bounds)
            yield Candidate(
                pod=pod,
                policy=self.name,
                reason="NodeOverloaded",
                message=f"node {name} is overloaded: {full}",
                gain=min(1.0, pressure * (0.5 + 0.5 * relief)),
                spare=covered and pod.uid not in picked,
            )


class _Parts:
    """What pods of one node take of some resources; pods that hold the same are worked out once."""

    def __init__(self, resources: Sequence[str], load: Load) -> None:
        self._resources = resources
        self._load = load
        self._known: dict[int, tuple[float, ...]] = {}

    def of(self, pod: Pod) -> tuple[float, ...]:
        """Amounts in the order of the resources."""
        known = self._known.get(id(pod.held))
        if known is None:
            known = tuple(self._load.taken(pod, r) for r in self._resources)
            self._known[id(pod.held)] = known
        return known


def _cover(pods: list[Pod], need: dict[str, float], parts: _Parts) -> list[Pod]:
    """Few pods that together cover the need: the smallest that covers all of the rest, else the largest."""
    taken = np.array([parts.of(pod) for pod in pods], dtype=np.float64).reshape(len(pods), len(need))
    left = np.array(list(need.values()))
    sizes = (taken / np.maximum(left, 1.0)).sum(axis=1)
    # The first of equals is taken: less reluctant, then smaller, then by name.
    dislikes = [reluctance(pod) for pod in pods]
    small = sizes.tolist()
    order = sorted(
        range(len(pods)), key=lambda i: (*dislikes[i][1:], small[i], pods[i].namespace, pods[i].name)
    )
    taken = taken[order]
    unwilling = np.array([dislikes[i][0] for i in order], dtype=np.bool_)
    free = np.ones(len(pods), dtype=np.bool_)
    chosen: list[Pod] = []
    while (left > _EPSILON).any():
        open_ = left > _EPSILON
        covered = np.round(np.minimum(taken[:, open_] / left[open_], 1.0).mean(axis=1), 6)
        useful = free & (covered > 0)
        if not useful.any():
            break
        if (useful & ~unwilling).any():
            useful &= ~unwilling
        best = int(np.argmax(np.where(useful, covered, -1.0)))
        chosen.append(pods[order[best]])
        free[best] = False
        left = np.maximum(left - taken[best], 0.0)
    return chosen
