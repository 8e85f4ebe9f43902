"""What is deleted because something else is: objects without owners, pods without a node, the content of namespaces.

Follows pkg/controller/garbagecollector, podgc and namespace. An object is deleted when none of its owners exists any more (by uid).
"""

from __future__ import annotations

from collections.abc import Iterable

from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.api import refused
from kube_sandbox.controllers.runtime import Indexer, ReconcileContext
from kube_sandbox.controllers.unstructured import (
    NAMESPACE,
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

_GONE_NODE_S = 40.0
"""How long pods of a deleted node are kept (podgc's quarantine)."""


class GarbageCollector:
    """Deletes objects without owners. Its keys are uids, because it works on every kind."""

    name = "garbagecollector"
    watches: frozenset[GroupKind] | None = None

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """The object if it has owners or is terminating; its dependents and owners when it was deleted."""
        obj, old = change.object, change.previous
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
        if owners(obj) and not deleting(obj):
            self._collect(ctx, obj)
        return None

    def _collect(self, ctx: ReconcileContext, obj: Obj) -> None:
        """Delete an object whose owners do not exist any more; else remove the references to such owners."""
        living = [r for r in owners(obj) if _lives(ctx.indexer, obj, r)]
        if not living:
            ctx.api.delete_if_there(obj)
        elif len(living) < len(owners(obj)):
            ctx.api.patch(obj, {"metadata": {"ownerReferences": living}})


class PodCollector:
    """Removes pods that no kubelet can end: terminating pods without a node, and pods of deleted nodes."""

    name = "podgc"
    watches = frozenset({POD, NODE})

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """The pod; all pods of a node that was deleted."""
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


class NamespaceController:
    """Deletes the content of terminating namespaces, and creates the default service account of new ones."""

    name = "namespace"
    watches: frozenset[GroupKind] | None = None

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """The namespace; the terminating namespace of any object."""
        obj = change.object
        if group_kind(obj) == NAMESPACE:
            return [key(obj)] if change.type != "DELETED" else []
        found = indexer.get(NAMESPACE, "", key(obj).namespace) if key(obj).namespace else None
        return [key(found)] if found is not None and deleting(found) else []

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Delete all content of a terminating namespace, and finalize it once it is empty."""
        namespace = ctx.indexer.at(NAMESPACE, request)
        if namespace is None:
            return None
        if not deleting(namespace):
            self._create_service_account(ctx, request.name)
            return None
        content = list(ctx.indexer.everything_within(request.name))
        for obj in content:
            if not deleting(obj):
                ctx.api.delete_if_there(obj)
        if not content:
            ctx.api.finalize_namespace(request.name)
        return None

    def _create_service_account(self, ctx: ReconcileContext, namespace: str) -> None:
        account = GroupKind("", "ServiceAccount")
        if ctx.indexer.get(account, namespace, "default") is None:
            body = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"namespace": namespace, "name": "default"},
            }
            with refused("AlreadyExists"):
                ctx.api.create(body)
