"""Look-ups on the Snapshot of one round, in constant time.

Built from an index that is kept between rounds, so that a round costs as much as what changed, not as the cluster.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rescheduler.coordination.kept_index import KeptIndex
from rescheduler.coordination.waiting_room import WaitingRoom
from rescheduler.model.controller_key import TEMPLATE_HASH, named_controllers
from rescheduler.model.kinds import Kind
from rescheduler.model.migration import PodMigration
from rescheduler.model.never_moves import holds_gate
from rescheduler.model.pod_volumes import VolumeKind
from rescheduler.model.records import DisruptionBudget, Node, ObjectKey, OwnerRef, Pod, PodSpec, Workload
from rescheduler.model.reservation import KoordinatorReservation, ObjectRef, Reservation, ReservationOwner
from rescheduler.model.room_sets import HeadRoom, ReservationWindow
from rescheduler.model.selectors import NodeSelector
from rescheduler.model.snapshot import Snapshot

Versioned = Pod | Node | Reservation | KoordinatorReservation | PodMigration | ReservationWindow | HeadRoom
"""Objects that are written."""


class Volumes(NamedTuple):
    """The volumes behind the claims of a pod, or of a pod that does not exist yet."""

    affinities: tuple[NodeSelector, ...] = ()
    """Node affinity of the volumes that claims are bound to."""
    unbound: tuple[str, ...] = ()
    """Claims without a volume."""


@dataclass(frozen=True, slots=True)
class RoundIndex:
    """Look-ups on one snapshot. Not valid after its round, because the next round changes ``kept``."""

    snapshot: Snapshot
    view: Snapshot
    """The same with only the Reservations and PodMigrations that this round is about. What visits all of them visits these;
    ``snapshot`` is for look-ups."""
    gated: tuple[Pod, ...]
    """Pods with our gate."""
    waiting: tuple[Pod, ...]
    """Pods without a node and without scheduling gates."""
    kept: KeptIndex
    waiting_room: WaitingRoom

    @classmethod
    def of(cls, snapshot: Snapshot, kept: KeptIndex | None = None) -> RoundIndex:
        """The index of ``snapshot``. ``kept``: that of the last round, which is brought up to date."""
        kept = kept or KeptIndex()
        kept.follow(snapshot)
        pending = kept.pods.unbound.values()
        gated = tuple(pod for pod in pending if holds_gate(pod))
        waiting = tuple(pod for pod in pending if not pod.spec.gates and not pod.deleting)
        return cls(snapshot, snapshot, gated, waiting, kept, WaitingRoom(snapshot))

    def about(
        self, reservations: Mapping[str, Reservation], migrations: Mapping[ObjectKey, PodMigration]
    ) -> RoundIndex:
        """The same index for a round about these objects."""
        view = dataclasses.replace(self.snapshot, reservations=reservations, migrations=migrations)
        return dataclasses.replace(self, view=view)

    def pod(self, ref: ObjectRef) -> Pod | None:
        """The pod of that name, if it still has that uid."""
        pod = self.snapshot.pods.get(ObjectKey(ref.namespace, ref.name))
        return pod if pod is not None and pod.uid == ref.uid else None

    def claimant(self, reservation: Reservation) -> Pod | None:
        """The pod that claimed the Reservation, if it is still there."""
        owners = reservation.status.current_owners
        return self.pod(owners[0]) if owners else None

    def owners(self, reservation: Reservation) -> tuple[Pod, ...]:
        """The pods that have claimed the Reservation or a part of it, and are still there."""
        found = (self.pod(owner) for owner in reservation.status.current_owners)
        return tuple(pod for pod in found if pod is not None)

    def unbound(self) -> Iterable[Pod]:
        """Pods without a node, gated ones included."""
        return self.kept.pods.unbound.values()

    def budgets_of(self, pod: Pod) -> tuple[DisruptionBudget, ...]:
        """PodDisruptionBudgets that select the pod."""
        return tuple(
            budget
            for budget in self.kept.budgets.by_namespace.get(pod.namespace, ())
            if budget.selector is not None and budget.selector.matches(pod.labels)
        )

    def controllers(self, pod: Pod) -> tuple[OwnerRef, ...]:
        """The pod's controller, and the controllers above it.

        One that the cache does not show yet says by its name what is above it (without a uid): pods and controllers have
        separate watches.
        """
        result = list(self.snapshot.controllers_from(pod.controller))
        if result and result[-1].uid not in self.snapshot.workloads:
            result += _above(result[-1], pod)
        return tuple(result)

    def pods_of(self, controller_uid: str) -> Iterable[Pod]:
        """Pods of one controller."""
        return self.kept.pods.of_controller(controller_uid)

    def workloads_for(self, owner: ReservationOwner) -> Iterable[Workload]:
        """Workloads that may make pods of ``owner``: all, or with a controller's uid that one and those below it."""
        if owner.controller is not None and owner.controller.uid:
            return self.kept.workloads.under(owner.controller.uid)
        return self.snapshot.workloads.values()

    def volumes_of(self, namespace: str, pod: str, spec: PodSpec) -> Volumes:
        """For the claims of ``spec``. ``pod``: its name, after which claims of ephemeral volumes are called; "": none yet."""
        affinities: list[NodeSelector] = []
        unbound: list[str] = []
        for volume in spec.volumes:
            if volume.kind is VolumeKind.CLAIM:
                name = volume.source
            elif volume.kind is VolumeKind.EPHEMERAL and pod:
                name = f"{pod}-{volume.source}"
            else:
                continue
            claim = self.snapshot.claims.get(ObjectKey(namespace, name))
            bound = self.snapshot.volumes.get(claim.volume) if claim is not None else None
            if bound is None:
                unbound.append(name)
            elif bound.node_affinity is not None:
                affinities.append(bound.node_affinity)
        return Volumes(tuple(affinities), tuple(unbound))

    def version(self, kind: Kind, key: ObjectKey) -> tuple[str, bool] | None:
        """(resource version, is being deleted) of an object as the cache has it; None if it is not there."""
        record: Versioned | None
        match kind:
            case Kind.POD:
                record = self.snapshot.pods.get(key)
            case Kind.NODE:
                record = self.snapshot.nodes.get(key.name)
            case Kind.RESERVATION:
                record = self.snapshot.reservations.get(key.name)
            case Kind.KOORDINATOR_RESERVATION:
                record = self.snapshot.koordinator.get(key.name)
            case Kind.RESERVATION_WINDOW:
                record = self.snapshot.windows.get(key.name)
            case Kind.HEAD_ROOM:
                record = self.snapshot.head_rooms.get(key.name)
            case Kind.POD_MIGRATION:
                record = self.snapshot.migrations.get(key)
            case _:
                return None
        if record is None:
            return None
        return record.resource_version, record.deleting


def _above(unseen: OwnerRef, pod: Pod) -> Iterable[OwnerRef]:
    template_hash = pod.labels.get(TEMPLATE_HASH) or ""
    for kind, name in named_controllers(unseen.kind, unseen.name, template_hash)[1:]:
        yield OwnerRef(unseen.api_version, kind, name, "")
