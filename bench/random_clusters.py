"""Random clusters of 10 to 40 nodes and 100 to 400 pods, by kind and seed, with the policies that are asked about them.

The same kind and seed give the same cluster. Three zones, a part of the nodes with ``disk: ssd``, some with a taint; Deployments'
pods as their ReplicaSets make them, DaemonSets on some of the clusters.

| kind | what is wrong | room |
|---|---|---|
| tight | pods on nodes that their affinity or a taint forbids, two of one kind on a node, one zone too full | where they may go somebody must step aside first; elsewhere there is room |
| ordinary | the same | a quarter is free everywhere |
| consolidation | nothing | 35 to 60 % is used, unevenly |
| balance | some nodes are above the target threshold | others are below the threshold |
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from harness import builders as b
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.framework import Policy
from rescheduler.policies.registry import REGISTRY

ZONES: Final = ("a", "b", "c")
CPU_MILLI: Final = (50, 100, 200, 300, 400, 500, 700, 1000, 1500)
SMALL: Final = CPU_MILLI[:6]
MIB_PER_MILLI: Final = (1, 2, 4, 6)
NODE_CPU_MILLI: Final = (4000, 6000, 8000)
NODE_MIB_PER_MILLI: Final = 4
REPAIRS: Final = ("NodeTaints", "NodeAffinity", "InterPodAntiAffinity", "TopologySpread")


class Kind(enum.StrEnum):
    """What the planner is asked to do with the cluster."""

    TIGHT = "tight"
    ORDINARY = "ordinary"
    CONSOLIDATION = "consolidation"
    BALANCE = "balance"


@dataclass(frozen=True)
class Thresholds:
    """Percent by resource, as HighNodeUtilization and LowNodeUtilization have them."""

    low: dict[str, float]
    high: dict[str, float]


@dataclass(frozen=True)
class RandomCluster:
    """A cluster, and what is asked about it."""

    kind: Kind
    seed: int
    snapshot: Snapshot
    policies: tuple[Policy, ...]
    thresholds: Thresholds | None = None


@dataclass
class _App:
    name: str
    builder: Any
    cpu_milli: int
    mib: int
    replicas: int
    ssd: bool = False
    tolerates: bool = False
    apart: bool = False
    spread: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    """Replicas by node."""


@dataclass
class _Room:
    builder: Any
    zone: str
    ssd: bool
    tainted: bool
    cpu_milli: int
    mib: int
    pods: int


class _Draft:
    """A cluster that is being put together."""

    def __init__(self, rng: random.Random, sizes: tuple[int, ...]) -> None:
        """``sizes``: CPU requests, in milli."""
        self.rng = rng
        self.sizes = sizes
        self.nodes: dict[str, _Room] = {}
        self.apps: list[_App] = []
        self.size: dict[str, int] = {}
        """CPU of each node, in milli."""

    def add_nodes(self, count: int) -> None:
        rng = self.rng
        ssd, tainted = rng.uniform(0.15, 0.35), rng.uniform(0.0, 0.15)
        for i in range(count):
            name, cpu = f"n{i:02d}", rng.choice(NODE_CPU_MILLI)
            room = _Room(None, ZONES[i % 3], rng.random() < ssd, rng.random() < tainted,
                         cpu, cpu * NODE_MIB_PER_MILLI, 110)  # fmt: skip
            built = b.node(name).zone(room.zone).label(disk="ssd" if room.ssd else "hdd")
            built = built.allocatable(cpu=f"{cpu}m", memory=f"{room.mib}Mi", pods="110")
            room.builder = built.taint("dedicated", "team") if room.tainted else built
            self.nodes[name] = room
            self.size[name] = cpu

    def app(self, **kinds: bool) -> _App:
        rng = self.rng
        name, cpu = f"app{len(self.apps):03d}", rng.choice(self.sizes)
        mib = max(64, cpu * rng.choice(MIB_PER_MILLI))
        replicas = rng.randint(1, 6) if not kinds.get("spread") else rng.randint(4, 9)
        app = _App(name, None, cpu, mib, replicas, **kinds)
        built = b.replicaset(name).requests(cpu=f"{cpu}m", memory=f"{mib}Mi")
        if app.ssd:
            built = built.requires_node("disk", "ssd")
        if app.tolerates:
            built = built.tolerate("dedicated")
        if app.apart:
            built = built.apart(HOSTNAME, app=name)
        if app.spread:
            built = built.spread(ZONE, app=name)
        app.builder = built
        self.apps.append(app)
        return app

    def allows(self, app: _App, name: str) -> bool:
        room = self.nodes[name]
        return (room.ssd or not app.ssd) and (app.tolerates or not room.tainted)

    def fits(self, app: _App, name: str) -> bool:
        room = self.nodes[name]
        return room.cpu_milli >= app.cpu_milli and room.mib >= app.mib and room.pods >= 1

    def put(self, app: _App, name: str) -> None:
        room = self.nodes[name]
        room.cpu_milli -= app.cpu_milli
        room.mib -= app.mib
        room.pods -= 1
        app.counts[name] = app.counts.get(name, 0) + 1

    def used(self, name: str) -> float:
        """Share of the fuller resource."""
        size, room = self.size[name], self.nodes[name]
        return 1.0 - min(room.cpu_milli / size, room.mib / (size * NODE_MIB_PER_MILLI))

    def place_well(self, app: _App, names: list[str], limit: dict[str, float]) -> int:
        """Put its replicas on nodes that are below their limits, by its rules; gives how many found no place."""
        missed = 0
        for _ in range(app.replicas):
            fit = [n for n in names if self.allows(app, n) and self.fits(app, n) and self.used(n) < limit[n]]
            if app.apart:
                fit = [n for n in fit if n not in app.counts]
            if app.spread:
                zones = self._zones(app)
                least = min(zones.values())
                fit = [n for n in fit if zones[self.nodes[n].zone] == least]
            if fit:
                self.put(app, self.rng.choice(fit))
            else:
                missed += 1
        return missed

    def _zones(self, app: _App) -> dict[str, int]:
        counts = dict.fromkeys(ZONES, 0)
        for name, count in app.counts.items():
            counts[self.nodes[name].zone] += count
        return counts

    def daemons(self) -> list[Any]:
        """A DaemonSet's pods, one on each node, which stay where they are."""
        owner = b.daemonset("agent").requests(cpu="50m", memory="64Mi").tolerate(operator="Exists")
        objects: list[Any] = [owner]
        for name, room in self.nodes.items():
            room.cpu_milli -= 50
            room.mib -= 64
            room.pods -= 1
            objects.append(owner.pod(f"agent-{name}").on(name))
        return objects

    def snapshot(self, more: list[Any]) -> Snapshot:
        objects: list[Any] = [room.builder for room in self.nodes.values()]
        for app in self.apps:
            placed = [name for name, count in sorted(app.counts.items()) for _ in range(count)]
            if not placed:
                continue
            owner = app.builder.replicas(len(placed))
            objects.append(owner)
            objects.extend(owner.pod(f"{app.name}-{i}").on(name) for i, name in enumerate(placed))
        return b.snapshot(objects, more)

    def count(self) -> int:
        return sum(sum(app.counts.values()) for app in self.apps)


