"""Volume binding and a simple provisioner (persistentvolume controller).

A ``WaitForFirstConsumer`` claim waits until the scheduler has selected a node (annotation ``selected-node``); its
volume is then restricted to that node's zone. The volume of a deleted claim is deleted or released by its reclaim
policy.
"""

from __future__ import annotations

from collections.abc import Iterable

from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.api import refused
from kube_sandbox.controllers.runtime import Indexer, ReconcileContext
from kube_sandbox.controllers.unstructured import (
    CLAIM,
    NODE,
    STORAGE_CLASS,
    VOLUME,
    Obj,
    annotations_of,
    deleting,
    group_kind,
    key,
    labels,
    meta,
    selects,
    spec,
    status,
    uid,
)
from rescheduler.model.names import ZONE
from rescheduler.model.records import ObjectKey
from rescheduler.model.resources import nano

SELECTED_NODE = "volume.kubernetes.io/selected-node"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class VolumeBinder:
    """Binds claims to volumes. Its keys are those of claims."""

    name = "volumebinder"
    watches = frozenset({CLAIM, VOLUME, STORAGE_CLASS})

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """The claim; every unbound claim when a volume or class is added or changed."""
        obj = change.object
        if group_kind(obj) == CLAIM:
            return [key(obj)]
        return [key(c) for c in indexer.all(CLAIM) if not spec(c).get("volumeName")]

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Bind the claim to a suitable volume, or provision one."""
        claim = ctx.indexer.at(CLAIM, request)
        if claim is None:
            _reclaim(ctx, request)
            return None
        if deleting(claim):
            return None
        if spec(claim).get("volumeName"):
            self._complete(ctx, claim)
            return None
        storage = self._class_of(ctx, claim)
        waits = storage is not None and storage.get("volumeBindingMode") == "WaitForFirstConsumer"
        node = annotations_of(claim).get(SELECTED_NODE, "")
        if waits and not node:
            return None
        volume = _suitable_volume(ctx, claim) or self._provision(ctx, claim, storage, node)
        if volume is not None:
            _bind(ctx, claim, volume)
        return None

    def _complete(self, ctx: ReconcileContext, claim: Obj) -> None:
        volume = ctx.indexer.get(VOLUME, "", spec(claim)["volumeName"])
        if volume is not None and status(claim).get("phase") != "Bound":
            _bind(ctx, claim, volume)

    def _class_of(self, ctx: ReconcileContext, claim: Obj) -> Obj | None:
        name = spec(claim).get("storageClassName")
        if name is not None:
            return ctx.indexer.get(STORAGE_CLASS, "", name)
        classes = ctx.indexer.all(STORAGE_CLASS)
        return next((c for c in classes if annotations_of(c).get(_DEFAULT_CLASS) == "true"), None)

    def _provision(self, ctx: ReconcileContext, claim: Obj, storage: Obj | None, node: str) -> Obj | None:
        if storage is None or storage.get("provisioner") in (None, "", _NO_PROVISIONER):
            return None
        name = f"pvc-{uid(claim)}"
        zone = labels(ctx.indexer.get(NODE, "", node) or {}).get(ZONE, "") if node else ""
        body: Obj = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": {ZONE: zone} if zone else {}},
            "spec": {
                "capacity": dict((spec(claim).get("resources") or {}).get("requests") or {}),
                "accessModes": list(spec(claim).get("accessModes") or []),
                "volumeMode": spec(claim).get("volumeMode") or "Filesystem",
                "persistentVolumeReclaimPolicy": storage.get("reclaimPolicy") or "Delete",
                "storageClassName": meta(storage)["name"],
                "csi": {"driver": storage["provisioner"], "volumeHandle": name},
            },
        }
        if zone:
            term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
            body["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
        with refused("AlreadyExists"):
            ctx.api.create(body)
        return ctx.api.get(VOLUME, "", name)


def _bind(ctx: ReconcileContext, claim: Obj, volume: Obj) -> None:
    """Bind claim and volume to each other; each step can be repeated."""
    ref = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": key(claim).namespace,
        "name": key(claim).name,
        "uid": uid(claim),
    }
    ctx.api.patch(volume, {"spec": {"claimRef": ref}})
    ctx.api.patch(volume, {"status": {"phase": "Bound"}}, subresource="status")
    if not spec(claim).get("volumeName"):
        note = {"pv.kubernetes.io/bind-completed": "yes"}
        change: Obj = {"metadata": {"annotations": note}, "spec": {"volumeName": key(volume).name}}
        ctx.api.patch(claim, change)
    state = {
        "phase": "Bound",
        "accessModes": spec(volume).get("accessModes") or [],
        "capacity": spec(volume).get("capacity") or {},
    }
    ctx.api.patch(claim, {"status": state}, subresource="status")


def _suitable_volume(ctx: ReconcileContext, claim: Obj) -> Obj | None:
    """The smallest free volume that satisfies the claim, or the one reserved for it."""
    found = [v for v in ctx.indexer.all(VOLUME) if _satisfies(v, claim)]
    return min(found, key=lambda v: (_nano_bytes(v, "capacity"), key(v).name), default=None)


def _satisfies(volume: Obj, claim: Obj) -> bool:
    ref = spec(volume).get("claimRef")
    if ref is not None:
        same = (ref.get("namespace"), ref.get("name")) == tuple(key(claim))
        return same and ref.get("uid") in (None, "", uid(claim))
    if deleting(volume) or (spec(volume).get("storageClassName") or "") != (
        spec(claim).get("storageClassName") or ""
    ):
        return False
    modes = set(spec(claim).get("accessModes") or ())
    chosen = spec(claim).get("selector")
    return (
        modes <= set(spec(volume).get("accessModes") or ())
        and (chosen is None or selects(chosen, volume))
        and _nano_bytes(volume, "capacity") >= _nano_bytes(claim, "resources")
    )


def _nano_bytes(obj: Obj, field: str) -> int:
    amounts = spec(obj).get(field) or {}
    return nano((amounts.get("requests") or {} if field == "resources" else amounts).get("storage", "0"))


def _reclaim(ctx: ReconcileContext, request: ObjectKey) -> None:
    """A volume whose claim is gone is deleted or marked Released."""
    for volume in ctx.indexer.all(VOLUME):
        ref = spec(volume).get("claimRef") or {}
        if (ref.get("namespace"), ref.get("name")) != tuple(request) or not ref.get("uid"):
            continue
        if spec(volume).get("persistentVolumeReclaimPolicy") == "Delete":
            ctx.api.delete(volume)
        elif status(volume).get("phase") != "Released":
            ctx.api.patch(volume, {"status": {"phase": "Released"}}, subresource="status")
