"""The cache that all controllers of the sandbox share, with its indices (client-go's Indexer).

It follows the stream of changes and never reads from the server after the start. Objects are shared with the server
and must not be changed. All kinds are stored except Events, which no controller reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kube_sandbox.controllers.api import ObjectChange
from kube_sandbox.controllers.unstructured import (
    EVENT,
    POD,
    GroupKind,
    Obj,
    controller_of,
    group_kind,
    key,
    meta,
    owners,
    spec,
    uid,
)
from rescheduler.model.records import ObjectKey

_NOT_STORED = frozenset({EVENT, GroupKind("", "Event")})


class Indexer:
    """Objects by kind, namespace and name; dependents by owner; pods by node."""

    def __init__(self) -> None:
        self._objects: dict[GroupKind, dict[str, dict[str, Obj]]] = {}
        self._by_uid: dict[str, Obj] = {}
        self._dependents: dict[str, dict[str, Obj]] = {}
        self._on_node: dict[str, dict[str, Obj]] = {}
        self._orphans: dict[tuple[GroupKind, str], dict[str, Obj]] = {}

    def apply(self, change: ObjectChange) -> Obj | None:
        """Apply one change; returns the object before it."""
        kind = group_kind(change.object)
        if kind in _NOT_STORED:
            return None
        name = key(change.object)
        bucket = self._objects.setdefault(kind, {}).setdefault(name.namespace, {})
        old = bucket.pop(name.name, None)
        if old is not None:
            self._unindex(kind, old)
        if change.type != "DELETED":
            bucket[name.name] = change.object
            self._index(kind, change.object)
        return old

    def get(self, kind: GroupKind, namespace: str, name: str) -> Obj | None:
        """One object or None."""
        return self._objects.get(kind, {}).get(namespace, {}).get(name)

    def at(self, kind: GroupKind, request: ObjectKey) -> Obj | None:
        """The object at a key or None."""
        return self.get(kind, request.namespace, request.name)

    def by_uid(self, uid_: str) -> Obj | None:
        """The object with this uid, of any kind."""
        return self._by_uid.get(uid_)

    def all(self, kind: GroupKind) -> Iterator[Obj]:
        """All objects of a kind."""
        for bucket in list(self._objects.get(kind, {}).values()):
            yield from list(bucket.values())

    def within(self, kind: GroupKind, namespace: str) -> Iterable[Obj]:
        """All objects of a kind in a namespace."""
        return list(self._objects.get(kind, {}).get(namespace, {}).values())

    def everything_within(self, namespace: str) -> Iterator[Obj]:
        """All objects of all kinds in a namespace."""
        for buckets in list(self._objects.values()):
            yield from list(buckets.get(namespace, {}).values())

    def dependents(self, owner_uid: str, kind: GroupKind | None = None) -> list[Obj]:
        """Objects with an ownerReference to this uid, by name."""
        found = self._dependents.get(owner_uid, {}).values()
        return sorted((o for o in found if kind is None or group_kind(o) == kind), key=_by_name)

    def controlled(self, owner_uid: str, kind: GroupKind) -> list[Obj]:
        """Objects of a kind whose controller has this uid, by name."""
        found = self.dependents(owner_uid, kind)
        return [o for o in found if (controller_of(o) or {}).get("uid") == owner_uid]

    def claimable(self, owner_uid: str, kind: GroupKind, namespace: str) -> list[Obj]:
        """Objects of a kind that this owner controls, or that have no controller, by name."""
        orphans = self._orphans.get((kind, namespace), {}).values()
        return sorted([*self.controlled(owner_uid, kind), *orphans], key=_by_name)

    def pods_on(self, node: str) -> list[Obj]:
        """Pods with this nodeName, by name."""
        return sorted(self._on_node.get(node, {}).values(), key=_by_name)

    def _index(self, kind: GroupKind, obj: Obj) -> None:
        self._by_uid[uid(obj)] = obj
        if controller_of(obj) is None:
            self._orphans.setdefault((kind, key(obj).namespace), {})[uid(obj)] = obj
        for ref in owners(obj):
            self._dependents.setdefault(ref.get("uid", ""), {})[uid(obj)] = obj
        if kind == POD and (node := spec(obj).get("nodeName")):
            self._on_node.setdefault(node, {})[uid(obj)] = obj

    def _unindex(self, kind: GroupKind, obj: Obj) -> None:
        self._by_uid.pop(uid(obj), None)
        self._orphans.get((kind, key(obj).namespace), {}).pop(uid(obj), None)
        for ref in owners(obj):
            _drop(self._dependents, ref.get("uid", ""), uid(obj))
        if kind == POD and (node := spec(obj).get("nodeName")):
            _drop(self._on_node, node, uid(obj))


def _drop(index: dict[str, dict[str, Obj]], outer: str, inner: str) -> None:
    found = index.get(outer)
    if found is None:
        return
    found.pop(inner, None)
    if not found:
        del index[outer]


def _by_name(obj: Obj) -> tuple[str, str]:
    return (meta(obj).get("namespace") or "", meta(obj).get("name") or "")
