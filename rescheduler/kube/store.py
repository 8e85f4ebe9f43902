"""The objects of one kind that an informer knows, by namespace and name.

A key of its own for each object would cost 70 bytes, 11 MB at 150,000 pods; here the names that the records hold are
the keys. Not thread-safe; its length may be read by other threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rescheduler.model.records import ObjectKey


class Store:
    """Records by namespace ("" where they have none) and name."""

    __slots__ = ("_count", "_namespaces")

    def __init__(self) -> None:
        self._namespaces: dict[str, dict[str, Any]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ObjectKey]:
        for namespace, objects in self._namespaces.items():
            for name in objects:
                yield ObjectKey(namespace, name)

    def __contains__(self, key: ObjectKey) -> bool:
        return key.name in self._namespaces.get(key.namespace, ())

    def put(self, record: Any) -> Any:
        """Take a record; gives the one that it replaces, or None."""
        namespace = namespace_of(record)
        objects = self._namespaces.setdefault(namespace, {})
        before = objects.get(record.name)
        objects[record.name] = record
        self._count += before is None
        return before

    def get(self, record: Any) -> Any:
        """The known record of that namespace and name, or None."""
        return self._namespaces.get(namespace_of(record), {}).get(record.name)

    def pop(self, key: ObjectKey) -> Any:
        """Forget a record; gives it, or None."""
        objects = self._namespaces.get(key.namespace, {})
        before = objects.pop(key.name, None)
        if before is not None:
            self._count -= 1
            if not objects:
                del self._namespaces[key.namespace]
        return before


def namespace_of(record: Any) -> str:
    """The namespace of a record; empty where it has none."""
    return getattr(record, "namespace", "")
