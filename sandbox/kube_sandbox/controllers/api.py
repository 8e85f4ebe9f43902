"""The API of the sandbox's control plane: reads, writes and one stream of events, on the store of its API server.

In process and without HTTP, but with the same defaults, admission and validation as for a client's requests. A rejected
request is raised as ``StatusError``; callers that can go on after it (the object was changed, deleted, or exists already)
check its ``reason``.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from kube_sandbox.apiserver.admission import acting_as
from kube_sandbox.apiserver.deletion import DeleteOptions, bind, delete
from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.apiserver.json_values import deep_copy
from kube_sandbox.apiserver.patches import merge_patch
from kube_sandbox.apiserver.registry import ResourceType
from kube_sandbox.apiserver.store import ObjectChange, ObjectStore, WriteOptions
from kube_sandbox.controllers.unstructured import GroupKind, Obj, key, status, uid, with_condition

T = TypeVar("T")


class Api:
    """Reads and writes of objects in JSON; the caller must not change returned objects. Thread-safe like the store."""

    def __init__(self, store: ObjectStore) -> None:
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
        """All objects of all kinds, for a component that starts after they were created."""
        tables = dict.fromkeys(r.table for r in self._store.registry)
        return [obj for table in tables for obj in self._store.list(table)]

    def create(self, obj: Obj) -> Obj:
        """Create; raises StatusError."""
        resource = self._resource(obj)
        body = deep_copy(obj)
        if resource.decode is not None:
            body = resource.decode(body)
        namespace = key(obj).namespace
        return _call(lambda: self._store.create(resource, namespace, body))

    def patch(self, obj: Obj, change: Obj, *, subresource: str = "") -> Obj:
        """Merge patch. Another uid is a conflict."""
        resource = self._resource(obj)
        options = WriteOptions(subresource=subresource, uid_is_precondition=True)
        guarded = {**change, "metadata": {**(change.get("metadata") or {}), "uid": uid(obj)}}
        identity = key(obj)
        return _call(
            lambda: self._store.update(
                resource, identity.namespace, identity.name, lambda now: merge_patch(now, guarded), options
            )
        )

    def delete(self, obj: Obj, *, grace_s: int | None = None) -> None:
        """Delete; its dependents go in the background."""
        options = DeleteOptions(uid=uid(obj), grace_s=grace_s)
        identity = key(obj)
        _call(lambda: delete(self._store, self._resource(obj), identity.namespace, identity.name, options))

    def mark(self, obj: Obj, condition: Obj) -> None:
        """Write one condition of an object's status."""
        conditions = with_condition(status(obj).get("conditions") or [], condition)
        self.patch(obj, {"status": {"conditions": conditions}}, subresource="status")

    def delete_if_there(self, obj: Obj) -> None:
        """Delete, unless it is gone already."""
        with refused("NotFound"):
            self.delete(obj)

    def bind(self, pod: Obj, node: str) -> None:
        """POST pods/binding."""
        identity = key(pod)
        binding = {"metadata": {"uid": uid(pod)}, "target": {"kind": "Node", "name": node}}
        _call(lambda: bind(self._store, identity.namespace, identity.name, binding))

    def finalize_namespace(self, name: str) -> None:
        """Remove the last finalizer of a terminating namespace."""
        resource = self._store.registry.named("namespaces")
        options = WriteOptions(subresource="finalize")

        def emptied(now: Obj) -> Obj:
            return {**now, "spec": {**(now.get("spec") or {}), "finalizers": []}}

        _call(lambda: self._store.update(resource, "", name, emptied, options))

    def subscribe(
        self, listener: Callable[[ObjectChange], None], *, existing: bool = False
    ) -> Callable[[], None]:
        """Call ``listener`` for every change of every kind, with ``existing`` first for every object; returns what ends that."""
        with self._store.lock:
            for obj in self.everything() if existing else ():
                listener(ObjectChange("ADDED", obj))
            return self._store.subscribe("", listener)

    def _of_kind(self, kind: GroupKind) -> ResourceType | None:
        found = (r for r in self._store.registry if (r.group, r.kind) == tuple(kind))
        return next(found, None)

    def _resource(self, obj: Obj) -> ResourceType:
        found = self._store.registry.by_kind(obj.get("apiVersion", ""), obj.get("kind", ""))
        if found is None:
            text = f"no resource of kind {obj.get('kind')!r} in version {obj.get('apiVersion')!r}"
            raise StatusError(404, "NotFound", text)
        return found


@contextmanager
def refused(*reasons: str) -> Iterator[None]:
    """Goes on where the API server rejects a request for one of these reasons."""
    try:
        yield
    except StatusError as refusal:
        if refusal.reason not in reasons:
            raise


def _call(call: Callable[[], T]) -> T:
    with acting_as():  # not as the user within whose request a component acts
        return call()
