"""ReplicaSets: keep the desired number of pods by adoption, creation and deletion (pkg/controller/replicaset)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kube_sandbox.controllers.api import ObjectChange
from kube_sandbox.controllers.indexer import Indexer
from kube_sandbox.controllers.pod_control import claim, deletion_order, pod_from_template, pods_of
from kube_sandbox.controllers.runtime import ReconcileContext
from kube_sandbox.controllers.unstructured import (
    POD,
    REPLICA_SET,
    Obj,
    active,
    available,
    controller_of,
    deleting,
    group_kind,
    key,
    labels,
    meta,
    min_ready_s,
    next_available_s,
    ready,
    replicas_of,
    selector,
    selects,
    spec,
    status,
    uid,
)
from rescheduler.model.records import ObjectKey
from rescheduler.model.selectors import LabelSet

_BURST = 500
"""Pods created or deleted by one reconcile (burstReplicas)."""


class ReplicaSetController:
    """Keeps each ReplicaSet at ``spec.replicas`` active pods and its status current."""

    name = "replicaset"
    watches = frozenset({REPLICA_SET, POD})

    def keys_for(self, indexer: Indexer, change: ObjectChange, old: Obj | None) -> Iterable[ObjectKey]:
        """The ReplicaSet; for a pod its controller; for an orphan every ReplicaSet that selects it."""
        if group_kind(change.object) == REPLICA_SET:
            return [key(change.object)]
        return pod_keys(indexer, change.object, old)

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Claim pods, then create or delete the difference, then write the status."""
        rs = ctx.indexer.at(REPLICA_SET, request)
        if rs is None:
            return None
        chosen = selector(spec(rs).get("selector"))
        candidates = [p for p in ctx.indexer.claimable(uid(rs), POD, request.namespace) if active(p)]
        pods = claim(ctx, rs, chosen, candidates)
        try:
            if not deleting(rs):
                self._scale(ctx, rs, pods)
        finally:
            _write_status(ctx, rs, pods)
        return next_available_s(rs, pods, ctx.now_s)

    def _scale(self, ctx: ReconcileContext, rs: Obj, pods: Sequence[Obj]) -> None:
        surplus = len(pods) - replicas_of(rs)
        if surplus < 0:
            for _ in range(min(-surplus, _BURST)):
                ctx.api.create(pod_from_template(rs, spec(rs)["template"]))
        elif surplus > 0:
            for pod in deletion_order(pods, _related(ctx, rs), ctx.now_s)[: min(surplus, _BURST)]:
                ctx.api.delete(pod)


def pod_keys(indexer: Indexer, pod: Obj, old: Obj | None) -> list[ObjectKey]:
    """ReplicaSets that a changed pod concerns."""
    refs = [controller_of(pod), controller_of(old) if old is not None else None]
    found = [ObjectKey(key(pod).namespace, r["name"]) for r in refs if r and r.get("kind") == "ReplicaSet"]
    if controller_of(pod) is None and labels(pod):
        found.extend(
            key(rs)
            for rs in indexer.within(REPLICA_SET, key(pod).namespace)
            if selects(selector(spec(rs).get("selector")), pod)
        )
    return found


def _related(ctx: ReconcileContext, rs: Obj) -> list[Obj]:
    """Pods of this ReplicaSet and of its siblings under the same Deployment."""
    owner = controller_of(rs)
    siblings = ctx.indexer.controlled(owner["uid"], REPLICA_SET) if owner else [rs]
    return [p for s in siblings for p in pods_of(ctx, s)]


def _write_status(ctx: ReconcileContext, rs: Obj, claimed: Sequence[Obj]) -> None:
    fresh = [ctx.indexer.by_uid(uid(p)) or p for p in claimed]
    pods = [p for p in fresh if active(p)]
    template_labels = LabelSet(meta(spec(rs).get("template") or {}).get("labels") or {})
    wait_s = min_ready_s(rs)
    new = {
        "replicas": len(pods),
        "fullyLabeledReplicas": sum(_carries(p, template_labels) for p in pods),
        "readyReplicas": sum(ready(p) for p in pods),
        "availableReplicas": sum(available(p, wait_s, ctx.now_s) for p in pods),
        "observedGeneration": int(meta(rs).get("generation") or 0),
    }
    if any(status(rs).get(k, 0) != v for k, v in new.items()):
        ctx.api.patch(rs, {"status": new}, subresource="status")


def _carries(pod: Obj, desired_labels: LabelSet) -> bool:
    have = labels(pod)
    return all(have.get(k) == v for k, v in desired_labels.items())
