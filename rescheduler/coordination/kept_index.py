"""Indexes that are kept between rounds and updated only where objects changed.

With moves in flight there are dozens of rounds per second; visiting 150,000 pods in each would take most of a core. The
result is the same as if the indexes were built from the snapshot. For the core thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypeVar

from rescheduler.migrations.start_first_replacement import is_unadopted
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import LABEL_PLACEHOLDER, NODE_REQUEST_SCHEDULER
from rescheduler.model.records import DisruptionBudget, Node, ObjectKey, Pod, Workload
from rescheduler.model.reservation import Reservation, ReservationOwner
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.handover import tainted
from rescheduler.reservations.node_request import holds_nothing, is_node_request
from rescheduler.reservations.scheduler_probe import is_probe

Found = TypeVar("Found")
Name = TypeVar("Name")
Own = TypeVar("Own", Reservation, PodMigration)


class KeptPods:
    """Pods of which there are few in each state that is asked for, and all pods by their controller."""

    def __init__(self) -> None:
        self._at: Snapshot | None = None
        self.unbound: dict[ObjectKey, Pod] = {}
        """Pods without a node that have not ended and that a scheduler may bind."""
        self.ending_placeholders: dict[ObjectKey, Pod] = {}
        """Pods with the label of placeholders, of any namespace, that are bound and being deleted."""
        self.ownerless_placeholders: dict[ObjectKey, Pod] = {}
        """Pods with that label, of any namespace, that stand and have no controller."""
        self.probes: dict[ObjectKey, Pod] = {}
        """Pods that ask a scheduler whether it is up to date, bound ones too: admission may have made them fit somewhere."""
        self.node_requests: dict[ObjectKey, Pod] = {}
        """Pods with the label of those that ask the node autoscaler, of any namespace."""
        self.unadopted: dict[ObjectKey, Pod] = {}
        """Replacements of mode StartFirst that no ReplicaSet has adopted."""
        self._of_controller: dict[str, dict[ObjectKey, Pod]] | None = None
        self._changed: dict[str, int] = {}
        """Uid of a controller that has pods -> number of the last change of one of them."""
        self._changes = 1

    def follow(self, snapshot: Snapshot) -> None:
        """Update from ``snapshot``."""
        before, self._at = self._at, snapshot
        keys = None if before is None else snapshot.pods_changed_since(before)
        if before is None or keys is None:
            for kept, belongs in self._states():
                kept.clear()
                kept.update((key, pod) for key, pod in snapshot.pods.items() if belongs(pod))
            self._of_controller = None
            self._changed.clear()
            self._changes += 1
            return
        for key in keys:
            self._replace(key, before.pods.get(key), snapshot.pods.get(key))

    def of_controller(self, uid: str) -> Iterable[Pod]:
        """Pods of one controller; only the first call visits all pods."""
        if self._of_controller is None:
            self._of_controller = {}
            for key, pod in self._at.pods.items() if self._at is not None else ():
                self._join(key, pod)
            self._changed = dict.fromkeys(self._of_controller, self._changes)
        return tuple(self._of_controller.get(uid, {}).values())

    def last_change_of(self, uid: str) -> int:
        """A number that is another one after each change of the pods of a controller."""
        if self._of_controller is None:
            self.of_controller(uid)
        return self._changed.get(uid, 0)

    @property
    def controllers(self) -> Container[str]:
        """Uids of controllers that have pods."""
        if self._of_controller is None:
            self.of_controller("")
        return self._of_controller or ()

    def _replace(self, key: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        for kept, belongs in self._states():
            if new is not None and belongs(new):
                kept[key] = new
            else:
                kept.pop(key, None)
        if self._of_controller is None:
            return
        self._changes += 1
        for pod in (old, new):
            if pod is not None and pod.controller is not None:
                self._changed[pod.controller.uid] = self._changes
        if old is not None and old.controller is not None:
            owned = self._of_controller.get(old.controller.uid, {})
            if new is None or new.controller is None or new.controller.uid != old.controller.uid:
                owned.pop(key, None)
            if not owned:
                self._of_controller.pop(old.controller.uid, None)
                self._changed.pop(old.controller.uid, None)
        if new is not None:
            self._join(key, new)

    def _states(self) -> Iterable[tuple[dict[ObjectKey, Pod], Callable[[Pod], bool]]]:
        yield self.unbound, _unbound
        yield self.ending_placeholders, _ending_placeholder
        yield self.ownerless_placeholders, _ownerless
        yield self.probes, is_probe
        yield self.node_requests, is_node_request
        yield self.unadopted, is_unadopted

    def _join(self, key: ObjectKey, pod: Pod) -> None:
        if pod.controller is not None and self._of_controller is not None:
            self._of_controller.setdefault(pod.controller.uid, {})[key] = pod


class KeptWorkloads:
    """Workloads by their controller, and the cached answers to "which workloads could create pods of this owner?"."""

    def __init__(self) -> None:
        self._at: Mapping[str, Workload] = {}
        self._children: dict[str, list[str]] = {}
        self._answers: dict[ReservationOwner, Any] = {}

    def follow(self, workloads: Mapping[str, Workload]) -> None:
        """Update from ``workloads``. The cached answers survive if only numbers of replicas changed."""
        if workloads is self._at:
            return
        before, self._at = self._at, workloads
        if len(before) == len(workloads) and all(
            (old := before.get(uid)) is new or (old is not None and _shape(old) == _shape(new))
            for uid, new in workloads.items()
        ):
            return
        self._answers.clear()
        self._children = {}
        for uid, workload in workloads.items():
            if workload.controller is not None:
                self._children.setdefault(workload.controller.uid, []).append(uid)

    def under(self, uid: str) -> Iterable[Workload]:
        """The workload of that uid, and those that it controls, at any depth."""
        seen: set[str] = set()
        waiting = [uid]
        while waiting:
            at = waiting.pop(0)
            if at in seen:
                continue
            seen.add(at)
            waiting.extend(self._children.get(at, ()))
            workload = self._at.get(at)
            if workload is not None:
                yield workload

    def remembered(self, owner: ReservationOwner, find: Callable[[], Found]) -> Found:
        """The result of ``find`` for ``owner``, cached until the workloads change."""
        if owner not in self._answers:
            self._answers[owner] = find()
        found: Found = self._answers[owner]
        return found


class KeptNodes:
    """The few nodes that have our taint or our hints."""

    def __init__(self) -> None:
        self._at: Mapping[str, Node] | None = None
        self.shut: tuple[Node, ...] = ()
        """Nodes with a hand-over taint."""
        self.hinted: tuple[Node, ...] = ()
        """Nodes with PreferAvoidPods hints, by name."""

    def follow(self, nodes: Mapping[str, Node]) -> None:
        """Update from ``nodes``."""
        if nodes is self._at:
            return
        self._at = nodes
        self.shut = tuple(n for n in nodes.values() if tainted(n))
        self.hinted = tuple(sorted((n for n in nodes.values() if n.avoid), key=lambda n: n.name))


class KeptBudgets:
    """PodDisruptionBudgets by namespace."""

    def __init__(self) -> None:
        self._at: Mapping[ObjectKey, DisruptionBudget] | None = None
        self.by_namespace: dict[str, list[DisruptionBudget]] = {}

    def follow(self, budgets: Mapping[ObjectKey, DisruptionBudget]) -> None:
        """Update from ``budgets``."""
        if budgets is self._at:
            return
        self._at = budgets
        self.by_namespace = {}
        for budget in budgets.values():
            self.by_namespace.setdefault(budget.namespace, []).append(budget)


class KeptNames:
    """The names of Reservations and PodMigrations, as keys of machines."""

    def __init__(self) -> None:
        self._at = Snapshot(taken_at_s=0.0)
        self.known: set[ObjectKey] = set()
        """All of them."""
        self.made_again: tuple[ObjectKey, ...] = ()
        """Those made again since the last snapshot: the name is known, the object is another one."""

    def follow(self, snapshot: Snapshot) -> None:
        """Update from ``snapshot``."""
        before, self._at, self.made_again = self._at, snapshot, ()
        if before.migrations is not snapshot.migrations:
            self.known -= before.migrations.keys() - snapshot.migrations.keys()
            self.known |= snapshot.migrations.keys() - before.migrations.keys()
            self.made_again += tuple(_made_again(before.migrations, snapshot.migrations))
        if before.reservations is not snapshot.reservations:
            self.known.difference_update(_machines(before.reservations.keys() - snapshot.reservations.keys()))
            self.known.update(_machines(snapshot.reservations.keys() - before.reservations.keys()))
            self.made_again += tuple(_machines(_made_again(before.reservations, snapshot.reservations)))


class KeptIndex:
    """All indexes. Call ``follow`` with a snapshot before the first look-up."""

    def __init__(self) -> None:
        self.pods = KeptPods()
        self.workloads = KeptWorkloads()
        self.nodes = KeptNodes()
        self.budgets = KeptBudgets()
        self.names = KeptNames()

    def follow(self, snapshot: Snapshot) -> None:
        """Update what changed since the last snapshot."""
        self.pods.follow(snapshot)
        self.workloads.follow(snapshot.workloads)
        self.nodes.follow(snapshot.nodes)
        self.budgets.follow(snapshot.budgets)
        self.names.follow(snapshot)


def _machines(reservations: Iterable[str]) -> Iterable[ObjectKey]:
    return (ObjectKey("", name) for name in reservations)


def _made_again(before: Mapping[Name, Own], now: Mapping[Name, Own]) -> Iterable[Name]:
    return (
        name for name, own in now.items() if (old := before.get(name, own)) is not own and old.uid != own.uid
    )


def _unbound(pod: Pod) -> bool:
    """Not one that asks the node autoscaler, which no scheduler binds: whoever fears or serves pending pods has nothing to do with it."""
    return not pod.node and not pod.terminal and pod.spec.scheduler_name != NODE_REQUEST_SCHEDULER


def _ending_placeholder(pod: Pod) -> bool:
    return pod.deleting and bool(pod.node) and LABEL_PLACEHOLDER in pod.labels


def _ownerless(pod: Pod) -> bool:
    return (
        LABEL_PLACEHOLDER in pod.labels
        and pod.controller is None
        and not (pod.deleting or holds_nothing(pod))
    )


def _shape(workload: Workload) -> tuple[object, ...]:
    """The fields on which the cached answers depend."""
    return (
        workload.kind,
        workload.namespace,
        workload.name,
        workload.api_version,
        workload.controller,
        workload.template_labels,
    )
