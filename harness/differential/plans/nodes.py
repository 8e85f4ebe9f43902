"""Random nodes of a cluster that plans are made for, and how much room is left on them while pods are placed."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random
from dataclasses import dataclass, field

from harness.differential.clusters import random_node
from harness.differential.manifests import Manifest, metadata
from harness.differential.pod_resources import GPU
from rescheduler.model.resources import milli, units

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
RACK = "rack"
TAINTS = (("dedicated", "yes"), ("spot", "yes"), ("gpu", "no"))


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

    @property
    def zone(self) -> str:
        """The node's zone; "" if it has none."""
        return str(self.manifest["metadata"]["labels"].get(ZONE, ""))


def wild_sites(rng: random.Random, theme: str) -> list[Site]:
    """Nodes of the random clusters that verdicts are compared on."""
    made = [random_node(rng, i, theme) for i in range(rng.choice((4, 6, 8)))]
    return [_site_of(rng, manifest) for manifest in made]


def random_sites(rng: random.Random) -> list[Site]:
    """4 to 12 nodes in one to four zones."""
    zones = [f"z{i}" for i in range(rng.choice((1, 2, 3, 3, 4)))]
    tainted = rng.choice((0.0, 0.15, 0.4))
    return [_site_of(rng, _node(rng, i, zones, tainted)) for i in range(rng.choice((4, 5, 6, 8, 12)))]


def _site_of(rng: random.Random, manifest: Manifest) -> Site:
    found = manifest["status"]["allocatable"]
    return Site(
        manifest,
        milli(found.get("cpu", "0")),
        units(found.get("memory", "0")),
        int(found.get("pods", "0")),
        rng.choice((1, 3, 3, 12)),
        int(found.get(GPU, "0")),
    )


def _node(rng: random.Random, index: int, zones: list[str], tainted: float) -> Manifest:
    name = f"node-{index}"
    labels = {
        HOST: name,
        ZONE: rng.choice(zones),
        RACK: f"r{index % 3}",
        "pool": rng.choice(("x", "x", "y")),
    }
    for key in (ZONE, RACK, HOST):
        if rng.random() < 0.03:
            del labels[key]
    cpu, memory = rng.choice((4, 8, 8, 16)), rng.choice((8, 16, 32))
    pods = rng.choice((6, 110, 110, 110))
    allocatable = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": str(pods), "ephemeral-storage": "50Gi"}
    devices = rng.choice((0, 0, 0, 1, 2, 4))
    if devices:
        allocatable[GPU] = str(devices)
    spec: Manifest = {"taints": []}
    if rng.random() < tainted:
        key, value = rng.choice(TAINTS)
        effect = rng.choice(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"))
        spec["taints"].append({"key": key, "value": value, "effect": effect})
    if rng.random() < 0.05:
        spec["unschedulable"] = True
        spec["taints"].append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    status = {"allocatable": allocatable, "capacity": allocatable}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, labels=labels),
        "spec": spec,
        "status": status,
    }
