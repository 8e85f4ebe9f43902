"""What the scheduler of the sandbox knows of the cluster: its event stream, and the cache that it feeds.

``SchedulerCache`` turns changed objects into records and Snapshots with the same decoder and ClusterState as the
controller, so both decide on the same data. ``SchedulerReflector`` delivers the changes: usually in order and at once. After
an outage of the API server it lists again, as client-go does (``reconcileReplacement``): deletions are delivered
before everything else, and the scheduler goes on scheduling in between. While it is disconnected no pod is tried.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import GroupKind, Obj, group_kind, uid
from rescheduler.model.cluster import ClusterState, key_of
from rescheduler.model.decode import Decoder, Record
from rescheduler.model.kinds import RESOURCES, Kind
from rescheduler.model.names import GROUP
from rescheduler.model.snapshot import Snapshot

_KINDS = {GroupKind(r.group, r.kind or str(kind)): kind for kind, r in RESOURCES.items() if r.group != GROUP}
"""kube-scheduler reads no object of ours."""


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change of a kind that scheduling reads. None: the object did not exist before, or does not any more."""

    kind: Kind
    old: Record | None
    new: Record | None


class SchedulerCache:
    """Applies changes and makes Snapshots."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._encoder = msgspec.json.Encoder()
        self._state = ClusterState()

    def apply(self, change: ObjectChange) -> AppliedChange | None:
        """Apply one change; None for kinds that scheduling does not read, and for a change that is known already."""
        kind = _KINDS.get(group_kind(change.object))
        if kind is None:
            return None
        record = self._decoder.record(kind, self._encoder.encode(change.object))
        if change.type == "DELETED":
            done = self._state.delete(kind, key_of(record), getattr(record, "uid", ""))
        else:
            done = self._state.apply(kind, record)
        return None if done is None else AppliedChange(kind, done.before, done.after)

    def snapshot(self, now_s: float) -> Snapshot:
        """The cluster as it is known now."""
        return self._state.snapshot(now_s)


ListAll = Callable[[], Iterable[Obj]]
"""Lists all objects of the cluster."""


class SchedulerReflector:
    """A queue of changes. Any thread may call ``receive``; all other methods belong to the scheduler's thread."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._inbox: deque[ObjectChange] = deque()
        self._known: dict[str, Obj] = {}
        self._pending: deque[ObjectChange] = deque()
        """Objects of a new list, and changes since it was read, that are not delivered yet."""
        self._reconnect_at_s = 0.0
        self._list_all: ListAll | None = None

    def receive(self, change: ObjectChange) -> None:
        """Take one change of the event stream."""
        if self._list_all is None:  # while disconnected changes are lost; the next list contains them
            (self._pending or self._inbox).append(change)

    def next(self) -> ObjectChange | None:
        """The next change that is delivered; None: no more."""
        if not self._inbox:
            return None
        change = self._inbox.popleft()
        if change.type == "DELETED":
            self._known.pop(uid(change.object), None)
        else:
            self._known[uid(change.object)] = change.object
        return change

    def disconnect(self, until_s: float, list_all: ListAll) -> None:
        """Lose the API server until ``until_s``; the objects are then listed again."""
        self._inbox.clear()
        self._pending.clear()
        self._reconnect_at_s, self._list_all = until_s, list_all

    def disconnected(self, now_s: float) -> bool:
        """True while the API server is lost. The first call after that lists; later calls deliver parts of the list."""
        if self._list_all is not None:
            if now_s < self._reconnect_at_s:
                return True
            self._replace(list(self._list_all()))
            self._list_all = None
        elif self._pending:
            for _ in range(self._rng.randint(1, len(self._pending))):
                self._inbox.append(self._pending.popleft())
        return False

    def assume(self, pod_uid: str) -> None:
        """Deliver the changes of a pod that this scheduler has just bound: an assumed pod is known before its event."""
        self._inbox.extend(c for c in self._pending if uid(c.object) == pod_uid)
        self._pending = deque(c for c in self._pending if uid(c.object) != pod_uid)

    def due_s(self) -> float | None:
        """When a change can be delivered (epoch seconds); None: there is none."""
        if self._list_all is not None:
            return self._reconnect_at_s
        return 0.0 if self._inbox or self._pending else None

    def _replace(self, listed: list[Obj]) -> None:
        there = {uid(obj) for obj in listed}
        self._inbox.extend(
            ObjectChange("DELETED", obj) for known, obj in self._known.items() if known not in there
        )
        self._pending.extend(
            ObjectChange("MODIFIED", obj) for obj in listed if self._known.get(uid(obj)) is not obj
        )
