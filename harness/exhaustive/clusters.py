"""Clusters of 2 to 5 nodes and 3 to 9 pods in which every rule, wish and policy meets others; a function of the seed.

Pods stand wherever there is room, whatever their rules say. Pods that no plan may move (without a controller, of a DaemonSet, of a
budget or group that spares none) are told apart here, so that whoever looks for the best does not ask the planner about them.
"""

# ruff: noqa: PLR2004 -- the numbers are chances and sizes, each said where it is used

from __future__ import annotations

import enum
import math
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness import builders as b
from rescheduler.model.names import HOSTNAME, ZONE
from rescheduler.model.snapshot import Snapshot
from rescheduler.policies.defragmentation import DefragmentationArgs
from rescheduler.policies.framework import Policy
from rescheduler.policies.registry import REGISTRY

MOST_PLACEMENTS: Final = 3_000
"""Of the pods that move, those of one workload being alike; a cluster with more loses its last workload."""
GPU: Final = "nvidia.com/gpu"
_HARD: Final = ("DoNotSchedule",)
_GROUP: Final = "pod-group.scheduling.sigs.k8s.io"


class Topic(enum.StrEnum):
    """What a cluster is about."""

    TAINTS = "taints"
    AFFINITY = "affinity"
    APART = "apart"
    SPREAD = "spread"
    DUPLICATES = "duplicates"
    BALANCE = "balance"
    CONSOLIDATION = "consolidation"
    ROOMS = "rooms"
    SEVERAL = "several"


@dataclass(frozen=True)
class TinyCluster:
    """A cluster, the policies in their order, and the pods that must stay."""

    seed: int
    topic: Topic
    snapshot: Snapshot
    policies: tuple[Policy, ...]
    staying: frozenset[str]
    """Names of pods that no plan may move."""
    receives_below: Mapping[str, float] = field(default_factory=dict)
    """LowNodeUtilization's thresholds: percent of each resource below which a node receives; of the mean, with ``even``."""
    fills_up_to: Mapping[str, float] = field(default_factory=dict)
    """Its targetThresholds: above these no node is filled."""
    even: bool = False
    empties_below_cpu: float | None = None
    """HighNodeUtilization's threshold."""
    room: Mapping[str, int] = field(default_factory=dict)
    """Defragmentation's template."""


_Rule = Callable[[random.Random, Any, str], Any]

_TAINT_RULES: Final[tuple[_Rule, ...]] = (
    lambda _, owner, __: owner.tolerate("slow"),
    lambda _, owner, __: owner.tolerate("old", effect="NoSchedule"),
)
_AFFINITY_RULES: Final[tuple[_Rule, ...]] = (
    lambda _, owner, __: owner.requires_node("disk", "ssd"),
    lambda _, owner, __: owner.requires_node("disk", "hdd"),
    lambda rng, owner, __: owner.prefers_node("disk", "ssd", weight=rng.choice((1, 40))),
    lambda _, owner, __: owner.prefers_node("disk", "hdd", weight=5).prefers_node(ZONE, "a", weight=3),
)
_APART_RULES: Final[tuple[_Rule, ...]] = (
    lambda _, owner, name: owner.apart(HOSTNAME, app=name),
    lambda _, owner, name: owner.apart(ZONE, app=name),
    lambda _, owner, __: owner.apart(HOSTNAME, tier="web"),
    lambda _, owner, __: owner.near(ZONE, tier="web"),
    lambda _, owner, name: owner.near(HOSTNAME, app=name),
    lambda _, owner, __: owner.host_port(8080),
)
_SPREAD_RULES: Final[tuple[_Rule, ...]] = (
    lambda rng, owner, name: owner.spread(ZONE, rng.choice((1, 1, 2)), app=name),
    lambda rng, owner, name: owner.spread(HOSTNAME, rng.choice((1, 1, 2)), app=name),
    lambda _, owner, name: owner.spread(ZONE, min_domains=3, app=name),
    lambda _, owner, name: owner.spread(ZONE, hard=False, app=name),
    lambda _, owner, name: owner.spread(HOSTNAME, hard=False, app=name),
    lambda _, owner, __: owner.spread(HOSTNAME, tier="web"),
    lambda _, owner, name: owner.spread(ZONE, app=name).spread(HOSTNAME, hard=False, app=name),
)
_POLICY: Final = {
    Topic.TAINTS: "NodeTaints",
    Topic.AFFINITY: "NodeAffinity",
    Topic.APART: "InterPodAntiAffinity",
    Topic.SPREAD: "TopologySpread",
    Topic.DUPLICATES: "Duplicates",
    Topic.BALANCE: "LowNodeUtilization",
    Topic.CONSOLIDATION: "HighNodeUtilization",
    Topic.ROOMS: "Defragmentation",
}
_ALL_RULES: Final = (*_TAINT_RULES, *_AFFINITY_RULES, *_APART_RULES, *_SPREAD_RULES)
_RULES: Final[dict[Topic, tuple[_Rule, ...]]] = {
    Topic.TAINTS: _TAINT_RULES,
    Topic.AFFINITY: _AFFINITY_RULES,
    Topic.APART: _APART_RULES,
    Topic.SPREAD: _SPREAD_RULES,
}


