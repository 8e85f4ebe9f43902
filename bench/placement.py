"""A cluster as numbers, for exact models: pods by class, nodes, who may stand where, and what is wrong.

It is derived from a snapshot by the scheduler's own filters: a node allows a class if an empty cluster would take its replacement
there. Besides that, three rules about other pods are known: required anti-affinity of an application to itself on a node, hard spread
of an application over zones, and room (cpu, memory, pods and whatever else nodes offer). Others are refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.model.never_moves import belongs_to_node
from rescheduler.model.records import Pod
from rescheduler.model.resources import Resources
from rescheduler.model.snapshot import Snapshot
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PodKind:
    """Pods that no rule tells apart."""

    request: tuple[int, ...]
    """In the order of ``Placement.resources``."""
    apart: bool
    """At most one of them on a node."""
    max_skew: int
    """Of a hard spread over zones; 0: none."""
    group: str
    """The application that the two rules are about; empty without them. Its pods may be of several kinds."""


@dataclass(frozen=True)
class Placement:
    """Kinds of pods, nodes, and how many of each kind stand on each node."""

    resources: tuple[str, ...]
    nodes: tuple[str, ...]
    zones: IntArray
    """Number of each node's zone."""
    capacity: IntArray
    """(nodes, resources)"""
    fixed: IntArray
    """(nodes, resources): what pods take that stay."""
    kinds: tuple[PodKind, ...]
    requests: IntArray
    """(kinds, resources)"""
    allowed: BoolArray
    """(kinds, nodes)"""
    start: IntArray
    """(kinds, nodes)"""

    def load(self, counts: IntArray) -> IntArray:
        """(nodes, resources) of counts (kinds, nodes)."""
        return self.fixed + counts.T @ self.requests

    def violations(self, counts: IntArray) -> int:
        """Pods where they may not stand, those too many on a node, those too many in a zone."""
        found = int(counts[~self.allowed].sum())
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for number, kind in enumerate(self.kinds):
            if kind.group:
                groups[kind.group].append(number)
        for members in groups.values():
            kind, total = self.kinds[members[0]], counts[members].sum(axis=0)
            if kind.apart:
                found += int(np.maximum(total - 1, 0).sum())
            if kind.max_skew:
                zones = np.bincount(self.zones, weights=total).astype(np.int64)
                found += int(np.maximum(zones - zones.min() - kind.max_skew, 0).sum())
        return found

    def in_use(self, counts: IntArray) -> int:
        """Nodes with at least one pod that does not belong to its node."""
        return int((counts.sum(axis=0) > 0).sum())

    def excess(self, counts: IntArray, high: dict[str, float]) -> float:
        """Sum over nodes and resources of the share above the threshold (percent)."""
        load = self.load(counts)
        total = 0.0
        for resource, percent in high.items():
            at = self.resources.index(resource)
            total += float(np.maximum(load[:, at] / self.capacity[:, at] - percent / 100, 0.0).sum())
        return total


class Places:
    """Counts pods of snapshots that show the same cluster at different times."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._numbers: dict[str, int] = {}
        """Kind of each pod, by uid."""
        self.placement = self._derive(snapshot)

    def number(self, pod: Pod) -> int | None:
        """The kind of a pod; None for one that belongs to its node."""
        return self._numbers.get(pod.uid)

    def counts(self, snapshot: Snapshot) -> IntArray:
        """(kinds, nodes) of the pods of a later snapshot, which have the same uids."""
        found = np.zeros_like(self.placement.start)
        index = {name: i for i, name in enumerate(self.placement.nodes)}
        for pod in snapshot.pods.values():
            if pod.uid in self._numbers:
                found[self._numbers[pod.uid], index[pod.node]] += 1
        return found

    def _derive(self, snapshot: Snapshot) -> Placement:
        nodes = tuple(snapshot.nodes)
        index = {name: i for i, name in enumerate(nodes)}
        scalars = sorted({n for node in snapshot.nodes.values() for n, _ in node.allocatable.scalars})
        resources = ("cpu", "memory", "pods", *scalars)
        capacity = np.array(
            [_amounts(node.allocatable, resources) for node in snapshot.nodes.values()], np.int64
        )
        fixed = np.zeros_like(capacity)
        empty = SchedulingState(replace(snapshot, pods={}))
        replacements = Replacements(snapshot)
        asked: dict[int, BoolArray] = {}
        known: dict[tuple[object, ...], int] = {}
        kinds: list[PodKind] = []
        allowed: list[BoolArray] = []
        places: list[tuple[int, int]] = []
        for pod in snapshot.pods.values():
            if belongs_to_node(pod):
                fixed[index[pod.node]] += _needs(pod, resources)
                continue
            mask = asked.get(id(pod.spec))
            if mask is None:
                new = replacements.of(pod).pod
                if new is None:
                    raise ValueError(f"{pod.name}: nothing would bring it back")
                mask = asked[id(pod.spec)] = empty.feasible(new).copy()
            kind = _kind(pod, resources)
            key = (kind, mask.tobytes())
            if key not in known:
                known[key] = len(kinds)
                kinds.append(kind)
                allowed.append(mask)
            self._numbers[pod.uid] = known[key]
            places.append((known[key], index[pod.node]))
        start = np.zeros((len(kinds), len(nodes)), dtype=np.int64)
        for number, node in places:
            start[number, node] += 1
        zones: dict[str, int] = defaultdict(lambda: len(zones))
        return Placement(
            resources=resources, nodes=nodes, kinds=tuple(kinds), capacity=capacity, fixed=fixed, start=start,
            zones=np.array([zones[n.labels.get(ZONE, "")] for n in snapshot.nodes.values()], dtype=np.int64),
            requests=np.array([k.request for k in kinds], dtype=np.int64).reshape(len(kinds), len(resources)),
            allowed=np.array(allowed, dtype=np.bool_).reshape(len(kinds), len(nodes)),
        )  # fmt: skip


def _kind(pod: Pod, resources: Sequence[str]) -> PodKind:
    spec = pod.spec
    if spec.host_ports or spec.volumes or len(spec.spread) > 1 or len(spec.pod_anti_affinity) > 1:
        raise ValueError(f"{pod.name}: a rule that the models do not know")
    for term in spec.pod_anti_affinity:
        if term.topology_key != HOSTNAME or not term.selector or not term.selector.matches(pod.labels):
            raise ValueError(f"{pod.name}: anti-affinity to others")
    skew = 0
    for constraint in spec.spread:
        if constraint.topology_key != ZONE or not constraint.hard:
            raise ValueError(f"{pod.name}: spread over something else than zones")
        skew = constraint.max_skew
    apart = bool(spec.pod_anti_affinity)
    group = f"{pod.namespace}/{pod.labels.get('app')}" if apart or skew else ""
    return PodKind(tuple(_needs(pod, resources).tolist()), apart, skew, group)


def _needs(pod: Pod, resources: Sequence[str]) -> IntArray:
    asked = msgspec.structs.replace(pod.spec.requests, pods=1)
    return np.array(_amounts(asked, resources), dtype=np.int64)


def _amounts(amounts: Resources, resources: Sequence[str]) -> list[int]:
    first = {"cpu": amounts.cpu_milli, "memory": amounts.memory_bytes, "pods": amounts.pods}
    return [first[r] if r in first else amounts.scalar(r) for r in resources]
