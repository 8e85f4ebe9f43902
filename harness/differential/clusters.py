"""Random clusters: nodes, volumes, owners and pods, small enough that every rule is met often."""

# ruff: noqa: PLR2004 -- the numbers are chances, each said where it is used

from __future__ import annotations

import random
from typing import NamedTuple

from harness.differential.configurations import random_configuration
from harness.differential.manifests import Manifest, metadata, namespaced
from harness.differential.pod_resources import DEVICES, GPU, HUGE, NIC
from harness.differential.pods import APPS, IMAGES, NAMESPACES, NUMBERS, TAINT_KEYS, PodMaker
from harness.differential.storage import CSI_ZONES, REGIONS, StorageMaker

SIZES = {
    IMAGES[0]: 30 << 20,
    IMAGES[1]: 400 << 20,
    f"{IMAGES[2]}:latest": 3000 << 20,
    f"{IMAGES[3]}:latest": 777_777_777,
    f"{IMAGES[4]}:latest": 123_456_789,
}
THEMES = (
    *("mixed", "spread", "affinity", "volumes", "attached", "preferences", "devices") * 2,
    "mixed",
    "malformed",
)
FEATURES = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
)


class Question(NamedTuple):
    """A cluster, the pods asked about (namespace/name), and a KubeSchedulerConfiguration (JSON, "" = default)."""

    objects: list[Manifest]
    asks: list[str]
    configuration: Manifest | None


def random_cluster(seed: int) -> Question:
    """The cluster of a seed; the same seed gives the same cluster."""
    rng = random.Random(seed)  # noqa: S311 -- test data, not secrets
    theme = rng.choice(THEMES)
    nodes = [random_node(rng, i, theme) for i in range(rng.choice((1, 3, 4, 6, 8)))]
    names = [node["metadata"]["name"] for node in nodes]
    objects: list[Manifest] = [*nodes, *_namespaces(rng), *_owners(rng), *_device_classes(rng, theme)]
    claims: dict[str, list[str]] = {}
    objects.extend(StorageMaker(rng, names, theme).objects(claims))
    maker = PodMaker(rng, names, claims, theme)
    running = [maker.pod(f"running-{i}", asked=False) for i in range(rng.choice((0, 5, 15, 30)))]
    waiting = [maker.nominated(f"nominated-{i}") for i in range(rng.choice((0, 0, 1, 3, 6)))]
    asked = [maker.pod(f"asked-{i}", asked=True) for i in range(12)]
    objects.extend(_ephemeral(rng, [*running, *asked], 0.1 if theme == "attached" else 0.04))
    asks = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in asked]
    return Question([*objects, *running, *waiting, *asked], asks, random_configuration(rng))


def random_node(rng: random.Random, index: int, theme: str) -> Manifest:
    """A node; ``theme``: what the cluster is about, as for ``PodMaker``."""
    name = f"node-{index}"
    allocatable = _allocatable(rng, theme)
    if theme not in ("mixed", "malformed", "devices"):
        allocatable |= {"cpu": "64", "memory": "128Gi", "pods": "110"}
    status: Manifest = {"allocatable": allocatable, "capacity": allocatable}
    status["images"] = [
        {"names": [image, f"{image}@sha256:0"], "sizeBytes": size}
        for image, size in SIZES.items()
        if rng.random() < 0.4
    ]
    status["declaredFeatures"] = sorted(f for f in FEATURES if rng.random() < 0.5)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, labels=_labels(rng, index)),
        "spec": _node_spec(rng, theme),
        "status": status,
    }


def _labels(rng: random.Random, index: int) -> dict[str, str]:
    labels = {
        "kubernetes.io/hostname": f"node-{index}",
        "pool": rng.choice(("x", "y")),
        "rack": f"r{index % 3}",
    }
    labels["topology.kubernetes.io/zone"] = rng.choice(("z1", "z2", "z3", "z1", "z2", "z3", "z1", ""))
    if rng.random() < 0.5:
        labels["size"] = rng.choice(("1", "2", "4", "big", "08", "1_0", "99999999999999999999"))
    for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack", "pool"):
        if rng.random() < 0.06:
            del labels[key]
    if rng.random() < 0.1:
        labels["failure-domain.beta.kubernetes.io/zone"] = rng.choice(("z1", "z2"))
    if rng.random() < 0.3:
        labels[rng.choice(REGIONS)] = rng.choice(("r1", "r2"))
    if rng.random() < 0.3:
        labels[rng.choice(CSI_ZONES)] = rng.choice(("z1", "z2"))
    return labels


