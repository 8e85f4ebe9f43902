"""Garbage collection by ownerReferences (pkg/controller/garbagecollector).

An object is deleted when none of its owners exists any more (by uid). An owner that is deleted in the foreground
is removed when no dependent with ``blockOwnerDeletion`` is left. With propagation Orphan the references of the
dependents are removed first. As in pod garbage collection, pods on deleted nodes and terminating pods without a node
are removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from kube_sandbox.controllers.api import ApiRefusal, ObjectChange
from kube_sandbox.controllers.indexer import Indexer
from kube_sandbox.controllers.pod_control import release
from kube_sandbox.controllers.runtime import ReconcileContext
from kube_sandbox.controllers.unstructured import (
    NODE,
    POD,
    GroupKind,
    Obj,
    deleting,
    group_kind,
    key,
    meta,
    owners,
    spec,
    uid,
)
from rescheduler.model.records import ObjectKey

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_GONE_NODE_S = 40.0
"""How long pods of a deleted node are kept (podgc's quarantine)."""


class GarbageCollector:
    """Deletes objects without owners. Its keys are uids, because it works on every kind."""

    name = "garbagecollector"
    watches: frozenset[GroupKind] | None = None

    def keys_for(self, indexer: Indexer, change: ObjectChange, old: Obj | None) -> Iterable[ObjectKey]:
        """The object if it has owners or is terminating; its dependents and owners when it was deleted."""
        obj = change.object
        found = [ObjectKey("", ref.get("uid", "")) for ref in owners(obj)] if deleting(obj) else []
        if change.type == "DELETED":
            found = [ObjectKey("", ref.get("uid", "")) for ref in owners(obj)]
            return [*found, *(ObjectKey("", uid(d)) for d in indexer.dependents(uid(obj)))]
        if owners(obj) or (deleting(obj) and meta(obj).get("finalizers")):
            found.append(ObjectKey("", uid(obj)))
        elif old is not None and owners(old):
            found.extend(ObjectKey("", ref.get("uid", "")) for ref in owners(old))
        return found

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Handle one object, found by its uid."""
        obj = ctx.indexer.by_uid(request.name)
        if obj is None:
            return None
        if deleting(obj):
            self._finish(ctx, obj)
        elif owners(obj):
            self._collect(ctx, obj)
        return None

    def _collect(self, ctx: ReconcileContext, obj: Obj) -> None:
        """Delete an object whose owners do not exist any more; else remove the references to such owners."""
        living = [r for r in owners(obj) if _lives(ctx.indexer, obj, r)]
        going = [r for r in living if _in_foreground(ctx.indexer.by_uid(r.get("uid", "")))]
        if not living or (len(going) == len(living) and any(r.get("blockOwnerDeletion") for r in going)):
            try:
                ctx.api.delete(obj)
            except ApiRefusal as refusal:
                if refusal.reason != "NotFound":
                    raise
        elif len(living) < len(owners(obj)):
            ctx.api.patch(obj, {"metadata": {"ownerReferences": living}})

    def _finish(self, ctx: ReconcileContext, obj: Obj) -> None:
        """Remove the finalizers of the garbage collector once their work is done."""
        finalizers = meta(obj).get("finalizers") or []
        dependents = ctx.indexer.dependents(uid(obj))
        if ORPHAN in finalizers:
            for dependent in dependents:
                release(ctx, obj, dependent)
            ctx.api.remove_finalizer(obj, ORPHAN)
        elif FOREGROUND in finalizers:
            if any(_blocks(d, obj) for d in dependents):
                self._delete_all(ctx, dependents)
            else:
                ctx.api.remove_finalizer(obj, FOREGROUND)

    def _delete_all(self, ctx: ReconcileContext, dependents: Iterable[Obj]) -> None:
        for dependent in dependents:
            if not deleting(dependent):
                self._collect(ctx, dependent)


class PodCollector:
    """Removes pods that no kubelet can end: terminating pods without a node, and pods of deleted nodes."""

    name = "podgc"
    watches = frozenset({POD, NODE})

    def keys_for(self, indexer: Indexer, change: ObjectChange, old: Obj | None) -> Iterable[ObjectKey]:
        """The pod; all pods of a node that was deleted."""
        _ = old
        if group_kind(change.object) == POD:
            return [key(change.object)] if change.type != "DELETED" else []
        if change.type != "DELETED":
            return []
        return [key(p) for p in indexer.pods_on(key(change.object).name)]

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Remove the pod if no kubelet will."""
        pod = ctx.indexer.at(POD, request)
        if pod is None:
            return None
        node = spec(pod).get("nodeName")
        if not node:
            if deleting(pod):
                ctx.api.delete(pod, grace_s=0)
            return None
        if ctx.indexer.get(NODE, "", node) is not None:
            return None
        if not deleting(pod) and not self._quarantined(ctx, pod):
            return ctx.now_s + _GONE_NODE_S
        ctx.api.delete(pod, grace_s=0)
        return None

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}

    def _quarantined(self, ctx: ReconcileContext, pod: Obj) -> bool:
        """True if the pod's node has been missing for long enough."""
        since_s = self._seen.setdefault(uid(pod), ctx.now_s)
        if ctx.now_s - since_s < _GONE_NODE_S:
            return False
        del self._seen[uid(pod)]
        return True


def _lives(indexer: Indexer, obj: Obj, ref: Obj) -> bool:
    """The owner exists with this uid, and in a namespace that may own the object."""
    owner = indexer.by_uid(ref.get("uid", ""))
    return owner is not None and key(owner).namespace in ("", key(obj).namespace)


def _in_foreground(owner: Obj | None) -> bool:
    return owner is not None and deleting(owner) and FOREGROUND in (meta(owner).get("finalizers") or [])


def _blocks(dependent: Obj, owner: Obj) -> bool:
    return any(r.get("uid") == uid(owner) and r.get("blockOwnerDeletion") for r in owners(dependent))
