"""The store of the API server: versioned objects as in etcd, and writes that pass defaults, admission and validation.

There is one global, strictly increasing resource version; changes are delivered to subscribers in that order; stored objects are never
changed in place, and results are shared and must not be changed. A window of past changes serves watches and consistent pages.
The handlers of HTTP requests and the controllers in the process use the same calls. Every write is atomic under one lock. Errors are ``StatusError``.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from kube_sandbox.apiserver import strategies
from kube_sandbox.apiserver.admission import Attributes
from kube_sandbox.apiserver.errors import (
    MODIFIED,
    FieldError,
    Json,
    already_exists,
    bad_request,
    conflict,
    expired,
    foreign_uid,
    invalid,
    invalid_value,
    not_found,
    required,
)
from kube_sandbox.apiserver.json_values import deep_copy, dig, meta
from kube_sandbox.apiserver.registry import Registry, ResourceType
from rescheduler.model.times import format_seconds

if TYPE_CHECKING:
    from kube_sandbox.apiserver.admission_policies import BuiltinAdmission

Key = tuple[str, str]
"""Namespace ("" for cluster-scoped objects) and name."""

_ENCODER = msgspec.json.Encoder()
_WINDOW = 20_000
"""So many changes of a resource are kept."""


@dataclass(slots=True)
class ObjectChange:
    """One event. The objects are shared and must not be changed."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    object: Json
    """The new state; for a deletion the last state."""
    previous: Json | None = None
    """None for a creation."""


@dataclass(slots=True, kw_only=True)
class StoredChange(ObjectChange):
    """One committed write."""

    version: int
    resource: str
    key: Key
    _encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """``object`` as JSON, encoded once for all watchers."""
        if self._encoded is None:
            self._encoded = _ENCODER.encode(self.object)
        return self._encoded


@dataclass(slots=True)
class _Table:
    objects: dict[Key, Json] = field(default_factory=dict)
    history: deque[StoredChange] = field(default_factory=deque)
    compacted: int = 0
    sorted_keys: list[Key] | None = None


class VersionedObjects:
    """All objects of the cluster, by resource (``pods``, ``deployments.apps``)."""

    def __init__(self) -> None:
        self.version = 1
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
        change = StoredChange(kind, obj, previous, version=self.version, resource=resource, key=key)
        self._commit(table, change)
        return obj

    def remove(self, resource: str, key: Key, last: Json | None = None) -> Json:
        """Remove an object. The event has ``last`` (default: the stored state) with the new version."""
        table = self._table(resource)
        previous = table.objects.pop(key)
        table.sorted_keys = None
        self.version += 1
        base = last if last is not None else previous
        final = {**base, "metadata": {**base["metadata"], "resourceVersion": str(self.version)}}
        change = StoredChange("DELETED", final, previous, version=self.version, resource=resource, key=key)
        self._commit(table, change)
        return final

    def listen(self, resource: str, listener: Callable[[StoredChange], None]) -> Callable[[], None]:
        """Call ``listener`` for every change of ``resource`` ("": of all), in order; returns the unsubscribe function."""
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
        if len(table.history) > _WINDOW:
            table.compacted = table.history.popleft().version
        for listener in (*self._listeners.get(change.resource, ()), *self._listeners.get("", ())):
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


List = list
"""The built-in type; ``ObjectStore.list`` hides its name inside the class."""

Clock = Callable[[], float]
"""Seconds since the epoch."""

