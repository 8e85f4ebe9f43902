"""What look-ups of a round need of all objects, kept from round to round and corrected where they changed.

A controller with moves under way makes dozens of rounds a second; going through 150,000 pods in each
would take most of a core. The result is the same as if everything were built anew from the snapshot: a
cache and nothing else. For the one core thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from rescheduler.controller.patches import is_hand_over
from rescheduler.model.records import DisruptionBudget, Node, ObjectKey, Pod, Workload
from rescheduler.model.reservation import ReservationOwner
from rescheduler.model.snapshot import Snapshot

Found = TypeVar("Found")


class KeptPods:
    """Pods without a node, and pods by their controller."""

    def __init__(self) -> None:
        self._at: Snapshot | None = None
        self.unbound: dict[ObjectKey, Pod] = {}
        """Pods without a node that have not ended."""
        self._of_controller: dict[str, dict[ObjectKey, Pod]] | None = None

    def follow(self, snapshot: Snapshot) -> None:
        """Take the pods of ``snapshot``."""
        before, self._at = self._at, snapshot
        keys = None if before is None else snapshot.pods_changed_since(before)
        if before is None or keys is None:
            self.unbound = {key: pod for key, pod in snapshot.pods.items() if _unbound(pod)}
            self._of_controller = None
            return
        for key in keys:
            self._replace(key, before.pods.get(key), snapshot.pods.get(key))

    def of_controller(self, uid: str) -> Iterable[Pod]:
        """Pods of one controller; all pods are gone through at the first question only."""
        if self._of_controller is None:
            self._of_controller = {}
            for key, pod in self._at.pods.items() if self._at is not None else ():
                self._join(key, pod)
        return tuple(self._of_controller.get(uid, {}).values())

    def _replace(self, key: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        if new is not None and _unbound(new):
            self.unbound[key] = new
        else:
            self.unbound.pop(key, None)
        if self._of_controller is None:
            return
        if old is not None and old.controller is not None:
            owned = self._of_controller.get(old.controller.uid, {})
            if new is None or new.controller is None or new.controller.uid != old.controller.uid:
                owned.pop(key, None)
            if not owned:
                self._of_controller.pop(old.controller.uid, None)
        if new is not None:
            self._join(key, new)

    def _join(self, key: ObjectKey, pod: Pod) -> None:
        if pod.controller is not None and self._of_controller is not None:
            self._of_controller.setdefault(pod.controller.uid, {})[key] = pod


class KeptWorkloads:
    """Workloads by what controls them, and remembered answers to "which could make pods of this owner?"."""

    def __init__(self) -> None:
        self._at: Mapping[str, Workload] = {}
        self._children: dict[str, list[str]] = {}
        self._answers: dict[ReservationOwner, Any] = {}

    def follow(self, workloads: Mapping[str, Workload]) -> None:
        """Take all workloads. Changed numbers of replicas change no answer."""
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
        """What ``find`` says of ``owner``; asked once as long as it cannot change."""
        if owner not in self._answers:
            self._answers[owner] = find()
        found: Found = self._answers[owner]
        return found


class KeptNodes:
    """The few nodes that carry something of ours."""

    def __init__(self) -> None:
        self._at: Mapping[str, Node] | None = None
        self.shut: tuple[Node, ...] = ()
        """Nodes with a hand-over taint."""
        self.hinted: tuple[Node, ...] = ()
        """Nodes with PreferAvoidPods hints, by name."""

    def follow(self, nodes: Mapping[str, Node]) -> None:
        """Take all nodes."""
        if nodes is self._at:
            return
        self._at = nodes
        self.shut = tuple(n for n in nodes.values() if n.taints and any(is_hand_over(t) for t in n.taints))
        self.hinted = tuple(sorted((n for n in nodes.values() if n.avoid), key=lambda n: n.name))


class KeptBudgets:
    """PodDisruptionBudgets by namespace."""

    def __init__(self) -> None:
        self._at: Mapping[ObjectKey, DisruptionBudget] | None = None
        self.by_namespace: dict[str, list[DisruptionBudget]] = {}

    def follow(self, budgets: Mapping[ObjectKey, DisruptionBudget]) -> None:
        """Take all budgets."""
        if budgets is self._at:
            return
        self._at = budgets
        self.by_namespace = {}
        for budget in budgets.values():
            self.by_namespace.setdefault(budget.namespace, []).append(budget)


class KeptIndex:
    """All of it; ``follow`` a snapshot before asking."""

    def __init__(self) -> None:
        self.pods = KeptPods()
        self.workloads = KeptWorkloads()
        self.nodes = KeptNodes()
        self.budgets = KeptBudgets()

    def follow(self, snapshot: Snapshot) -> None:
        """Correct what changed since the last snapshot."""
        self.pods.follow(snapshot)
        self.workloads.follow(snapshot.workloads)
        self.nodes.follow(snapshot.nodes)
        self.budgets.follow(snapshot.budgets)


def _unbound(pod: Pod) -> bool:
    return not pod.node and not pod.terminal


def _shape(workload: Workload) -> tuple[object, ...]:
    """What decides whose pods a workload makes."""
    return (
        workload.kind,
        workload.namespace,
        workload.name,
        workload.api_version,
        workload.controller,
        workload.template_labels,
    )
