"""The PodMigration object: one move of one pod, from asked-for to landed.

Types only. The life cycle is in ``rescheduler.migrations``.
"""

from __future__ import annotations

import enum

import msgspec

from rescheduler.model.conditions import Condition
from rescheduler.model.records import ObjectKey
from rescheduler.model.reservation import ObjectRef
from rescheduler.model.selectors import NO_LABELS, LabelSet


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
    """status of a PodMigration; this record is written as a whole. Times: epoch seconds, 0.0 = not yet."""

    phase: MigrationPhase = MigrationPhase.PENDING
    observed_generation: int = 0
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    reservation_name: str = ""
    source_node: str = ""
    node_name: str = ""
    mode: MoveMode = MoveMode.RESERVE_FIRST
    replacement: ObjectRef | None = None
    started_at_s: float = 0.0
    reserved_at_s: float = 0.0
    eviction_requested_at_s: float = 0.0
    """Written before the eviction is posted, so that a crash in between is recognised."""
    evicted_at_s: float = 0.0
    landed_at_s: float = 0.0
    ready_at_s: float = 0.0
    finished_at_s: float = 0.0


class PodMigration(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PodMigration as read. ``pod_uid`` "": not given by the user; taken over at the first look."""

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    created_at_s: float = 0.0
    deleting: bool = False
    labels: LabelSet = NO_LABELS
    annotations: LabelSet = NO_LABELS

    pod_name: str
    pod_uid: str = ""
    target_node: str = ""
    mode: MoveMode = MoveMode.AUTO
    ttl_s: float | None = None
    paused: bool = False
    reservation_ref: str = ""
    grace_s: int | None = None
    reason: str = ""
    policy: str = ""

    status: MigrationStatus = MigrationStatus()

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)