_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_IMMUTABLE = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of one write."""

    dry_run: bool = False
    subresource: str = ""
    uid_is_precondition: bool = False
    """Error for another uid in the object: 409 (as for PUT) if true, else 422 (as for PATCH)."""


class ObjectStore:
    """All objects of one cluster."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        registry: Registry,
    ) -> None:
        self.clock = clock
        self.registry = registry
        self.lock = threading.RLock()
        self.objects = VersionedObjects()
        self.admission: BuiltinAdmission | None = None
        """None: nothing is asked."""
        self._rng = rng

    # reads

    def get(self, resource: str, namespace: str, name: str) -> Json:
        """One object (``pods``, ``deployments.apps``). Raises 404."""
        found = self.find(resource, namespace, name)
        if found is None:
            served = self.registry.named(resource)
            raise not_found(served.group, served.plural, name)
        return found

    def find(self, resource: str, namespace: str, name: str) -> Json | None:
        """One object or None."""
        return self.objects.get(resource, (namespace, name))

    def list(self, resource: str, namespace: str = "") -> List[Json]:
        """Current objects, sorted by namespace and name."""
        with self.lock:
            return [*self.objects.items(resource, namespace)]

    def subscribe(self, resource: str, callback: Callable[[StoredChange], None]) -> Callable[[], None]:
        """Call ``callback`` for every change of a resource ("": of all), in order; returns the unsubscribe function.

        The writer's thread calls it under the lock, so the callback should only enqueue the change.
        """
        with self.lock:
            unsubscribe = self.objects.listen(resource, callback)

        def stop() -> None:
            with self.lock:
                unsubscribe()

        return stop

    # writes

    def create(
        self, resource: ResourceType, namespace: str, obj: Json, options: WriteOptions | None = None
    ) -> Json:
        """Store a new object. The caller must not use ``obj`` afterwards. Raises StatusError."""
        options = options or WriteOptions()
        with self.lock:
            self._prepare_new(resource, namespace, obj)
            attributes = Attributes(
                resource=resource,
                operation="CREATE",
                namespace=namespace,
                name=obj["metadata"]["name"],
                dry_run=options.dry_run,
            )
            obj = self._admit(attributes, obj)
            self._check(resource, obj, strategies.validate_new(resource, obj))
            self._finish_admission(attributes, obj)
            key = (namespace, obj["metadata"]["name"])
            if self.objects.get(resource.table, key) is not None:
                raise already_exists(resource.group, resource.plural, key[1])
            if options.dry_run:
                return obj
            return self.objects.put(resource.table, key, obj)

    def update(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        change: Callable[[Json], Json],
        options: WriteOptions | None = None,
    ) -> Json:
        """Replace an object by ``change(copy of it)``. Raises 404, 409, 422 and the errors of admission.

        If the result has another resourceVersion than the current one, that is a conflict. An unchanged object is not
        written. A terminating object without finalizers is removed.
        """
        options = options or WriteOptions()
        with self.lock:
            old = self._existing(resource, namespace, name)
            new = change(deep_copy(old))
            self._check_identity(resource, name, old, new, options)
            self._keep_system_fields(old, new)
            strategies.prepare_update(resource, new, old, options.subresource)
            attributes = Attributes(
                resource=resource,
                operation="UPDATE",
                namespace=namespace,
                name=name,
                subresource=options.subresource,
                old=old,
                dry_run=options.dry_run,
            )
            new = self._admit(attributes, new)
            self._check(resource, new, strategies.validate_change(resource, new, old, options.subresource))
            self._finish_admission(attributes, new)
            return self.replace(resource, old, new, dry_run=options.dry_run)

    def replace(self, resource: ResourceType, old: Json, new: Json, *, dry_run: bool = False) -> Json:
        """Store ``new`` in place of ``old`` without further checks; remove it if its deletion is complete."""
        metadata = new["metadata"]
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if _is_finished(new):
            if dry_run:
                return new
            return self.objects.remove(resource.table, key, new)
        if new == old:
            return old
        if dry_run:
            return new
        return self.objects.put(resource.table, key, new)

    # helpers

    def new_uid(self) -> str:
        """A random uid, reproducible by the seed."""
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def name_suffix(self) -> str:
        """Five characters for a generated name."""
        return "".join(self._rng.choices(_NAME_ALPHABET, k=5))

    def stamp(self) -> str:
        """The time now as metav1.Time."""
        return format_seconds(self.clock())

    def _existing(self, resource: ResourceType, namespace: str, name: str) -> Json:
        found = self.objects.get(resource.table, (namespace, name))
        if found is None:
            raise not_found(resource.group, resource.plural, name)
        return found

    def _prepare_new(self, resource: ResourceType, namespace: str, obj: Json) -> None:
        metadata = meta(obj)
        _match_namespace(resource, namespace, metadata)
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        for key in (*_IMMUTABLE, "resourceVersion", "generation"):
            metadata.pop(key, None)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"][:58] + self.name_suffix()
        if not metadata.get("name"):
            fault = required("metadata.name", "name or generateName is required")
            raise invalid(resource.group, resource.kind, "", [fault])
        strategies.drop_empty(metadata)
        metadata["uid"] = self.new_uid()
        metadata["creationTimestamp"] = self.stamp()
        strategies.prepare_create(resource, obj)

    def _admit(self, attributes: Attributes, obj: Json) -> Json:
        return self.admission.mutate(attributes, obj) if self.admission else obj

    def _finish_admission(self, attributes: Attributes, obj: Json) -> None:
        if self.admission:
            self.admission.validate(attributes, obj)

    @staticmethod
    def _check(resource: ResourceType, obj: Json, faults: List[FieldError]) -> None:
        if faults:
            raise invalid(resource.group, resource.kind, obj["metadata"].get("name", ""), faults)

    @staticmethod
    def _check_identity(
        resource: ResourceType, name: str, old: Json, new: Json, options: WriteOptions
    ) -> None:
        have, want = old["metadata"], meta(new)
        if want.get("name", name) != name:
            message = f"the name of the object ({want['name']}) does not match the name on the URL ({name})"
            raise bad_request(message)
        _match_namespace(resource, have.get("namespace", ""), want)
        uid = want.get("uid")
        if uid and uid != have["uid"] and options.uid_is_precondition:
            raise foreign_uid(resource.group, resource.plural, name, wanted=uid, found=have["uid"])
        if want.get("resourceVersion") and want["resourceVersion"] != have["resourceVersion"]:
            raise conflict(resource.group, resource.plural, name, MODIFIED)
        if uid and uid != have["uid"]:
            fault = invalid_value("metadata.uid", uid, "field is immutable")
            raise invalid(resource.group, resource.kind, name, [fault])

    @staticmethod
    def _keep_system_fields(old: Json, new: Json) -> None:
        new["apiVersion"], new["kind"] = old["apiVersion"], old["kind"]
        have, want = old["metadata"], new["metadata"]
        want["name"] = have["name"]
        strategies.drop_empty(want)
        for key in (*_IMMUTABLE, "generation", "resourceVersion", "namespace", "generateName"):
            if key in have:
                want[key] = have[key]
            else:
                want.pop(key, None)


def _match_namespace(resource: ResourceType, namespace: str, metadata: Json) -> None:
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    if metadata.get("namespace", namespace) not in (namespace, ""):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def _is_finished(obj: Json) -> bool:
    """True if the object is terminating, has no finalizer, and its grace period is over."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if obj["kind"] == "Namespace" and dig(obj, "spec", "finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")
