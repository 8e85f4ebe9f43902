"""Which pods of the owners of a window were placed since it is gathered for: kept between looks, updated only where pods changed.

Visiting 150,000 pods each second for each window would take most of a core. What is forgotten with the process is in the window's status.
For one thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from rescheduler.model.records import Pod
from rescheduler.model.reservation import ReservationOwner
from rescheduler.model.snapshot import Snapshot


class _Placed(NamedTuple):
    owners: tuple[ReservationOwner, ...]
    from_s: float
    uids: set[str]


class PlacedPods:
    """By uid of the window."""

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
