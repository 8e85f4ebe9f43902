"""Terminating namespaces: delete what they hold, then let them go (pkg/controller/namespace)."""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.sim.controllers.api import ApiRefusal, Change
from rescheduler.sim.controllers.runtime import Context
from rescheduler.sim.controllers.view import View
from rescheduler.sim.controllers.wire import NAMESPACE, GroupKind, Key, Obj, deleting, group_kind, key


class NamespaceController:
    """Empties terminating namespaces and gives new ones their service account."""

    name = "namespace"
    watches: frozenset[GroupKind] | None = None

    def keys_for(self, view: View, change: Change, old: Obj | None) -> Iterable[Key]:
        """The namespace; the terminating namespace of any object."""
        _ = old
        obj = change.object
        if group_kind(obj) == NAMESPACE:
            return [key(obj)] if change.type != "DELETED" else []
        found = view.get(NAMESPACE, "", key(obj).namespace) if key(obj).namespace else None
        return [key(found)] if found is not None and deleting(found) else []

    def reconcile(self, ctx: Context, place: Key) -> float | None:
        """Delete all content of a terminating namespace, and finalize it once it is empty."""
        namespace = ctx.view.at(NAMESPACE, place)
        if namespace is None:
            return None
        if not deleting(namespace):
            self._give_account(ctx, place.name)
            return None
        content = list(ctx.view.everything_within(place.name))
        for obj in content:
            if not deleting(obj):
                _delete(ctx, obj)
        if not content:
            ctx.api.finalize_namespace(place.name)
        return None

    def _give_account(self, ctx: Context, namespace: str) -> None:
        account = GroupKind("", "ServiceAccount")
        if ctx.view.get(account, namespace, "default") is None:
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


def _delete(ctx: Context, obj: Obj) -> None:
    try:
        ctx.api.delete(obj)
    except ApiRefusal as refusal:
        if refusal.reason != "NotFound":
            raise
