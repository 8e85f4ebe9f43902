"""Random clusters: nodes, volumes, owners and pods, small enough that every rule is met often."""

from __future__ import annotations

import random
from typing import NamedTuple

from rescheduler.testing.differential.pods import (
    APPS,
    GPU,
    HUGE,
    IMAGES,
    NAMESPACES,
    TAINT_KEYS,
    Manifest,
    PodMaker,
)

SIZES = {IMAGES[0]: 30 << 20, IMAGES[1]: 400 << 20, f"{IMAGES[2]}:latest": 3000 << 20}
DRIVERS = ("one.csi.example", "two.csi.example")
FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")


class Question(NamedTuple):
    """A cluster, the pods asked about (namespace/name), and a KubeSchedulerConfiguration (JSON, "" = default)."""

    objects: list[Manifest]
    asks: list[str]
    configuration: Manifest | None


def random_cluster(seed: int) -> Question:
    """The cluster of a seed; the same seed gives the same cluster."""
    rng = random.Random(seed)  # noqa: S311 -- test data, not secrets
    nodes = [_node(rng, i) for i in range(rng.choice((1, 3, 4, 6, 8)))]
    names = [node["metadata"]["name"] for node in nodes]
    objects: list[Manifest] = [*nodes, *_namespaces(rng), *_owners(rng)]
    claims: dict[str, list[str]] = {}
    objects.extend(_storage(rng, names, claims))
    maker = PodMaker(rng, names, claims)
    running = [maker.pod(f"running-{i}", asked=False) for i in range(rng.choice((0, 5, 15, 30)))]
    waiting = [maker.nominated(f"nominated-{i}") for i in range(rng.choice((0, 0, 1, 3)))]
    asked = [maker.pod(f"asked-{i}", asked=True) for i in range(12)]
    asks = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in asked]
    return Question([*objects, *running, *waiting, *asked], asks, _configuration(rng))


def _node(rng: random.Random, index: int) -> Manifest:
    name = f"node-{index}"
    labels = {"kubernetes.io/hostname": name, "pool": rng.choice(("x", "y")), "rack": f"r{index % 3}"}
    labels["topology.kubernetes.io/zone"] = rng.choice(("z1", "z2", "z3"))
    if rng.random() < 0.5:
        labels["size"] = rng.choice(("1", "2", "4", "big"))
    for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack", "pool"):
        if rng.random() < 0.06:
            del labels[key]
    if rng.random() < 0.1:
        labels["failure-domain.beta.kubernetes.io/zone"] = rng.choice(("z1", "z2"))
    allocatable = {"cpu": rng.choice(("4", "8", "32", "64")), "memory": rng.choice(("8Gi", "32Gi", "128Gi"))}
    allocatable["pods"] = rng.choice(("5", "110", "110", "110"))
    if rng.random() < 0.6:
        allocatable["ephemeral-storage"] = "10Gi"
    if rng.random() < 0.4:
        allocatable[GPU] = rng.choice(("0", "2", "4"))
    if rng.random() < 0.3:
        allocatable[HUGE] = "32Mi"
    if rng.random() < 0.05:
        del allocatable[rng.choice(("cpu", "memory", "pods"))]
    spec: Manifest = {}
    if rng.random() < 0.1:
        spec["unschedulable"] = True
        spec["taints"] = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    if rng.random() < 0.3:
        effects = ("NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule")
        spec.setdefault("taints", []).extend(
            {"key": key, "value": rng.choice(("yes", "no")), "effect": rng.choice(effects)}
            for key in rng.sample(TAINT_KEYS, rng.choice((1, 2)))
        )
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
        "metadata": _meta(name, labels=labels),
        "spec": spec,
        "status": status,
    }


def _namespaces(rng: random.Random) -> list[Manifest]:
    made: list[Manifest] = []
    for name in NAMESPACES:
        labels = {"team": rng.choice(("one", "two"))} if rng.random() < 0.7 else {}
        if rng.random() > 0.05:
            made.append({"apiVersion": "v1", "kind": "Namespace", "metadata": _meta(name, labels=labels)})
    return made


def _owners(rng: random.Random) -> list[Manifest]:
    made: list[Manifest] = []
    for namespace in NAMESPACES:
        for app in APPS:
            if rng.random() < 0.3:
                spec = {"selector": {"app": app}} if rng.random() < 0.9 else {}
                made.append(_object("v1", "Service", namespace, f"{app}-service", spec))
            if rng.random() < 0.5:
                selector = {"matchLabels": {"app": app}}
                template = {"metadata": {"labels": {"app": app}}, "spec": {"containers": []}}
                kind = rng.choice(("ReplicaSet", "StatefulSet"))
                spec = {"selector": selector, "template": template, "replicas": 1}
                made.append(_object("apps/v1", kind, namespace, f"{app}-owner", spec))
            if rng.random() < 0.2:
                spec = {"selector": {"app": app}, "replicas": 1}
                made.append(_object("v1", "ReplicationController", namespace, f"{app}-owner", spec))
    return made


