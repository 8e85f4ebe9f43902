"""The PodMigration object: one move of one pod, from the request until the replacement is ready.

Types only. The life cycle is in ``rescheduler.migrations``.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec
from msgspec import field

from rescheduler.model.names import ANNOTATION_ASKED_SINCE, CREATED_BY, LABEL_CREATED_BY
from rescheduler.model.own_objects import LAYOUT, LONGEST_USER, Condition, Layout, OwnObject, asked_by
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import ObjectRef
from rescheduler.model.times import Duration, Moment, parse_timestamp
from rescheduler.visible import visible_line

TARGET_REFUSED: Final = "TargetRefused"
"""Reason of a move whose placeholder its target did not take, or did not keep."""
# Reasons of moves that wait for what the owner of their workload does.
DISRUPTION_BUDGET: Final = "DisruptionBudget"
TOO_FEW_AVAILABLE: Final = "TooFewAvailable"
OWNER_BUSY: Final = "OwnerBusy"


class MigrationPhase(enum.StrEnum):
    """status.phase."""

    PENDING = "Pending"
    RESERVING = "Reserving"
    EVICTING = "Evicting"
    HANDING_OVER = "HandingOver"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class MoveMode(enum.StrEnum):
    """How a pod is moved. AUTO lets the controller choose; SOFT must be chosen in the configuration."""

    AUTO = "Auto"
    RESERVE_FIRST = "ReserveFirst"
    START_FIRST = "StartFirst"
    SOFT = "Soft"


class MigrationStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """status of a PodMigration; it is always written as a whole. Times: 0.0: not yet."""

    phase: MigrationPhase = MigrationPhase.PENDING
    layout: Layout = LAYOUT
    observed_generation: int = 0
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    reservation_name: str = ""
    reservation_uid: str = ""
    """The very Reservation that the move took: one that gets the same name later is another."""
    source_node: str = ""
    node_name: str = ""
    mode: MoveMode = MoveMode.RESERVE_FIRST
    """The mode that the controller chose."""
    replacement: ObjectRef | None = None
    started_at_s: Moment = field(default=0.0, name="startedAt")
    reserved_at_s: Moment = field(default=0.0, name="reservedAt")
    eviction_requested_at_s: Moment = field(default=0.0, name="evictionRequestedAt")
    """Written before the eviction is posted: after a crash in between, the controller looks at the pod first."""
    evicted_at_s: Moment = field(default=0.0, name="evictedAt")
    landed_at_s: Moment = field(default=0.0, name="landedAt")
    """When the replacement was scheduled."""
    ready_at_s: Moment = field(default=0.0, name="readyAt")
    finished_at_s: Moment = field(default=0.0, name="finishedAt")
    source_avoided_until_s: Moment = field(default=0.0, name="sourceAvoidedUntil")
    """Until when pods of the same controller avoid the node that the pod has left."""


class PodMigration(OwnObject, frozen=True, kw_only=True):
    """A PodMigration as read from the API server."""

    namespace: str
    pod_name: str = field(name="podRef.name")
    pod_uid: str = field(default="", name="podRef.uid")
    """Empty: the user gave none; the controller sets that of the pod when it first sees the object."""
    target_node: str = field(default="", name="target.nodeName")
    """Empty: the controller chooses the node."""
    mode: MoveMode = MoveMode.AUTO
    ttl_s: Duration | None = field(default=None, name="ttl")
    hint_s: Duration | None = field(default=None, name="hint")
    """For how long pods of its controller avoid the node that it leaves. 0: no hint; None: by the policy."""
    paused: bool = False
    reservation_ref: str = field(default="", name="reservationRef.name")
    """An existing Reservation to use as the target."""
    grace_s: int | None = field(default=None, name="deleteOptions.gracePeriodSeconds")
    """Of the eviction."""
    reason: str = ""
    policy: str = ""
    requested_by: str = ""
    """Whose eviction the guard has turned into this move. Set by the controller only: admission refuses it to everybody else."""
    after: tuple[ObjectKey, ...] = ()
    """Moves of the same decision that must have succeeded before this one begins: it needs the room that they leave.

    Set by the controller only; in a move that people ask for it means nothing good, and the move ends.
    """

    status: MigrationStatus = MigrationStatus()

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def requested(self) -> bool:
        """True if people asked for the move: it lacks what the controller puts on each move that it plans."""
        return not self.policy or self.labels.get(LABEL_CREATED_BY) != CREATED_BY

    @property
    def finished(self) -> bool:
        """True if it has ended, well or badly."""
        return self.status.phase in (MigrationPhase.SUCCEEDED, MigrationPhase.FAILED)

    @property
    def asked_since_s(self) -> float:
        """Since when the eviction is asked for that this move replaces, as it says itself: it may have followed others.

        A tenant who writes there makes the wait shorter at most.
        """
        said = self.annotations.get(ANNOTATION_ASKED_SINCE)
        try:
            return min(self.created_at_s, parse_timestamp(said)) if said else self.created_at_s
        except ValueError:
            return self.created_at_s

    @property
    def by(self) -> str:
        """Who wants the move, for people: ``policy NAME``, ``user NAME``, ``eviction by NAME``, or ``a request`` of somebody unknown."""
        if self.requested_by:
            return f"eviction by {visible_line(self.requested_by[:LONGEST_USER])}"
        return asked_by(self.annotations) if self.requested else by_policy(self.policy)


def by_policy(policy: str) -> str:
    """Who wants a move that a policy has planned."""
    return f"policy {policy}"
