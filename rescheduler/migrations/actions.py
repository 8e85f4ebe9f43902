"""The actions of the PodMigration machine, as values; ``controller.call_table`` has the call of each."""

from __future__ import annotations

import msgspec

from rescheduler.model.kept_empty import KeptEmpty
from rescheduler.model.migration import MigrationStatus, PodMigration
from rescheduler.model.records import AvoidEntry, Node, ObjectKey, OwnerRef, Pod, PodSpec
from rescheduler.model.replacement_rules import TemplateKey
from rescheduler.model.selectors import LabelSet, NodeSelector
from rescheduler.reservations.actions import DeleteReservation, RecordEvent


class AdoptPod(msgspec.Struct, frozen=True, tag=True):
    """Fill in ``spec.podRef.uid``: from now on the move is of the pod with this uid only."""

    migration: ObjectKey
    uid: str
    resource_version: str
    pod_uid: str


class WriteMigrationStatus(msgspec.Struct, frozen=True, tag=True):
    """Write the status if the PodMigration is still as it was seen (compare and swap)."""

    seen: PodMigration
    status: MigrationStatus

    @property
    def migration(self) -> ObjectKey:
        """Namespace and name."""
        return self.seen.key

    @property
    def uid(self) -> str:
        """Of the PodMigration."""
        return self.seen.uid


class CreateReservation(msgspec.Struct, frozen=True, tag=True):
    """Make the Reservation for the replacement of ``pod`` on ``node``."""

    name: str
    migration: ObjectKey
    migration_uid: str
    pod: Pod
    node: str
    ttl_s: float
    """The time that the move has left."""
    soft: bool = False
    template: PodSpec | None = None
    volumes: tuple[NodeSelector, ...] = ()
    pre_allocation: bool = False
    """The room is not free yet: pods of earlier moves leave it."""


class ProveGate(msgspec.Struct, frozen=True, tag=True):
    """Create a pod of that controller in a dry run, to see whether it gets our gate."""

    migration: ObjectKey
    controller: OwnerRef
    namespace: str


class DryRunCreate(msgspec.Struct, frozen=True, tag=True):
    """Create, in a dry run, the pod that ``owner`` would create in place of ``pod``, to see what admission makes of it."""

    migration: ObjectKey
    pod: Pod
    owner: OwnerRef
    template: TemplateKey
    """The template that the pod comes from."""


class DryRunEvict(msgspec.Struct, frozen=True, tag=True):
    """Evict in a dry run, to see whether rights, admission and budgets allow it now."""

    migration: ObjectKey
    pod: ObjectKey
    pod_uid: str
    grace_s: int | None = None


class Evict(msgspec.Struct, frozen=True, tag=True):
    """Evict the pod with that uid. The sender checks leadership right before."""

    migration: ObjectKey
    pod: ObjectKey
    pod_uid: str
    grace_s: int | None = None


class StartReplacement(msgspec.Struct, frozen=True, tag=True):
    """Create the replacement of mode StartFirst from the template of ``owner``, pinned to ``node``."""

    migration: ObjectKey
    owner: OwnerRef
    namespace: str
    name: str
    node: str
    labels: tuple[tuple[str, str], ...]
    """Labels at its creation: without those that its ReplicaSet selects, which are added after the old pod is evicted."""
    replaces: str
    """Value of annotation ``names.ANNOTATION_REPLACES``: uid of the ReplicaSet and of the old pod."""


class LabelReplacement(msgspec.Struct, frozen=True, tag=True):
    """Add the labels that the ReplicaSet selects to the pod with that uid, so that it is adopted."""

    pod: ObjectKey
    uid: str
    labels: LabelSet


class MeasureWatch(msgspec.Struct, frozen=True, tag=True):
    """Write an annotation of a placeholder, to see how long the watch of pods takes to show it."""

    pod: ObjectKey
    uid: str
    at_s: float


class RemoveReplacement(msgspec.Struct, frozen=True, tag=True):
    """Delete the pod with that uid, a replacement that no ReplicaSet adopted, with its own grace period."""

    pod: ObjectKey
    uid: str


class WriteAvoidHints(msgspec.Struct, frozen=True, tag=True):
    """Write the PreferAvoidPods hints of a node if it still has that resource version."""

    node: str
    resource_version: str
    entries: tuple[AvoidEntry, ...]


class KeepNodeEmpty(msgspec.Struct, frozen=True, tag=True):
    """Cordon or taint a node that is still as it was seen, and note it there."""

    node: Node
    kept: KeptEmpty


class GiveNodeBack(msgspec.Struct, frozen=True, tag=True):
    """Take our cordon or taint off a node that is still as it was seen, if its note says that it stands."""

    node: Node
    kept: KeptEmpty | None
    """The note that stays; None: none."""
    why: str
    """For people; "": there is nothing to tell."""


class DeleteMigration(msgspec.Struct, frozen=True, tag=True):
    """Delete the PodMigration object (uid precondition)."""

    migration: ObjectKey
    uid: str


MigrationAction = (
    AdoptPod
    | WriteMigrationStatus
    | CreateReservation
    | ProveGate
    | DryRunCreate
    | DryRunEvict
    | Evict
    | StartReplacement
    | LabelReplacement
    | MeasureWatch
    | RemoveReplacement
    | WriteAvoidHints
    | KeepNodeEmpty
    | GiveNodeBack
    | DeleteMigration
    | DeleteReservation
    | RecordEvent
)
