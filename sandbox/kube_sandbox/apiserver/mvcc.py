"""Versioned objects, as in etcd: the current state, and a window of past changes for watches and consistent pages.

There is one global, strictly increasing resource version; changes are delivered to subscribers in that order; stored
objects are never changed in place. This module does not depend on kinds, defaults or HTTP. It does not lock: the
owner holds its lock around every call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from kube_sandbox.apiserver.errors import Json, expired

Key = tuple[str, str]
"""Namespace ("" for cluster-scoped objects) and name."""

_ENCODER = msgspec.json.Encoder()


@dataclass(slots=True)
class StoredChange:
    """One committed write."""

    version: int
    resource: str
    key: Key
    kind: str
    """ADDED, MODIFIED or DELETED."""
    obj: Json
    """The new state; for a deletion the last state."""
    previous: Json | None
    """None for a creation."""
    _encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """``obj`` as JSON, encoded once for all watchers."""
        if self._encoded is None:
            self._encoded = _ENCODER.encode(self.obj)
        return self._encoded


@dataclass(slots=True)
class _Table:
    objects: dict[Key, Json] = field(default_factory=dict)
    history: deque[StoredChange] = field(default_factory=deque)
    compacted: int = 0
    sorted_keys: list[Key] | None = None


class VersionedObjects:
    """All objects of the cluster, by resource (``pods``, ``deployments.apps``)."""

    def __init__(self, history_per_resource: int = 20_000, first_version: int = 1) -> None:
        self.version = first_version
        self._window = history_per_resource
        self._tables: dict[str, _Table] = {}
        self._listeners: dict[str, list[Callable[[StoredChange], None]]] = {}

    def get(self, resource: str, key: Key) -> Json | None:
        """The object, or None. It is shared: read only."""
        table = self._tables.get(resource)
        return table.objects.get(key) if table else None

    def items(self, resource: str, namespace: str = "") -> Iterator[Json]:
        """Current objects, sorted by namespace and name. They are shared: read only."""
        table = self._tables.get(resource)
        if table is None:
            return
        for key in self._keys(table):
            if not namespace or key[0] == namespace:
                yield table.objects[key]

    def items_at(self, resource: str, version: int) -> list[tuple[Key, Json]]:
        """Objects as of ``version``, sorted. Raises 410 if that is before the kept history."""
        table = self._table(resource)
        if version >= self.version:
            return [(key, table.objects[key]) for key in self._keys(table)]
        if version < table.compacted:
            raise expired(f"The resourceVersion for the provided list is too old: {version}")
        past = dict(table.objects)
        for change in reversed(table.history):
            if change.version <= version:
                break
            if change.previous is None:
                past.pop(change.key, None)
            else:
                past[change.key] = change.previous
        return sorted(past.items())

    def changes_after(self, resource: str, version: int) -> list[StoredChange]:
        """Changes newer than ``version``, oldest first. Raises 410 if some of them were dropped."""
        table = self._table(resource)
        if version < table.compacted:
            raise expired(f"too old resource version: {version} ({table.compacted})")
        found: list[StoredChange] = []
        for change in reversed(table.history):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found

    def put(self, resource: str, key: Key, obj: Json) -> Json:
        """Store ``obj`` with the next version as its resourceVersion."""
        table = self._table(resource)
        previous = table.objects.get(key)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        table.objects[key] = obj
        if previous is None:
            table.sorted_keys = None
        kind = "ADDED" if previous is None else "MODIFIED"
        self._commit(table, StoredChange(self.version, resource, key, kind, obj, previous))
        return obj

    def remove(self, resource: str, key: Key, last: Json | None = None) -> Json:
        """Remove an object. The event has ``last`` (default: the stored state) with the new version."""
        table = self._table(resource)
        previous = table.objects.pop(key)
        table.sorted_keys = None
        self.version += 1
        base = last if last is not None else previous
        final = {**base, "metadata": {**base["metadata"], "resourceVersion": str(self.version)}}
        self._commit(table, StoredChange(self.version, resource, key, "DELETED", final, previous))
        return final

    def listen(self, resource: str, listener: Callable[[StoredChange], None]) -> Callable[[], None]:
        """Call ``listener`` for every change of ``resource``, in order; returns the unsubscribe function."""
        listeners = self._listeners.setdefault(resource, [])
        listeners.append(listener)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return stop

    def forget_history(self) -> None:
        """Drop all past changes, as a compaction does: older versions then raise 410."""
        for table in self._tables.values():
            table.history.clear()
            table.compacted = self.version

    def _commit(self, table: _Table, change: StoredChange) -> None:
        table.history.append(change)
        if len(table.history) > self._window:
            table.compacted = table.history.popleft().version
        for listener in tuple(self._listeners.get(change.resource, ())):
            listener(change)

    def _table(self, resource: str) -> _Table:
        table = self._tables.get(resource)
        if table is None:
            table = self._tables[resource] = _Table()
        return table

    @staticmethod
    def _keys(table: _Table) -> list[Key]:
        if table.sorted_keys is None:
            table.sorted_keys = sorted(table.objects)
        return table.sorted_keys
