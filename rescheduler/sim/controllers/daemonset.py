"""DaemonSets: one pod on each node that takes it (pkg/controller/daemon).

The pod is pinned by a required node affinity on ``metadata.name`` and bound by the scheduler, as since 1.12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rescheduler.sim.controllers.api import Change
from rescheduler.sim.controllers.nodematch import node_affinity_allows, tolerates
from rescheduler.sim.controllers.podcontrol import claim, pod_from_template, template_hash
from rescheduler.sim.controllers.runtime import Context
from rescheduler.sim.controllers.view import View
from rescheduler.sim.controllers.wire import (
    DAEMON_SET,
    NODE,
    POD,
    Key,
    Obj,
    available,
    available_at_s,
    controller_of,
    deleting,
    group_kind,
    key,
    labels,
    meta,
    ready,
    scaled,
    selector,
    spec,
    status,
    terminal,
    uid,
)

HASH_LABEL = "controller-revision-hash"
_ALWAYS_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


class DaemonSetController:
    """Keeps one pod of each DaemonSet on every node that should run it."""

    name = "daemonset"
    watches = frozenset({DAEMON_SET, POD, NODE})

    def keys_for(self, view: View, change: Change, old: Obj | None) -> Iterable[Key]:
        """The DaemonSet; the controller of a pod; all DaemonSets when a node comes, goes or is changed."""
        obj = change.object
        match group_kind(obj):
            case kind if kind == DAEMON_SET:
                return [key(obj)]
            case kind if kind == NODE:
                same = old is not None and spec(old) == spec(obj) and labels(old) == labels(obj)
                return [] if same and change.type == "MODIFIED" else [key(d) for d in view.all(DAEMON_SET)]
        ref = controller_of(obj)
        return [Key(key(obj).namespace, ref["name"])] if ref and ref.get("kind") == "DaemonSet" else []

    def reconcile(self, ctx: Context, place: Key) -> float | None:
        """Create where a pod is missing, delete where it may not be, roll to the newest template."""
        owner = ctx.view.at(DAEMON_SET, place)
        if owner is None:
            return None
        pods = claim(
            ctx,
            owner,
            selector(spec(owner).get("selector")),
            ctx.view.claimable(uid(owner), POD, place.namespace),
        )
        by_node: dict[str, list[Obj]] = {}
        for pod in pods:
            by_node.setdefault(_node_of(pod), []).append(pod)
        if not deleting(owner):
            self._place(ctx, owner, by_node)
            self._update(ctx, owner, by_node)
        _write_status(ctx, owner, by_node)
        min_ready_s = int(spec(owner).get("minReadySeconds") or 0)
        due = [available_at_s(p, min_ready_s) for p in pods if min_ready_s and ready(p)]
        return min((d for d in due if d > ctx.now_s), default=None)

    def _place(self, ctx: Context, owner: Obj, by_node: Mapping[str, list[Obj]]) -> None:
        nodes = {meta(n)["name"]: n for n in ctx.view.all(NODE)}
        for name, node in sorted(nodes.items()):
            present = by_node.get(name, [])
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

    def _update(self, ctx: Context, owner: Obj, by_node: Mapping[str, list[Obj]]) -> None:
        """RollingUpdate: delete pods of older templates while no more than maxUnavailable are down."""
        strategy = spec(owner).get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        wanted = _hash(owner)
        min_ready_s = int(spec(owner).get("minReadySeconds") or 0)
        nodes = [meta(n)["name"] for n in ctx.view.all(NODE) if _should_run(owner, n)]
        pods = [p for group in by_node.values() for p in group if not deleting(p)]
        old = [p for p in pods if labels(p).get(HASH_LABEL) != wanted]
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        up = {_node_of(p) for p in pods if available(p, min_ready_s, ctx.now_s)}
        allowed = scaled(limit, len(nodes), round_up=True) - len(set(nodes) - up)
        unavailable = [p for p in old if not available(p, min_ready_s, ctx.now_s)]
        rest = [p for p in old if available(p, min_ready_s, ctx.now_s)]
        for pod in [*unavailable, *rest[: max(allowed, 0)]]:
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


def _write_status(ctx: Context, owner: Obj, by_node: Mapping[str, list[Obj]]) -> None:
    min_ready_s = int(spec(owner).get("minReadySeconds") or 0)
    wanted_nodes = {meta(n)["name"] for n in ctx.view.all(NODE) if _should_run(owner, n)}
    placed = {n: [p for p in by_node.get(n, ()) if not deleting(p)] for n in wanted_nodes}
    up = sum(any(available(p, min_ready_s, ctx.now_s) for p in group) for group in placed.values())
    new = {
        "observedGeneration": int(meta(owner).get("generation") or 0),
        "desiredNumberScheduled": len(wanted_nodes),
        "currentNumberScheduled": sum(bool(group) for group in placed.values()),
        "numberMisscheduled": sum(bool(g) for n, g in by_node.items() if n not in wanted_nodes),
        "numberReady": sum(any(ready(p) for p in group) for group in placed.values()),
        "updatedNumberScheduled": sum(
            any(labels(p).get(HASH_LABEL) == _hash(owner) for p in group) for group in placed.values()
        ),
        "numberAvailable": up,
        "numberUnavailable": len(wanted_nodes) - up,
    }
    if any(status(owner).get(k, 0) != v for k, v in new.items()):
        ctx.api.patch(owner, {"status": new}, subresource="status")
