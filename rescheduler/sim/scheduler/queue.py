"""The scheduling queue: which pending pod is tried next, and what wakes a pod that did not fit. Pure.

As kube-scheduler's PriorityQueue: active pods by priority and age; refused pods wait until an event that
may help one of the plugins that refused them; a woken pod first sits out its back-off, unless nothing else
is to be done (SchedulerPopFromBackoffQ); gated pods wait for their last gate to go.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass, field

from rescheduler.model.records import Pod

FIRST_BACKOFF_S = 1.0
LAST_BACKOFF_S = 10.0
FLUSH_AFTER_S = 300.0
"""A refused pod is tried again after this time even if nothing happened (podMaxInUnschedulablePodsDuration)."""


class Wake(enum.Enum):
    """What can happen in a cluster that may help a refused pod."""

    NODE_ADDED = enum.auto()
    NODE_CHANGED = enum.auto()
    POD_GONE = enum.auto()
    POD_CHANGED = enum.auto()
    POD_BOUND = enum.auto()
    VOLUME_CHANGED = enum.auto()


_NODES = frozenset({Wake.NODE_ADDED, Wake.NODE_CHANGED})
_PODS = frozenset({Wake.POD_GONE, Wake.POD_CHANGED, Wake.POD_BOUND})
_HELPED_BY: dict[str, frozenset[Wake]] = {
    "NodeUnschedulable": _NODES,
    "NodeName": frozenset({Wake.NODE_ADDED}),
    "TaintToleration": _NODES,
    "NodeAffinity": _NODES,
    "NodePorts": frozenset({Wake.NODE_ADDED, Wake.POD_GONE}),
    "NodeResourcesFit": _NODES | {Wake.POD_GONE, Wake.POD_CHANGED},
    "InterPodAffinity": _NODES | _PODS,
    "PodTopologySpread": _NODES | _PODS,
}
_ANYTHING = frozenset(Wake)


class Place(enum.Enum):
    """Where a pending pod waits."""

    ACTIVE = enum.auto()
    BACKOFF = enum.auto()
    REFUSED = enum.auto()
    GATED = enum.auto()


@dataclass(slots=True)
class QueuedPod:
    """A pending pod in the queue. ``since_s``: when it entered; ``tried_at_s``: the last attempt."""

    pod: Pod
    since_s: float
    order: int
    place: Place = Place.ACTIVE
    attempts: int = 0
    tried_at_s: float = 0.0
    refused_by: frozenset[str] = field(default_factory=frozenset)

    @property
    def backoff_until_s(self) -> float:
        """When its back-off is over: 1 s after the first failure, then doubling up to 10 s."""
        if not self.attempts:
            return 0.0
        return self.tried_at_s + min(FIRST_BACKOFF_S * 2.0 ** (self.attempts - 1), LAST_BACKOFF_S)

    def rested(self, now_s: float) -> bool:
        """Its back-off is over, or nothing has woken it for too long."""
        if self.place is Place.BACKOFF:
            return self.backoff_until_s <= now_s
        return self.place is Place.REFUSED and self.tried_at_s + FLUSH_AFTER_S <= now_s


class SchedulingQueue:
    """All pending pods by uid, each in exactly one place."""

    def __init__(self) -> None:
        self._pods: dict[str, QueuedPod] = {}
        self._arrivals = 0

    def put(self, pod: Pod, now_s: float) -> None:
        """A pending pod was added or changed. A change of its spec or labels wakes it."""
        known = self._pods.get(pod.uid)
        if known is None:
            self._arrivals += 1
            known = self._pods[pod.uid] = QueuedPod(pod, now_s, self._arrivals)
        changed = pod.spec != known.pod.spec or pod.labels != known.pod.labels
        known.pod = pod
        if pod.spec.gates:
            known.place = Place.GATED
        elif known.place is Place.GATED:
            known.place = Place.ACTIVE
        elif known.place is Place.REFUSED and changed:
            self._wake(known, now_s)

    def drop(self, uid: str) -> None:
        """The pod is bound, terminating or gone."""
        self._pods.pop(uid, None)

    def pop(self, now_s: float) -> QueuedPod | None:
        """The next pod to try, by priority and then age; it stays known until it is dropped or refused."""
        for entry in self._pods.values():
            if entry.rested(now_s):
                entry.place = Place.ACTIVE
        found = self._first(Place.ACTIVE) or self._first(Place.BACKOFF)
        if found is not None:
            found.place = Place.REFUSED
            found.tried_at_s = now_s
        return found

    def refused(self, uid: str, plugins: Collection[str]) -> None:
        """The pod that was popped fits nowhere; ``plugins`` refused it."""
        entry = self._pods.get(uid)
        if entry is not None:
            entry.attempts += 1
            entry.refused_by = frozenset(plugins)

    def failed(self, uid: str) -> None:
        """The pod that was popped met an error: it is tried again after its back-off, whatever happens."""
        entry = self._pods.get(uid)
        if entry is not None:
            entry.attempts += 1
            entry.place = Place.BACKOFF

    def wake(self, event: Wake, now_s: float) -> None:
        """Something happened: refused pods that it may help are tried again."""
        for entry in self._pods.values():
            if entry.place is Place.REFUSED and _may_help(event, entry.refused_by):
                self._wake(entry, now_s)

    def waiting(self) -> int:
        """How many pods are in the queue."""
        return len(self._pods)

    def next_due_s(self, now_s: float) -> float | None:
        """When there is a pod to try without any event; None: never."""
        if any(e.place in (Place.ACTIVE, Place.BACKOFF) for e in self._pods.values()):
            return now_s
        due = [e.tried_at_s + FLUSH_AFTER_S for e in self._pods.values() if e.place is Place.REFUSED]
        return min(due, default=None)

    def _wake(self, entry: QueuedPod, now_s: float) -> None:
        entry.place = Place.BACKOFF if entry.backoff_until_s > now_s else Place.ACTIVE

    def _first(self, place: Place) -> QueuedPod | None:
        found = [e for e in self._pods.values() if e.place is place]
        if place is Place.BACKOFF:
            return min(found, key=lambda e: (e.backoff_until_s, e.order), default=None)
        return min(found, key=lambda e: (-e.pod.spec.priority, e.since_s, e.order), default=None)


def _may_help(event: Wake, plugins: frozenset[str]) -> bool:
    return not plugins or any(event in _HELPED_BY.get(p, _ANYTHING) for p in plugins)
