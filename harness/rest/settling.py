"""Pending pods of a snapshot where the scheduler puts them, so that a cluster that nobody else changes can be looked at. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec
import numpy as np

from rescheduler.model.holding import placed_on
from rescheduler.model.records import ObjectKey, Pod, PodPhase
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.plan import PendingRoom
from rescheduler.scheduling.framework import Profile
from rescheduler.scheduling.state import SchedulingState

_LONG_AGO_S = -3600.0


def settled(cluster: Snapshot, profile: Profile) -> Snapshot:
    """Every pending pod that nothing else holds back stands where the scheduler puts it, or was refused by it."""
    state, pods = SchedulingState(cluster, profile), dict(cluster.pods)
    waiting = [pod for pod in pods.values() if _may_be_scheduled(pod, profile)]
    for pod in sorted(waiting, key=lambda p: (-p.spec.priority, p.created_at_s, p.key)):
        asked = msgspec.structs.replace(pod, nominated_node="")
        feasible = state.filter(asked).feasible
        if feasible.any():
            points = np.where(feasible, state.score(asked, feasible).total, -1)
            node = min(state.node_names[i] for i in np.flatnonzero(points == points.max()))
            pods[pod.key] = landed(asked, node)
            state.place(pods[pod.key], node)
        else:
            pods[pod.key] = asked.with_state(
                unschedulable_message="no room", unschedulable_since_s=_LONG_AGO_S
            )
    return dataclasses.replace(cluster, pods=pods)


def with_rooms_taken(cluster: Snapshot, rooms: tuple[PendingRoom, ...]) -> Snapshot:
    """Pending pods for which a plan made room stand there."""
    taken: Mapping[ObjectKey, str] = {ObjectKey(r.pod.namespace, r.pod.name): r.node for r in rooms if r.node}
    pods = {key: landed(pod, taken[key]) if key in taken else pod for key, pod in cluster.pods.items()}
    return dataclasses.replace(cluster, pods=pods)


def landed(pod: Pod, node: str) -> Pod:
    """The pending pod as it runs there."""
    running = {
        "phase": PodPhase.RUNNING,
        "ready": True,
        "unschedulable_message": "",
        "unschedulable_since_s": 0.0,
    }
    return placed_on(node, pod, **running)


def _may_be_scheduled(pod: Pod, profile: Profile) -> bool:
    free = not (pod.node or pod.deleting or pod.spec.gates or pod.spec.resource_claims)
    return free and profile.judges(pod.spec.scheduler_name)