def tiny_cluster(seed: int) -> TinyCluster:
    """The cluster of a seed; topics take turns."""
    rng = random.Random(seed)  # noqa: S311 -- test data, not secrets
    topic = tuple(Topic)[seed % len(Topic)]
    made = _Making(rng, topic)
    made.nodes()
    for number in range(rng.randint(2, 4)):
        made.workload(f"w{number}")
    args = _arguments(rng)
    policies = _policies(rng, topic, args)
    names = {policy.name for policy in policies}
    low, high, rooms = args["LowNodeUtilization"], args["HighNodeUtilization"], args["Defragmentation"]
    return TinyCluster(
        seed, topic, b.snapshot(*made.objects), policies, frozenset(made.staying),
        receives_below=low["thresholds"] if "LowNodeUtilization" in names else {},
        fills_up_to=low["target_thresholds"], even=low["use_deviation_thresholds"],
        empties_below_cpu=high["thresholds"]["cpu"] if "HighNodeUtilization" in names else None,
        room=DefragmentationArgs(**rooms).rooms()[0] if "Defragmentation" in names else {},
    )  # fmt: skip


@dataclass
class _Making:
    rng: random.Random
    topic: Topic
    objects: list[Any] = field(default_factory=list)
    staying: set[str] = field(default_factory=set)
    free: list[Counter[str]] = field(default_factory=list)
    placements: int = 1

    def nodes(self) -> None:
        rng = self.rng
        devices = rng.random() < 0.3
        for i in range(rng.choice((2, 3, 3, 4, 4, 5))):
            room = Counter(
                cpu=rng.choice((2, 3, 4, 4)) * 1000,
                memory=rng.choice((4, 8)) * 1024,
                pods=rng.choice((4, 5, 20)),
            )
            if devices and rng.random() < 0.6:
                room[GPU] = rng.choice((1, 2))
            node = (
                b.node(f"n{i}").zone(rng.choice("aabc")).cpu(f"{room['cpu']}m").memory(f"{room['memory']}Mi")
            )
            node = node.pods(room["pods"]).label({HOSTNAME: f"n{i}", "disk": rng.choice(("ssd", "hdd"))})
            node = node.allocatable({GPU: str(room[GPU])}) if room[GPU] else node
            if rng.random() < (0.5 if self.topic in (Topic.TAINTS, Topic.SEVERAL) else 0.1):
                key, effect = rng.choice((
                    ("old", "NoSchedule"), ("slow", "PreferNoSchedule"), ("slow", "NoSchedule"), ("bad", "NoExecute"),
                ))  # fmt: skip
                node = node.taint(key, effect=effect)
            if rng.random() < 0.04:
                node = node.cordoned()
            self.objects.append(node)
            self.free.append(room)
        if rng.random() < 0.2:
            owner = b.daemonset("agent").cpu("100m").tolerate()
            self.objects.append(owner)
            for i in range(len(self.free)):
                self.objects.append(owner.pod(f"agent-{i}").on(f"n{i}"))
                self.staying.add(f"agent-{i}")
                self.free[i] -= Counter(cpu=100, pods=1)

    def workload(self, name: str) -> None:
        """With its pods, where there is room."""
        rng = self.rng
        kind = rng.choice((b.replicaset, b.replicaset, b.replicaset, b.statefulset))
        needs = Counter(
            cpu=rng.choice((200, 1000, 1000, 2000)), memory=rng.choice((128, 128, 1024, 3072)), pods=1
        )
        if rng.random() < 0.25 and any(room[GPU] for room in self.free):
            needs[GPU] = 1
        wanted = rng.choice((1, 2, 2, 3, 3, 4))
        while wanted and self.placements * _ways(wanted, len(self.free)) > MOST_PLACEMENTS:
            wanted -= 1
        owner = kind(name).template_label(tier=rng.choice(("web", "data")))
        asked = {"cpu": f"{needs['cpu']}m", "memory": f"{needs['memory']}Mi"}
        owner = owner.requests({**asked, **({GPU: "1"} if needs[GPU] else {})})
        for rule in rng.sample(_RULES.get(self.topic, _ALL_RULES), rng.choice((0, 1, 1, 2))):
            owner = rule(rng, owner, name)
        least = wanted - rng.randint(0, 1) if rng.random() < 0.12 else 0
        if least:
            owner = owner.template_label({_GROUP: name, f"{_GROUP}/min-available": str(least)})
        alone = rng.random() < 0.06
        # Most pods on few nodes, so that there is something to mend.
        places = rng.choices(range(len(self.free)), k=2) + list(range(len(self.free)))
        pods: list[Any] = []
        for _ in range(wanted):
            at = rng.choice(places)
            if self.free[at] >= needs:
                self.free[at] -= needs
                made = owner.pod(f"{name}-{len(pods)}").on(f"n{at}")
                pods.append(made.set("metadata.ownerReferences", []) if alone else made)
        self.objects += [owner.replicas(max(len(pods), 1)), *pods]
        spare = self._budget(name, len(pods))
        if alone or not spare or (least and len(pods) <= least):
            self.staying.update(f"{name}-{number}" for number in range(wanted))
        else:
            self.placements *= _ways(len(pods), len(self.free))

    def _budget(self, name: str, pods: int) -> bool:
        """False if it never spares a pod."""
        chance = self.rng.random()
        if chance > 0.15 or not pods:
            return True
        spared = int(chance < 0.1)
        self.objects.append(b.pdb(name).allows(spared, healthy=pods))
        return bool(spared)