def _storage(rng: random.Random, nodes: list[str], claims: dict[str, list[str]]) -> list[Manifest]:
    made: list[Manifest] = []
    classes = []
    for name, provisioner in (
        ("wait", DRIVERS[0]),
        ("now", DRIVERS[1]),
        ("local", "kubernetes.io/no-provisioner"),
        ("tight", DRIVERS[1]),
    ):
        mode = "Immediate" if name == "now" else "WaitForFirstConsumer"
        found: Manifest = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": _meta(name),
            "provisioner": provisioner,
            "volumeBindingMode": mode,
        }
        if rng.random() < 0.3:
            requirement = {"key": "topology.kubernetes.io/zone", "values": rng.sample(("z1", "z2", "z3"), 2)}
            found["allowedTopologies"] = [{"matchLabelExpressions": [requirement]}]
        if rng.random() < 0.95:
            made.append(found)
        classes.append(name)
    for driver in DRIVERS:
        if rng.random() < 0.6:
            spec = {
                "storageCapacity": rng.random() < 0.5,
                "preventPodSchedulingIfMissing": driver == DRIVERS[0] and rng.random() < 0.6,
            }
            made.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSIDriver",
                    "metadata": _meta(driver),
                    "spec": spec,
                }
            )
    for zone in ("z1", "z2", "z3"):
        for name in ("wait", "tight"):
            if rng.random() < 0.6:
                capacity: Manifest = _object(
                    "storage.k8s.io/v1", "CSIStorageCapacity", "red", f"{name}-{zone}", None
                )
                capacity["storageClassName"] = name
                capacity["nodeTopology"] = {"matchLabels": {"topology.kubernetes.io/zone": zone}}
                capacity["capacity"] = rng.choice(("1Gi", "10Gi", "100Gi"))
                if rng.random() < 0.3:
                    capacity["maximumVolumeSize"] = "5Gi"
                made.append(capacity)
    for node in nodes:
        if rng.random() < 0.7:
            drivers = []
            for driver in DRIVERS:
                if rng.random() < 0.8:
                    entry: Manifest = {"name": driver, "nodeID": node, "topologyKeys": []}
                    if rng.random() < 0.7:
                        entry["allocatable"] = {"count": rng.choice((1, 2, 5))}
                    drivers.append(entry)
            made.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSINode",
                    "metadata": _meta(node),
                    "spec": {"drivers": drivers},
                }
            )
    size = 1
    for namespace in NAMESPACES:
        for i in range(rng.choice((0, 2, 4))):
            name = f"claim-{i}"
            claims.setdefault(namespace, []).append(name)
            size += 1
            made.extend(_claim(rng, namespace, name, classes, nodes, size))
    for i in range(rng.choice((0, 2, 5))):
        size += 1
        made.append(_volume(rng, f"free-{i}", rng.choice(("local", "wait")), nodes, size, None))
    return made


def _claim(
    rng: random.Random, namespace: str, name: str, classes: list[str], nodes: list[str], size: int
) -> list[Manifest]:
    mode = rng.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))
    spec: Manifest = {
        "accessModes": [mode],
        "resources": {"requests": {"storage": f"{rng.choice((1, 4, 20))}Gi"}},
    }
    spec["storageClassName"] = rng.choice(classes)
    claim = _object("v1", "PersistentVolumeClaim", namespace, name, spec)
    claim["status"] = {"phase": "Pending"}
    kind = rng.random()
    if kind < 0.5:
        volume = f"{namespace}-{name}"
        spec["volumeName"] = volume
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        claim["status"] = {"phase": "Bound"}
        reference = {"namespace": namespace, "name": name, "uid": claim["metadata"]["uid"]}
        if rng.random() < 0.03:
            return [claim]
        return [claim, _volume(rng, volume, spec["storageClassName"], nodes, size, reference)]
    if kind < 0.53:
        claim["status"] = {"phase": "Lost"}
    elif kind < 0.56:
        claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    elif kind < 0.65:
        claim["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": rng.choice(nodes)}
    elif kind < 0.7:
        reference = {"namespace": namespace, "name": name}
        return [
            claim,
            _volume(rng, f"pre-{namespace}-{name}", spec["storageClassName"], nodes, size + 30, reference),
        ]
    elif kind < 0.74:
        spec["selector"] = {"matchLabels": {"grade": "fast"}}
    return [claim]


