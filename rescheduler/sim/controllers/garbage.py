"""Garbage collection by ownerReferences (pkg/controller/garbagecollector).

An object all of whose owners are gone (by uid) is deleted. An owner that is deleted in the foreground goes
when no dependent with ``blockOwnerDeletion`` is left; one that orphans its dependents first loses their
references. Pods bound to a node that is gone, and gated or pending ones that are terminating, are removed
as pod garbage collection does.
"""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.sim.controllers.api import ApiRefusal, Change
from rescheduler.sim.controllers.podcontrol import release
from rescheduler.sim.controllers.runtime import Context
from rescheduler.sim.controllers.view import View
from rescheduler.sim.controllers.wire import (
    NODE,
    POD,
    GroupKind,
    Key,
    Obj,
    deleting,
    group_kind,
    key,
    meta,
    owners,
    spec,
    uid,
)

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_GONE_NODE_S = 40.0
"""How long pods of a node that is gone are kept (podgc's quarantine)."""


class GarbageCollector:
    """Removes what nobody owns any more. Its keys are uids, as it works on every kind."""

    name = "garbagecollector"
    watches: frozenset[GroupKind] | None = None

    def keys_for(self, view: View, change: Change, old: Obj | None) -> Iterable[Key]:
        """The object if it has owners or is going; its dependents and owners when it has gone."""
        obj = change.object
        found = [Key("", ref.get("uid", "")) for ref in owners(obj)] if deleting(obj) else []
        if change.type == "DELETED":
            found = [Key("", ref.get("uid", "")) for ref in owners(obj)]
            return [*found, *(Key("", uid(d)) for d in view.dependents(uid(obj)))]
        if owners(obj) or (deleting(obj) and meta(obj).get("finalizers")):
            found.append(Key("", uid(obj)))
        elif old is not None and owners(old):
            found.extend(Key("", ref.get("uid", "")) for ref in owners(old))
        return found

    def reconcile(self, ctx: Context, place: Key) -> float | None:
        """Handle one object, found by its uid."""
        obj = ctx.view.by_uid(place.name)
        if obj is None:
            return None
        if deleting(obj):
            self._finish(ctx, obj)
        elif owners(obj):
            self._collect(ctx, obj)
        return None

    def _collect(self, ctx: Context, obj: Obj) -> None:
        """Delete an object without living owners; drop references to dead ones otherwise."""
        living = [r for r in owners(obj) if _lives(ctx.view, obj, r)]
        going = [r for r in living if _in_foreground(ctx.view.by_uid(r.get("uid", "")))]
        if not living or (len(going) == len(living) and any(r.get("blockOwnerDeletion") for r in going)):
            try:
                ctx.api.delete(obj)
            except ApiRefusal as refusal:
                if refusal.reason != "NotFound":
                    raise
        elif len(living) < len(owners(obj)):
            ctx.api.patch(obj, {"metadata": {"ownerReferences": living}})

    def _finish(self, ctx: Context, obj: Obj) -> None:
        """Take off the finalizers that this collector answers for, once their work is done."""
        finalizers = meta(obj).get("finalizers") or []
        dependents = ctx.view.dependents(uid(obj))
        if ORPHAN in finalizers:
            for dependent in dependents:
                release(ctx, obj, dependent)
            ctx.api.remove_finalizer(obj, ORPHAN)
        elif FOREGROUND in finalizers:
            if any(_blocks(d, obj) for d in dependents):
                self._delete_all(ctx, dependents)
            else:
                ctx.api.remove_finalizer(obj, FOREGROUND)

    def _delete_all(self, ctx: Context, dependents: Iterable[Obj]) -> None:
        for dependent in dependents:
            if not deleting(dependent):
                self._collect(ctx, dependent)


class PodCollector:
    """Removes pods that no kubelet can end: terminating ones without a node, and those of nodes that are gone."""

    name = "podgc"
    watches = frozenset({POD, NODE})

    def keys_for(self, view: View, change: Change, old: Obj | None) -> Iterable[Key]:
        """The pod; all pods of a node that went."""
        _ = old
        if group_kind(change.object) == POD:
            return [key(change.object)] if change.type != "DELETED" else []
        if change.type != "DELETED":
            return []
        return [key(p) for p in view.pods_on(key(change.object).name)]

    def reconcile(self, ctx: Context, place: Key) -> float | None:
        """Remove the pod if nobody else will."""
        pod = ctx.view.at(POD, place)
        if pod is None:
            return None
        node = spec(pod).get("nodeName")
        if not node:
            if deleting(pod):
                ctx.api.delete(pod, grace_s=0)
            return None
        if ctx.view.get(NODE, "", node) is not None:
            return None
        if not deleting(pod) and not self._quarantined(ctx, pod):
            return ctx.now_s + _GONE_NODE_S
        ctx.api.delete(pod, grace_s=0)
        return None

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}

    def _quarantined(self, ctx: Context, pod: Obj) -> bool:
        """True once the pod's node has been missing for long enough."""
        since_s = self._seen.setdefault(uid(pod), ctx.now_s)
        if ctx.now_s - since_s < _GONE_NODE_S:
            return False
        del self._seen[uid(pod)]
        return True


def _lives(view: View, obj: Obj, ref: Obj) -> bool:
    """The owner exists with this uid, and in a namespace that may own the object."""
    owner = view.by_uid(ref.get("uid", ""))
    return owner is not None and key(owner).namespace in ("", key(obj).namespace)


def _in_foreground(owner: Obj | None) -> bool:
    return owner is not None and deleting(owner) and FOREGROUND in (meta(owner).get("finalizers") or [])


def _blocks(dependent: Obj, owner: Obj) -> bool:
    return any(r.get("uid") == uid(owner) and r.get("blockOwnerDeletion") for r in owners(dependent))
