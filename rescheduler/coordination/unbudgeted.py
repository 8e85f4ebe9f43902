"""How many pods are available of the workloads that no PodDisruptionBudget protects, as of this moment of a round. Pure.

The API server keeps two evictions apart where a budget selects both pods. Without one this is done here, and always for a
StatefulSet that creates its pods in order: a pod whose move
has the intent to evict in its status counts as unavailable, also if that status was written in this very round. So of two
moves of one workload that could evict in the same round, the first one does, and the second one sees it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.coordination.expectations import Expectations
from rescheduler.coordination.index import RoundIndex
from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.records import Pod
from rescheduler.planning.availability import Availability, availability_of, is_in_order, missing_pods


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbudgetedWorkloads:
    """Answers for the moves of one round."""

    index: RoundIndex
    expectations: Expectations
    """Change during the round."""
    now_s: float

    def of(self, migration: PodMigration, pod: Pod | None, *, budgeted: bool = False) -> Availability | None:
        """The availability of the workload of ``pod`` without the pods that other moves evict. ``budgeted``: a budget selects the pod.

        None if it does not matter: the move is not about to evict, or its replacement is Ready before the eviction.
        """
        status = migration.status
        if pod is None or pod.controller is None or status.phase is not MigrationPhase.EVICTING:
            return None
        if status.mode is MoveMode.START_FIRST:
            return None
        snapshot = self.index.snapshot
        if budgeted and not is_in_order(snapshot, pod):
            return None
        return availability_of(
            pod,
            snapshot.top_workload(pod),
            self._pods_like(pod),
            self.now_s,
            leaving=self._leaving(migration),
            missing=missing_pods(self.index.view)[pod.controller.uid],
        )

    def _pods_like(self, pod: Pod) -> Iterable[Pod]:
        """All pods of its workload: those of a Deployment may belong to several ReplicaSets."""
        uid = self.index.snapshot.workload_uid(pod)
        known = [workload.uid for workload in self.index.kept.workloads.under(uid)]
        for each in known or (uid,):
            yield from self.index.pods_of(each)

    def _leaving(self, migration: PodMigration) -> frozenset[str]:
        """Uids of the pods that other moves are about to evict, or have evicted while the cache still shows them.

        Also those whose moves were deleted since. A move that ends without an eviction withdraws its intent, so finished moves need no exception.
        """
        evicted = self.expectations.evicted_by(self.now_s)
        return frozenset(evicted - {migration.pod_uid}).union(
            other.pod_uid
            for other in self.index.view.migrations.values()
            if self.expectations.intent_s(other)
            and other.status.mode is not MoveMode.START_FIRST
            and other.key != migration.key
        )
