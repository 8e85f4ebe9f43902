"""Deployments: one ReplicaSet per template, rolled out within the strategy's bounds (pkg/controller/deployment)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

from kube_sandbox.controllers import rollout
from kube_sandbox.controllers.api import ApiRefusal, ObjectChange
from kube_sandbox.controllers.deployment_status import write_status
from kube_sandbox.controllers.indexer import Indexer
from kube_sandbox.controllers.pod_control import claim, pods_of, template_hash
from kube_sandbox.controllers.runtime import ReconcileContext
from kube_sandbox.controllers.unstructured import (
    DEPLOYMENT,
    POD,
    REPLICA_SET,
    Obj,
    annotations_of,
    controller_of,
    controller_ref,
    deleting,
    group_kind,
    key,
    labels,
    meta,
    min_ready_s,
    next_available_s,
    replicas_of,
    selector,
    selects,
    spec,
    status,
    terminal,
    uid,
)
from rescheduler.model.records import ObjectKey

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"


class DeploymentController:
    """Rolls out the template of each Deployment, and writes its status."""

    name = "deployment"
    watches = frozenset({DEPLOYMENT, REPLICA_SET, POD})

    def keys_for(self, indexer: Indexer, change: ObjectChange, old: Obj | None) -> Iterable[ObjectKey]:
        """The Deployment; the owner of a ReplicaSet; the Deployment of a pod that ended."""
        obj = change.object
        match group_kind(obj):
            case kind if kind == DEPLOYMENT:
                return [key(obj)]
            case kind if kind == REPLICA_SET:
                return _owners(indexer, obj, old)
        if change.type != "DELETED" and not terminal(obj):
            return []
        ref = controller_of(obj)
        rs = indexer.by_uid(ref["uid"]) if ref else None
        return _owners(indexer, rs, None) if rs is not None else []

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Find the ReplicaSets, scale or roll out, write the status."""
        deployment = ctx.indexer.at(DEPLOYMENT, request)
        if deployment is None:
            return None
        chosen = selector(spec(deployment).get("selector"))
        sets = claim(
            ctx, deployment, chosen, ctx.indexer.claimable(uid(deployment), REPLICA_SET, request.namespace)
        )
        new = _newest_with_template(deployment, sets)
        if not deleting(deployment):
            new = self._advance(ctx, deployment, sets, new)
        sets = _fresh(ctx, deployment, sets, new)
        write_status(ctx, deployment, sets, new)
        return next_available_s(deployment, [p for s in sets for p in pods_of(ctx, s)], ctx.now_s)

    def _advance(
        self, ctx: ReconcileContext, deployment: Obj, sets: Sequence[Obj], new: Obj | None
    ) -> Obj | None:
        old = [s for s in sets if s is not new]
        bounds = rollout.bounds_of(deployment)
        if spec(deployment).get("paused") or _is_scaling(deployment, sets):
            _apply(ctx, sets, _rescale(new, old, bounds), bounds)
            return new
        return self._roll(ctx, deployment, old, new, bounds)

    def _roll(
        self,
        ctx: ReconcileContext,
        deployment: Obj,
        old: Sequence[Obj],
        new: Obj | None,
        bounds: rollout.Bounds,
    ) -> Obj:
        old_sizes = [rollout.size_of(o) for o in old]
        if new is None:
            fresh = rollout.ReplicaSetSize(name="", desired=0, available=0)
            return _create(ctx, deployment, old, rollout.grown(fresh, old_sizes, bounds), bounds)
        _sync_revision(ctx, deployment, old, new)
        size = rollout.size_of(new)
        target = rollout.grown(size, old_sizes, bounds)
        if target != size.desired:
            _apply(ctx, [new], {size.name: target}, bounds)
            return new
        _apply(ctx, old, rollout.shrunk(size, old_sizes, bounds), bounds)
        return new


def _owners(indexer: Indexer, obj: Obj, old: Obj | None) -> list[ObjectKey]:
    refs = [controller_of(obj), controller_of(old) if old is not None else None]
    found = [ObjectKey(key(obj).namespace, r["name"]) for r in refs if r and r.get("kind") == "Deployment"]
    if refs[0] is None and labels(obj):
        everyone = indexer.within(DEPLOYMENT, key(obj).namespace)
        found.extend(key(d) for d in everyone if selects(selector(spec(d).get("selector")), obj))
    return found


def _newest_with_template(deployment: Obj, sets: Sequence[Obj]) -> Obj | None:
    """The oldest ReplicaSet whose template equals the Deployment's, the hash label aside (FindNewReplicaSet)."""
    desired = spec(deployment).get("template") or {}
    ordered = sorted(sets, key=lambda s: (meta(s).get("creationTimestamp", ""), meta(s)["name"]))
    return next((s for s in ordered if _without_hash(spec(s).get("template") or {}) == desired), None)


