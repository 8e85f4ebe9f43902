"""Terminating namespaces: delete their content, then finalize them (pkg/controller/namespace)."""

from __future__ import annotations

from collections.abc import Iterable

from kube_sandbox.controllers.api import ApiRefusal, ObjectChange
from kube_sandbox.controllers.indexer import Indexer
from kube_sandbox.controllers.runtime import ReconcileContext
from kube_sandbox.controllers.unstructured import (
    NAMESPACE,
    GroupKind,
    Obj,
    deleting,
    group_kind,
    key,
)
from rescheduler.model.records import ObjectKey


class NamespaceController:
    """Deletes the content of terminating namespaces, and creates the default service account of new ones."""

    name = "namespace"
    watches: frozenset[GroupKind] | None = None

    def keys_for(self, indexer: Indexer, change: ObjectChange, old: Obj | None) -> Iterable[ObjectKey]:
        """The namespace; the terminating namespace of any object."""
        _ = old
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
                _delete(ctx, obj)
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
            try:
                ctx.api.create(body)
            except ApiRefusal as refusal:
                if refusal.reason != "AlreadyExists":
                    raise


def _delete(ctx: ReconcileContext, obj: Obj) -> None:
    try:
        ctx.api.delete(obj)
    except ApiRefusal as refusal:
        if refusal.reason != "NotFound":
            raise
