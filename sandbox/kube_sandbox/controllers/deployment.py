"""Deployments and their ReplicaSets (pkg/controller/deployment, pkg/controller/replicaset).

A ReplicaSet adopts, creates and deletes pods. A Deployment has a ReplicaSet for each template, rolled out within the strategy's bounds:
maxSurge bounds how many pods are added, maxUnavailable how many are removed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.pod_control import (
    OwnerController,
    claim,
    deletion_order,
    owner_keys,
    pod_from_template,
    template_hash,
    write_counts,
)
from kube_sandbox.controllers.runtime import Indexer, ReconcileContext
from kube_sandbox.controllers.unstructured import (
    DEPLOYMENT,
    POD,
    REPLICA_SET,
    Obj,
    active,
    annotations_of,
    available,
    condition,
    controller_of,
    controller_ref,
    deleting,
    group_kind,
    key,
    labels,
    meta,
    min_ready_s,
    new_condition,
    next_available_s,
    ready,
    replicas_of,
    scaled_value,
    spec,
    status,
    terminal,
    uid,
    with_condition,
)
from rescheduler.model.records import ObjectKey

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"


class DeploymentController:
    """Rolls out the template of each Deployment, and writes its status."""

    name = "deployment"
    watches = frozenset({DEPLOYMENT, REPLICA_SET, POD})

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """The Deployment; the owner of a ReplicaSet; the Deployment of a pod that ended."""
        obj = change.object
        match group_kind(obj):
            case kind if kind == DEPLOYMENT:
                return [key(obj)]
            case kind if kind == REPLICA_SET:
                return owner_keys(indexer, DEPLOYMENT, obj, change.previous)
        if change.type != "DELETED" and not terminal(obj):
            return []
        ref = controller_of(obj)
        rs = indexer.by_uid(ref["uid"]) if ref else None
        return owner_keys(indexer, DEPLOYMENT, rs, None) if rs is not None else []

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Find the ReplicaSets, scale or roll out, write the status."""
        deployment = ctx.indexer.at(DEPLOYMENT, request)
        if deployment is None:
            return None
        sets = claim(ctx, deployment, REPLICA_SET)
        new = _newest_with_template(deployment, sets)
        if not deleting(deployment):
            new = self._advance(ctx, deployment, sets, new)
        sets = _fresh(ctx, deployment, sets, new)
        _write_status(ctx, deployment, sets, new)
        return next_available_s(
            deployment, [p for s in sets for p in ctx.indexer.controlled(uid(s), POD)], ctx.now_s
        )

    def _advance(
        self, ctx: ReconcileContext, deployment: Obj, sets: Sequence[Obj], new: Obj | None
    ) -> Obj | None:
        old = [s for s in sets if s is not new]
        bounds = bounds_of(deployment)
        if spec(deployment).get("paused") or _is_scaling(deployment, sets):
            _apply(ctx, sets, _rescaled(sets, bounds), bounds)
            return new
        if new is None:
            size = _grown(0, old, bounds)
            return _create(ctx, deployment, old, size, bounds)
        _sync_revision(ctx, deployment, old, new)
        target = _grown(replicas_of(new), old, bounds)
        if target != replicas_of(new):
            _apply(ctx, [new], {key(new).name: target}, bounds)
        else:
            _apply(ctx, old, _shrunk(new, old, bounds), bounds)
        return new


def _newest_with_template(deployment: Obj, sets: Sequence[Obj]) -> Obj | None:
    """The oldest ReplicaSet whose template equals the Deployment's, the hash label aside (FindNewReplicaSet)."""
    desired = spec(deployment).get("template") or {}
    return next(
        (s for s in sorted(sets, key=_age) if _without_hash(spec(s).get("template") or {}) == desired), None
    )


def _without_hash(template: Obj) -> Obj:
    found = copy.deepcopy(template)
    (found.get("metadata", {}).get("labels") or {}).pop(HASH_LABEL, None)
    return found


def _is_scaling(deployment: Obj, sets: Sequence[Obj]) -> bool:
    desired = str(replicas_of(deployment))
    return any(replicas_of(s) > 0 and annotations_of(s).get(DESIRED, desired) != desired for s in sets)