def random_cluster(kind: Kind, seed: int) -> RandomCluster:
    """The cluster of a kind and a seed."""
    rng = random.Random(f"{kind}-{seed}")
    draft = _Draft(rng, SMALL if kind is Kind.CONSOLIDATION else CPU_MILLI)
    draft.add_nodes(rng.randint(10, 40))
    more = draft.daemons() if rng.random() < 0.5 else []
    if kind in (Kind.TIGHT, Kind.ORDINARY):
        _with_violations(draft, tight=kind is Kind.TIGHT)
        return RandomCluster(kind, seed, draft.snapshot(more), policies(*REPAIRS))
    if kind is Kind.CONSOLIDATION:
        _half_empty(draft)
        thresholds = _packing(rng)
        wanted = policies(HighNodeUtilization=_arguments(thresholds))
    else:
        thresholds = _relief(rng)
        _uneven(draft, thresholds)
        wanted = policies(LowNodeUtilization=_arguments(thresholds))
    return RandomCluster(kind, seed, draft.snapshot(more), wanted, thresholds)


def with_budgets(cluster: RandomCluster) -> RandomCluster:
    """The same cluster, each application of it with a budget that lets one pod go at a time."""
    replicas = Counter(pod.controller.name for pod in cluster.snapshot.pods.values() if pod.controller)
    replicas.pop("agent", None)
    counted = [b.pdb(name).allows(1, healthy=number).build() for name, number in sorted(replicas.items())]
    snapshot = dataclasses.replace(cluster.snapshot, budgets={budget.key: budget for budget in counted})
    return dataclasses.replace(cluster, snapshot=snapshot)


def policies(*names: str, **arguments: dict[str, Any]) -> tuple[Policy, ...]:
    """Policies by name, those with arguments last."""
    asked: dict[str, dict[str, Any]] = {**{name: {} for name in names}, **arguments}
    return tuple(REGISTRY[name].build(REGISTRY[name].args(**given)) for name, given in asked.items())


def _arguments(thresholds: Thresholds) -> dict[str, Any]:
    return {"thresholds": thresholds.low, "target_thresholds": thresholds.high}


