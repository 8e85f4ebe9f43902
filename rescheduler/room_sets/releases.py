"""When a running pod gives its room back, as far as it has been declared (rows V5, V6, V16). Pure.

Declared is the annotation ``volcano.sh/maximum-runtime`` of the pod or of its Volcano PodGroup, ``activeDeadlineSeconds`` of the
pod, or that of its Job; the earliest counts. A pod without any is not relied on, and neither is one that has run longer than it declared: nothing
ends it, and its word has been wrong once (A11).
"""

from __future__ import annotations

from typing import Final

from rescheduler.model.names import MAXIMUM_RUNTIME, POD_GROUP_NAMES
from rescheduler.model.records import ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import DurationError, earliest, parse_duration

_STAY: Final = frozenset(
    {"ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Node", "Reservation"}
)
"""Kinds of controllers whose pods do not end by themselves."""


def leaves(pod: Pod) -> bool:
    """True if the pod is to end some time, declared or not: nothing that keeps a number of pods running has made it."""
    if pod.deleting or pod.spec.deadline_s is not None or pod.annotations.get(MAXIMUM_RUNTIME) is not None:
        return True
    if any(pod.annotations.get(key) for key in POD_GROUP_NAMES):
        return True
    return pod.controller is None or pod.controller.kind not in _STAY


def declared_end_s(pod: Pod, snapshot: Snapshot) -> float | None:
    """The earliest declared end; None: it declares none."""
    return earliest(own_end_s(pod), job_end_s(pod, snapshot), group_end_s(pod, snapshot))


def own_end_s(pod: Pod) -> float | None:
    """As the pod itself declares."""
    started_s = pod.started_at_s or pod.created_at_s
    runtime_s = _runtime_s(pod.annotations.get(MAXIMUM_RUNTIME))
    deadline_s = pod.spec.deadline_s
    return earliest(
        started_s + runtime_s if runtime_s is not None else None,
        started_s + deadline_s if deadline_s is not None else None,
    )


def group_end_s(pod: Pod, snapshot: Snapshot) -> float | None:
    """As its PodGroup declares for each of its pods."""
    if not snapshot.pod_groups:
        return None
    name = next(filter(None, map(pod.annotations.get, POD_GROUP_NAMES)), None)
    group = snapshot.pod_groups.get(ObjectKey(pod.namespace, name)) if name else None
    runtime_s = _runtime_s(group.maximum_runtime) if group is not None else None
    return (pod.started_at_s or pod.created_at_s) + runtime_s if runtime_s is not None else None


def job_end_s(pod: Pod, snapshot: Snapshot) -> float | None:
    """As its Job declares."""
    owner = snapshot.workloads.get(pod.controller.uid) if pod.controller is not None else None
    return (owner.job.deadline_at_s or None) if owner is not None and owner.job is not None else None


def _runtime_s(text: str | None) -> float | None:
    if not text:
        return None
    try:
        seconds = parse_duration(text)
    except DurationError:
        return None
    return seconds if seconds > 0 else None