def _apply(ctx: ReconcileContext, sets: Sequence[Obj], sizes: Mapping[str, int], bounds: Bounds) -> None:
    """Write the sizes, and on every active ReplicaSet the number of replicas that they were computed for."""
    note = {DESIRED: str(bounds.replicas)}
    for rs in sets:
        target = sizes.get(key(rs).name, replicas_of(rs))
        stale = target > 0 and annotations_of(rs).get(DESIRED) != note[DESIRED]
        if target != replicas_of(rs) or stale:
            ctx.api.patch(rs, {"metadata": {"annotations": note}, "spec": {"replicas": target}})


def _revision(obj: Obj) -> int:
    return int(annotations_of(obj).get(REVISION) or 0)


def _create(ctx: ReconcileContext, deployment: Obj, old: Sequence[Obj], size: int, bounds: Bounds) -> Obj:
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
            "annotations": {REVISION: revision, DESIRED: str(bounds.replicas)},
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
    except StatusError as refusal:
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


_BURST = 500
"""Pods created or deleted by one reconcile (burstReplicas)."""


class ReplicaSetController(OwnerController):
    """Keeps each ReplicaSet at ``spec.replicas`` active pods and its status current."""

    name = "replicaset"
    kind = REPLICA_SET
    watches = frozenset({REPLICA_SET, POD})

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Claim pods, then create or delete the difference, then write the status."""
        rs = ctx.indexer.at(REPLICA_SET, request)
        if rs is None:
            return None
        pods = claim(ctx, rs, wanted=active)
        try:
            if not deleting(rs):
                self._scale(ctx, rs, pods)
        finally:
            _write_set_status(ctx, rs, pods)
        return next_available_s(rs, pods, ctx.now_s)

    def _scale(self, ctx: ReconcileContext, rs: Obj, pods: Sequence[Obj]) -> None:
        surplus = len(pods) - replicas_of(rs)
        if surplus < 0:
            for _ in range(min(-surplus, _BURST)):
                ctx.api.create(pod_from_template(rs, spec(rs)["template"]))
        elif surplus > 0:
            for pod in deletion_order(pods, _related(ctx, rs), ctx.now_s)[: min(surplus, _BURST)]:
                ctx.api.delete(pod)


def _related(ctx: ReconcileContext, rs: Obj) -> list[Obj]:
    """Pods of this ReplicaSet and of its siblings under the same Deployment."""
    owner = controller_of(rs)
    siblings = ctx.indexer.controlled(owner["uid"], REPLICA_SET) if owner else [rs]
    return [p for s in siblings for p in ctx.indexer.controlled(uid(s), POD)]


def _write_set_status(ctx: ReconcileContext, rs: Obj, claimed: Sequence[Obj]) -> None:
    fresh = [ctx.indexer.by_uid(uid(p)) or p for p in claimed]
    pods = [p for p in fresh if active(p)]
    template_labels = (meta(spec(rs).get("template") or {}).get("labels") or {}).items()
    wait_s = min_ready_s(rs)
    new = {
        "replicas": len(pods),
        "fullyLabeledReplicas": sum(template_labels <= labels(p).items() for p in pods),
        "readyReplicas": sum(ready(p) for p in pods),
        "availableReplicas": sum(available(p, wait_s, ctx.now_s) for p in pods),
        "observedGeneration": int(meta(rs).get("generation") or 0),
    }
    write_counts(ctx, rs, new)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a rollout: the number of replicas, and how many pods above and below it."""

    replicas: int
    surge: int
    unavailable: int

    @property
    def at_most(self) -> int:
        """Most pods at once."""
        return self.replicas + self.surge

    @property
    def at_least(self) -> int:
        """Fewest available pods."""
        return self.replicas - self.unavailable