def _allocatable(rng: random.Random, theme: str) -> dict[str, str]:
    allocatable = {
        "cpu": rng.choice(("4", "8", "32", "64")),
        "memory": rng.choice(("8Gi", "32Gi", "128Gi")),
        "pods": rng.choice(("5", "110", "110", "110")),
    }
    if rng.random() < 0.6:
        allocatable["ephemeral-storage"] = "10Gi"
    if rng.random() < (0.6 if theme == "devices" else 0.4):
        allocatable[GPU] = rng.choice(("0", "2", "4"))
    if theme == "devices" and rng.random() < 0.4:
        allocatable[NIC] = rng.choice(("0", "1"))
    if rng.random() < 0.3:
        allocatable[HUGE] = "32Mi"
    if rng.random() < 0.05:
        del allocatable[rng.choice(("cpu", "memory", "pods"))]
    return allocatable


def _node_spec(rng: random.Random, theme: str) -> Manifest:
    spec: Manifest = {"taints": []}
    if rng.random() < (0.1 if theme == "mixed" else 0.03):
        spec["unschedulable"] = True
        spec["taints"].append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if rng.random() < 0.3:
        effects: tuple[str, ...] = ("NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule")
        if theme != "mixed":
            effects = ("NoSchedule", *("PreferNoSchedule",) * 9)
        if theme == "malformed":
            effects = (*effects, "Never", "")
        spec["taints"].extend(
            {"key": key, "value": rng.choice(("yes", "no", *NUMBERS[:4])), "effect": rng.choice(effects)}
            for key in rng.sample(TAINT_KEYS, rng.choice((1, 2)))
        )
    return spec


def _namespaces(rng: random.Random) -> list[Manifest]:
    made: list[Manifest] = []
    for name in NAMESPACES:
        labels = {"team": rng.choice(("one", "two"))} if rng.random() < 0.7 else {}
        if rng.random() > 0.05:
            meta = metadata(name, labels=labels)
            if rng.random() < 0.15:
                meta["deletionTimestamp"] = "2026-01-01T00:10:00Z"
            made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    return made


def _device_classes(rng: random.Random, theme: str) -> list[Manifest]:
    """A class of devices that stands behind the GPUs, now and then."""
    if rng.random() > (0.4 if theme == "devices" else 0.05):
        return []
    spec = {"extendedResourceName": GPU} if rng.random() < 0.7 else {}
    meta = metadata(DEVICES)
    return [{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta, "spec": spec}]


def _owners(rng: random.Random) -> list[Manifest]:
    made: list[Manifest] = []
    for namespace in NAMESPACES:
        for app in APPS:
            if rng.random() < 0.3:
                service: Manifest = {"selector": {"app": app}} if rng.random() < 0.9 else {}
                made.append(namespaced("v1", "Service", namespace, f"{app}-service", service))
            if rng.random() < 0.5:
                template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": []}}
                spec = {"selector": {"matchLabels": {"app": app}}, "template": template, "replicas": 1}
                kind = rng.choice(("ReplicaSet", "StatefulSet"))
                made.append(namespaced("apps/v1", kind, namespace, f"{app}-owner", spec))
            if rng.random() < 0.2:
                old: Manifest = {"selector": {"app": app}, "replicas": 1}
                made.append(namespaced("v1", "ReplicationController", namespace, f"{app}-owner", old))
    return made


def _ephemeral(rng: random.Random, pods: list[Manifest], chance: float) -> list[Manifest]:
    """Gives some pods an ephemeral volume, and most of these its claim."""
    made: list[Manifest] = []
    for pod in pods:
        if rng.random() > chance:
            continue
        meta, name = pod["metadata"], "scratch"
        claim_spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "wait",
        }
        ephemeral = {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": claim_spec}}}
        pod["spec"].setdefault("volumes", []).append(ephemeral)
        waiting = "nodeName" not in pod["spec"] or pod in pods[-12:]
        if rng.random() < 0.2:
            continue
        claim = namespaced(
            "v1", "PersistentVolumeClaim", meta["namespace"], f"{meta['name']}-{name}", claim_spec
        )
        claim["status"] = {"phase": "Pending"}
        uid = meta["uid"] if not waiting or rng.random() < 0.8 else "another"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": uid, "controller": True}
        claim["metadata"]["ownerReferences"] = [owner]
        made.append(claim)
    return made
