"""Node lifecycle: taints that follow the Ready condition and cordons, and evictions by NoExecute taints.

Pods that do not tolerate a NoExecute taint are deleted; those that tolerate it for a time are deleted when it is over.
"""

from __future__ import annotations

from collections.abc import Iterable

from kube_sandbox.apiserver.json_values import seconds
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.daemonset import matching
from kube_sandbox.controllers.runtime import Indexer, ReconcileContext
from kube_sandbox.controllers.unstructured import (
    NODE,
    POD,
    Obj,
    condition,
    deleting,
    group_kind,
    key,
    new_condition,
    spec,
    terminal,
)
from rescheduler.model.records import ObjectKey
from rescheduler.model.times import format_seconds

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


class NodeLifecycleController:
    """Keeps the well-known taints of every node."""

    name = "nodelifecycle"
    watches = frozenset({NODE})

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """The node."""
        del indexer
        return [key(change.object)] if change.type != "DELETED" else []

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Set the taints for the node's condition and cordon."""
        node = ctx.indexer.at(NODE, request)
        if node is None:
            return None
        desired = desired_taints(node, ctx.now_s)
        if desired != (spec(node).get("taints") or []):
            ctx.api.patch(node, {"spec": {"taints": desired or None}})
        return None


class TaintEvictionController:
    """Deletes pods that do not tolerate their node's NoExecute taints (pkg/controller/tainteviction)."""

    name = "tainteviction"
    watches = frozenset({NODE, POD})

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """A bound pod; all pods of a node whose taints changed."""
        obj, old = change.object, change.previous
        if change.type == "DELETED":
            return []
        if group_kind(obj) == POD:
            return [key(obj)] if spec(obj).get("nodeName") else []
        if old is not None and spec(old).get("taints") == spec(obj).get("taints"):
            return []
        return [key(p) for p in indexer.pods_on(key(obj).name)]

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Delete the pod if it does not tolerate the taints any longer; returns until when it does."""
        pod = ctx.indexer.at(POD, request)
        if pod is None or deleting(pod) or terminal(pod):
            return None
        node = ctx.indexer.get(NODE, "", spec(pod).get("nodeName") or "")
        until_s = tolerated_until_s(pod, node, ctx.now_s) if node is not None else None
        if until_s is None or until_s > ctx.now_s:
            return until_s
        text = "Taint manager: deleting due to NoExecute taint"
        ctx.api.mark(pod, new_condition("DisruptionTarget", "DeletionByTaintManager", text, ctx.now_s))
        ctx.api.delete(pod)
        return None


def desired_taints(node: Obj, now_s: float) -> list[Obj]:
    """The desired taints of the node. Other taints and the order are kept."""
    ready = (condition(node, "Ready") or {}).get("status", "Unknown")
    asked: dict[tuple[str, str], bool] = {
        (NOT_READY, "NoSchedule"): ready == "False" or condition(node, "Ready") is None,
        (NOT_READY, "NoExecute"): ready == "False",
        (UNREACHABLE, "NoSchedule"): ready == "Unknown" and condition(node, "Ready") is not None,
        (UNREACHABLE, "NoExecute"): ready == "Unknown" and condition(node, "Ready") is not None,
        (UNSCHEDULABLE, "NoSchedule"): bool(spec(node).get("unschedulable")),
    }
    present = spec(node).get("taints") or []
    kept = [t for t in present if asked.get((t.get("key", ""), t.get("effect", "")), True)]
    have = {(t.get("key"), t.get("effect")) for t in kept}
    added: list[Obj] = [
        {"key": k, "effect": e, "timeAdded": format_seconds(now_s)}
        for (k, e), desired in asked.items()
        if desired and (k, e) not in have
    ]
    return kept + added


def tolerated_until_s(pod: Obj, node: Obj, now_s: float) -> float | None:
    """Until when the pod tolerates the node's taints (epoch seconds); None: without limit."""
    tolerations = spec(pod).get("tolerations") or []
    due: list[float] = []
    for taint in spec(node).get("taints") or ():
        if taint.get("effect") != "NoExecute":
            continue
        found = matching(tolerations, taint)
        if not found:
            return now_s
        limits = [int(t["tolerationSeconds"]) for t in found if t.get("tolerationSeconds") is not None]
        if limits:
            due.append((seconds(taint.get("timeAdded")) or now_s) + max(min(limits), 0))
    return min(due, default=None)
