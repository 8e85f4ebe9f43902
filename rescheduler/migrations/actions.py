"""What the PodMigration machine wants done. Values only; ``controller.executor`` carries them out."""

from __future__ import annotations

import msgspec

from rescheduler.model.migration import MigrationStatus
from rescheduler.model.records import AvoidEntry, ObjectKey, OwnerRef, Pod, PodSpec
from rescheduler.model.selectors import LabelSet, NodeSelector
from rescheduler.reservations.actions import DeleteReservation, RecordEvent


class AdoptPod(msgspec.Struct, frozen=True, tag=True):
    """Fill in ``spec.podRef.uid``: the move is of this very pod from now on."""

    migration: ObjectKey
    uid: str
    resource_version: str
    pod_uid: str


class WriteMigrationStatus(msgspec.Struct, frozen=True, tag=True):
    """Write the status if the PodMigration is still of ``resource_version`` (compare and swap)."""

    migration: ObjectKey
    uid: str
    resource_version: str
    status: MigrationStatus


class CreateReservation(msgspec.Struct, frozen=True, tag=True):
    """Make the Reservation for the replacement of ``pod`` on ``node``. ``ttl_s``: the time the move has left."""

    name: str
    migration: ObjectKey
    pod: Pod
    node: str
    ttl_s: float
    soft: bool = False
    template: PodSpec | None = None
    volumes: tuple[NodeSelector, ...] = ()


class ProveGate(msgspec.Struct, frozen=True, tag=True):
    """Create a pod of that controller in a dry run: does it get our gate?"""

    migration: ObjectKey
    controller: OwnerRef
    namespace: str


class DryRunEvict(msgspec.Struct, frozen=True, tag=True):
    """Ask whether the eviction would pass: rights, admission, budgets of this moment."""

    migration: ObjectKey
    pod: ObjectKey
    pod_uid: str
    grace_s: int | None = None


class Evict(msgspec.Struct, frozen=True, tag=True):
    """Evict that very pod. Only after the last look at leadership."""

    migration: ObjectKey
    pod: ObjectKey
    pod_uid: str
    grace_s: int | None = None


class StartReplacement(msgspec.Struct, frozen=True, tag=True):
    """Create the replacement of mode StartFirst from the template of ``owner``, pinned to ``node``.

    ``labels``: those of birth. ``replaces``: of whom it takes the place.
    """

    migration: ObjectKey
    owner: OwnerRef
    namespace: str
    name: str
    node: str
    labels: tuple[tuple[str, str], ...]
    replaces: str


class LabelReplacement(msgspec.Struct, frozen=True, tag=True):
    """Give that very pod the labels that its ReplicaSet selects by, so that it is adopted."""

    pod: ObjectKey
    uid: str
    labels: LabelSet


class RemoveReplacement(msgspec.Struct, frozen=True, tag=True):
    """Delete that very pod, a replacement that nobody adopted, with its own grace."""

    pod: ObjectKey
    uid: str


class WriteAvoidHints(msgspec.Struct, frozen=True, tag=True):
    """Write the list of PreferAvoidPods hints (rows R53-R58) of a node that is still of that version."""

    node: str
    resource_version: str
    entries: tuple[AvoidEntry, ...]


class DeleteMigration(msgspec.Struct, frozen=True, tag=True):
    """Delete the PodMigration object (uid precondition)."""

    migration: ObjectKey
    uid: str


MigrationAction = (
    AdoptPod
    | WriteMigrationStatus
    | CreateReservation
    | ProveGate
    | DryRunEvict
    | Evict
    | StartReplacement
    | LabelReplacement
    | RemoveReplacement
    | WriteAvoidHints
    | DeleteMigration
    | DeleteReservation
    | RecordEvent
)
