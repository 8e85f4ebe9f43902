"""The embedded API server's store as the ``Api`` of the controllers and the scheduler.

In process and without HTTP, but through the same defaults, admission and validation as a client's requests.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from rescheduler.sim.apiserver.deletion import DeleteOptions, delete
from rescheduler.sim.apiserver.errors import ApiError
from rescheduler.sim.apiserver.eviction import bind
from rescheduler.sim.apiserver.jsonpath import deep_copy
from rescheduler.sim.apiserver.mvcc import Change as Stored
from rescheduler.sim.apiserver.patches import merge_patch
from rescheduler.sim.apiserver.resources import ResourceType
from rescheduler.sim.apiserver.store import Store, Write
from rescheduler.sim.controllers.api import ApiRefusal, Change
from rescheduler.sim.controllers.wire import GroupKind, Obj, key, meta, uid

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class StoreApi:
    """Implements ``controllers.api.Api`` on a Store. Thread-safe as far as the Store is."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, kind: GroupKind) -> list[Obj]:
        """All objects of a kind; empty if it is not served."""
        resource = self._of_kind(kind)
        return [] if resource is None else self._store.list(resource.table)

    def get(self, kind: GroupKind, namespace: str, name: str) -> Obj | None:
        """One object or None."""
        resource = self._of_kind(kind)
        return None if resource is None else self._store.find(resource.table, namespace, name)

    def everything(self) -> builtins.list[Obj]:
        """All objects of all kinds, for a component that starts late."""
        tables = dict.fromkeys(r.table for r in self._store.registry)
        return [obj for table in tables for obj in self._store.list(table)]

    def create(self, obj: Obj) -> Obj:
        """Create; raises ApiRefusal."""
        resource = self._resource(obj)
        body = deep_copy(obj)
        if resource.decode is not None:
            body = resource.decode(body)
        namespace = key(obj).namespace
        return _asked(lambda: self._store.create(resource, namespace, body))

    def patch(self, obj: Obj, change: Obj, *, subresource: str = "") -> Obj:
        """Merge-patch; a foreign uid is a conflict."""
        resource = self._resource(obj)
        options = Write(subresource=subresource, uid_is_precondition=True)
        guarded = {**change, "metadata": {**(change.get("metadata") or {}), "uid": uid(obj)}}
        place = key(obj)
        return _asked(
            lambda: self._store.update(
                resource, place.namespace, place.name, lambda now: merge_patch(now, guarded), options
            )
        )

    def delete(self, obj: Obj, *, grace_s: int | None = None) -> None:
        """Delete in the background way."""
        options = DeleteOptions(uid=uid(obj), grace_s=grace_s, propagation="Background")
        place = key(obj)
        _asked(lambda: delete(self._store, self._resource(obj), place.namespace, place.name, options))

    def remove_finalizer(self, obj: Obj, finalizer: str) -> None:
        """Take one finalizer off, guarded by the object's version."""

        def without(now: Obj) -> Obj:
            left = [f for f in meta(now).get("finalizers") or [] if f != finalizer]
            new: Obj = merge_patch(now, {"metadata": {"finalizers": left or None, "uid": uid(obj)}})
            return new

        place = key(obj)
        options = Write(uid_is_precondition=True)
        _asked(lambda: self._store.update(self._resource(obj), place.namespace, place.name, without, options))

    def bind(self, pod: Obj, node: str) -> None:
        """POST pods/binding."""
        place = key(pod)
        binding = {"metadata": {"uid": uid(pod)}, "target": {"kind": "Node", "name": node}}
        _asked(lambda: bind(self._store, place.namespace, place.name, binding))

    def finalize_namespace(self, name: str) -> None:
        """Take the last finalizer off a terminating namespace."""
        resource = self._store.registry.named("namespaces")
        options = Write(subresource="finalize")

        def emptied(now: Obj) -> Obj:
            return {**now, "spec": {**(now.get("spec") or {}), "finalizers": []}}

        _asked(lambda: self._store.update(resource, "", name, emptied, options))

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Hear every change of every kind, also of kinds that are defined later."""
        feed = _Feed(self._store, listener)
        return feed.stop

    def _of_kind(self, kind: GroupKind) -> ResourceType | None:
        found = (r for r in self._store.registry if (r.group, r.kind) == tuple(kind))
        return next(found, None)

    def _resource(self, obj: Obj) -> ResourceType:
        found = self._store.registry.by_kind(obj.get("apiVersion", ""), obj.get("kind", ""))
        if found is None:
            text = f"no resource of kind {obj.get('kind')!r} in version {obj.get('apiVersion')!r}"
            raise ApiRefusal(404, "NotFound", text)
        return found


class _Feed:
    """One listener on all tables; it follows the definitions of custom resources."""

    def __init__(self, store: Store, listener: Callable[[Change], None]) -> None:
        self._store = store
        self._listener = listener
        self._stops: dict[str, Callable[[], None]] = {}
        self._generation = -1
        with store.lock:
            self._follow()

    def stop(self) -> None:
        """Hear nothing more."""
        for stop in self._stops.values():
            stop()

    def _follow(self) -> None:
        if self._generation == self._store.registry.generation:
            return
        self._generation = self._store.registry.generation
        for table in dict.fromkeys(r.table for r in self._store.registry):
            if table not in self._stops:
                self._stops[table] = self._store.subscribe([table], self._hear)

    def _hear(self, stored: Stored) -> None:
        if stored.resource == _DEFINITIONS or self._generation != self._store.registry.generation:
            self._follow()
        self._listener(Change(stored.kind, stored.obj))


def _asked(call: Callable[[], Any]) -> Obj:
    try:
        answer = call()
    except ApiError as error:
        raise ApiRefusal(error.code, error.reason, error.message) from error
    return answer if isinstance(answer, dict) else {}
