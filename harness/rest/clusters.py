"""Random small clusters in which every rule and wish that a policy looks at is broken by some pods.

A function of the seed alone. Pods stand wherever there is room, whatever their rules say, as after nodes have changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from harness import builders as b
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.model.snapshot import Snapshot

Rule = Callable[[Any, str], Any]

RULES: Final[dict[str, Rule]] = {
    "apart-host": lambda owner, name: owner.apart(HOSTNAME, app=name),
    "apart-zone": lambda owner, name: owner.apart(ZONE, app=name),
    "apart-other": lambda owner, _: owner.apart(HOSTNAME, app="app0"),
    "apart-wish": lambda owner, name: owner.apart(HOSTNAME, weight=50, app=name),
    "near-zone": lambda owner, name: owner.near(ZONE, app=name),
    "near-wish": lambda owner, _: owner.near(ZONE, weight=80, app="app1"),
    "spread-zone": lambda owner, name: owner.spread(ZONE, app=name),
    "spread-host": lambda owner, name: owner.spread(HOSTNAME, app=name),
    "spread-tier": lambda owner, _: owner.spread(HOSTNAME, max_skew=2, tier="web"),
    "spread-zone-wish": lambda owner, name: owner.spread(ZONE, hard=False, app=name),
    "spread-host-wish": lambda owner, name: owner.spread(HOSTNAME, hard=False, app=name),
    "spread-domains": lambda owner, name: owner.spread(ZONE, min_domains=3, app=name),
    "ssd": lambda owner, _: owner.requires_node("disk", "ssd"),
    "likes-ssd": lambda owner, _: owner.prefers_node("disk", "ssd", weight=10),
    "likes-hdd": lambda owner, _: owner.prefers_node("disk", "hdd", weight=1).prefers_node(
        ZONE, "a", weight=3
    ),
    "hinted": lambda owner, _: owner.prefers_node(HOSTNAME, "n0", operator="NotIn", weight=100),
    "tolerates-old": lambda owner, _: owner.tolerate("old"),
    "port": lambda owner, _: owner.host_port(8080),
}
"""What the pods of an application may carry, by name."""

_TAINTS: Final = (
    ("old", "NoSchedule"), ("old", "PreferNoSchedule"), ("slow", "PreferNoSchedule"), ("bad", "NoExecute"),
)  # fmt: skip
_TAINTED, _CORDONED, _STATEFUL = 0.35, 0.05, 0.15
_FAULTY: Final = 0.1
"""How often, as shares of nodes and of applications."""
_ROOM_MILLI: Final = {"2": 2000, "4": 4000, "8": 8000}


def random_cluster(seed: int, *, nodes: int = 8, apps: int = 8) -> Snapshot:
    """A cluster of at most so many nodes and applications; the same for the same arguments."""
    return b.snapshot(*random_objects(seed, nodes=nodes, apps=apps))


def random_objects(seed: int, *, nodes: int = 8, apps: int = 8, stateful: bool = True) -> list[Any]:
    """The builders of its nodes, workloads and pods. Without ``stateful`` all workloads are ReplicaSets."""
    chance = random.Random(seed)  # noqa: S311 -- no secret, and the same cluster for the same seed
    objects: list[Any] = []
    room: list[int] = []
    faulty = random.Random(f"faulty {seed}")  # noqa: S311 -- apart, so that all else stays as it was
    for i in range(chance.randint(3, nodes)):
        size = chance.choice(list(_ROOM_MILLI))
        node = b.node(f"n{i}").zone("abc"[i % 3]).cpu(size).label({HOSTNAME: f"n{i}"})
        node = node.label(disk=chance.choice(["ssd", "hdd"]))
        if chance.random() < _TAINTED:
            key, effect = chance.choice(_TAINTS)
            node = node.taint(key, effect=effect)
        if chance.random() < _CORDONED:
            node = node.cordoned()
        if faulty.random() < _FAULTY:
            node = node.condition("KernelDeadlock")
        objects.append(node)
        room.append(_ROOM_MILLI[size])
    for number in range(chance.randint(2, apps)):
        objects.extend(_application(f"app{number}", chance, room, stateful=stateful))
    return objects


def _application(name: str, chance: random.Random, room: list[int], *, stateful: bool) -> list[Any]:
    kind = b.statefulset if chance.random() < _STATEFUL and stateful else b.replicaset
    milli = chance.choice([200, 500, 900, 1500])
    owner = kind(name).cpu(f"{milli}m").template_label(tier=chance.choice(["web", "data"]))
    for rule in chance.sample(sorted(RULES), chance.randint(0, 3)):
        owner = RULES[rule](owner, name)
    pods: list[tuple[str, str]] = []
    # A few nodes get most of the pods, so that there is something to mend.
    places = chance.choices(range(len(room)), k=2) + list(range(len(room)))
    for _ in range(chance.randint(1, 9)):
        at = chance.choice(places)
        if room[at] >= milli:
            room[at] -= milli
            pods.append((f"{name}-{len(pods)}", f"n{at}"))
    owner = owner.replicas(max(len(pods), 1))
    return [owner, *(owner.pod(pod).on(node) for pod, node in pods)]