def _without_hash(template: Obj) -> Obj:
    found = copy.deepcopy(template)
    (found.get("metadata", {}).get("labels") or {}).pop(HASH_LABEL, None)
    return found


def _is_scaling(deployment: Obj, sets: Sequence[Obj]) -> bool:
    desired = str(replicas_of(deployment))
    return any(
        rollout.size_of(s).desired > 0 and annotations_of(s).get(DESIRED, desired) != desired for s in sets
    )


def _rescale(new: Obj | None, old: Sequence[Obj], bounds: rollout.Bounds) -> dict[str, int]:
    former = {meta(s)["name"]: int(annotations_of(s).get(MOST) or 0) for s in [*old, *([new] if new else [])]}
    size = rollout.size_of(new) if new is not None else None
    return rollout.rescaled(size, [rollout.size_of(o) for o in old], bounds, former)


def _apply(
    ctx: ReconcileContext, sets: Sequence[Obj], sizes: Mapping[str, int], bounds: rollout.Bounds
) -> None:
    """Write the sizes, and on every active ReplicaSet the annotations with the bounds they were computed for."""
    desired = _size_notes(bounds)
    for rs in sets:
        size = rollout.size_of(rs)
        target = sizes.get(size.name, size.desired)
        stale = target > 0 and any(annotations_of(rs).get(k) != v for k, v in desired.items())
        if target != size.desired or stale:
            ctx.api.patch(rs, {"metadata": {"annotations": desired}, "spec": {"replicas": target}})


def _size_notes(bounds: rollout.Bounds) -> dict[str, str]:
    return {DESIRED: str(bounds.replicas), MOST: str(bounds.at_most)}


def _revision(obj: Obj) -> int:
    return int(annotations_of(obj).get(REVISION) or 0)


def _create(
    ctx: ReconcileContext, deployment: Obj, old: Sequence[Obj], size: int, bounds: rollout.Bounds
) -> Obj:
    """Create the ReplicaSet of the current template. If its name is taken, count a collision, which changes the hash."""
    collisions = int(status(deployment).get("collisionCount") or 0)
    template = copy.deepcopy(spec(deployment)["template"])
    digest = template_hash(template, collisions)
    template.setdefault("metadata", {}).setdefault("labels", {})[HASH_LABEL] = digest
    match_labels = copy.deepcopy(spec(deployment).get("selector") or {})
    match_labels.setdefault("matchLabels", {})[HASH_LABEL] = digest
    revision = str(max(map(_revision, old), default=0) + 1)
    body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": key(deployment).namespace,
            "name": f"{key(deployment).name}-{digest}",
            "labels": dict(template["metadata"]["labels"]),
            "annotations": {REVISION: revision, **_size_notes(bounds)},
            "ownerReferences": [controller_ref(deployment)],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": min_ready_s(deployment),
            "selector": match_labels,
            "template": template,
        },
    }
    try:
        made = ctx.api.create(body)
    except ApiRefusal as refusal:
        if refusal.reason == "AlreadyExists":
            ctx.api.patch(deployment, {"status": {"collisionCount": collisions + 1}}, subresource="status")
        raise
    _note_revision(ctx, deployment, revision)
    return made


def _sync_revision(ctx: ReconcileContext, deployment: Obj, old: Sequence[Obj], new: Obj) -> None:
    """Make the ReplicaSet the newest revision (also after a rollback), and update its minReadySeconds."""
    newest = max(map(_revision, old), default=0)
    change: Obj = {}
    revision = str(max(newest + 1, _revision(new)))
    if annotations_of(new).get(REVISION) != revision:
        change["metadata"] = {"annotations": {REVISION: revision}}
    wait_s = min_ready_s(deployment)
    if min_ready_s(new) != wait_s:
        change["spec"] = {"minReadySeconds": wait_s}
    if change:
        ctx.api.patch(new, change)
    _note_revision(ctx, deployment, revision)


def _note_revision(ctx: ReconcileContext, deployment: Obj, revision: str) -> None:
    if annotations_of(deployment).get(REVISION) != revision:
        ctx.api.patch(deployment, {"metadata": {"annotations": {REVISION: revision}}})


def _fresh(ctx: ReconcileContext, deployment: Obj, sets: Sequence[Obj], new: Obj | None) -> list[Obj]:
    known = {meta(s)["name"]: s for s in [*sets, *([new] if new else [])]}
    current = {n: ctx.api.get(REPLICA_SET, key(deployment).namespace, n) for n in known}
    return [s for s in current.values() if s is not None]
