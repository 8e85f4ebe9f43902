"""The scheduling queue: which pending pod is tried next, and which event requeues an unschedulable pod. Pure.

As kube-scheduler's PriorityQueue: active pods are popped by priority and age. An unschedulable pod waits until an
event that may help one of the plugins that rejected it; it then goes to the active queue, or to the backoff queue
while its backoff lasts. If the active queue is empty, a pod is popped from the backoff queue
(SchedulerPopFromBackoffQ). A gated pod waits until its last gate is removed.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Collection
from dataclasses import dataclass, field

from rescheduler.model.records import Node, Pod
from rescheduler.model.times import doubling_s

FIRST_BACKOFF_S = 1.0
LAST_BACKOFF_S = 10.0
FLUSH_AFTER_S = 300.0
"""An unschedulable pod is tried again after this time even without an event (podMaxInUnschedulablePodsDuration)."""


class ClusterEvent(enum.Enum):
    """Events that may make an unschedulable pod schedulable."""

    NODE_ADDED = enum.auto()
    NODE_UPDATED = enum.auto()
    POD_DELETED = enum.auto()
    POD_UPDATED = enum.auto()
    POD_ASSIGNED = enum.auto()
    VOLUME_CHANGED = enum.auto()


_NODES = frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.NODE_UPDATED})
_PODS = frozenset({ClusterEvent.POD_DELETED, ClusterEvent.POD_UPDATED, ClusterEvent.POD_ASSIGNED})
_QUEUEING_HINTS: dict[str, frozenset[ClusterEvent]] = {
    "NodeUnschedulable": _NODES,
    "NodeName": frozenset({ClusterEvent.NODE_ADDED}),
    "TaintToleration": _NODES,
    "NodeAffinity": _NODES,
    "NodePorts": frozenset({ClusterEvent.NODE_ADDED, ClusterEvent.POD_DELETED}),
    "NodeResourcesFit": _NODES | {ClusterEvent.POD_DELETED, ClusterEvent.POD_UPDATED},
    "InterPodAffinity": _NODES | _PODS,
    "PodTopologySpread": _NODES | _PODS,
}
_ANY_EVENT = frozenset(ClusterEvent)


class SubQueue(enum.Enum):
    """The part of the queue in which a pending pod is."""

    ACTIVE = enum.auto()
    BACKOFF = enum.auto()
    UNSCHEDULABLE = enum.auto()
    GATED = enum.auto()


@dataclass(slots=True)
class QueuedPod:
    """A pending pod in the queue."""

    pod: Pod
    since_s: float
    """When the pod entered the queue."""
    order: int
    """Number of the arrival, to break ties."""
    queue: SubQueue = SubQueue.GATED
    attempts: int = 0
    tried_at_s: float = 0.0
    """Time of the last attempt."""
    rejected_by: frozenset[str] = field(default_factory=frozenset)
    """Plugins that rejected the pod at the last attempt."""

    @property
    def backoff_until_s(self) -> float:
        """End of the backoff: 1 s after the first failed attempt, doubled at each further one up to 10 s."""
        waits_s = doubling_s(FIRST_BACKOFF_S, self.attempts, LAST_BACKOFF_S)
        return self.tried_at_s + waits_s if self.attempts else 0.0

    def backoff_over(self, now_s: float) -> bool:
        """True if the backoff is over, or the pod has been unschedulable for too long without an event."""
        if self.queue is SubQueue.BACKOFF:
            return self.backoff_until_s <= now_s
        return self.queue is SubQueue.UNSCHEDULABLE and self.tried_at_s + FLUSH_AFTER_S <= now_s


class SchedulingQueue:
    """All pending pods by uid, each in exactly one sub-queue."""

    def __init__(self) -> None:
        self._pods: dict[str, QueuedPod] = {}
        self._waiting: dict[str, QueuedPod] = {}
        """Pods of the backoff queue, and unschedulable pods."""
        self._active: list[tuple[int, float, int, int, QueuedPod]] = []
        """A heap. Entries that are no longer active are skipped when they are popped."""
        self._arrivals = 0
        self._pushes = 0

    def add(self, pod: Pod, now_s: float) -> None:
        """Add or update a pending pod. A change of its spec or labels requeues it."""
        known = self._pods.get(pod.uid)
        if known is None:
            self._arrivals += 1
            known = self._pods[pod.uid] = QueuedPod(pod, now_s, self._arrivals)
            self._move(known, SubQueue.GATED if pod.spec.gates else SubQueue.ACTIVE)
            return
        changed = pod.spec != known.pod.spec or pod.labels != known.pod.labels
        known.pod = pod
        if pod.spec.gates:
            self._move(known, SubQueue.GATED)
        elif known.queue is SubQueue.GATED:
            self._move(known, SubQueue.ACTIVE)
        elif known.queue is SubQueue.UNSCHEDULABLE and changed:
            self._requeue(known, now_s)

    def delete(self, uid: str) -> None:
        """Remove a pod that is bound, terminating or deleted."""
        self._pods.pop(uid, None)
        self._waiting.pop(uid, None)

    def pop(self, now_s: float) -> QueuedPod | None:
        """The next pod to try, by priority and then age. It counts as unschedulable until it is deleted."""
        for entry in [e for e in self._waiting.values() if e.backoff_over(now_s)]:
            self._move(entry, SubQueue.ACTIVE)
        found = self._first_active() or self._first_in_backoff()
        if found is not None:
            # Already while the attempt runs: an event of this time then requeues the pod (kube-scheduler's inFlightPods).
            self._move(found, SubQueue.UNSCHEDULABLE)
            found.tried_at_s = now_s
        return found

    def add_unschedulable(self, uid: str, plugins: Collection[str]) -> None:
        """The popped pod fits on no node; ``plugins`` rejected it."""
        entry = self._pods.get(uid)
        if entry is not None:
            entry.attempts += 1
            entry.rejected_by = frozenset(plugins)

    def add_backoff(self, uid: str) -> None:
        """The attempt failed with an error: the pod is tried again after its backoff, without an event."""
        entry = self._pods.get(uid)
        if entry is not None:
            entry.attempts += 1
            self._move(entry, SubQueue.BACKOFF)

    def move_to_active_or_backoff(self, event: ClusterEvent, now_s: float) -> None:
        """Requeue the unschedulable pods that this event may help."""
        for entry in list(self._waiting.values()):
            if entry.queue is SubQueue.UNSCHEDULABLE and _event_may_help(event, entry.rejected_by):
                self._requeue(entry, now_s)

    def next_due_s(self, now_s: float) -> float | None:
        """When there is a pod to try without a further event (epoch seconds); None: never."""
        if any(e.queue is SubQueue.BACKOFF for e in self._waiting.values()):
            return now_s
        if any(self._is_active(e) for *_, e in self._active):
            return now_s
        return min((e.tried_at_s + FLUSH_AFTER_S for e in self._waiting.values()), default=None)

    def _requeue(self, entry: QueuedPod, now_s: float) -> None:
        self._move(entry, SubQueue.BACKOFF if entry.backoff_until_s > now_s else SubQueue.ACTIVE)

    def _move(self, entry: QueuedPod, queue: SubQueue) -> None:
        entry.queue = queue
        self._waiting.pop(entry.pod.uid, None)
        if queue is SubQueue.ACTIVE:
            self._pushes += 1  # no two ranks are equal, so entries are never compared
            rank = (-entry.pod.spec.priority, entry.since_s, entry.order, self._pushes, entry)
            heapq.heappush(self._active, rank)
        elif queue is not SubQueue.GATED:
            self._waiting[entry.pod.uid] = entry

    def _first_active(self) -> QueuedPod | None:
        while self._active:
            entry = heapq.heappop(self._active)[-1]
            if self._is_active(entry):
                return entry
        return None

    def _first_in_backoff(self) -> QueuedPod | None:
        waiting = [e for e in self._waiting.values() if e.queue is SubQueue.BACKOFF]
        return min(waiting, key=lambda e: (e.backoff_until_s, e.order), default=None)

    def _is_active(self, entry: QueuedPod) -> bool:
        return entry.queue is SubQueue.ACTIVE and self._pods.get(entry.pod.uid) is entry


def _event_may_help(event: ClusterEvent, plugins: frozenset[str]) -> bool:
    return not plugins or any(event in _QUEUEING_HINTS.get(p, _ANY_EVENT) for p in plugins)


def node_event(old: Node | None, new: Node | None) -> ClusterEvent | None:
    """The event of a node that was added, or changed in a field that filters read; else None."""
    if new is None:
        return None
    if old is None:
        return ClusterEvent.NODE_ADDED
    changed = (
        old.labels != new.labels
        or old.taints != new.taints
        or old.unschedulable != new.unschedulable
        or old.allocatable != new.allocatable
        or old.declared_features != new.declared_features
    )
    return ClusterEvent.NODE_UPDATED if changed else None


def pod_event(old: Pod | None, new: Pod | None) -> ClusterEvent | None:
    """The event of a pod that was assigned, updated or deleted. The end of a nomination frees resources too."""
    if old is not None and _occupies(old) and (new is None or not _occupies(new)):
        return ClusterEvent.POD_DELETED
    if old is not None and old.nominated_node and (new is None or _drops_nomination(old, new)):
        return ClusterEvent.POD_DELETED
    if new is None or not _occupies(new):
        return None
    if old is None or not old.node:
        return ClusterEvent.POD_ASSIGNED
    changed = old.held != new.held or old.labels != new.labels or old.deleting != new.deleting
    return ClusterEvent.POD_UPDATED if changed else None


def _occupies(pod: Pod) -> bool:
    return bool(pod.node) and not pod.terminal


def _drops_nomination(old: Pod, new: Pod) -> bool:
    return not new.node and new.nominated_node != old.nominated_node