def _volume(
    rng: random.Random, name: str, storage_class: str, nodes: list[str], size: int, claim: Manifest | None
) -> Manifest:
    labels = {"grade": rng.choice(("fast", "slow"))}
    if rng.random() < 0.3:
        key = rng.choice(("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"))
        labels[key] = rng.choice(("z1", "z2", "z1__z3"))
    spec: Manifest = {
        "capacity": {"storage": f"{size}Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"],
        "storageClassName": storage_class,
    }
    if rng.random() < 0.7:
        spec["csi"] = {"driver": rng.choice(DRIVERS), "volumeHandle": f"handle-{name}"}
    else:
        spec["local"] = {"path": "/data"}
    if rng.random() < 0.5:
        expression = rng.choice(
            (
                {
                    "key": "topology.kubernetes.io/zone",
                    "operator": "In",
                    "values": rng.sample(("z1", "z2", "z3"), 2),
                },
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [rng.choice(nodes)]},
            )
        )
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    if claim is not None:
        spec["claimRef"] = claim
    phase = "Available" if claim is None else "Bound"
    if claim is None and rng.random() < 0.1:
        phase = "Released"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": _meta(name, labels=labels),
        "spec": spec,
        "status": {"phase": phase},
    }


def _configuration(rng: random.Random) -> Manifest | None:
    if rng.random() < 0.5:
        return None
    args: list[Manifest] = []
    strategy: Manifest = {"type": rng.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))}
    resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 2}]
    if rng.random() < 0.4:
        resources.append({"name": rng.choice((GPU, "ephemeral-storage")), "weight": 3})
    strategy["resources"] = resources
    if strategy["type"] == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {
            "shape": rng.choice(
                (
                    [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
                    [
                        {"utilization": 10, "score": 10},
                        {"utilization": 40, "score": 3},
                        {"utilization": 90, "score": 7},
                    ],
                )
            )
        }
    args.append(_plugin_args("NodeResourcesFit", scoringStrategy=strategy))
    if rng.random() < 0.4:
        args.append(
            _plugin_args(
                "NodeResourcesBalancedAllocation",
                resources=[{"name": r["name"], "weight": 1} for r in resources],
            )
        )
    if rng.random() < 0.3:
        args[0]["args"]["ignoredResources"] = [GPU]
    if rng.random() < 0.4:
        args.append(
            _plugin_args(
                "InterPodAffinity",
                hardPodAffinityWeight=rng.choice((0, 5, 100)),
                ignorePreferredTermsOfExistingPods=rng.random() < 0.3,
            )
        )
    if rng.random() < 0.4:
        args.append(
            _plugin_args(
                "PodTopologySpread", defaultingType="List", defaultConstraints=_default_constraints(rng)
            )
        )
    if rng.random() < 0.3:
        affinity: Manifest = {}
        zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1", "z2"]}
        if rng.random() < 0.5:
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": [{"matchExpressions": [zone]}]
            }
        else:
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": 7, "preference": {"matchExpressions": [zone]}}
            ]
        args.append(_plugin_args("NodeAffinity", addedAffinity=affinity))
    profile: Manifest = {"schedulerName": "default-scheduler", "pluginConfig": args}
    if rng.random() < 0.4:
        profile["plugins"] = rng.choice(
            (
                {
                    "score": {
                        "disabled": [{"name": "ImageLocality"}],
                        "enabled": [{"name": "NodeAffinity", "weight": 9}],
                    }
                },
                {"multiPoint": {"disabled": [{"name": "NodePorts"}, {"name": "PodTopologySpread"}]}},
            )
        )
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def _default_constraints(rng: random.Random) -> list[Manifest]:
    action = rng.choice(("ScheduleAnyway", "DoNotSchedule"))
    keys = rng.sample(("kubernetes.io/hostname", "topology.kubernetes.io/zone"), rng.choice((1, 2)))
    return [{"maxSkew": rng.choice((1, 2)), "topologyKey": key, "whenUnsatisfiable": action} for key in keys]


def _plugin_args(plugin: str, **fields: object) -> Manifest:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": f"{plugin}Args"}
    return {"name": plugin, "args": {**head, **fields}}


def _meta(name: str, *, labels: dict[str, str] | None = None) -> Manifest:
    return {
        "name": name,
        "uid": f"uid-{name}",
        "labels": labels or {},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }


def _object(version: str, kind: str, namespace: str, name: str, spec: Manifest | None) -> Manifest:
    meta = {**_meta(name), "namespace": namespace, "uid": f"uid-{kind}-{namespace}-{name}"}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": meta,
        **({"spec": spec} if spec is not None else {}),
    }
