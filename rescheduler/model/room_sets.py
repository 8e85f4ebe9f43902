"""ReservationWindow and HeadRoom: objects that make Reservations, some at certain hours, some at all times.

Types only. What Reservations there should be is decided in ``rescheduler.room_sets``.
"""

from __future__ import annotations

import enum

import msgspec

from rescheduler.model.conditions import Condition
from rescheduler.model.records import PodSpec
from rescheduler.model.reservation import ReservationOwner
from rescheduler.model.resources import NO_RESOURCES, Resources


class WindowPhase(enum.StrEnum):
    """status.phase of a ReservationWindow."""

    WAITING = "Waiting"
    GATHERING = "Gathering"
    OPEN = "Open"
    FILLED = "Filled"
    SUSPENDED = "Suspended"
    ENDED = "Ended"
    INVALID = "Invalid"


class YieldTo(enum.StrEnum):
    """Which pending pods get the rooms of a HeadRoom back that are none of its owners."""

    HIGHER_PRIORITY = "HigherPriority"
    ANY_POD = "AnyPod"


class WindowStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """status of a ReservationWindow; this record is written as a whole."""

    phase: WindowPhase | None = None
    """None: nobody has looked at it yet."""
    observed_generation: int = 0
    start_s: float | None = None
    """Of the window that is gathered for or open, else of the next one."""
    end_s: float | None = None
    gather_from_s: float | None = None
    wanted: int = 0
    """Rooms that should be held now."""
    gathered: int = 0
    """Rooms that are held."""
    placed_pods: tuple[str, ...] = ()
    """Uids of the pods that were placed since this window is gathered for."""
    nodes: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ReservationWindow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A ReservationWindow as read from the API server."""

    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    created_at_s: float = 0.0
    deleting: bool = False

    cron: str = ""
    time_zone: str = ""
    duration_s: float | None = None
    end: str = ""
    """A time of day; "": not given."""
    start_reserve_ago_s: float = 0.0
    suspend: bool = False
    make_room: bool = False
    """For what is foreseen nowhere running pods may be moved."""
    pods: int = 1
    """spec.podNumToReserve."""
    resources: Resources = NO_RESOURCES
    """The sum for all pods; nothing if there is a template."""
    node_selector: tuple[tuple[str, str], ...] = ()
    template: PodSpec | None = None
    """None: there is none, or it cannot be decoded."""
    template_raw: bytes = b""
    """The PodTemplateSpec as JSON without white space; empty: there is none."""
    template_node: str = ""
    owners: tuple[ReservationOwner, ...] = ()
    """Empty: pods that say themselves that they are for reserved room."""

    status: WindowStatus
    unreadable: str = ""
    """Fields that cannot be read, and why; "": none. No step is taken for such an object."""
    status_unreadable: bool = False


class HeadRoomStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """status of a HeadRoom; this record is written as a whole."""

    observed_generation: int = 0
    wanted: int = 0
    standing: int = 0
    nodes: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


class HeadRoom(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A HeadRoom as read from the API server."""

    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    created_at_s: float = 0.0
    deleting: bool = False

    rooms: int = 0
    spread_over: str = ""
    """Label of nodes; "": not given."""
    yield_to: YieldTo = YieldTo.HIGHER_PRIORITY
    make_room: bool = False
    """Where a room fits on no node running pods may be moved for it."""
    node_selector: tuple[tuple[str, str], ...] = ()
    template: PodSpec | None = None
    """None: it cannot be decoded."""
    template_raw: bytes = b""
    owners: tuple[ReservationOwner, ...] = ()

    status: HeadRoomStatus
    unreadable: str = ""
    status_unreadable: bool = False
