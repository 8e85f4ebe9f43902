"""What pods hold on each node, which of them are to leave it, and which were placed for a window: kept between looks.

Of each window that room is gathered for it is asked again and again what its nodes will have; visiting 150,000 pods each time
would take a good part of a core, so only pods that changed are. The result is the same as if it was built from the snapshot. For one thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from rescheduler.model.records import Node, ObjectKey, Pod
from rescheduler.model.reservation import ReservationOwner
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import earliest
from rescheduler.room_sets.releases import group_end_s, job_end_s, leaves, own_end_s

Amounts = dict[str, int]
"""Resource -> amount, CPU in milli; ``pods`` is the number of pods."""

_NOTHING: Final[Amounts] = {}


class Idle(NamedTuple):
    """What is unused on a node, of some resources and ``pods``."""

    now: Amounts
    then: Amounts
    """With what running pods have declared to give back in time."""
    perhaps: Amounts
    """With what pods hold that are to end some time and have not declared when, or should have ended by now."""
    at_last: Amounts
    """With what all pods hold that are to end some time, whenever that is."""


class _Leaving(NamedTuple):
    pod: Pod
    own_end_s: float | None
    """What it declares itself; reading it takes longer than all the rest of a look."""


class NodeUse:
    """Pods that are nominated to a node count there, as kube-scheduler counts them."""

    def __init__(self) -> None:
        self._at: Snapshot | None = None
        self._held: dict[str, Amounts] = {}
        self._leaving: dict[str, dict[ObjectKey, _Leaving]] = {}

    @classmethod
    def of(cls, snapshot: Snapshot) -> NodeUse:
        """For one look."""
        made = cls()
        made.follow(snapshot)
        return made

    def follow(self, snapshot: Snapshot) -> None:
        """Update from ``snapshot``."""
        before, self._at = self._at, snapshot
        keys = None if before is None else snapshot.pods_changed_since(before)
        if before is None or keys is None:
            self._held, self._leaving = {}, {}
            for key, pod in snapshot.pods.items():
                self._count(key, pod, 1)
            return
        for key in keys:
            old, new = before.pods.get(key), snapshot.pods.get(key)
            if old is not None:
                self._count(key, old, -1)
            if new is not None:
                self._count(key, new, 1)

    def idle(self, node: Node, names: Sequence[str], *, by_s: float, now_s: float) -> Idle:
        """Of that node."""
        held = self._held.get(node.name, _NOTHING)
        now = {name: node.allocatable.amount(name) - held.get(name, 0) for name in (*names, "pods")}
        leaving = self._leaving.get(node.name)
        if not leaving or self._at is None:
            return Idle(now, now, now, now)
        then, perhaps, at_last = dict(now), dict(now), dict(now)
        for pod, own_s in leaving.values():
            of_job_s, of_group_s = job_end_s(pod, self._at), group_end_s(pod, self._at)
            end_s = own_s
            if of_job_s is not None or of_group_s is not None:
                end_s = earliest(own_s, of_job_s, of_group_s)
            in_time = pod.deleting or (end_s is not None and now_s <= end_s <= by_s)
            may = in_time or end_s is None or end_s < now_s
            for name in names:
                amount = pod.held.amount(name)
                at_last[name] += amount
                if may:
                    perhaps[name] += amount
                if in_time:
                    then[name] += amount
            at_last["pods"] += 1
            perhaps["pods"] += may
            then["pods"] += in_time
        return Idle(now, then, perhaps, at_last)

    def leaving(self, node: str) -> Iterable[Pod]:
        """Pods there that are to end some time."""
        return (pod for pod, _ in self._leaving.get(node, {}).values())

    def _count(self, key: ObjectKey, pod: Pod, sign: int) -> None:
        node = pod.node or pod.nominated_node
        if not node or pod.terminal:
            return
        here = self._held.setdefault(node, {})
        for name, amount in (pod.held if pod.node else pod.spec.requests).items():
            if amount and name != "pods":
                here[name] = here.get(name, 0) + sign * amount
        here["pods"] = here.get("pods", 0) + sign
        if pod.node and leaves(pod):
            leaving = self._leaving.setdefault(node, {})
            if sign > 0:
                leaving[key] = _Leaving(pod, own_end_s(pod))
            else:
                leaving.pop(key, None)


class _Placed(NamedTuple):
    owners: tuple[ReservationOwner, ...]
    from_s: float
    uids: set[str]


class PlacedPods:
    """Which pods of the owners of each window were placed since it is gathered for, by uid of the window.

    What is forgotten with the process is in the window's status.
    """

    def __init__(self) -> None:
        self._at: Snapshot | None = None
        self._changed: list[Pod] | None = None
        self._found: dict[str, _Placed] = {}

    def follow(self, snapshot: Snapshot, windows: Iterable[str]) -> None:
        """Look at a newer snapshot. ``windows``: uids of all there are."""
        before, self._at = self._at, snapshot
        keys = None if before is None else snapshot.pods_changed_since(before)
        self._changed = None
        if keys is not None:
            self._changed = [pod for key in keys if (pod := snapshot.pods.get(key)) is not None]
        there = set(windows)
        self._found = {uid: found for uid, found in self._found.items() if uid in there}

    def of(
        self,
        window: str,
        owners: tuple[ReservationOwner, ...],
        from_s: float,
        owned: Callable[[Pod], bool],
    ) -> frozenset[str]:
        """Uids of pods of its owners that are bound and were created from then on."""
        found = self._found.get(window)
        look_at: Iterable[Pod] = self._changed or ()
        if found is None or self._changed is None or (found.owners, found.from_s) != (owners, from_s):
            found = self._found[window] = _Placed(owners, from_s, set())
            look_at = self._at.pods.values() if self._at is not None else ()
        found.uids.update(
            pod.uid for pod in look_at if pod.node and pod.created_at_s >= int(from_s) and owned(pod)
        )
        return frozenset(found.uids)