def bounds_of(deployment: Obj) -> Bounds:
    """Bounds as the strategy gives them; both zero becomes one unavailable (ResolveFenceposts)."""
    replicas = replicas_of(deployment)
    strategy = spec(deployment).get("strategy") or {}
    if strategy.get("type") == "Recreate" or replicas == 0:
        return Bounds(replicas, 0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Bounds(replicas, surge, min(unavailable, replicas))


def _up(rs: Obj) -> int:
    return int(status(rs).get("availableReplicas") or 0)


def _grown(size: int, old: Sequence[Obj], bounds: Bounds) -> int:
    """Replicas of the new ReplicaSet as far as the surge allows now (NewRSNewReplicas)."""
    room = bounds.at_most - size - sum(map(replicas_of, old))
    return min(size + max(room, 0), bounds.replicas)


def _shrunk(new: Obj, old: Sequence[Obj], bounds: Bounds) -> dict[str, int]:
    """New sizes of the old ReplicaSets that are scaled down now: unavailable pods first, then spare available ones."""
    everything = replicas_of(new) + sum(map(replicas_of, old))
    spare = everything - bounds.at_least - (replicas_of(new) - _up(new))
    if spare <= 0:
        return {}
    ordered = sorted(old, key=_age)
    sizes = {key(o).name: replicas_of(o) for o in ordered}
    for one in ordered:
        cut = min(max(replicas_of(one) - _up(one), 0), spare)
        sizes[key(one).name] -= cut
        spare -= cut
    healthy_spare = _up(new) + sum(map(_up, old)) - bounds.at_least
    for name, size in sizes.items():
        cut = min(size, max(healthy_spare, 0))
        sizes[name] = size - cut
        healthy_spare -= cut
    return sizes


def _rescaled(sets: Sequence[Obj], bounds: Bounds) -> dict[str, int]:
    """Sizes after a change of ``replicas``: the newest of the active sets grows, the oldest shrink first.

    A real controller spreads the change over the active sets in proportion.
    """
    active = sorted((s for s in sets if replicas_of(s)), key=_age) or sorted(sets, key=_age)[-1:]
    most = bounds.replicas if len(active) == 1 else bounds.at_most
    room = most - sum(map(replicas_of, active))
    sizes = {key(s).name: replicas_of(s) for s in active}
    if room > 0 and active:
        sizes[key(active[-1]).name] += room
        return sizes
    for name, size in sizes.items():
        cut = min(size, -room)
        sizes[name] = size - cut
        room += cut
    return sizes


def _age(rs: Obj) -> tuple[str, str]:
    return (str(meta(rs).get("creationTimestamp") or ""), key(rs).name)


def _write_status(ctx: ReconcileContext, deployment: Obj, sets: Sequence[Obj], new: Obj | None) -> None:
    """Write the status if it changed. ``sets`` holds all ReplicaSets, the new one included."""
    counts = _counts(deployment, sets, new)
    conditions = _available(deployment, counts["availableReplicas"], ctx.now_s)
    now = status(deployment)
    unchanged = all(now.get(k, 0) == v for k, v in counts.items())
    if unchanged and conditions == (now.get("conditions") or []):
        return
    ctx.api.patch(deployment, {"status": {**counts, "conditions": conditions}}, subresource="status")


def _counts(deployment: Obj, sets: Sequence[Obj], new: Obj | None) -> dict[str, int]:
    def total(field: str, chosen: Sequence[Obj]) -> int:
        return sum(int(status(s).get(field) or 0) for s in chosen)

    newest = [s for s in sets if new is not None and key(s) == key(new)]
    available = total("availableReplicas", sets)
    desired = sum(map(replicas_of, sets))
    return {
        "observedGeneration": int(meta(deployment).get("generation") or 0),
        "replicas": total("replicas", sets),
        "updatedReplicas": total("replicas", newest),
        "readyReplicas": total("readyReplicas", sets),
        "availableReplicas": available,
        "unavailableReplicas": max(desired - available, 0),
    }


def _available(deployment: Obj, available: int, now_s: float) -> list[Obj]:
    """The conditions with the present Available; an unchanged one keeps its times, so that equal statuses compare equal."""
    enough = available >= bounds_of(deployment).at_least
    old = condition(deployment, "Available") or {}
    conditions: list[Obj] = status(deployment).get("conditions") or []
    if old.get("status") == ("True" if enough else "False"):
        return conditions
    state, reason = (
        ("True", "MinimumReplicasAvailable") if enough else ("False", "MinimumReplicasUnavailable")
    )
    text = f"Deployment {'has' if enough else 'does not have'} minimum availability."
    return with_condition(conditions, new_condition("Available", reason, text, now_s, state=state))
