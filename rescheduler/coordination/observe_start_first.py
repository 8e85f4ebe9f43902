"""Collects what mode StartFirst needs: replacements, their owners, moves of the same owner, and which pods to gate.

No decisions: ``migrations.start_first`` decides. Gate keys are derived from the written intents, so that they
survive a crash and end with the move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rescheduler.coordination.index import RoundIndex
from rescheduler.migrations.migration_lifecycle import FINISHED
from rescheduler.migrations.observed_migration import ALLOWED, ObservedStartFirst, Permission
from rescheduler.migrations.start_first_replacement import replacement_name, replica_set_of
from rescheduler.model import names
from rescheduler.model.controller_key import controller_key
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import ObjectKey, Pod, Workload
from rescheduler.model.room_of_move import controller_of_move
from rescheduler.planning.start_first_mode import declared, refusal_in


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFirstObserver:
    """Collects the input of the moves in this mode."""

    index: RoundIndex
    begun: Callable[[ObjectKey], bool]
    """True if the first step of that move was written; the cache may still show it as Pending."""
    by_default: bool
    """The configuration declares the mode for every workload."""
    policies: frozenset[str] = frozenset()
    """Policies for whose moves the configuration declares the mode."""

    def observe(self, migration: PodMigration, pod: Pod | None) -> ObservedStartFirst | None:
        """The input of the machine; None for a move of another mode. ``pod``: the pod to move, if it exists."""
        begun = migration.status.phase is not MigrationPhase.PENDING
        if begun and migration.status.mode is not MoveMode.START_FIRST:
            return None
        if migration.status.phase in FINISHED or migration.mode not in (MoveMode.AUTO, MoveMode.START_FIRST):
            return None
        replacement = self._replacement(migration)
        replica_set = self._replica_set(pod, replacement)
        deployment = self._above(replica_set)
        by_default = self.by_default or self._by_policy(migration)
        wanted = declared(replica_set, deployment, by_default=by_default)
        asked = migration.mode is MoveMode.START_FIRST
        if not begun and not wanted and not asked:
            return None
        name = replacement_name(replica_set.name if replica_set else migration.pod_name, migration.uid)
        return ObservedStartFirst(
            declared=wanted,
            eligible=ALLOWED if begun or pod is None else self._eligible(pod, replica_set, deployment),
            replica_set=replica_set,
            deployment=deployment,
            owned=self._owned(replica_set),
            replacement=replacement or self.index.snapshot.pods.get(ObjectKey(migration.namespace, name)),
            replacement_name=name,
            busy=self._busy(migration, replica_set),
        )

    def gate_keys(self) -> dict[str, str]:
        """Key of each ReplicaSet whose new pods must be held -> name of the replacement that they make room for."""
        keys: dict[str, str] = {}
        for migration in self.index.view.migrations.values():
            status = migration.status
            if not _under_way(migration) or not status.eviction_requested_at_s or status.replacement is None:
                continue
            uid = self._controller_uid(migration)
            if uid:
                keys.setdefault(controller_key(migration.namespace, uid), status.replacement.name)
        return keys

    def _by_policy(self, migration: PodMigration) -> bool:
        """``spec.policy`` alone is not trusted, because any user can write it; only the planner writes the mode in the status."""
        return migration.status.mode is MoveMode.START_FIRST and migration.policy in self.policies

    def _eligible(self, pod: Pod, replica_set: Workload | None, deployment: Workload | None) -> Permission:
        words = refusal_in(self.index.snapshot, pod, replica_set, deployment)
        return Permission(ok=not words, message=words)

    def _replacement(self, migration: PodMigration) -> Pod | None:
        """Found by the name in the status, else by its label: after a crash the status may not have the name yet."""
        known = migration.status.replacement
        if known is not None:
            return self.index.pod(known)
        mine = (
            p
            for p in self.index.kept.pods.unadopted.values()
            if p.labels.get(names.LABEL_START_FIRST) == migration.uid and p.namespace == migration.namespace
        )
        return next(mine, None)

    def _replica_set(self, pod: Pod | None, replacement: Pod | None) -> Workload | None:
        workloads = self.index.snapshot.workloads
        if replacement is not None and (found := replica_set_of(replacement, workloads)):
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
        """Why another move of the same workload must end first; "" if none. The owner declared one additional pod, not two."""
        if replica_set is None:
            return ""
        for other in sorted(self._others(migration), key=lambda m: m.key):
            if self._controller_uid(other) == replica_set.uid:
                return f"move {other.key} of the same workload is in flight"
        for key, replacement in sorted(self.index.kept.pods.unadopted.items()):
            mine = replacement.labels.get(names.LABEL_START_FIRST) == migration.uid
            others = replica_set_of(replacement, self.index.snapshot.workloads)
            if not mine and not replacement.terminal and others is replica_set:
                return f"replacement {key} of another move of the same workload is still there"
        return ""

    def _others(self, migration: PodMigration) -> Iterable[PodMigration]:
        for other in self.index.view.migrations.values():
            if other.key == migration.key or other.status.phase in FINISHED:
                continue
            if _under_way(other) or self.begun(other.key) or other.status.eviction_requested_at_s:
                yield other

    def _controller_uid(self, migration: PodMigration) -> str:
        """Uid of the controller whose pod is moved: from the replacement, the pod, or the Reservation; "" if all are gone."""
        known = migration.status.replacement
        replacement = self.index.pod(known) if known is not None else None
        if replacement is not None and (found := replica_set_of(replacement, self.index.snapshot.workloads)):
            return found.uid
        owner = controller_of_move(migration, self.index.snapshot)
        return owner.uid if owner is not None else ""


def _under_way(migration: PodMigration) -> bool:
    """True for a move of this mode that has begun and has not ended."""
    status = migration.status
    over = status.phase in FINISHED or status.phase is MigrationPhase.PENDING
    return status.mode is MoveMode.START_FIRST and not over
