"""Accessors for API objects in JSON (``unstructured``): identity, owners, selectors, readiness, times, numbers.

Functions of one object without state. The control plane of the sandbox works on JSON objects as the real one does
on its Go types. No function may change an object that it is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from kube_sandbox.apiserver.json_values import seconds
from kube_sandbox.apiserver.selectors import selects as matches
from rescheduler.model.records import ObjectKey
from rescheduler.model.times import format_seconds

Obj: TypeAlias = dict[str, Any]
"""One API object as JSON."""


class GroupKind(NamedTuple):
    """The type of an object without its version. An empty ``group`` is the core group."""

    group: str
    kind: str


POD = GroupKind("", "Pod")
NODE = GroupKind("", "Node")
NAMESPACE = GroupKind("", "Namespace")
CLAIM = GroupKind("", "PersistentVolumeClaim")
VOLUME = GroupKind("", "PersistentVolume")
CONTROLLER_REVISION = GroupKind("apps", "ControllerRevision")
REPLICATION_CONTROLLER = GroupKind("", "ReplicationController")
DEPLOYMENT = GroupKind("apps", "Deployment")
REPLICA_SET = GroupKind("apps", "ReplicaSet")
STATEFUL_SET = GroupKind("apps", "StatefulSet")
DAEMON_SET = GroupKind("apps", "DaemonSet")
JOB = GroupKind("batch", "Job")
BUDGET = GroupKind("policy", "PodDisruptionBudget")
STORAGE_CLASS = GroupKind("storage.k8s.io", "StorageClass")
EVENT = GroupKind("events.k8s.io", "Event")


def group_kind(obj: Obj) -> GroupKind:
    """The type of an object, by its apiVersion and kind."""
    return group_kind_of(obj.get("apiVersion", ""), obj.get("kind", ""))


def group_kind_of(api_version: str, kind: str) -> GroupKind:
    """The type named by an apiVersion and a kind."""
    return GroupKind(api_version.rpartition("/")[0], kind)


def meta(obj: Obj) -> Obj:
    """The object's metadata; an empty one if there is none."""
    return obj.get("metadata") or {}


def spec(obj: Obj) -> Obj:
    """The object's spec; an empty one if there is none."""
    return obj.get("spec") or {}


def status(obj: Obj) -> Obj:
    """The object's status; an empty one if there is none."""
    return obj.get("status") or {}


def key(obj: Obj) -> ObjectKey:
    """Namespace and name."""
    m = meta(obj)
    return ObjectKey(m.get("namespace") or "", m.get("name") or "")


def uid(obj: Obj) -> str:
    """The object's uid."""
    found: str = meta(obj).get("uid") or ""
    return found


def deleting(obj: Obj) -> bool:
    """True if the object is terminating."""
    return bool(meta(obj).get("deletionTimestamp"))


def labels(obj: Obj) -> dict[str, str]:
    """The object's labels."""
    return meta(obj).get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    """The object's annotations."""
    return meta(obj).get("annotations") or {}


def owners(obj: Obj) -> list[Obj]:
    """All ownerReferences."""
    return meta(obj).get("ownerReferences") or []


def controller_of(obj: Obj) -> Obj | None:
    """The ownerReference with ``controller: true``."""
    return next((o for o in owners(obj) if o.get("controller")), None)


def is_controlled_by(obj: Obj, owner: Obj) -> bool:
    """True if ``owner`` is the controller of ``obj``."""
    ref = controller_of(obj)
    return ref is not None and ref.get("uid") == uid(owner)


def controller_ref(owner: Obj) -> Obj:
    """The ownerReference that makes ``owner`` a controller (metav1.NewControllerRef)."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta(owner)["name"],
        "uid": uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def selects(chosen: Any, obj: Obj) -> bool:
    """True if a metav1.LabelSelector matches the object's labels; None matches nothing."""
    return matches(chosen, labels(obj))


def condition(obj: Obj, kind: str) -> Obj | None:
    """The status condition of that type."""
    return next((c for c in status(obj).get("conditions") or () if c.get("type") == kind), None)


def is_true(obj: Obj, kind: str) -> bool:
    """True if the status condition of that type is True."""
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


def new_condition(kind: str, reason: str, message: str, now_s: float, *, state: str = "True") -> Obj:
    """A condition that begins now."""
    since = format_seconds(now_s)
    return {"type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": since}


def with_condition(conditions: Iterable[Obj], new: Obj) -> list[Obj]:
    """The conditions with ``new`` replaced or appended; an unchanged status keeps its transition time."""
    result, done = [], False
    for old in conditions:
        if old.get("type") != new["type"]:
            result.append(old)
            continue
        kept = dict(new)
        if old.get("status") == new["status"] and "lastTransitionTime" in old:
            kept["lastTransitionTime"] = old["lastTransitionTime"]
        result.append(kept)
        done = True
    return result if done else [*result, new]


def terminal(pod: Obj) -> bool:
    """Succeeded or Failed."""
    return status(pod).get("phase") in ("Succeeded", "Failed")


def active(pod: Obj) -> bool:
    """A pod that counts as a replica: neither terminal nor terminating (controller.IsPodActive)."""
    return not terminal(pod) and not deleting(pod)


def ready(pod: Obj) -> bool:
    """True if the pod's Ready condition is True."""
    return is_true(pod, "Ready")


def available(pod: Obj, min_ready_s: int, now_s: float) -> bool:
    """Ready for at least ``min_ready_s`` seconds."""
    if not ready(pod):
        return False
    return min_ready_s == 0 or available_at_s(pod, min_ready_s) <= now_s


def available_at_s(pod: Obj, min_ready_s: int) -> float:
    """When a ready pod becomes available, in seconds since the epoch."""
    found = condition(pod, "Ready") or {}
    return seconds(found.get("lastTransitionTime")) + min_ready_s


def min_ready_s(owner: Obj) -> int:
    """spec.minReadySeconds."""
    return int(spec(owner).get("minReadySeconds") or 0)


def next_available_s(owner: Obj, pods: Iterable[Obj], now_s: float) -> float | None:
    """When the next ready pod of a workload becomes available (epoch seconds); None: none will by itself."""
    wait_s = min_ready_s(owner)
    due = [available_at_s(p, wait_s) for p in pods if wait_s and ready(p)]
    return min((d for d in due if d > now_s), default=None)


def replicas_of(owner: Obj) -> int:
    """spec.replicas; 1 if not given."""
    replicas = spec(owner).get("replicas")
    return 1 if replicas is None else int(replicas)


def scaled_value(value: int | str | None, total: int, *, round_up: bool) -> int:
    """An int-or-percent of ``total`` (intstr.GetScaledValueFromIntOrPercent)."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    part = total * int(value.removesuffix("%")) / 100
    return math.ceil(part) if round_up else math.floor(part)
