"""What differs between two snapshots, found by the identity of records first and by content where it matters."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.snapshot import Snapshot

K = TypeVar("K")
V = TypeVar("V")


class ObjectChanges(NamedTuple):
    """Which bindings of pods to other objects are stale."""

    selectors: bool
    volumes: bool


class NodeChange(enum.Enum):
    """How far nodes changed."""

    NONE = enum.auto()
    CONTENT = enum.auto()
    """Capacity, taints, readiness, images and the like, but no node and no label."""
    TOPOLOGY = enum.auto()
    """Nodes, their labels, or the labels of namespaces: counts per domain are void."""


def node_change(old: Snapshot, new: Snapshot) -> NodeChange:
    """What of the nodes changed that scheduling and policies read."""
    if old.namespaces is not new.namespaces and _labels(old) != _labels(new):
        return NodeChange.TOPOLOGY
    if old.nodes is new.nodes:
        return NodeChange.NONE
    if tuple(old.nodes) != tuple(new.nodes):
        return NodeChange.TOPOLOGY
    pairs = zip(old.nodes.values(), new.nodes.values(), strict=True)
    changed = [(before, after) for before, after in pairs if before is not after]
    if any(before.labels != after.labels for before, after in changed):
        return NodeChange.TOPOLOGY
    if any(_read(before) != _read(after) for before, after in changed):
        return NodeChange.CONTENT
    return NodeChange.NONE


def changed_pods(before: Snapshot, after: Snapshot) -> tuple[list[Pod], list[Pod]]:
    """(records that no longer hold, records that hold now)."""
    keys = after.pods_changed_since(before)
    if keys is None:
        return _compared(before.pods, after.pods)
    pairs = [(before.pods.get(key), after.pods.get(key)) for key in keys]
    differing = [(old, new) for old, new in pairs if old is not new]
    return [old for old, _ in differing if old is not None], [new for _, new in differing if new is not None]


def _compared(old: Mapping[ObjectKey, Pod], new: Mapping[ObjectKey, Pod]) -> tuple[list[Pod], list[Pod]]:
    gone: list[Pod] = []
    come: list[Pod] = []
    for key, pod in new.items():
        before = old.get(key)
        if before is pod:
            continue
        come.append(pod)
        if before is not None:
            gone.append(before)
    if len(old) != len(new) - (len(come) - len(gone)):
        gone.extend(pod for key, pod in old.items() if key not in new)
    return gone, come


def objects_differ(old: Snapshot, new: Snapshot) -> ObjectChanges:
    """Compares the kinds that pods refer to."""
    volumes = (
        _differ(old.claims, new.claims)
        or _differ(old.volumes, new.volumes)
        or _differ(old.storage_classes, new.storage_classes)
        or _differ(old.csi_nodes, new.csi_nodes)
        or _differ(old.csi_drivers, new.csi_drivers)
        or _differ(old.csi_capacities, new.csi_capacities)
        or _differ(old.attachments, new.attachments)
    )
    return ObjectChanges(_differ(old.services, new.services) or _selectors_differ(old, new), volumes)


def _read(node: Node) -> tuple[object, ...]:
    return (
        node.taints,
        node.unschedulable,
        node.ready,
        node.deleting,
        node.do_not_disrupt,
        node.scale_down_disabled,
        node.held_empty,
        node.avoid,
        node.allocatable,
        node.images,
        node.declared_features,
    )


def _labels(snapshot: Snapshot) -> dict[str, object]:
    return {name: namespace.labels for name, namespace in snapshot.namespaces.items()}


def _differ(old: Mapping[K, V], new: Mapping[K, V]) -> bool:
    if old is new:
        return False
    if len(old) != len(new):
        return True
    return any(old.get(key) is not value for key, value in new.items())


def _selectors_differ(old: Snapshot, new: Snapshot) -> bool:
    if old.workloads is new.workloads:
        return False
    if len(old.workloads) != len(new.workloads):
        return True
    for uid, workload in new.workloads.items():
        before = old.workloads.get(uid)
        if before is workload:
            continue
        if before is None or before.selector != workload.selector:
            return True
    return False
