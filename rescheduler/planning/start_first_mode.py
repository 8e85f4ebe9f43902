"""When the replacement of a pod may start before the pod is evicted (mode StartFirst). Pure.

The owner must have declared it (see ``declaration``): for a while there is one pod more, which has the
template's labels and gets traffic before it is adopted.

Before its adoption it is not the pod that the ReplicaSet has in the end: it has other labels (see ``replacement_labels``), no
controller, and it is pinned to its node. Its selectors are those of the pod that it becomes: values of matchLabelKeys and
mismatchLabelKeys, such as ``pod-template-hash``, are merged before it is created, although it does not have these labels
yet. The pin narrows topology spread to the target, because nodeAffinityPolicy is Honor by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np

from rescheduler.model import names
from rescheduler.model.migration import MoveMode
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import ObjectKey, Pod, Workload
from rescheduler.model.selectors import LabelSet
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.storage_records import PersistentVolumeClaim
from rescheduler.scheduling.framework import BoolArray
from rescheduler.scheduling.pod_topology_spread import PodTopologySpread
from rescheduler.scheduling.state import SchedulingState

TEMPLATE_HASH: Final = "pod-template-hash"

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


class StartFirst:
    """Which pods of one snapshot are moved by mode StartFirst where a move leaves the mode open."""

    def __init__(
        self,
        snapshot: Snapshot,
        configured: MoveMode,
        by_policy: Mapping[str, MoveMode] = MappingProxyType({}),
    ) -> None:
        """``by_policy``: what policies declare for their own moves; it goes before ``configured``."""
        self._snapshot = snapshot
        self._configured = configured
        self._by_policy = by_policy
        self._annotated = any(w.annotations.get(names.ANNOTATION_MODE) for w in snapshot.workloads.values())
        """True if any owner asks for a mode."""
        self._declared: dict[tuple[str, bool], bool] = {}
        """By uid of the controller, and whether configuration declares the mode."""

    def takes(self, pod: Pod, policy: str = "") -> bool:
        """True if the mode is declared for the pod, or for moves of ``policy``, and possible."""
        configured = self._by_policy.get(policy, self._configured)
        if configured not in (MoveMode.AUTO, MoveMode.START_FIRST) or pod.controller is None:
            return False
        if configured is MoveMode.AUTO and not self._annotated:
            return False  # asked very often, and hardly ever declared
        key = pod.controller.uid, configured is MoveMode.START_FIRST
        is_declared = self._declared.get(key)
        if is_declared is None:
            is_declared = self._declared[key] = declared(*self._owners(pod), by_default=key[1])
        return is_declared and not refusal_in(self._snapshot, pod, *self._owners(pod))

    def unadopted(self, pod: Pod, policy: str, replacement: Pod) -> Pod | None:
        """The replacement as it would be created; None if the pod is not moved so."""
        replica_set = self._owners(pod)[0] if self.takes(pod, policy) else None
        return unadopted_replacement(replacement, replica_set) if replica_set is not None else None

    def keeps_budgets(self, pod: Pod, policy: str = "") -> bool:
        """True if the eviction takes nothing from a budget: the replacement is counted as healthy by then.

        A replacement of a ReplicaSet without Deployment has not the labels yet, so it is not counted.
        """
        return self.takes(pod, policy) and self._owners(pod)[1] is not None

    def _owners(self, pod: Pod) -> tuple[Workload | None, Workload | None]:
        workloads = self._snapshot.workloads
        replica_set = workloads.get(pod.controller.uid) if pod.controller is not None else None
        above = replica_set.controller if replica_set is not None else None
        return replica_set, workloads.get(above.uid) if above is not None else None


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


def refusal_in(
    snapshot: Snapshot, pod: Pod, replica_set: Workload | None, deployment: Workload | None
) -> str:
    """``refusal`` with everything else taken from a snapshot."""
    return refusal(
        pod,
        replica_set,
        deployment,
        lambda name: snapshot.claims.get(ObjectKey(pod.namespace, name)),
        (w for w in snapshot.workloads.values() if w.namespace == pod.namespace),
    )


def refusal(
    pod: Pod,
    replica_set: Workload | None,
    deployment: Workload | None,
    claim_of: ClaimOf,
    neighbours: Iterable[Workload],
) -> str:
    """Why two such pods must not stand side by side, or ""; ``neighbours``: workloads of the namespace."""
    if pod.controller is None or pod.controller.kind != "ReplicaSet":
        kind = pod.controller.kind if pod.controller else "no controller"
        return f"the pod belongs to {kind}; only a ReplicaSet adopts a replacement that was started first"
    if replica_set is None or replica_set.template is None:
        return "the pod's ReplicaSet is not known or its template cannot be read"
    return (
        _owner_refuses(replica_set, deployment)
        or _volumes_refuse(pod, claim_of)
        or _selectors_refuse(replica_set, neighbours)
    )


def replacement_labels(template: Mapping[str, str], migration_uid: str, *, alone: bool) -> dict[str, str]:
    """The labels of the replacement at birth. ``alone``: the ReplicaSet has no Deployment."""
    kept = {} if alone else {k: v for k, v in template.items() if k != TEMPLATE_HASH}
    return {**kept, names.LABEL_START_FIRST: migration_uid}


def _owner_refuses(replica_set: Workload, deployment: Workload | None) -> str:
    if replica_set.template is not None and replica_set.template.gates:
        return "the template has scheduling gates, so that its pods wait for another program"
    if replica_set.controller is None:
        return ""
    if replica_set.controller.kind != "Deployment" or deployment is None:
        return f"the ReplicaSet belongs to a {replica_set.controller.kind} whose strategy is not known"
    if not deployment.surge:
        return f"the strategy of Deployment {deployment.name} allows no surge (Recreate, or maxSurge 0)"
    if deployment.rolling_out and not deployment.changes_pods:
        return f"the rollout of Deployment {deployment.name} is paused or stalled"
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
    """A replacement that some selector matches would be adopted at once, and one pod too many removed."""
    labels = LabelSet(
        replacement_labels(replica_set.template_labels, "uid", alone=replica_set.controller is None)
    )
    for workload in neighbours:
        adopts = workload.kind not in ("Deployment", "CronJob") and workload.selector is not None
        if adopts and workload.selector is not None and workload.selector.matches(labels):
            return f"{workload.kind} {workload.name} would adopt the replacement before the old pod is gone"
    return ""


def unadopted_replacement(replacement: Pod, replica_set: Workload) -> Pod:
    """The pod that mode StartFirst creates for ``replacement``, without its pin. The value of our own label is not known."""
    alone = replica_set.controller is None
    labels = LabelSet(replacement_labels(replica_set.template_labels, "", alone=alone))
    return msgspec.structs.replace(replacement, labels=labels, controller=None)


def unadopted_of(pod: Pod, replacement: Pod, snapshot: Snapshot) -> Pod | None:
    """The pod that mode StartFirst creates for the replacement of ``pod``; None if its ReplicaSet is not there."""
    replica_set = snapshot.workloads.get(pod.controller.uid) if pod.controller is not None else None
    return unadopted_replacement(replacement, replica_set) if replica_set is not None else None


def may_start_beside(state: SchedulingState, unadopted: Pod) -> BoolArray:
    """Nodes that may accept it once it is pinned to them; all others refuse it. The old pod stands in ``state``."""
    result = state.filter(unadopted)
    if result.everywhere is not None:
        return result.feasible
    # Spread is another question with the pin; every other rule refuses the same nodes with it.
    if PodTopologySpread.name not in result.plugins:
        return result.feasible
    spread = result.plugins.index(PodTopologySpread.name)
    return np.asarray(result.feasible | (result.refused_by == spread), dtype=np.bool_)
