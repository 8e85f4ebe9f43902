"""The pods of each controller: how many live, and which of them show what admission adds. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rescheduler.model.migration import MigrationPhase, MoveMode, PodMigration
from rescheduler.model.names import LABEL_START_FIRST
from rescheduler.model.never_moves import foreign_gates
from rescheduler.model.records import Pod, PodSpec, Workload
from rescheduler.model.snapshot import Snapshot

REVISION_HASH: Final = "controller-revision-hash"
"""Label in which a StatefulSet's controller writes the revision that a pod was created from."""


PodsOf = Callable[[str], Iterable[Pod]]
"""The pods of a controller, by its uid."""


class Alike(NamedTuple):
    """Pods of one controller that nothing tells apart but name, place and moment."""

    newest: Pod
    number: int


class NewestPods:
    """By controller and revision."""

    def __init__(
        self, snapshot: Snapshot, pods_of: PodsOf | None = None, alike: Iterable[Alike] | None = None
    ) -> None:
        """``pods_of``: the pods of a controller. Without it all pods are read once: the snapshot's, or ``alike``, which are the same."""
        self._snapshot = snapshot
        self._pods_of = pods_of
        self._alike = alike
        self._newest: dict[tuple[str, str], Pod] = {}
        self._specs: dict[tuple[str, str], list[PodSpec]] = {}
        """By controller and revision: of each request of its pods one spec."""
        self._all_read = False
        self._live: Counter[str] = Counter()
        self._gated: dict[str, tuple[str, ...]] = {}
        self._extra = frozenset(m.uid for m in snapshot.migrations.values() if _starts_first(m))
        self._read: set[str] = set()
        self._families: dict[str, list[str]] | None = None

    def of(self, controller_uid: str, revision: str) -> Pod | None:
        """The newest pod of that controller; of that revision if ``revision`` is not empty."""
        return self._known(controller_uid).get((controller_uid, revision))

    def specs(self, controller_uid: str, revision: str) -> Sequence[PodSpec]:
        """Of pods of that revision: they differ in what they request if some were resized in place."""
        self._known(controller_uid)
        return self._specs.get((controller_uid, revision), ())

    def live(self, controller_uid: str) -> int:
        """How many pods of that controller neither end nor have ended (``IsPodActive`` of pkg/controller).

        Without those that moves of mode StartFirst add for a while: the old pod of such a move is about to leave.
        """
        self._known(controller_uid)
        return self._live[controller_uid]

    def foreign_gates(self, controller_uid: str) -> tuple[str, ...]:
        """Scheduling gates of other programs with which a pod of that controller waits now; () if none does.

        Admission adds them to new pods only, and they leave no trace: pods that were let go do not show them.
        """
        self._known(controller_uid)
        return self._gated.get(controller_uid, ())

    def of_family(self, workload: Workload, since: Pod | None) -> Pod | None:
        """The newest pod of the other workloads of the same controller, such as a Deployment's other ReplicaSets.

        It shows what admission adds, if it is newer than ``since``, the newest pod of ``workload`` itself.
        """
        others = filter(None, (self.of(uid, "") for uid in self._others(workload)))
        newest = max(others, key=age, default=None)
        if newest is None or (since is not None and age(newest) <= age(since)):
            return None
        return newest

    def family_gates(self, workload: Workload) -> tuple[str, ...]:
        """``foreign_gates`` of the other workloads of the same controller."""
        return next(filter(None, map(self.foreign_gates, self._others(workload))), ())

    def _others(self, workload: Workload) -> Iterator[str]:
        if workload.controller is None:
            return iter(())
        if self._families is None:
            self._families = {}
            for uid, other in self._snapshot.workloads.items():
                if other.controller is not None:
                    self._families.setdefault(other.controller.uid, []).append(uid)
        return (uid for uid in self._families.get(workload.controller.uid, ()) if uid != workload.uid)

    def _known(self, controller_uid: str) -> dict[tuple[str, str], Pod]:
        if self._pods_of is None:
            if not self._all_read:
                self._all_read = True
                self._take_in(_each(self._snapshot.pods.values()) if self._alike is None else self._alike)
        elif controller_uid not in self._read:
            self._read.add(controller_uid)
            self._take_in(_each(self._pods_of(controller_uid)))
        return self._newest

    def _take_in(self, pods: Iterable[Alike]) -> None:
        extra = self._extra
        for pod, number in pods:
            if pod.controller is None:
                continue
            uid, revision = pod.controller.uid, pod.labels.get(REVISION_HASH) or ""
            if pod.spec.gates and not pod.deleting and (gates := foreign_gates(pod.spec.gates)):
                self._gated[uid] = min(gates, self._gated.get(uid, gates))
            if not (pod.deleting or pod.terminal or (extra and pod.labels.get(LABEL_START_FIRST) in extra)):
                self._live[uid] += number
            self._put((uid, ""), pod)
            if revision:
                self._put((uid, revision), pod)
                specs = self._specs.setdefault((uid, revision), [])
                if all(pod.spec is not spec and pod.spec.requests != spec.requests for spec in specs):
                    specs.append(pod.spec)

    def _put(self, key: tuple[str, str], pod: Pod) -> None:
        known = self._newest.get(key)
        if known is None or age(pod) > age(known):
            self._newest[key] = pod


def _each(pods: Iterable[Pod]) -> Iterator[Alike]:
    return (Alike(pod, 1) for pod in pods)


def age(pod: Pod) -> tuple[float, str]:
    """Sorts the pods of a controller, the newest last."""
    return pod.created_at_s, pod.name


def _starts_first(migration: PodMigration) -> bool:
    status = migration.status
    ended = status.phase in (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)
    return status.mode is MoveMode.START_FIRST and not ended
