"""Nodes of a few pools in zones: small and large, cordoned, not ready, being deleted, with GPUs and with few places for volumes."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from harness.differential.manifests import Manifest, metadata
from harness.differential.pod_resources import GPU

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
RACK: Final = "rack"
POOL: Final = "pool"
POOLS: Final = ("blue", "green")
PRICE: Final = "price"
DRIVER: Final = "one.csi.example"
TAINTED: Final = ("dedicated", "spot")
"""Keys of taints that people set."""

_READY: Final = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_CORDONED: Final = "node.kubernetes.io/unschedulable"
_GOES_SOON: Final = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted")


@dataclass(slots=True)
class Site:
    """A node and what is free on it while the running pods are placed."""

    manifest: Manifest
    cpu_milli: int
    memory_bytes: int
    pods: int
    weight: int
    """How often pods are placed here: some nodes are crowded, some almost empty."""
    devices: int
    ports: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.manifest["metadata"]["name"])


def random_sites(rng: random.Random) -> list[Site]:
    """4 to 14 nodes in up to four zones; one zone may be much larger than another."""
    zones = rng.choices("abcd"[: rng.choice((1, 2, 3, 3, 4))], k=3) + list("abc"[: rng.choice((1, 3))])
    return [_site(rng, f"n{i}", rng.choice(zones)) for i in range(rng.choice((4, 5, 6, 8, 10, 14)))]


def drivers(rng: random.Random, sites: list[Site]) -> list[Manifest]:
    """What each node says that it can attach: few volumes on some, any number on others, nothing known of a few."""
    made: list[Manifest] = []
    for site in sites:
        if rng.random() < 0.1:
            continue
        driver: Manifest = {"name": DRIVER, "nodeID": site.name, "topologyKeys": [ZONE]}
        if rng.random() < 0.6:
            driver["allocatable"] = {"count": rng.choice((1, 2, 3, 8))}
        head = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata(site.name)}
        made.append({**head, "spec": {"drivers": [driver]}})
    return made


def _site(rng: random.Random, name: str, zone: str) -> Site:
    cpu, memory = rng.choice((2, 4, 4, 8, 16)), rng.choice((4, 8, 16, 32))
    pods, devices = rng.choice((5, 12, 110, 110)), rng.choice((0, 0, 0, 1, 4))
    allocatable = {
        "cpu": str(cpu),
        "memory": f"{memory}Gi",
        "pods": str(pods),
        "ephemeral-storage": rng.choice(("5Gi", "100Gi")),
    }
    if devices:
        allocatable[GPU] = str(devices)
    labels = {HOST: name, ZONE: zone, RACK: rng.choice("rst"), POOL: rng.choice(POOLS)}
    if rng.random() < 0.5:
        labels[PRICE] = rng.choice(("0.5", "1", "2.5"))
    for key in (ZONE, RACK, HOST, POOL):
        if rng.random() < 0.03:
            del labels[key]
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, labels=labels),
        "spec": {"taints": []},
        "status": {"allocatable": allocatable, "capacity": allocatable, "conditions": [_READY]},
    }
    _state(rng, manifest)
    weight = rng.choice((0, 1, 3, 3, 10))
    return Site(manifest, cpu * 1000, memory << 30, pods, weight, devices)


def _state(rng: random.Random, node: Manifest) -> None:
    """What has happened to the node: mostly nothing."""
    taints, kind = node["spec"]["taints"], rng.random()
    if rng.random() < 0.25:
        effect = rng.choice(("NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"))
        taints.append({"key": rng.choice(TAINTED), "value": "yes", "effect": effect})
    if kind < 0.06:
        node["spec"]["unschedulable"] = True
        taints.append({"key": _CORDONED, "effect": "NoSchedule"})
    elif kind < 0.08:  # the controller of nodes has not tainted it yet
        node["spec"]["unschedulable"] = True
    elif kind < 0.12:
        node["status"]["conditions"] = [{**_READY, "status": rng.choice(("False", "Unknown"))}]
        if rng.random() < 0.7:
            taints.extend({"key": _NOT_READY, "effect": effect} for effect in ("NoSchedule", "NoExecute"))
    elif kind < 0.15:
        node["metadata"] |= {"deletionTimestamp": "2026-01-01T00:09:00Z", "finalizers": ["example.com/drain"]}
        taints.append({"key": rng.choice(_GOES_SOON), "effect": "NoSchedule"})
    elif kind < 0.17:
        taints.append({"key": rng.choice(_GOES_SOON), "effect": "NoSchedule"})
