"""One round's view of a Snapshot: every object that the machines ask for, found in constant time.

Built once per round in one pass over the pods; nothing in it is quadratic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rescheduler.model.kinds import Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.records import (
    DisruptionBudget,
    Node,
    ObjectKey,
    OwnerRef,
    Pod,
    VolumeKind,
)
from rescheduler.model.reservation import ObjectRef, Reservation
from rescheduler.model.selectors import NodeSelector
from rescheduler.model.snapshot import Snapshot
from rescheduler.reservations.handover import holds_gate


@dataclass(frozen=True, slots=True)
class RoundIndex:
    """Look-ups on one snapshot. ``gated``: pods with our gate. ``waiting``: other pods without a node."""

    snapshot: Snapshot
    gated: tuple[Pod, ...]
    waiting: tuple[Pod, ...]
    _budgets: dict[str, list[DisruptionBudget]] = field(default_factory=dict)
    _of_controller: dict[str, list[Pod]] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> RoundIndex:
        """The index of ``snapshot``."""
        pending = [pod for pod in snapshot.pods.values() if not pod.node and not pod.terminal]
        gated = tuple(pod for pod in pending if holds_gate(pod))
        waiting = tuple(pod for pod in pending if not pod.spec.gates and not pod.deleting)
        index = cls(snapshot, gated, waiting)
        for budget in snapshot.budgets.values():
            index._budgets.setdefault(budget.namespace, []).append(budget)
        return index

    def pod(self, ref: ObjectRef) -> Pod | None:
        """The pod of that name, if it is still of that uid."""
        pod = self.snapshot.pods.get(ObjectKey(ref.namespace, ref.name))
        return pod if pod is not None and pod.uid == ref.uid else None

    def claimant(self, reservation: Reservation) -> Pod | None:
        """The pod that claimed the Reservation, if it is still there."""
        owners = reservation.status.current_owners
        return self.pod(owners[0]) if owners else None

    def budgets_of(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """PodDisruptionBudgets that select the pod."""
        return tuple(
            budget
            for budget in self._budgets.get(pod.namespace, ())
            if budget.selector is not None and budget.selector.matches(pod.labels)
        )

    def controllers(self, pod: Pod) -> tuple[OwnerRef, ...]:
        """The pod's controller, and the controllers above it."""
        result: list[OwnerRef] = []
        ref = pod.controller
        while ref is not None and all(ref.uid != known.uid for known in result):
            result.append(ref)
            workload = self.snapshot.workloads.get(ref.uid)
            ref = workload.controller if workload else None
        return tuple(result)

    def pods_of(self, controller_uid: str) -> Iterable[Pod]:
        """Pods of one controller; the pods are gone through once, at the first question of a round."""
        if not self._of_controller:
            for pod in self.snapshot.pods.values():
                if pod.controller is not None:
                    self._of_controller.setdefault(pod.controller.uid, []).append(pod)
        return self._of_controller.get(controller_uid, ())

    def volume_affinities(self, pod: Pod) -> tuple[NodeSelector, ...]:
        """Node affinity of the volumes that the pod's claims are bound to."""
        result: list[NodeSelector] = []
        for volume in pod.spec.volumes:
            if volume.kind not in (VolumeKind.CLAIM, VolumeKind.EPHEMERAL):
                continue
            name = volume.source if volume.kind is VolumeKind.CLAIM else f"{pod.name}-{volume.source}"
            claim = self.snapshot.claims.get(ObjectKey(pod.namespace, name))
            bound = self.snapshot.volumes.get(claim.volume) if claim is not None else None
            if bound is not None and bound.node_affinity is not None:
                result.append(bound.node_affinity)
        return tuple(result)

    def version(self, kind: Kind, key: ObjectKey) -> tuple[str, bool] | None:
        """(resource version, is being deleted) of an object as the cache has it; None if it is not there."""
        record: Pod | Node | Reservation | PodMigration | None
        match kind:
            case Kind.POD:
                record = self.snapshot.pods.get(key)
            case Kind.NODE:
                record = self.snapshot.nodes.get(key.name)
            case Kind.RESERVATION:
                record = self.snapshot.reservations.get(key.name)
            case Kind.POD_MIGRATION:
                record = self.snapshot.migrations.get(key)
            case _:
                return None
        if record is None:
            return None
        return record.resource_version, record.deleting
