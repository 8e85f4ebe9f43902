"""What a move costs: 0 (nothing) to 1. Pure.

disruption = 0.05 + 0.25 / replicas + 0.1 x priority / 1,000,000 (at most 0.1)
           + 0.1 if the pod has local data + 0.1 if it asks not to be evicted if possible, at most 1.
"""

from __future__ import annotations

from typing import Final

from rescheduler.model.names import DESCHEDULER_PREFER_NO_EVICTION
from rescheduler.model.records import Pod, VolumeKind
from rescheduler.model.snapshot import Snapshot

_HIGH_PRIORITY: Final = 1_000_000
_LOCAL: Final = (VolumeKind.EMPTY_DIR, VolumeKind.HOST_PATH)


def disruption_of(pod: Pod, snapshot: Snapshot) -> float:
    """The cost of moving a pod; an unknown number of replicas counts as one."""
    workload = snapshot.workloads.get(pod.controller.uid) if pod.controller is not None else None
    replicas = max(1, workload.replicas if workload is not None else 1)
    cost = 0.05 + 0.25 / replicas
    cost += 0.1 * min(1.0, max(0, pod.spec.priority) / _HIGH_PRIORITY)
    if any(volume.kind in _LOCAL for volume in pod.spec.volumes):
        cost += 0.1
    if pod.annotations.get(DESCHEDULER_PREFER_NO_EVICTION) is not None:
        cost += 0.1
    return min(1.0, cost)