def _packing(rng: random.Random) -> Thresholds:
    """Any node may be emptied and filled to the brim, or only those below a threshold, and up to a target."""
    if rng.random() < 0.5:
        return Thresholds({"cpu": 99.99, "memory": 99.99}, {"cpu": 100.0, "memory": 100.0})
    low, high = float(rng.choice((40, 60))), float(rng.choice((80, 90)))
    return Thresholds({"cpu": low, "memory": low}, {"cpu": high, "memory": high})


def _relief(rng: random.Random) -> Thresholds:
    low, high = rng.choice(((40.0, 60.0), (50.0, 65.0), (50.0, 50.0)))
    names = ("cpu", "memory", "pods")
    return Thresholds(dict.fromkeys(names, low), dict.fromkeys(names, high))


def _fill(draft: _Draft, names: list[str], limit: dict[str, float], most: int, chances: float) -> None:
    """Applications until the nodes are at their limits or there are enough pods; a part of them has rules."""
    misses = 0
    while draft.count() < most and misses < 6:
        rng = draft.rng
        ruled = rng.random() < chances
        app = draft.app(
            ssd=rng.random() < 0.1,
            tolerates=rng.random() < 0.2,
            apart=ruled and rng.random() < 0.6,
            spread=ruled and rng.random() < 0.3,
        )
        misses += draft.place_well(app, names, limit) == app.replicas


def _with_violations(draft: _Draft, *, tight: bool) -> None:
    rng, names = draft.rng, list(draft.nodes)
    wrong = _wrong_ones(draft, len(names))
    # The nodes to which the misplaced pods could go are filled by pods that could stand elsewhere.
    wanted = {n for n in names if draft.nodes[n].ssd or draft.nodes[n].tainted}
    if tight:
        open_nodes = rng.uniform(0.70, 0.86)
        limit = {n: 0.995 if n in wanted else open_nodes for n in names}
        for app in wrong:
            _misplace(draft, app)
        for name in sorted(wanted):
            _stuff(draft, name)
    else:
        limit = dict.fromkeys(names, rng.uniform(0.6, 0.75))
        for app in wrong:
            _misplace(draft, app)
    _fill(draft, names, limit, most=400, chances=0.3)
    if tight:
        crowded = rng.sample(names, k=len(names) // 4)
        for name in crowded:
            _stuff(draft, name)


def _wrong_ones(draft: _Draft, nodes: int) -> list[_App]:
    kinds = ("ssd", "ssd", "apart", "spread", "tainted")
    count = max(3, nodes // 3)
    found = []
    for _ in range(count):
        kind = draft.rng.choice(kinds)
        found.append(draft.app(**({} if kind == "tainted" else {kind: True})))
    return found


def _misplace(draft: _Draft, app: _App) -> None:
    """Put its replicas where its rules do not want them."""
    rng = draft.rng
    names = list(draft.nodes)
    if app.ssd:
        places = [n for n in names if not draft.nodes[n].ssd and not draft.nodes[n].tainted]
    elif app.apart:
        places = rng.sample(names, k=max(1, min(2, len(names))))
        places = [n for n in places if draft.allows(app, n)] or [n for n in names if draft.allows(app, n)][:1]
    elif app.spread:
        zone = rng.choice(ZONES)
        places = [n for n in names if draft.nodes[n].zone == zone and draft.allows(app, n)]
    else:
        places = [n for n in names if draft.nodes[n].tainted] or names
        app.replicas = min(app.replicas, 2)
    for _ in range(app.replicas):
        fit = [n for n in places if draft.fits(app, n) and draft.used(n) < 0.9]
        if fit:
            draft.put(app, rng.choice(fit))


def _stuff(draft: _Draft, name: str) -> None:
    """Fill a node with small pods that could stand elsewhere too."""
    for _ in range(4):
        app = draft.app(tolerates=draft.nodes[name].tainted)
        while sum(app.counts.values()) < app.replicas and draft.fits(app, name) and draft.count() < 400:
            draft.put(app, name)


def _half_empty(draft: _Draft) -> None:
    rng, names = draft.rng, list(draft.nodes)
    mean = rng.uniform(0.35, 0.6)
    limit = {n: min(0.95, max(0.05, rng.gauss(mean, 0.2))) for n in names}
    _fill(draft, names, limit, most=400, chances=0.4)


def _uneven(draft: _Draft, thresholds: Thresholds) -> None:
    rng, names = draft.rng, list(draft.nodes)
    low, high = thresholds.low["cpu"] / 100, thresholds.high["cpu"] / 100
    limit = {}
    for name in names:
        kind = rng.random()
        if kind < 0.35:
            limit[name] = rng.uniform(high, 0.98)
        elif kind < 0.75:
            limit[name] = rng.uniform(0.05, low)
        else:
            limit[name] = rng.uniform(low, high)
    _fill(draft, names, limit, most=rng.randint(200, 400), chances=0.4)
