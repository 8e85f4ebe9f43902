"""Runs the controllers: one work queue per controller, one cache with its indices, one stepper for all of them.

Nothing here sleeps or starts a thread. ``step`` takes new events, reconciles every key that is due, and takes the
events of its own writes before the next key, so that no controller acts on a cache that is older than its last write
(the real controllers need expectations for that). A rejected request requeues the key with a backoff.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from kube_sandbox.apiserver.errors import StatusError
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.api import Api
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
from rescheduler.model.times import doubling_s

_NOT_STORED = frozenset({EVENT, GroupKind("", "Event")})


class Indexer:
    """Objects by kind, namespace and name; dependents by owner; pods by node."""

    def __init__(self) -> None:
        self._objects: dict[GroupKind, dict[str, dict[str, Obj]]] = {}
        self._by_uid: dict[str, Obj] = {}
        self._dependents: dict[str, dict[str, Obj]] = {}
        self._on_node: dict[str, dict[str, Obj]] = {}
        self._orphans: dict[tuple[GroupKind, str], dict[str, Obj]] = {}

    def apply(self, change: ObjectChange) -> None:
        """Apply one change."""
        kind = group_kind(change.object)
        if kind in _NOT_STORED:
            return
        name = key(change.object)
        bucket = self._objects.setdefault(kind, {}).setdefault(name.namespace, {})
        old = bucket.pop(name.name, None)
        if old is not None:
            self._unindex(kind, old)
        if change.type != "DELETED":
            bucket[name.name] = change.object
            self._index(kind, change.object)

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


_FIRST_BACKOFF_S = 0.05
_LAST_BACKOFF_S = 30.0


class ReconcileContext:
    """What a controller may use in ``reconcile``: the cache, the API and the time."""

    def __init__(self, api: Api, indexer: Indexer) -> None:
        self.api = api
        self.indexer = indexer
        self.now_s = 0.0


class ControlLoop(Protocol):
    """One control loop. It keeps no state between two calls that it could not read from the cache again."""

    name: str

    @property
    def watches(self) -> frozenset[GroupKind] | None:
        """Kinds whose changes concern this controller; None: all kinds."""
        ...

    def keys_for(self, indexer: Indexer, change: ObjectChange) -> Iterable[ObjectKey]:
        """The keys that a change concerns."""
        ...

    def reconcile(self, ctx: ReconcileContext, request: ObjectKey) -> float | None:
        """Bring one object closer to its desired state; returns when to reconcile it again (epoch seconds), or None."""
        ...


class WorkQueue:
    """Keys to reconcile: each at most once, in order of arrival; delayed keys by their time."""

    def __init__(self) -> None:
        self._ready: deque[ObjectKey] = deque()
        self._waiting: list[tuple[float, ObjectKey]] = []
        self._due: dict[ObjectKey, float] = {}
        self._members: set[ObjectKey] = set()
        self._failures: dict[ObjectKey, int] = {}

    def add(self, request: ObjectKey) -> None:
        """Add a key."""
        if request not in self._members:
            self._members.add(request)
            self._ready.append(request)

    def add_at(self, request: ObjectKey, moment_s: float) -> None:
        """Add a key at ``moment_s``, unless it is to be added earlier already."""
        if self._due.get(request, math.inf) > moment_s:
            self._due[request] = moment_s
            heapq.heappush(self._waiting, (moment_s, request))

    def pop(self, now_s: float) -> ObjectKey | None:
        """The next key that is due."""
        while self._waiting and self._waiting[0][0] <= now_s:
            moment_s, request = heapq.heappop(self._waiting)
            if self._due.get(request) == moment_s:
                del self._due[request]
                self.add(request)
        if not self._ready:
            return None
        request = self._ready.popleft()
        self._members.discard(request)
        return request

    def failed(self, request: ObjectKey, now_s: float) -> None:
        """Add the key again after a backoff, which doubles at each failure."""
        count = self._failures[request] = self._failures.get(request, 0) + 1
        self.add_at(request, now_s + doubling_s(_FIRST_BACKOFF_S, count, _LAST_BACKOFF_S))

    def succeeded(self, request: ObjectKey) -> None:
        """Reset the backoff of this key."""
        self._failures.pop(request, None)

    def next_due_s(self) -> float | None:
        """When the next key is due; 0.0 if one is due now, None if there is none."""
        if self._ready:
            return 0.0
        return self._waiting[0][0] if self._waiting else None


class ControllerRuntime:
    """All controllers of a sandbox, with one cache. Owned by one thread; others only put changes into its inbox."""

    def __init__(self, api: Api, controllers: Sequence[ControlLoop]) -> None:
        self._inbox: deque[ObjectChange] = deque()
        self.indexer = Indexer()
        self._context = ReconcileContext(api, self.indexer)
        self._work = [(c, WorkQueue()) for c in controllers]
        api.subscribe(self._inbox.append, existing=True)

    def step(self, now_s: float, limit: int = 10_000) -> int:
        """Reconcile all keys that are due at ``now_s``; returns their number.

        ``limit`` bounds one call, so that two controllers that undo each other's writes cannot block the thread.
        """
        self._context.now_s = now_s
        self._drain()
        done = 0
        progress = True
        while progress and done < limit:
            progress = False
            for controller, queue in self._work:
                request = queue.pop(now_s)
                if request is not None:
                    self._reconcile(controller, queue, request, now_s)
                    done += 1
                    progress = True
        return done

    def next_due_s(self) -> float | None:
        """When ``step`` has something to do again without any event (epoch seconds); None: never."""
        if self._inbox:
            return 0.0
        due = [t for _, q in self._work if (t := q.next_due_s()) is not None]
        return min(due, default=None)

    def _reconcile(self, controller: ControlLoop, queue: WorkQueue, request: ObjectKey, now_s: float) -> None:
        try:
            again = controller.reconcile(self._context, request)
        except StatusError:
            queue.failed(request, now_s)
        else:
            queue.succeeded(request)
            if again is not None:
                queue.add_at(request, again)
        self._drain()

    def _drain(self) -> None:
        while self._inbox:
            self._dispatch(self._inbox.popleft())

    def _dispatch(self, change: ObjectChange) -> None:
        self.indexer.apply(change)
        kind = group_kind(change.object)
        for controller, queue in self._work:
            if controller.watches is None or kind in controller.watches:
                for request in controller.keys_for(self.indexer, change):
                    queue.add(request)
