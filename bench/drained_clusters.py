"""What ``drain`` compares the two drains on, and by: clusters from a seed, and the figures of one drain. Pure.

A cluster is full to 85 %, and there is a way to place the pods of the node that is drained on the others: it was made from one. Each budget
allows an eviction while all pods are Ready.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

NODE_CPU_MILLI: Final = 4000
FULL_PERCENT: Final = 85
SIZES_MILLI: Final = (300, 500, 800, 1000, 1500)
LEAST_ON_DRAINED_MILLI: Final = 2500
WORKLOADS_SHARE: Final = 0.6
"""At most so much of the CPU is of workloads; the rest is ballast on the nodes that stay."""
SPARE_STEP_MILLI: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Deployment or StatefulSet. ``nodes``: of each replica at the start. ``budget``: field of a budget and value, or none."""

    name: str
    kind: str
    cpu_milli: int
    nodes: tuple[str, ...]
    budget: tuple[str, int] | None

    @property
    def replicas(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Competitor:
    """A pod that comes while the node is drained, and takes what room it finds."""

    name: str
    cpu_milli: int
    after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """``ballast``: CPU of a pod that stays, by node."""

    seed: int
    nodes: tuple[str, ...]
    drained: str
    workloads: tuple[Workload, ...]
    ballast: Mapping[str, int]
    competitors: tuple[Competitor, ...]

    @property
    def requested_milli(self) -> int:
        """CPU that all pods request at the start."""
        return sum(w.cpu_milli * w.replicas for w in self.workloads) + sum(self.ballast.values())


def generate(seed: int) -> Cluster:
    """The cluster of that seed; those of even seeds have competitors."""
    rng = random.Random(seed)
    while True:
        found = _attempt(rng, seed)
        if found is not None:
            return found


def _attempt(rng: random.Random, seed: int) -> Cluster | None:
    """One try; None if the pods do not fit that way."""
    nodes = tuple(f"n{number}" for number in range(rng.randint(7, 9)))
    drained = rng.choice(nodes)
    sizes = [(rng.choice(SIZES_MILLI), rng.randint(1, 4)) for _ in range(rng.randint(4, 6))]
    requested = sum(cpu * count for cpu, count in sizes)
    capacity_milli = NODE_CPU_MILLI * len(nodes)
    if requested > WORKLOADS_SHARE * capacity_milli:
        return None
    free = dict.fromkeys(nodes, NODE_CPU_MILLI)
    placed = _place(rng, sizes, free, drained)
    if placed is None or NODE_CPU_MILLI - free.pop(drained) < LEAST_ON_DRAINED_MILLI:
        return None
    ballast = _ballast(rng, free, capacity_milli * FULL_PERCENT // 100 - requested)
    if ballast is None:
        return None
    workloads = tuple(
        Workload(
            name=f"app{index}",
            kind=rng.choice(("Deployment", "StatefulSet")),
            cpu_milli=cpu,
            nodes=tuple(placed[index]),
            budget=_budget(rng, count),
        )
        for index, (cpu, count) in enumerate(sizes)
    )
    competitors = _competitors(rng)
    return Cluster(
        seed=seed,
        nodes=nodes,
        drained=drained,
        workloads=workloads,
        ballast=ballast,
        competitors=competitors if seed % 2 == 0 else (),
    )


def _place(
    rng: random.Random, sizes: Sequence[tuple[int, int]], free: dict[str, int], drained: str
) -> list[list[str]] | None:
    """Nodes of the replicas of each workload, the drained node first; takes their CPU from ``free``.

    For a pod on the drained node its room on another node is taken, too. None if a pod fits nowhere.
    """
    placed: list[list[str]] = [[] for _ in sizes]
    pods = [index for index, (_, count) in enumerate(sizes) for _ in range(count)]
    rng.shuffle(pods)
    for index in pods:
        cpu = sizes[index][0]
        stays = _choice(rng, free, drained, cpu)
        if stays is None:
            return None
        free[stays] -= cpu
        if free[drained] >= cpu:
            free[drained] -= cpu
            placed[index].append(drained)
        else:
            placed[index].append(stays)
    return placed


def _ballast(rng: random.Random, free: Mapping[str, int], wanted_milli: int) -> dict[str, int] | None:
    """So much CPU in all, by node, out of what is free. None if there is not so much."""
    ballast = {node: room for node, room in free.items() if room}
    spare = sum(ballast.values()) - wanted_milli
    if wanted_milli < 0 or spare < 0:
        return None
    while spare:
        node = rng.choice(sorted(ballast))
        less = min(SPARE_STEP_MILLI, spare, ballast[node])
        ballast[node] -= less
        spare -= less
    return {node: cpu for node, cpu in ballast.items() if cpu}


def _competitors(rng: random.Random) -> tuple[Competitor, ...]:
    return tuple(
        Competitor(
            name=f"competitor{number}",
            cpu_milli=rng.choice(SIZES_MILLI),
            after_s=round(rng.uniform(0.5, 8.0), 1),
        )
        for number in range(rng.randint(3, 5))
    )


def _choice(rng: random.Random, free: Mapping[str, int], drained: str, cpu: int) -> str | None:
    """One of the nodes that stay and have room."""
    fitting = [node for node, room in free.items() if node != drained and room >= cpu]
    return rng.choice(fitting) if fitting else None


def _budget(rng: random.Random, replicas: int) -> tuple[str, int] | None:
    """None, a tight budget, or a loose one: each allows at least one eviction."""
    if replicas == 1:
        return rng.choice((None, ("maxUnavailable", 1)))
    return rng.choice((None, ("maxUnavailable", 1), ("minAvailable", replicas - 1), ("minAvailable", 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A pod as one event of a watch showed it. ``gone``: the object was deleted."""

    at_s: float
    uid: str
    app: str
    node: str
    ready: bool
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one drain, from its begin until ``ended_s``."""

    pending_s: float
    """From the creation of each replacement until it is bound, or until the end: the sum."""
    missing_s: float
    """Pods that were not Ready, of those wanted, over time: the sum."""
    least_ready: Mapping[str, int]
    empty_s: float
    """From the begin until no pod of a workload was on the node any more; infinite if that never was."""
    left_on_node: int
    left_unbound: int


def figures(
    sights: Iterable[Sight], workloads: Sequence[Workload], drained: str, begun_s: float, ended_s: float
) -> Figures:
    """What the events of a watch say, in their order; what was seen before ``begun_s`` is the state at the begin."""
    wanted = {w.name: w.replicas for w in workloads}
    seen = [s for s in sights if s.app in wanted and s.at_s <= ended_s]
    pods = {s.uid: s for s in seen if s.at_s < begun_s and not s.gone}
    for sight in seen:
        if sight.at_s < begun_s and sight.gone:
            pods.pop(sight.uid, None)
    created = {uid: begun_s for uid, sight in pods.items() if not sight.node}
    pending_s, missing_s, empty_s, last_s = 0.0, 0.0, math.inf, begun_s
    ready = _ready(pods.values(), wanted)
    least = dict(ready)
    for sight in (s for s in seen if s.at_s >= begun_s):
        missing_s += _missing(ready, wanted) * (sight.at_s - last_s)
        last_s = sight.at_s
        if sight.uid not in pods and not sight.gone:
            created[sight.uid] = sight.at_s
        if sight.node or sight.gone:
            pending_s += sight.at_s - created.pop(sight.uid, sight.at_s)
        pods[sight.uid] = sight
        if sight.gone:
            del pods[sight.uid]
        ready = _ready(pods.values(), wanted)
        least = {app: min(least[app], ready[app]) for app in least}
        if any(p.node == drained for p in pods.values()):
            empty_s = math.inf
        elif empty_s == math.inf:
            empty_s = sight.at_s - begun_s
    missing_s += _missing(ready, wanted) * (ended_s - last_s)
    return Figures(
        pending_s=pending_s + sum(ended_s - at_s for at_s in created.values()),
        missing_s=missing_s,
        least_ready=least,
        empty_s=empty_s,
        left_on_node=sum(p.node == drained for p in pods.values()),
        left_unbound=len(created),
    )


def _ready(pods: Iterable[Sight], wanted: Mapping[str, int]) -> dict[str, int]:
    found = dict.fromkeys(wanted, 0)
    for pod in pods:
        found[pod.app] += pod.ready
    return found


def _missing(ready: Mapping[str, int], wanted: Mapping[str, int]) -> int:
    return sum(max(0, count - ready[app]) for app, count in wanted.items())
