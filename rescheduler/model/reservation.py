"""The Reservation object (rows K15-K50): a room held on a node for pods that may not exist yet.

Types only. The life cycle is in ``rescheduler.reservations``.
"""

from __future__ import annotations

import enum

import msgspec

from rescheduler.model.conditions import Condition
from rescheduler.model.records import PodSpec
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.model.selectors import NO_LABELS, LabelSelector, LabelSet


class ReservationPhase(enum.StrEnum):
    """status.phase (rows K31, K42 and Succeeded)."""

    PENDING = "Pending"
    WAITING = "Waiting"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ObjectRef(msgspec.Struct, frozen=True, gc=False, cache_hash=True, omit_defaults=True):
    """Reference to a pod."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class ControllerRef(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Owner reference plus namespace (row K39); each field counts only if set."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    namespace: str = ""


class ReservationOwner(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Who may use the room: fields are ANDed (row K37); an empty owner matches nothing."""

    object: ObjectRef | None = None
    controller: ControllerRef | None = None
    label_selector: LabelSelector | None = None


class Reservation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A Reservation as read. ``template`` is the scheduling view; ``template_raw`` the PodTemplateSpec as JSON.

    ``ttl_s`` None: not given; 0: never expires (row K29). ``expires_at_s`` None: not given.
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    created_at_s: float = 0.0
    deleting: bool = False
    labels: LabelSet = NO_LABELS
    annotations: LabelSet = NO_LABELS
    finalizers: tuple[str, ...] = ()

    template: PodSpec | None = None
    template_labels: LabelSet = NO_LABELS
    template_namespace: str = ""
    template_node: str = ""
    template_raw: bytes = b"{}"
    owners: tuple[ReservationOwner, ...] = ()
    ttl_s: float | None = None
    expires_at_s: float | None = None
    pre_allocation: bool = False
    allocate_once: bool = True

    status: ReservationStatus


class ReservationStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """status of a Reservation; this record is written as a whole."""

    phase: ReservationPhase = ReservationPhase.PENDING
    observed_generation: int = 0
    node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    allocatable: Resources = NO_RESOURCES
    allocated: Resources = NO_RESOURCES
    current_owners: tuple[ObjectRef, ...] = ()
    expires_at_s: float | None = None