def _ways(pods: int, nodes: int) -> int:
    """How many placements of pods that are alike there are."""
    return math.comb(pods + nodes - 1, pods)


def _arguments(rng: random.Random) -> dict[str, dict[str, Any]]:
    """Of each policy, whether it is chosen or not."""
    kinds = rng.choice((("required",), ("required", "preferred"), ("required", "preferred", "score")))
    names = rng.sample(("cpu", "memory", "pods"), rng.choice((1, 1, 2)))
    even = rng.random() < 0.3
    low, high = (10.0, 10.0) if even else rng.choice(((30.0, 50.0), (50.0, 70.0), (60.0, 60.0)))
    return {
        "NodeTaints": {"include_prefer_no_schedule": True},
        "NodeAffinity": {"types": kinds, "minimum_difference": 0.01, "minimum_score_difference": 0.01},
        "InterPodAntiAffinity": {},
        "TopologySpread": {"constraints": rng.choice((_HARD, (*_HARD, "ScheduleAnyway")))},
        "LowNodeUtilization": {
            "thresholds": dict.fromkeys(names, low),
            "target_thresholds": dict.fromkeys(names, high),
            "use_deviation_thresholds": even,
        },
        "HighNodeUtilization": {
            "thresholds": {"cpu": rng.choice((50.0, 80.0))},
            "target_thresholds": {"cpu": 100.0},
        },
        "Duplicates": {},
        "Defragmentation": {"template": rng.choice(({"cpu": "2"}, {"cpu": "1", "memory": "3Gi"}))},
    }


def _policies(rng: random.Random, topic: Topic, args: Mapping[str, dict[str, Any]]) -> tuple[Policy, ...]:
    built = {name: REGISTRY[name].build(REGISTRY[name].args(**given)) for name, given in args.items()}
    if topic is not Topic.SEVERAL:
        return (built[_POLICY[topic]],)
    rules = ("NodeTaints", "NodeAffinity", "InterPodAntiAffinity", "TopologySpread", "Duplicates")
    chosen = [name for name in rules if rng.random() < 0.7]
    high, rooms = "HighNodeUtilization", "Defragmentation"
    chosen += rng.choice(((), ("LowNodeUtilization",), (high,), (rooms,), (rooms, high)))
    rng.shuffle(chosen)
    return tuple(built[name] for name in chosen)
