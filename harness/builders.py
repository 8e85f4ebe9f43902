"""Builders of manifests and records for tests: ``pod("web-1").on("n1").cpu("500m").build()``.

Every builder makes a manifest as an API server would hold it; ``build`` decodes that manifest with the
real decoder, so records and manifests always agree. Builders are immutable: each call gives a new one,
so a half-built object can be shared between tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.object_builders import (
    CREATED,
    NOW_S,
    BudgetBuilder,
    Builder,
    ClaimBuilder,
    Manifest,
    NodeBuilder,
    PodBuilder,
    PodSpecMethods,
    WorkloadBuilder,
    default_uid,
    object_manifest,
)
from rescheduler.model.cluster import ClusterState
from rescheduler.model.decode import Decoder, Record
from rescheduler.model.kinds import Kind
from rescheduler.model.records import Namespace, PriorityClass, Service
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.storage_records import PersistentVolume, StorageClass

__all__ = [
    "CREATED", "NOW_S", "BudgetBuilder", "Builder", "ClaimBuilder", "Manifest", "NodeBuilder",
    "PodBuilder", "PodSpecMethods",
    "WorkloadBuilder", "claim", "daemonset", "default_uid", "deployment", "job", "namespace", "node",
    "object_of", "pdb", "pod", "priority_class", "replicaset", "service", "snapshot", "state", "statefulset",
    "storage_class", "volume",
]  # fmt: skip


def pod(name: str, namespace: str = "default") -> PodBuilder:
    """A pending pod with one container that requests nothing."""
    spec = {"containers": [{"name": "main", "image": "registry.example/main:1"}]}
    return PodBuilder(object_manifest(Kind.POD, name, namespace, spec=spec, status={"phase": "Pending"}))


def node(name: str) -> NodeBuilder:
    """A node of 4 CPU, 16 GiB, 110 pods."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    status = {
        "allocatable": amounts,
        "capacity": amounts,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": CREATED}],
    }
    built = NodeBuilder(object_manifest(Kind.NODE, name, spec={}, status=status))
    return built.label({"kubernetes.io/hostname": name})


def deployment(name: str, namespace: str = "default") -> WorkloadBuilder:
    """A Deployment of one replica; its pods carry ``app: NAME``."""
    return _workload(Kind.DEPLOYMENT, name, namespace)


def replicaset(name: str, namespace: str = "default") -> WorkloadBuilder:
    """A ReplicaSet of one replica; its pods carry ``app: NAME``."""
    return _workload(Kind.REPLICA_SET, name, namespace)


def statefulset(name: str, namespace: str = "default") -> WorkloadBuilder:
    """A StatefulSet of one replica; its pods carry ``app: NAME``."""
    return _workload(Kind.STATEFUL_SET, name, namespace)


def daemonset(name: str, namespace: str = "default") -> WorkloadBuilder:
    """A DaemonSet; its pods carry ``app: NAME``."""
    return _workload(Kind.DAEMON_SET, name, namespace)


def job(name: str, namespace: str = "default") -> WorkloadBuilder:
    """A Job of parallelism 1; its pods carry ``app: NAME``."""
    return _workload(Kind.JOB, name, namespace)


def pdb(name: str, namespace: str = "default") -> BudgetBuilder:
    """A PodDisruptionBudget over ``app: NAME`` that allows no disruption."""
    spec = {"selector": {"matchLabels": {"app": name}}}
    return BudgetBuilder(object_manifest(Kind.POD_DISRUPTION_BUDGET, name, namespace, spec=spec)).allows(0)


def namespace(name: str) -> Builder[Namespace]:
    """A namespace with the label of its name."""
    return Builder(object_manifest(Kind.NAMESPACE, name)).label({"kubernetes.io/metadata.name": name})


def priority_class(name: str, value: int) -> Builder[PriorityClass]:
    """A PriorityClass."""
    return Builder(object_manifest(Kind.PRIORITY_CLASS, name, value=value))


def service(name: str, namespace: str = "default", **selector: str) -> Builder[Service]:
    """A Service."""
    return Builder(object_manifest(Kind.SERVICE, name, namespace, spec={"selector": selector}))


def volume(name: str, size: str = "1Gi") -> Builder[PersistentVolume]:
    """A PersistentVolume of a CSI driver."""
    csi = {"driver": "csi.example", "volumeHandle": name}
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "csi": csi}
    return Builder(object_manifest(Kind.PERSISTENT_VOLUME, name, spec=spec, status={"phase": "Available"}))


def claim(name: str, namespace: str = "default", size: str = "1Gi") -> ClaimBuilder:
    """A pending PersistentVolumeClaim."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return ClaimBuilder(
        object_manifest(Kind.PERSISTENT_VOLUME_CLAIM, name, namespace, spec=spec, status={"phase": "Pending"})
    )


def storage_class(name: str, *, wait: bool = True) -> Builder[StorageClass]:
    """A StorageClass of a CSI driver."""
    mode = "WaitForFirstConsumer" if wait else "Immediate"
    return Builder(
        object_manifest(Kind.STORAGE_CLASS, name, provisioner="csi.example", volumeBindingMode=mode)
    )


def object_of(kind: Kind, name: str, namespace: str = "", **fields: Any) -> Builder[Record]:
    """An object of any kind: ``object_of(Kind.CSI_NODE, "n1", spec={...})``."""
    return Builder(object_manifest(kind, name, namespace, **fields))


def state(objects: Iterable[Builder[Any]]) -> ClusterState:
    """A ClusterState that holds what the builders build."""
    decoder, built = Decoder(), ClusterState()
    for item in objects:
        built.apply(item.kind, decoder.record(item.kind, item.encoded()))
    return built


def snapshot(*objects: Builder[Any] | Iterable[Builder[Any]], now_s: float = NOW_S) -> Snapshot:
    """A Snapshot of what the builders build: ``snapshot(node("n1"), [pod("a"), pod("b")])``."""
    flat: list[Builder[Any]] = []
    for item in objects:
        flat.extend([item] if isinstance(item, Builder) else item)
    return state(flat).snapshot(now_s)


def _workload(kind: Kind, name: str, namespace: str) -> WorkloadBuilder:
    template = {
        "metadata": {"labels": {}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
    }
    built = WorkloadBuilder(object_manifest(kind, name, namespace, spec={"template": template}))
    if kind in (Kind.DEPLOYMENT, Kind.REPLICA_SET, Kind.STATEFUL_SET):
        built = built.replicas(1)
    return built.template_label(app=name)
