"""What cluster a generated dump shows: its nodes, its apps with their constraints, and where their pods stand.

Same shape and seed, same cluster. Pods are placed without looking at constraints, so that there is something to tidy up.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
NODE_CPU_MILLI = 16_000
NODE_MEMORY_MIB = 65_536
DAEMON_CPU_MILLI = 100
DAEMON_MEMORY_MIB = 128
"""What the daemons of a node hold together."""
PLACES_TRIED = 12


@dataclass(frozen=True)
class Shape:
    """What cluster to make."""

    nodes: int = 500
    pods_per_node: int = 30
    seed: int = 1
    full: bool = False
    zones: int = 5
    apps_per_namespace: int = 20
    apps_per_pod: float = 1 / 25

    @property
    def pods(self) -> int:
        """Pods of apps; daemons come on top."""
        return self.nodes * self.pods_per_node


@dataclass
class App:
    """One workload and the constraints of its pods."""

    index: int
    kind: str
    namespace: str
    name: str
    replicas: int
    cpu_milli: int
    memory_mib: int
    anti_affinity: str = ""
    prefers: str = ""
    spread: bool = False
    tolerates: bool = False
    priority: int = 0

    @property
    def owner(self) -> tuple[str, str]:
        """Kind and name of what owns the pods."""
        if self.kind == "Deployment":
            return "ReplicaSet", f"{self.name}-{self.index:08x}"
        return self.kind, self.name


@dataclass
class Room:
    """What is left on a node while pods are placed."""

    name: str
    zone: int
    cpu_milli: int = NODE_CPU_MILLI
    memory_mib: int = NODE_MEMORY_MIB
    pods: int = 110
    share: float = 1.0
    tainted: bool = False

    def takes(self, app: App) -> bool:
        """True if the pod fits into what may be used of the node."""
        reserve = int(NODE_CPU_MILLI * (1 - self.share))
        return (
            self.pods > 0 and self.cpu_milli - reserve >= app.cpu_milli and self.memory_mib >= app.memory_mib
        )

    def take(self, app: App) -> None:
        """Put the pod there."""
        self.cpu_milli -= app.cpu_milli
        self.memory_mib -= app.memory_mib
        self.pods -= 1


def apps_of(shape: Shape, rng: random.Random) -> Iterator[App]:
    """Workloads until all pods of the shape have one."""
    left, index = shape.pods, 0
    while left > 0:
        apart = ("", "", HOSTNAME, ZONE)[index % 4]
        typical = int(1 / shape.apps_per_pod)
        replicas = min(
            left, shape.zones if apart == ZONE else rng.choice((1, 3, typical, typical * 2, typical // 2))
        )
        cpu = (
            (NODE_CPU_MILLI - DAEMON_CPU_MILLI) // shape.pods_per_node
            if shape.full
            else rng.choice((50, 100, 250, 500, 1000))
        )
        memory = (
            (NODE_MEMORY_MIB - DAEMON_MEMORY_MIB) // shape.pods_per_node
            if shape.full
            else rng.choice((128, 256, 512, 1024, 2048))
        )
        yield App(
            index=index, kind="StatefulSet" if index % 7 == 3 else "Deployment",
            namespace=f"team-{index // shape.apps_per_namespace:04d}", name=f"app-{index:05d}",
            replicas=replicas, cpu_milli=cpu, memory_mib=memory, anti_affinity=apart,
            prefers=f"z{index % shape.zones}" if index % 2 else "", spread=index % 3 == 0,
            tolerates=index % 20 == 0, priority=1000 if index % 10 == 0 else 0,
        )  # fmt: skip
        left -= replicas
        index += 1


def room_of(shape: Shape, rng: random.Random, index: int) -> Room:
    """Node number ``index``: crowded, half full or nearly empty."""
    share = 1.0 if shape.full else (0.95, 0.6, 0.25)[index % 3]
    tainted = rng.random() < 0.05
    return Room(f"node-{index:05d}", index % shape.zones, share=share, tainted=tainted, pods=110)


class Placer:
    """Chooses nodes without looking at constraints, so that there is something to tidy up."""

    def __init__(self, rooms: list[Room], rng: random.Random, *, full: bool) -> None:
        self._rooms = rooms
        self._rng = rng
        self._full = full
        self._next = 0

    def place(self, app: App) -> Room:
        """A node that takes a pod of the app; the emptiest one where none was found."""
        room = self._turn(app) if self._full else self._chance(app)
        room = room or max(self._rooms, key=lambda room: room.cpu_milli)
        room.take(app)
        return room

    def _turn(self, app: App) -> Room | None:
        for _ in self._rooms:
            room = self._rooms[self._next % len(self._rooms)]
            self._next += 1
            if room.takes(app):
                return room
        return None

    def _chance(self, app: App) -> Room | None:
        for _ in range(PLACES_TRIED):
            room = self._rooms[int(len(self._rooms) * self._rng.random())]
            if room.takes(app):
                return room
        return None
