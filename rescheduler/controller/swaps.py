"""What mode StartFirst needs of a round: its replacements, the owners, who is in the way, and what to hold.

Gathering only; ``migrations.start_first`` decides. Gate keys and held pods follow from the written intents,
so that they survive a crash and end with the move.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.controller.index import RoundIndex
from rescheduler.controller.recent import Recent
from rescheduler.migrations.lifecycle import FINISHED
from rescheduler.migrations.observed import YES, ObservedSwap, Verdict
from rescheduler.migrations.start_first_orphan import is_orphan, orphan_name, replaced_by
from rescheduler.model import names
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import ObjectKey, Pod, Workload
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.side_by_side import declared, refusal_in


class KeptOrphans:
    """Replacements that no ReplicaSet has adopted, kept from round to round. For the one core thread."""

    def __init__(self) -> None:
        self._at: Snapshot | None = None
        self.pods: dict[ObjectKey, Pod] = {}

    def follow(self, snapshot: Snapshot) -> None:
        """Take the pods of ``snapshot``; only those that changed are looked at, where that is known."""
        before, self._at = self._at, snapshot
        changed = None if before is None else snapshot.pods_changed_since(before)
        if changed is None:
            self.pods = {key: pod for key, pod in snapshot.pods.items() if is_orphan(pod)}
            return
        for key in changed:
            pod = snapshot.pods.get(key)
            if pod is not None and is_orphan(pod):
                self.pods[key] = pod
            else:
                self.pods.pop(key, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swaps:
    """One round's look. ``by_default``: the configuration declares the mode for every workload.

    ``policies``: those whose moves it declares it for.
    """

    index: RoundIndex
    orphans: KeptOrphans
    recent: Recent
    by_default: bool
    policies: frozenset[str] = frozenset()

    def observe(self, migration: PodMigration, pod: Pod | None) -> ObservedSwap | None:
        """What the machine looks at; None for a move of another mode. ``pod``: the one to move, if it is there."""
        begun = migration.status.phase is not MigrationPhase.PENDING
        if begun and migration.status.mode is not MoveMode.START_FIRST:
            return None
        if migration.status.phase in FINISHED or migration.mode not in (MoveMode.AUTO, MoveMode.START_FIRST):
            return None
        orphan = self._orphan(migration)
        replica_set = self._replica_set(pod, orphan)
        deployment = self._above(replica_set)
        by_default = self.by_default or self._by_policy(migration)
        wanted = declared(replica_set, deployment, by_default=by_default)
        asked = migration.mode is MoveMode.START_FIRST
        if not begun and not wanted and not asked:
            return None
        name = orphan_name(replica_set.name if replica_set else migration.pod_name, migration.uid)
        return ObservedSwap(
            declared=wanted,
            eligible=YES if begun or pod is None else self._eligible(pod, replica_set, deployment),
            replica_set=replica_set,
            deployment=deployment,
            owned=self._owned(replica_set),
            orphan=orphan or self.index.snapshot.pods.get(ObjectKey(migration.namespace, name)),
            orphan_name=name,
            busy=self._busy(migration, replica_set),
        )

    def gate_keys(self) -> dict[str, str]:
        """Uid of each ReplicaSet whose new pods must be held -> name of the replacement that they make room for."""
        keys: dict[str, str] = {}
        for migration in self.index.snapshot.migrations.values():
            status = migration.status
            if not _under_way(migration) or not status.eviction_requested_at_s or status.replacement is None:
                continue
            uid = self._controller_uid(migration)
            if uid:
                keys.setdefault(uid, status.replacement.name)
        return keys

    def _by_policy(self, migration: PodMigration) -> bool:
        """``spec.policy`` alone is anybody's word; the mode in the status was written by whoever planned the move."""
        return migration.status.mode is MoveMode.START_FIRST and migration.policy in self.policies

    def _eligible(self, pod: Pod, replica_set: Workload | None, deployment: Workload | None) -> Verdict:
        words = refusal_in(self.index.snapshot, pod, replica_set, deployment)
        return Verdict(ok=not words, message=words)

    def _orphan(self, migration: PodMigration) -> Pod | None:
        """By the name in the status, else by its label: after a crash the status may not tell yet."""
        known = migration.status.replacement
        if known is not None:
            return self.index.pod(known)
        mine = (
            p for p in self.orphans.pods.values() if p.labels.get(names.LABEL_START_FIRST) == migration.uid
        )
        return next(mine, None)

    def _replica_set(self, pod: Pod | None, orphan: Pod | None) -> Workload | None:
        workloads = self.index.snapshot.workloads
        if orphan is not None and (found := workloads.get(replaced_by(orphan)[0])):
            return found
        return workloads.get(pod.controller.uid) if pod is not None and pod.controller is not None else None

    def _above(self, replica_set: Workload | None) -> Workload | None:
        if replica_set is None or replica_set.controller is None:
            return None
        return self.index.snapshot.workloads.get(replica_set.controller.uid)

    def _owned(self, replica_set: Workload | None) -> int:
        if replica_set is None:
            return 0
        return sum(not p.deleting and not p.terminal for p in self.index.pods_of(replica_set.uid))

    def _busy(self, migration: PodMigration, replica_set: Workload | None) -> str:
        """Another move that would be disturbed, or would disturb, in words: one pod more is what was declared."""
        if replica_set is None:
            return ""
        for other in sorted(self._others(migration), key=lambda m: m.key):
            if self._controller_uid(other) == replica_set.uid:
                return f"move {other.key} of the same workload is under way"
        for key, orphan in sorted(self.orphans.pods.items()):
            mine = orphan.labels.get(names.LABEL_START_FIRST) == migration.uid
            if not mine and not orphan.terminal and replaced_by(orphan)[0] == replica_set.uid:
                return f"replacement {key} of another move of the same workload is still there"
        return ""

    def _others(self, migration: PodMigration) -> Iterable[PodMigration]:
        for other in self.index.snapshot.migrations.values():
            if other.key == migration.key or other.status.phase in FINISHED:
                continue
            if _under_way(other) or other.key in self.recent.begun or other.status.eviction_requested_at_s:
                yield other

    def _controller_uid(self, migration: PodMigration) -> str:
        """Uid of the controller whose pod is moved, as far as anything still tells."""
        replacement = migration.status.replacement
        orphan = self.index.pod(replacement) if replacement is not None else None
        if orphan is not None and replaced_by(orphan)[0]:
            return replaced_by(orphan)[0]
        pod = self.index.snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
        if pod is not None and pod.controller is not None and migration.pod_uid in ("", pod.uid):
            return pod.controller.uid
        reservation = self.index.snapshot.reservations.get(migration.status.reservation_name)
        owner = reservation.owners[0].controller if reservation and reservation.owners else None
        return owner.uid if owner is not None else ""


def _under_way(migration: PodMigration) -> bool:
    """True for a move of this mode that has begun and has not ended."""
    status = migration.status
    over = status.phase in FINISHED or status.phase is MigrationPhase.PENDING
    return status.mode is MoveMode.START_FIRST and not over
