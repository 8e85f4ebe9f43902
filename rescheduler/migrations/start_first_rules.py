"""When a pod may be moved by mode StartFirst, and when its owner is in a state in which to do so. Pure.

The owner must have declared it (see ``declaration``): for a while there is one pod more, which has the
template's labels and gets traffic before it is adopted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from rescheduler.migrations.observed import YES, ObservedSwap, Verdict
from rescheduler.migrations.start_first_orphan import orphan_labels
from rescheduler.model import names
from rescheduler.model.migration import MoveMode
from rescheduler.model.records import PersistentVolumeClaim, Pod, VolumeKind, Workload
from rescheduler.model.selectors import LabelSet

ClaimOf = Callable[[str], PersistentVolumeClaim | None]
"""A claim of the pod's namespace by name."""

_SHARED: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_ONE_NODE: Final = frozenset(
    {
        VolumeKind.GCE,
        VolumeKind.AWS,
        VolumeKind.AZURE_DISK,
        VolumeKind.CINDER,
        VolumeKind.ISCSI,
        VolumeKind.RBD,
        VolumeKind.PORTWORX,
    }
)


def declaration(replica_set: Workload | None, deployment: Workload | None) -> str:
    """The mode that the owner asks for by annotation; "" if it says nothing. The Deployment's word goes first."""
    for workload in (deployment, replica_set):
        said = workload.annotations.get(names.ANNOTATION_MODE) if workload is not None else None
        if said:
            return said
    return ""


def declared(replica_set: Workload | None, deployment: Workload | None, *, by_default: bool) -> bool:
    """True if annotation or (without one) configuration declares the mode."""
    said = declaration(replica_set, deployment)
    return said == MoveMode.START_FIRST or (not said and by_default)


def eligible(
    pod: Pod,
    replica_set: Workload | None,
    deployment: Workload | None,
    claim_of: ClaimOf,
    neighbours: Iterable[Workload],
) -> Verdict:
    """May two pods stand side by side for a while? ``neighbours``: workloads of the namespace."""
    if pod.controller is None or pod.controller.kind != "ReplicaSet":
        kind = pod.controller.kind if pod.controller else "nobody"
        return _no(
            f"the pod belongs to {kind}; only a ReplicaSet adopts a replacement that was started first"
        )
    if replica_set is None or replica_set.template is None:
        return _no("the pod's ReplicaSet is not known or its template cannot be read")
    for refusal in (
        _owner_refuses(replica_set, deployment),
        _volumes_refuse(pod, claim_of),
        _selectors_refuse(replica_set, neighbours),
    ):
        if refusal:
            return _no(refusal)
    return YES


def owner_lost(swap: ObservedSwap) -> str:
    """Why the ReplicaSet is not (any more) the one that its owner wants pods of; "" if it is."""
    replica_set, deployment = swap.replica_set, swap.deployment
    if replica_set is None or replica_set.deleting:
        return "the ReplicaSet is gone"
    if replica_set.controller is None:
        return ""
    if deployment is None or deployment.deleting:
        return "the Deployment is gone"
    if replica_set.revision and deployment.revision and replica_set.revision != deployment.revision:
        return f"a rollout has replaced revision {replica_set.revision} by {deployment.revision}"
    return ""


def owner_moves(swap: ObservedSwap) -> str:
    """Why the owner is in the middle of something and must be waited for; "" if it rests."""
    replica_set, deployment = swap.replica_set, swap.deployment
    if swap.busy:
        return f"move {swap.busy} of the same workload is under way"
    if replica_set is None:
        return ""
    if deployment is not None and deployment.rolling_out:
        return f"Deployment {deployment.name} is rolling out or scaling"
    if deployment is not None and deployment.replicas != replica_set.replicas:
        return f"Deployment {deployment.name} wants {deployment.replicas} pods, its ReplicaSet {replica_set.replicas}"
    if swap.owned != replica_set.replicas:
        return f"ReplicaSet {replica_set.name} has {swap.owned} pods and wants {replica_set.replicas}"
    return ""


def min_ready_s(swap: ObservedSwap) -> int:
    """How long a pod of this owner must be Ready to count as available."""
    owner = swap.deployment or swap.replica_set
    return owner.min_ready_s if owner is not None else 0


def _no(message: str) -> Verdict:
    return Verdict(ok=False, message=message)


def _owner_refuses(replica_set: Workload, deployment: Workload | None) -> str:
    if replica_set.template is not None and replica_set.template.gates:
        return "the template has scheduling gates, so that its pods wait for somebody else"
    if replica_set.controller is None:
        return ""
    if replica_set.controller.kind != "Deployment" or deployment is None:
        return f"the ReplicaSet belongs to a {replica_set.controller.kind} whose strategy is not known"
    if not deployment.surge:
        return f"the strategy of Deployment {deployment.name} allows no surge (Recreate, or maxSurge 0)"
    return ""


def _volumes_refuse(pod: Pod, claim_of: ClaimOf) -> str:
    for volume in pod.spec.volumes:
        if volume.kind in _ONE_NODE and not volume.read_only:
            return f"a {volume.kind.value} volume can be used on one node only"
        if volume.kind is VolumeKind.CLAIM:
            claim = claim_of(volume.source)
            if claim is None or not _SHARED & set(claim.access_modes):
                modes = ", ".join(claim.access_modes) if claim is not None else "unknown"
                return f"claim {volume.source} cannot be used on two nodes ({modes})"
    return ""


def _selectors_refuse(replica_set: Workload, neighbours: Iterable[Workload]) -> str:
    """An orphan that some selector matches would be adopted at once, and one pod too many removed."""
    labels = LabelSet(orphan_labels(replica_set.template_labels, "uid", alone=replica_set.controller is None))
    for workload in neighbours:
        adopts = workload.kind not in ("Deployment", "CronJob") and workload.selector is not None
        if adopts and workload.selector is not None and workload.selector.matches(labels):
            return f"{workload.kind} {workload.name} would adopt the replacement before the old pod is gone"
    return ""
