"""Whether a workload can do without a pod now: how many are available, and whether its controller would bring this one back at once. Pure.

Where no PodDisruptionBudget selects the pods, this says how many may be unavailable.

The limit is a quarter of the replicas, rounded down, and at least one: the default ``maxUnavailable`` of a Deployment's
rolling update, with the least that allows any move. Pods are counted as the disruption controller counts them: what the
workload wants minus what is available, so that a pod that is missing, terminating or not Ready uses the limit up, whoever
is to blame. Available is meant as in ``IsPodAvailable`` of k8s.io/kubernetes/pkg/api/v1/pod: Ready for ``minReadySeconds``.

Whatever a budget says, a StatefulSet that creates its pods in order brings none back before those with lower numbers are
available (``processReplica`` of pkg/controller/statefulset). So its pods are evicted one by one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from rescheduler.model.migration import MigrationPhase
from rescheduler.model.records import ObjectKey, Pod, Workload
from rescheduler.model.room_of_move import controller_of_move
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.plan import Blocked, SkipReason
from rescheduler.replacements.controllers import ordinal
from rescheduler.replacements.siblings import Alike, age
from rescheduler.scheduling.classes import PodClass
from rescheduler.scheduling.state import SchedulingState

_WITH_REPLICAS: Final = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"})
_PART: Final = 4
"""One pod of so many may be unavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """The pods of one workload."""

    workload: str
    """Kind, namespace and name."""
    wanted: int
    """Pods that there should be."""
    available: frozenset[str]
    """Uids of the available pods, without those whose eviction is decided."""
    settles_at_s: float | None = None
    """When the next Ready pod becomes available; None: no pod waits for its minReadySeconds."""
    unavailable: int | None = None
    """Of a StatefulSet that creates its pods in order: the lowest number whose pod is not available; None: all are."""
    absent: int | None = None
    """Likewise, whose pod does not exist, ends, or is about to be evicted."""

    @property
    def most_unavailable(self) -> int:
        """How many pods may be unavailable at once."""
        return max(1, self.wanted // _PART)

    def refusal(self, pod: Pod, taken: int = 0, *, budgeted: bool = False) -> str:
        """Why the pod may not be evicted now, or "". ``taken``: available pods that other moves take. ``budgeted``: a budget says how many.

        A pod that is not Ready takes nothing: it is unavailable already.
        """
        if first := self._comes_first(pod):
            return f"{self.workload} creates its pods in order (podManagementPolicy OrderedReady): {first} must be available first"
        if budgeted:
            return ""
        available = len(self.available) - taken
        missing = self.wanted - available
        # One may always be unavailable.
        if missing <= 0 or not pod.ready or missing + (pod.uid in self.available) <= self.most_unavailable:
            return ""
        return (
            f"{available} of {self.wanted} pods of {self.workload} are available without those that are being moved; "
            f"at most {self.most_unavailable} may be unavailable, because no PodDisruptionBudget selects the pod and says otherwise"
        )

    def _comes_first(self, pod: Pod) -> str:
        """The pod that its controller would bring back before this one; "" if there is none."""
        first, own = self.unavailable, ordinal(pod.name)
        found = first if first is not None and own is not None and first < own else self.absent
        return "" if found is None else f"{pod.name.rpartition('-')[0]}-{found}"


def availability_of(
    pod: Pod,
    workload: Workload | None,
    pods: Iterable[Pod],
    now_s: float,
    *,
    leaving: Collection[str] = (),
    missing: int = 0,
) -> Availability:
    """The availability of the workload of ``pod``, whose topmost known controller is ``workload`` and whose pods are ``pods``.

    ``leaving``: uids of pods whose eviction is decided. ``missing``: evicted pods that have no replacement yet; they count
    only where the number of replicas is not known, because there the pods themselves are counted.
    """
    min_ready_s = workload.min_ready_s if workload is not None else 0
    available: set[str] = set()
    settles_at_s: float | None = None
    live = 0
    in_order, staying = _numbers_in_order(workload), dict[int | None, str]()
    for each in pods:
        live += not each.terminal
        if in_order and not (each.deleting or each.uid in leaving):
            staying[ordinal(each.name)] = each.uid
        if each.deleting or not each.ready:
            continue
        due_s = _available_at_s(each, min_ready_s)
        if due_s <= now_s:
            available.add(each.uid)
        else:
            settles_at_s = due_s if settles_at_s is None else min(settles_at_s, due_s)
    known = workload is not None and workload.kind in _WITH_REPLICAS
    available.difference_update(leaving)
    return Availability(
        workload=_name(pod, workload),
        wanted=workload.replicas if known and workload is not None else live + missing,
        available=frozenset(available),
        settles_at_s=settles_at_s,
        unavailable=next((n for n in in_order if staying.get(n) not in available), None),
        absent=next((n for n in in_order if n not in staying), None),
    )


def is_in_order(snapshot: Snapshot, pod: Pod) -> bool:
    """True for a pod of a StatefulSet that creates its pods one after the other."""
    workload = snapshot.workloads.get(pod.controller.uid) if pod.controller is not None else None
    return workload is not None and workload.in_order


def _numbers_in_order(workload: Workload | None) -> range:
    """Those of the pods that a StatefulSet creates one after the other."""
    if workload is None or not workload.in_order:
        return range(0)
    return range(workload.first_ordinal, workload.first_ordinal + workload.replicas)


def missing_pods(snapshot: Snapshot) -> Counter[str]:
    """Evicted pods that are gone and whose replacement has not claimed its room yet, by uid of their controller."""
    found: Counter[str] = Counter()
    for migration in snapshot.migrations.values():
        status = migration.status
        evicting = status.phase is MigrationPhase.EVICTING and bool(status.eviction_requested_at_s)
        if not (evicting or status.phase is MigrationPhase.HANDING_OVER) or status.replacement is not None:
            continue
        old = snapshot.pods.get(ObjectKey(migration.namespace, migration.pod_name))
        owner = controller_of_move(migration, snapshot)
        if owner is not None and (old is None or old.uid != migration.pod_uid):
            found[owner.uid] += 1
    return found


def _available_at_s(pod: Pod, min_ready_s: int) -> float:
    # Times of conditions are whole seconds, so one more is waited for.
    return pod.ready_since_s + min_ready_s + 1.0 if min_ready_s else 0.0


def _name(pod: Pod, workload: Workload | None) -> str:
    if workload is not None:
        return f"{workload.kind} {workload.namespace}/{workload.name}"
    owner = pod.controller
    return f"{owner.kind} {pod.namespace}/{owner.name}" if owner is not None else str(pod.key)


class AvailabilityLedger:
    """The availability of all workloads of a snapshot, with what moves under way and planned ones take of it."""

    def __init__(
        self,
        snapshot: Snapshot,
        pods: OwnedPods,
        *,
        covered: Callable[[Pod], bool],
        starts_first: Callable[[Pod, str], bool],
        leaving: Collection[str] = (),
        unlimited: bool = False,
    ) -> None:
        """``pods``: those of the snapshot. ``covered``: a PodDisruptionBudget selects the pod. ``starts_first``: a move by that policy leaves no pod less.

        ``leaving``: uids of pods that moves under way evict. ``unlimited``: moves are planned as if time passed, so that
        they take nothing from each other; what is unavailable now counts all the same.
        """
        self._snapshot = snapshot
        self._owned = pods
        self._covered = covered
        self._starts_first = starts_first
        self._unlimited = unlimited
        self._leaving: Collection[str] = () if unlimited else leaving
        self._taken: Counter[str] = Counter()
        self._controllers: dict[str, list[str]] | None = None
        """Uid of a workload -> uids of the controllers of its pods."""
        self._missing: Counter[str] = Counter()
        self._known: dict[str, Availability] = {}
        self._refusals: dict[tuple[object, ...], Blocked | None] = {}
        """The answers by all that ``Availability.refusal`` looks at: tens of thousands of pods are asked about in each round."""
        self._workloads: dict[str, str] = {}
        """Uid of a controller of pods -> uid of the workload."""

    def refusal(self, pod: Pod, policy: str = "") -> Blocked | None:
        """Why its workload cannot do without the pod now, or None."""
        covered, in_order = self._covered(pod), is_in_order(self._snapshot, pod)
        if covered and not in_order:
            return None
        uid = self._workload(pod)
        found = self._of(uid, pod)
        taken = self._taken.get(uid, 0)
        alike = uid, taken, covered, pod.ready, pod.uid in found.available, pod.name if in_order else ""
        if alike not in self._refusals:
            message = found.refusal(pod, taken, budgeted=covered)
            refused = Blocked(SkipReason.TOO_FEW_AVAILABLE, message, found.workload) if message else None
            self._refusals[alike] = refused
        known = self._refusals[alike]
        return None if known is None or self._starts_first(pod, policy) else known

    def take(self, pod: Pod, policy: str = "") -> None:
        """Spend what the eviction of the pod costs, ``policy`` being the one that moves it."""
        self._spend(pod, policy, 1)

    def give_back(self, pod: Pod, policy: str = "") -> None:
        """Undo ``take``."""
        self._spend(pod, policy, -1)

    def _spend(self, pod: Pod, policy: str, times: int) -> None:
        if self._unlimited or self._covered(pod) or self._starts_first(pod, policy):
            return
        uid = self._workload(pod)
        self._taken[uid] += times * (pod.uid in self._of(uid, pod).available)

    def _workload(self, pod: Pod) -> str:
        """Uid of the workload of a pod; the pods of one controller have the same."""
        if pod.controller is None:
            return ""
        found = self._workloads.get(pod.controller.uid)
        if found is None:
            found = self._workloads[pod.controller.uid] = self._snapshot.workload_uid(pod)
        return found

    def _of(self, uid: str, pod: Pod) -> Availability:
        known = self._known.get(uid)
        if known is None:
            known = self._known[uid] = availability_of(
                pod,
                self._snapshot.top_workload(pod),
                self._pods_of(uid),
                self._snapshot.taken_at_s,
                leaving=self._leaving,
                missing=self._missing[pod.controller.uid] if pod.controller is not None else 0,
            )
        return known

    def _pods_of(self, uid: str) -> Iterable[Pod]:
        """The pods of a workload."""
        if self._controllers is None:
            self._missing = missing_pods(self._snapshot)
            self._controllers = {}
            for controller in self._owned.controllers():
                one = next(iter(self._owned.of(controller)))
                self._controllers.setdefault(self._snapshot.workload_uid(one), []).append(controller)
        return chain.from_iterable(map(self._owned.of, self._controllers.get(uid, ())))


class OwnedPods:
    """Pods by uid of their controller. Those that have ended, and those without a node, belong to it as well.

    Taken from the classes of the state before any trial move, not by reading all pods; trial moves change nothing here.
    """

    def __init__(self, state: SchedulingState) -> None:
        """``state``: without trial moves."""
        self._pods: defaultdict[str, list[Iterable[Pod]]] = defaultdict(list)
        self.alike: list[Alike] = []
        """All of them that have a controller."""
        for known in state.cluster.classes:
            if known.pods and known.controller is not None:
                self._pods[known.controller.uid].append(known.pods.copy())
                self.alike.append(_alike(known))
        for pod in chain(state.unplaced.values(), state.ended.values()):
            if pod.controller is not None:
                self._pods[pod.controller.uid].append((pod,))
                self.alike.append(Alike(pod, 1))

    def controllers(self) -> Iterable[str]:
        """Uids of the controllers that have pods."""
        return self._pods.keys()

    def of(self, controller_uid: str) -> Iterable[Pod]:
        """The pods of one controller, in no order."""
        return chain.from_iterable(self._pods.get(controller_uid, ()))


def _alike(known: PodClass) -> Alike:
    return known.memo.of(OwnedPods, known.version, lambda: Alike(max(known.pods, key=age), len(known.pods)))
