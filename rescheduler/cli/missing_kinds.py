"""Kinds that a dump does not have, and what a plan assumes in their place. Pure.

``kubectl cluster-info dump``, must-gather and ``kubectl get nodes,pods`` leave most kinds out. What the pods of the dump refer to
tells which of them are missing; of budgets and quotas nothing tells, so they are named whenever there are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rescheduler.model.kinds import Kind
from rescheduler.model.records import Pod, VolumeKind
from rescheduler.model.snapshot import Snapshot

COMPLETE_DUMP: Final = (
    "kubectl get nodes,pods,replicasets,deployments,statefulsets,daemonsets,jobs,pdb,resourcequotas,priorityclasses,pv,pvc,sc,csinodes,ns "
    "-A -o json"
)
"""What has all that a plan looks at in a cluster without extensions."""
_LIKE_THE_PRESENT: Final = "it is assumed that each pod is replaced by one like it"
_CONTROLLERS: Final = (Kind.REPLICA_SET, Kind.REPLICATION_CONTROLLER, Kind.STATEFUL_SET, Kind.JOB)
_CLAIMS: Final = (VolumeKind.CLAIM, VolumeKind.EPHEMERAL)
_SYSTEM: Final = "system-"


def missing_kinds(snapshot: Snapshot) -> Iterator[tuple[Kind, str]]:
    """Each kind that is missing, with what the plan assumes."""
    pods, workloads = snapshot.pods.values(), snapshot.workloads.values()
    if not pods:
        return
    if not snapshot.budgets:
        yield Kind.POD_DISRUPTION_BUDGET, "it is assumed that no budget forbids an eviction"
    if not snapshot.resource_quotas:
        yield Kind.RESOURCE_QUOTA, "it is assumed that no quota refuses a replacement or a Reservation"
    known = {workload.kind for workload in workloads}
    wanted = {pod.controller.kind for pod in pods if pod.controller is not None}
    for kind in _CONTROLLERS:
        if kind in wanted and kind not in known:
            yield kind, _LIKE_THE_PRESENT
    above = {workload.controller.kind for workload in workloads if workload.controller is not None}
    if Kind.DEPLOYMENT in above and Kind.DEPLOYMENT not in known:
        yield Kind.DEPLOYMENT, "it is assumed that no rollout is under way"
    classes = {pod.spec.priority_class for pod in pods}
    if not snapshot.priority_classes and any(name and not name.startswith(_SYSTEM) for name in classes):
        yield Kind.PRIORITY_CLASS, "it is assumed that each replacement has the priority of its pod"
    yield from _storage(snapshot)
    if not snapshot.namespaces and any(_selects_namespaces(pod) for pod in pods):
        yield Kind.NAMESPACE, "it is assumed that no namespace has labels"


def plural_of(kind: Kind) -> str:
    """For people."""
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def _storage(snapshot: Snapshot) -> Iterator[tuple[Kind, str]]:
    volumes = {volume.kind for pod in snapshot.pods.values() for volume in pod.spec.volumes}
    claims = snapshot.claims.values()
    if not claims and not volumes.isdisjoint(_CLAIMS):
        yield Kind.PERSISTENT_VOLUME_CLAIM, "pods with claims fit on no node"
    if not snapshot.volumes and any(claim.volume for claim in claims):
        yield Kind.PERSISTENT_VOLUME, "pods with bound claims fit on no node"
    if not snapshot.storage_classes and any(not claim.volume for claim in claims):
        yield Kind.STORAGE_CLASS, "claims that are not bound get no volume"
    if not snapshot.csi_nodes and snapshot.volumes:
        yield Kind.CSI_NODE, "it is assumed that each node attaches any number of volumes"


def _selects_namespaces(pod: Pod) -> bool:
    spec = pod.spec
    return any(term.namespace_selector is not None for term in (*spec.pod_affinity, *spec.pod_anti_affinity))
