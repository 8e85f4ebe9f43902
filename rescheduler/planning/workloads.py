"""The workload that a pod belongs to, as people see it: the Deployment rather than its ReplicaSet. Pure."""

from __future__ import annotations

from rescheduler.model.records import Pod, Workload
from rescheduler.model.snapshot import Snapshot


def workload_of(pod: Pod, snapshot: Snapshot) -> Workload | None:
    """The topmost known controller of a pod."""
    owner = pod.controller
    found: Workload | None = None
    seen: set[str] = set()
    while owner is not None and owner.uid not in seen:
        seen.add(owner.uid)
        above = snapshot.workloads.get(owner.uid)
        if above is None:
            break
        found = above
        owner = above.controller
    return found


def workload_uid(pod: Pod, snapshot: Snapshot) -> str:
    """Uid of the topmost known controller; the direct owner's where nothing is known; "" without owner."""
    found = workload_of(pod, snapshot)
    if found is not None:
        return found.uid
    return pod.controller.uid if pod.controller is not None else ""
