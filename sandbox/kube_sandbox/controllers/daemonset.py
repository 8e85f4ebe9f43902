"""DaemonSets: one pod on each eligible node (pkg/controller/daemon); and whether a pod spec in JSON may be on a node.

A changed template is for new pods only. The pod is pinned by a required node affinity on ``metadata.name`` and bound by the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.pod_control import (
    OwnerController,
    claim,
    pod_from_template,
    template_hash,
    write_counts,
)
from kube_sandbox.controllers.runtime import Indexer, ReconcileContext
from kube_sandbox.controllers.unstructured import (
    DAEMON_SET,
    NODE,
    POD,
    Obj,
    available,
    deleting,
    group_kind,
    key,
    labels,
    meta,
    min_ready_s,
    next_available_s,
    ready,
    spec,
    terminal,
)
from rescheduler.model.decode.selectors import node_selector
from rescheduler.model.decode.wire_types import NodeSelectorWire
from rescheduler.model.records import ObjectKey, Taint, Toleration
from rescheduler.model.selectors import LabelSet

HASH_LABEL = "controller-revision-hash"
_ALWAYS_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


class DaemonSetController(OwnerController):
    """Keeps one pod of each DaemonSet on every node that should run it."""

    name = "daemonset"
    kind = DAEMON_SET
    watches = frozenset({DAEMON_SET, POD, NODE})

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """The DaemonSet; the controller of a pod; all DaemonSets when a node is added, changed or deleted."""
        obj = change.object
        if group_kind(obj) != NODE:
            return super().keys_for(indexer, change)
        old = change.previous
        same = old is not None and spec(old) == spec(obj) and labels(old) == labels(obj)
        return [] if same and change.type == "MODIFIED" else [key(d) for d in indexer.all(DAEMON_SET)]

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Create missing pods, delete pods from nodes that are not eligible."""
        owner = ctx.indexer.at(DAEMON_SET, request)
        if owner is None:
            return None
        pods = claim(ctx, owner)
        by_node: dict[str, list[Obj]] = {}
        for pod in pods:
            by_node.setdefault(_node_of(pod), []).append(pod)
        if not deleting(owner):
            self._place(ctx, owner, by_node)
        _write_status(ctx, owner, by_node)
        return next_available_s(owner, pods, ctx.now_s)

    def _place(self, ctx: ReconcileContext, owner: Obj, by_node: Mapping[str, list[Obj]]) -> None:
        nodes = {meta(n)["name"]: n for n in ctx.indexer.all(NODE)}
        for name, node in sorted(nodes.items()):
            present = by_node.get(name, [])
            # Only deleted here: the pod in its place is created when the deletion has been observed.
            for failed in (p for p in present if terminal(p) and not deleting(p)):
                ctx.api.delete(failed)
            if not present and _should_run(owner, node):
                ctx.api.create(_pod(owner, name))
            elif not _should_stay(owner, node):
                for pod in (p for p in present if not deleting(p) and not terminal(p)):
                    ctx.api.delete(pod)
        for name in by_node.keys() - nodes.keys():
            for pod in (p for p in by_node[name] if not deleting(p)):
                ctx.api.delete(pod)


def _pod(owner: Obj, node: str) -> Obj:
    pod = pod_from_template(owner, spec(owner)["template"])
    pod["metadata"]["labels"][HASH_LABEL] = _hash(owner)
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [pin]}
    pod["spec"]["tolerations"] = _tolerations(owner)
    return pod


def _tolerations(owner: Obj) -> list[Obj]:
    template = spec(owner).get("template") or {}
    own = list((template.get("spec") or {}).get("tolerations") or [])
    added = [{"key": k, "operator": "Exists", "effect": e} for k, e in _ALWAYS_TOLERATED]
    return own + [t for t in added if t not in own]


def _hash(owner: Obj) -> str:
    return template_hash(spec(owner).get("template") or {})


def _node_of(pod: Obj) -> str:
    """The node of a pod, or the one that it is pinned to while it is pending."""
    if bound := spec(pod).get("nodeName"):
        return str(bound)
    affinity = (spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def _should_run(owner: Obj, node: Obj) -> bool:
    return _should_stay(owner, node) and tolerates(_tolerations(owner), node, ("NoSchedule", "NoExecute"))


def _should_stay(owner: Obj, node: Obj) -> bool:
    template = (spec(owner).get("template") or {}).get("spec") or {}
    return node_affinity_allows(template, node) and tolerates(_tolerations(owner), node, ("NoExecute",))


def _write_status(ctx: ReconcileContext, owner: Obj, by_node: Mapping[str, list[Obj]]) -> None:
    wait_s = min_ready_s(owner)
    desired_nodes = {meta(n)["name"] for n in ctx.indexer.all(NODE) if _should_run(owner, n)}
    placed = {n: [p for p in by_node.get(n, ()) if not deleting(p)] for n in desired_nodes}
    up = sum(any(available(p, wait_s, ctx.now_s) for p in group) for group in placed.values())
    new = {
        "observedGeneration": int(meta(owner).get("generation") or 0),
        "desiredNumberScheduled": len(desired_nodes),
        "currentNumberScheduled": sum(bool(group) for group in placed.values()),
        "numberMisscheduled": sum(bool(g) for n, g in by_node.items() if n not in desired_nodes),
        "numberReady": sum(any(ready(p) for p in group) for group in placed.values()),
        "updatedNumberScheduled": sum(
            any(labels(p).get(HASH_LABEL) == _hash(owner) for p in group) for group in placed.values()
        ),
        "numberAvailable": up,
        "numberUnavailable": len(desired_nodes) - up,
    }
    write_counts(ctx, owner, new)


def node_affinity_allows(pod_spec: Obj, node: Obj) -> bool:
    """The pod's nodeSelector and required node affinity match the node."""
    have = LabelSet(labels(node))
    if any(have.get(k) != v for k, v in (pod_spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    chosen = node_selector(msgspec.convert(required, NodeSelectorWire))
    return chosen is None or chosen.matches(have, meta(node)["name"])


def tolerates(tolerations: Sequence[Obj], node: Obj, effects: Iterable[str]) -> bool:
    """Every taint of these effects on the node is tolerated."""
    desired = tuple(effects)
    taints = [t for t in spec(node).get("taints") or () if t.get("effect") in desired]
    return all(matching(tolerations, taint) for taint in taints)


def matching(tolerations: Iterable[Obj], taint: Obj) -> list[Obj]:
    """The tolerations that tolerate this taint (Toleration.ToleratesTaint)."""
    record = Taint(taint["key"], taint.get("value") or "", taint.get("effect") or "")
    return [t for t in tolerations if _toleration(t).tolerates(record)]


def _toleration(raw: Obj) -> Toleration:
    return Toleration(
        raw.get("key") or "", raw.get("operator") or "Equal", raw.get("value") or "", raw.get("effect") or ""
    )
