"""The scheduling queue: which pending pod is tried next, and what wakes a pod that did not fit. Pure.

As kube-scheduler's PriorityQueue: active pods by priority and age; refused pods wait until an event that
may help one of the plugins that refused them; a woken pod first sits out its back-off, unless nothing else
is to be done (SchedulerPopFromBackoffQ); gated pods wait for their last gate to go.
"""

from __future__ import annotations

import enum
import heapq
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
    place: Place = Place.GATED
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
        self._resting: dict[str, QueuedPod] = {}
        """Those that back off or were refused."""
        self._active: list[tuple[int, float, int, int, QueuedPod]] = []
        """A heap; entries that are no longer active are skipped when they come up."""
        self._arrivals = 0
        self._pushes = 0

    def put(self, pod: Pod, now_s: float) -> None:
        """A pending pod was added or changed. A change of its spec or labels wakes it."""
        known = self._pods.get(pod.uid)
        if known is None:
            self._arrivals += 1
            known = self._pods[pod.uid] = QueuedPod(pod, now_s, self._arrivals)
            self._move(known, Place.GATED if pod.spec.gates else Place.ACTIVE)
            return
        changed = pod.spec != known.pod.spec or pod.labels != known.pod.labels
        known.pod = pod
        if pod.spec.gates:
            self._move(known, Place.GATED)
        elif known.place is Place.GATED:
            self._move(known, Place.ACTIVE)
        elif known.place is Place.REFUSED and changed:
            self._wake(known, now_s)

    def drop(self, uid: str) -> None:
        """The pod is bound, terminating or gone."""
        self._pods.pop(uid, None)
        self._resting.pop(uid, None)

    def pop(self, now_s: float) -> QueuedPod | None:
        """The next pod to try, by priority and then age; it stays known until it is dropped or refused."""
        for entry in [e for e in self._resting.values() if e.rested(now_s)]:
            self._move(entry, Place.ACTIVE)
        found = self._first_active() or self._first_resting()
        if found is not None:
            self._move(found, Place.REFUSED)
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
            self._move(entry, Place.BACKOFF)

    def wake(self, event: Wake, now_s: float) -> None:
        """Something happened: refused pods that it may help are tried again."""
        for entry in list(self._resting.values()):
            if entry.place is Place.REFUSED and _may_help(event, entry.refused_by):
                self._wake(entry, now_s)

    def next_due_s(self, now_s: float) -> float | None:
        """When there is a pod to try without any event; None: never."""
        if any(e.place is Place.BACKOFF for e in self._resting.values()):
            return now_s
        if any(self._is_active(e) for *_, e in self._active):
            return now_s
        return min((e.tried_at_s + FLUSH_AFTER_S for e in self._resting.values()), default=None)

    def _wake(self, entry: QueuedPod, now_s: float) -> None:
        self._move(entry, Place.BACKOFF if entry.backoff_until_s > now_s else Place.ACTIVE)

    def _move(self, entry: QueuedPod, place: Place) -> None:
        entry.place = place
        self._resting.pop(entry.pod.uid, None)
        if place is Place.ACTIVE:
            self._pushes += 1  # no two ranks are equal, so entries are never compared
            rank = (-entry.pod.spec.priority, entry.since_s, entry.order, self._pushes, entry)
            heapq.heappush(self._active, rank)
        elif place is not Place.GATED:
            self._resting[entry.pod.uid] = entry

    def _first_active(self) -> QueuedPod | None:
        while self._active:
            entry = heapq.heappop(self._active)[-1]
            if self._is_active(entry):
                return entry
        return None

    def _first_resting(self) -> QueuedPod | None:
        waiting = [e for e in self._resting.values() if e.place is Place.BACKOFF]
        return min(waiting, key=lambda e: (e.backoff_until_s, e.order), default=None)

    def _is_active(self, entry: QueuedPod) -> bool:
        return entry.place is Place.ACTIVE and self._pods.get(entry.pod.uid) is entry


def _may_help(event: Wake, plugins: frozenset[str]) -> bool:
    return not plugins or any(event in _HELPED_BY.get(p, _ANYTHING) for p in plugins)
