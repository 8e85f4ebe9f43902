"""Expectations: the controller's own writes that its cache does not show yet.

As in Kubernetes' workload controllers, a machine does not act again before the cache shows what it wrote. Nothing of
this must survive a crash: when the next process begins to act it knows every write of the former one (``kube.election``).
"""

from __future__ import annotations

from collections.abc import Callable, Container, KeysView
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rescheduler.model.kinds import Kind
from rescheduler.model.migration import MigrationPhase, MigrationStatus, PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import ReservationStatus
from rescheduler.model.selectors import int64

UNSEEN_LIMIT_S: Final = 5.0
"""How long the cache is waited for if it does not have the object. It may never have it: a later deletion hides a write."""
BEHIND_LIMIT_S: Final = 60.0
"""How long it is waited for while it has an older version: its watch is behind, and will show the write."""
_BEGUN: Final = frozenset(MigrationPhase) - {MigrationPhase.PENDING, MigrationPhase.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """One object that was written."""

    kind: Kind
    key: ObjectKey
    version: str = ""
    """Its resource version after the write; "" if it was deleted."""
    deleted: bool = False


Version = Callable[[Kind, ObjectKey], "tuple[str, bool] | None"]
"""(resource version, is being deleted) of an object in the cache; None if it is not there."""


Written = ReservationStatus | MigrationStatus


class Noted(NamedTuple):
    """What is noted of one machine."""

    statuses: tuple[Written, ...]
    node: str


@dataclass(slots=True)
class Expectations:
    """What was written and is not in the cache yet, by machine.

    The key of a machine is that of its Reservation or PodMigration, or one that the reconciler chose.
    """

    statuses: dict[ObjectKey, tuple[Written, ...]] = field(default_factory=dict)
    """Reservation or PodMigration -> its status as it was written last; those that it may have while the last write is not answered."""
    nodes: dict[ObjectKey, str] = field(default_factory=dict)
    """Machine -> node of the room that it chose last."""
    evicted: dict[str, float] = field(default_factory=dict)
    """Uids of pods that were evicted, and when: the cache may still show them, and their moves may be deleted meanwhile."""
    _unseen: dict[ObjectKey, tuple[tuple[Touched, ...], float]] = field(default_factory=dict)
    """Machine -> writes that the cache must show, and when the last of them was made."""

    def claimed(self, reservation: str) -> frozenset[str]:
        """Uids of the owners in its last written status."""
        written = self.statuses.get(ObjectKey("", reservation), ())
        found = (status.current_owners for status in written if isinstance(status, ReservationStatus))
        return frozenset(owner.uid for owners in found for owner in owners)

    def intent_s(self, migration: PodMigration) -> float:
        """When the eviction was intended, by the cache or by what was written; 0.0: it is not."""
        written = (s for s in self.statuses.get(migration.key, ()) if isinstance(s, MigrationStatus))
        written_s = max((status.eviction_requested_at_s for status in written), default=0.0)
        return migration.status.eviction_requested_at_s or written_s

    def begun(self, move: ObjectKey) -> bool:
        """True if its first step was written; the cache may still show it as Pending."""
        return any(status.phase in _BEGUN for status in self.statuses.get(move, ()))

    def noted(self, machine: ObjectKey) -> Noted:
        """What is noted now, to be restored if what is being sent was not written after all."""
        return Noted(self.statuses.get(machine, ()), self.nodes.get(machine, ""))

    def restore(self, machine: ObjectKey, noted: Noted) -> None:
        """Note again what was noted then."""
        self.statuses[machine], self.nodes[machine] = noted

    def evicted_by(self, now_s: float) -> KeysView[str]:
        """Uids of pods that were evicted, and that the cache may still show."""
        for uid in [u for u, at_s in self.evicted.items() if now_s >= at_s + BEHIND_LIMIT_S]:
            del self.evicted[uid]
        return self.evicted.keys()

    def wrote(self, machine: ObjectKey, touched: tuple[Touched, ...], now_s: float) -> None:
        """Remember what must show up in the cache before this machine acts again."""
        if touched:
            before = self._unseen.get(machine, ((), 0.0))[0]
            self._unseen[machine] = ((*before, *touched), now_s)

    def unseen_until(self, machine: ObjectKey, version: Version, now_s: float) -> float | None:
        """None if the cache shows everything that this machine wrote; else when the wait ends in any case."""
        entry = self._unseen.get(machine)
        if entry is None:
            return None
        touched, wrote_s = entry
        missing = tuple(one for one in touched if not shows(one, version))
        limit_s = max((wrote_s + _waited_s(one, version) for one in missing), default=now_s)
        if now_s >= limit_s:
            del self._unseen[machine]
            return None
        self._unseen[machine] = (missing, wrote_s)
        return limit_s

    def forget(self, live: Container[ObjectKey]) -> None:
        """Drop the entries of machines that do not exist any more."""
        for table in (self.statuses, self.nodes, self._unseen):
            for key in [k for k in table if k not in live]:
                del table[key]


def _waited_s(touched: Touched, version: Version) -> float:
    # A deleted object that is still there may be another one of that name.
    unseen = touched.deleted or version(touched.kind, touched.key) is None
    return UNSEEN_LIMIT_S if unseen else BEHIND_LIMIT_S


def shows(touched: Touched, version: Version) -> bool:
    """True if the cache has what was written, or something newer."""
    cached = version(touched.kind, touched.key)
    if touched.deleted:
        return cached is None or cached[1]
    if cached is None:
        return False
    have, want = cached[0], touched.version
    # Resource versions are opaque by contract and numbers in practice: a newer number shows the write as well.
    newest, written = int64(have), int64(want)
    if newest is not None and written is not None:
        return newest >= written
    return have == want
