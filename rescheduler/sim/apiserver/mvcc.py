"""Objects with versions: the state now, and a window of past changes for watches and consistent pages.

Promises: one global, strictly increasing resource version; changes are delivered to subscribers in that
order; stored objects are never changed in place. Must not know kinds, defaults or HTTP. Not locked: the
owner holds its lock around every call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from rescheduler.sim.apiserver.errors import Json, expired

Key = tuple[str, str]
"""Namespace ("" for cluster-scoped objects) and name."""

_ENCODER = msgspec.json.Encoder()


@dataclass(slots=True)
class Change:
    """One committed write. ``previous`` is None for a creation; ``obj`` is the last state for a deletion."""

    version: int
    resource: str
    key: Key
    kind: str
    obj: Json
    previous: Json | None
    _encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """``obj`` as JSON, made once for all watchers."""
        if self._encoded is None:
            self._encoded = _ENCODER.encode(self.obj)
        return self._encoded


@dataclass(slots=True)
class _Table:
    objects: dict[Key, Json] = field(default_factory=dict)
    history: deque[Change] = field(default_factory=deque)
    compacted: int = 0
    sorted_keys: list[Key] | None = None


class VersionedObjects:
    """All objects of the cluster, by resource (``pods``, ``deployments.apps``)."""

    def __init__(self, history_per_resource: int = 20_000, first_version: int = 1) -> None:
        self.version = first_version
        self._window = history_per_resource
        self._tables: dict[str, _Table] = {}
        self._listeners: dict[str, list[Callable[[Change], None]]] = {}

    def get(self, resource: str, key: Key) -> Json | None:
        """The object now, or None. Shared: read only."""
        table = self._tables.get(resource)
        return table.objects.get(key) if table else None

    def items(self, resource: str, namespace: str = "") -> Iterator[Json]:
        """Objects now, sorted by namespace and name. Shared: read only."""
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

    def changes_after(self, resource: str, version: int) -> list[Change]:
        """Changes newer than ``version``, oldest first. Raises 410 if some of them are forgotten."""
        table = self._table(resource)
        if version < table.compacted:
            raise expired(f"too old resource version: {version} ({table.compacted})")
        found: list[Change] = []
        for change in reversed(table.history):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found

    def put(self, resource: str, key: Key, obj: Json) -> Json:
        """Stores ``obj`` under the next version, which it writes into the object."""
        table = self._table(resource)
        previous = table.objects.get(key)
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        table.objects[key] = obj
        if previous is None:
            table.sorted_keys = None
        kind = "ADDED" if previous is None else "MODIFIED"
        self._commit(table, Change(self.version, resource, key, kind, obj, previous))
        return obj

    def remove(self, resource: str, key: Key, last: Json | None = None) -> Json:
        """Removes an object; the event carries ``last`` (default: the stored state) with the new version."""
        table = self._table(resource)
        previous = table.objects.pop(key)
        table.sorted_keys = None
        self.version += 1
        base = last if last is not None else previous
        final = {**base, "metadata": {**base["metadata"], "resourceVersion": str(self.version)}}
        self._commit(table, Change(self.version, resource, key, "DELETED", final, previous))
        return final

    def listen(self, resource: str, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Calls ``listener`` at every change of ``resource``, in order; returns the way to stop it."""
        listeners = self._listeners.setdefault(resource, [])
        listeners.append(listener)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return stop

    def forget_history(self) -> None:
        """Drops all past changes, as a compaction does: older versions answer 410."""
        for table in self._tables.values():
            table.history.clear()
            table.compacted = self.version

    def _commit(self, table: _Table, change: Change) -> None:
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
