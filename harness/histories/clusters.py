"""Small random clusters: machines, workloads, volumes, budgets. Everything follows from a source of randomness. Pure.

Workloads fill about half of the machines, so that a move can be made, and crowds that come later can
contend for every free room.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from harness import documents
from kube_sandbox.controllers.unstructured import Obj
from kube_sandbox.nodes import SandboxNode
from rescheduler.model.names import ANNOTATION_MODE, HOSTNAME, ZONE

CLASSES: Final = {"": 0, "low": -10, "mid": 100, "high": 1000, "patient": 1000}
"""Priority classes and their values; "" is a pod without one. Pods of class ``patient`` preempt no pod."""

STORAGE_CLASS: Final = "zonal"
"""Its volumes are created in the zone of their first pod, and stay in that zone."""
_EXCLUSIVE: Final = 0.4
"""Share of the claims with access mode ReadWriteOncePod."""
_CPUS: Final = (500, 1000, 1500)
_FULL: Final = 0.55


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One Deployment, ReplicaSet or StatefulSet. ``starts_first``: declared so by its owner."""

    kind: str
    name: str
    replicas: int
    cpu_milli: int
    starts_first: bool = False
    body: Obj = field(default_factory=dict, hash=False, compare=False)
    claims: tuple[Obj, ...] = field(default=(), hash=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPlan:
    """A cluster before anything happens. ``priority_class``: that of all workloads."""

    machines: tuple[SandboxNode, ...]
    workloads: tuple[Workload, ...]
    budgets: tuple[Obj, ...]
    priority_class: str

    @property
    def objects(self) -> tuple[Obj, ...]:
        """Everything but the nodes, in the order of creation."""
        return (
            *priority_classes(),
            storage_class(),
            *self.budgets,
            *(c for w in self.workloads for c in w.claims),
            *(w.body for w in self.workloads),
        )


def draw_cluster(rng: random.Random) -> ClusterPlan:
    """A random cluster of 3 to 6 machines."""
    machines = tuple(
        SandboxNode(name=f"n{i}", cpu=str(rng.choice((3, 4, 4, 5))), zone=f"z{i % rng.choice((2, 3))}")
        for i in range(1, rng.randint(3, 6) + 1)
    )
    room = sum(int(m.cpu) for m in machines) * 1000 * _FULL
    priority_class = rng.choice(("", "", "mid"))
    workloads: list[Workload] = []
    for number in range(1, rng.randint(1, 3) + 1):
        workload = _draw_workload(rng, f"w{number}", len(machines), priority_class)
        cost = workload.replicas * workload.cpu_milli
        if cost <= room:
            room -= cost
            workloads.append(workload)
    workloads = workloads or [_draw_workload(rng, "w1", len(machines), priority_class, smallest=True)]
    return ClusterPlan(
        machines=machines,
        workloads=tuple(workloads),
        budgets=tuple(_draw_budgets(rng, workloads)),
        priority_class=priority_class,
    )


def priority_classes() -> Iterable[Obj]:
    """The classes of all clusters."""
    for name, value in CLASSES.items():
        if name:
            yield {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
                "preemptionPolicy": "Never" if name == "patient" else "PreemptLowerPriority",
            }


def storage_class() -> Obj:
    """The class of all volumes."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def lone_pod(name: str, *, cpu_milli: int, priority_class: str = "", label: str = "crowd") -> Obj:
    """A pod without a controller."""
    spec = _pod_spec(cpu_milli, priority_class, 1)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": label}},
        "spec": spec,
    }


def _pod_spec(cpu_milli: int, priority_class: str, grace_s: int) -> Obj:
    requests = {"cpu": f"{cpu_milli}m", "memory": "64Mi"}
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests}}
    spec: Obj = {"terminationGracePeriodSeconds": grace_s, "containers": [container]}
    if priority_class:
        spec["priorityClassName"] = priority_class
    return spec


def _draw_workload(
    rng: random.Random, name: str, machines: int, priority_class: str, *, smallest: bool = False
) -> Workload:
    kind = rng.choice(("Deployment", "Deployment", "Deployment", "StatefulSet", "StatefulSet", "ReplicaSet"))
    replicas = 1 if smallest else rng.randint(1, 3)
    cpu_milli = _CPUS[0] if smallest else rng.choice(_CPUS)
    starts_first = kind != "StatefulSet" and rng.random() < 0.4  # noqa: PLR2004 - a share
    pod = _pod_spec(cpu_milli, priority_class, rng.choice((1, 2, 5)))
    pod.update(_draw_constraints(rng, name, replicas, machines))
    body: Obj = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
    }
    if kind == "Deployment" and starts_first and rng.random() < 0.3:  # noqa: PLR2004 - a share
        body["minReadySeconds"] = 2
    claims = _draw_claims(rng, name, body, kind)
    if kind == "StatefulSet":
        body["serviceName"] = name
        body["podManagementPolicy"] = rng.choice(("OrderedReady", "Parallel"))
    metadata: Obj = {"name": name, "namespace": "default", "labels": {"app": name}}
    if starts_first:
        metadata["annotations"] = {ANNOTATION_MODE: "StartFirst"}
    obj = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}
    return Workload(
        kind=kind, name=name, replicas=replicas, cpu_milli=cpu_milli,
        starts_first=starts_first and not claims, body=obj, claims=claims,
    )  # fmt: skip


def _draw_claims(rng: random.Random, name: str, body: Obj, kind: str) -> tuple[Obj, ...]:
    """A claim for each pod of a StatefulSet, in ``body``; or one for the only pod of another workload."""
    if rng.random() >= 0.3 or (kind != "StatefulSet" and body["replicas"] > 1):  # noqa: PLR2004 - a share
        return ()
    mode = "ReadWriteOncePod" if rng.random() < _EXCLUSIVE else "ReadWriteOnce"
    wish = {
        "accessModes": [mode],
        "storageClassName": STORAGE_CLASS,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if kind == "StatefulSet":
        body["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": wish}]
        return ()
    source = {"claimName": f"{name}-data"}
    body["template"]["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": source}]
    metadata = {"name": f"{name}-data", "namespace": "default"}
    return ({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": wish},)


def _draw_constraints(rng: random.Random, name: str, replicas: int, machines: int) -> dict[str, Any]:
    mine = {"matchLabels": {"app": name}}
    chosen = rng.choice(("", "", "", "apart", "rather apart", "spread", "rather spread"))
    if chosen == "apart" and replicas < machines - 1:
        term: Obj = {"topologyKey": HOSTNAME, "labelSelector": mine}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    if chosen == "rather apart":
        term = {"weight": 50, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": mine}}
        return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}
    if chosen in ("spread", "rather spread"):
        rule = {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule" if chosen == "spread" else "ScheduleAnyway",
            "labelSelector": mine,
        }
        return {"topologySpreadConstraints": [rule]}
    return {}


def _draw_budgets(rng: random.Random, workloads: Iterable[Workload]) -> Iterable[Obj]:
    for workload in workloads:
        limits: list[Obj] = [{"maxUnavailable": 1}, {"maxUnavailable": 1}, {"minAvailable": "50%"}]
        if workload.replicas > 1:
            limits.append({"minAvailable": workload.replicas - 1})
        if workload.starts_first:
            limits += [{"maxUnavailable": 0}] * 3
        if rng.random() < 0.7:  # noqa: PLR2004 - a share
            yield documents.budget(workload.name, namespace="default", **rng.choice(limits))
