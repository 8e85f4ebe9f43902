"""The Reservation object: a room held on a node for pods that may not exist yet; and Koordinator's Reservation.

Types only. The life cycle is in ``rescheduler.reservations``.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec
from msgspec import field

from rescheduler.model.forms import CompactJson
from rescheduler.model.own_objects import LAYOUT, Condition, Layout, TemplatedObject, condition
from rescheduler.model.records import FieldWriter, OwnerRef, Pod
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.model.selectors import LabelSelector
from rescheduler.model.times import Duration, Second


class ReservationPhase(enum.StrEnum):
    """status.phase of a Reservation."""

    PENDING = "Pending"
    WAITING = "Waiting"
    AVAILABLE = "Available"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


KoordinatorPhase = Annotated[ReservationPhase, "koordinator"]
"""Koordinator has the same phases; it declares WAITING and never sets it (koordinator #2498)."""


def koordinator_phase(text: str) -> ReservationPhase:
    """An unknown one counts as Failed: no room is relied on."""
    return ReservationPhase(text) if text in tuple(ReservationPhase) else ReservationPhase.FAILED


class ObjectRef(msgspec.Struct, frozen=True, gc=False, cache_hash=True, omit_defaults=True):
    """Reference to a pod."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class ControllerRef(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Owner reference with a namespace. Empty fields match everything."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    namespace: str = ""


class ReservationOwner(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Which pods may use the room. The fields are ANDed; an owner without fields matches no pod."""

    object: ObjectRef | None = None
    controller: ControllerRef | None = None
    label_selector: LabelSelector | None = None


class MakingRoom(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """status.makingRoom: running pods step aside for it; decided by the controller, and gone once the room is held or given up."""

    node: str = field(name="nodeName")
    moves: int
    """How many PodMigrations make the room."""
    attempt: str
    """Tells this decision from earlier ones for the same Reservation."""
    since_s: Second = field(name="since")


class ReservationStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """status of a Reservation; it is always written as a whole."""

    phase: ReservationPhase = ReservationPhase.PENDING
    layout: Layout = LAYOUT
    observed_generation: int = 0
    node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    allocatable: Resources = NO_RESOURCES
    allocated: Resources = NO_RESOURCES
    current_owners: tuple[ObjectRef, ...] = ()
    expires_at_s: Second | None = field(default=None, name="expires")
    making_room: MakingRoom | None = None


class Reservation(TemplatedObject, frozen=True, kw_only=True):
    """A Reservation as read from the API server. ``template_raw`` still contains a template that cannot be decoded."""

    owners: tuple[ReservationOwner, ...] = ()
    allocate_once: bool = True
    """One pod uses the room; then the Reservation is Succeeded."""
    pre_allocation: bool = False
    """The room may be occupied still: it is held for the owners as soon as it becomes free."""
    make_room: bool = False
    """Where it fits on no node, running pods may be moved for it."""
    ttl_s: Duration | None = field(default=None, name="ttl")
    """None: not given. 0: the Reservation never expires."""
    expires_at_s: Second | None = field(default=None, name="expires")
    """None: not given."""

    status: ReservationStatus = ReservationStatus()

    @property
    def preallocated(self) -> bool:
        """True if its placeholder waits for room that is not free yet: as asked for, or because others step aside."""
        return self.pre_allocation or self.status.making_room is not None

    @property
    def owner_controller(self) -> OwnerRef | None:
        """The controller that the first owner names: that of the pods which a move's Reservation is for. None: it names none."""
        named = self.owners[0].controller if self.owners else None
        return OwnerRef(named.api_version, named.kind, named.name, named.uid) if named is not None else None


class KoordinatorReservation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Koordinator's Reservation (scheduling.koordinator.sh/v1alpha1), as far as decisions depend on it.

    Koordinator's scheduler holds the room in its memory and writes the status; no pod stands for the room.
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    created_at_s: float = 0.0
    deleting: bool = False
    reservation: OwnerRef | None = None
    """The Reservation of ``rescheduler.dev`` that it serves. None: it was created by somebody else."""
    pinned_node: str = field(default="", name="spec.template.spec.nodeName")
    scheduler_name: str = field(default="", name="spec.template.spec.schedulerName")
    closed: bool = field(default=False, name="spec.unschedulable")
    """Only a pod that names it may use it."""
    allocate_once: bool = field(default=True, name="spec.allocateOnce")
    ttl: str | None = field(default=None, name="spec.ttl")
    expires: str | None = field(default=None, name="spec.expires")
    owners: CompactJson = field(default=b"", name="spec.owners")
    """Of one of ours."""
    writers: tuple[FieldWriter, ...] = ()
    """Who has written which field, of one of ours."""
    phase: KoordinatorPhase = field(default=ReservationPhase.PENDING, name="status.phase")
    node: str = field(default="", name="status.nodeName")
    conditions: tuple[Condition, ...] = field(default=(), name="status.conditions")
    allocatable: Resources = field(default=NO_RESOURCES, name="status.allocatable")
    allocated: Resources = field(default=NO_RESOURCES, name="status.allocated")
    current_owners: tuple[ObjectRef, ...] = field(default=(), name="status.currentOwners")
    room: Pod | None = None
    """The free part of the room as a pod on ``node``, so that rules that count pods count it too. None: no room."""

    @property
    def ends(self) -> bool:
        """It ends by itself: without a ttl after a day."""
        return self.expires is not None or self.ttl not in ("0", "0s")

    @property
    def refusal(self) -> str:
        """Why Koordinator's scheduler finds no node: message of the condition Scheduled=False."""
        return self._false("Scheduled")

    @property
    def failure(self) -> str:
        """Message of the condition Ready=False."""
        return self._false("Ready")

    def _false(self, kind: str) -> str:
        found = condition(self.conditions, kind)
        return (
            (found.message or found.reason or kind) if found is not None and found.status == "False" else ""
        )

    @property
    def holds(self) -> bool:
        """True if the room is held for its owners."""
        return self.phase is ReservationPhase.AVAILABLE and bool(self.node) and not self.deleting
