"""ReservationWindow and HeadRoom: objects that make Reservations, some at certain hours, some at all times.

Types only. What Reservations there should be is decided in ``rescheduler.room_sets``.
"""

from __future__ import annotations

import enum

import msgspec
from msgspec import field

from rescheduler.model.own_objects import LAYOUT, Condition, Layout, TemplatedObject
from rescheduler.model.reservation import ReservationOwner
from rescheduler.model.resources import NO_RESOURCES, Resources
from rescheduler.model.selectors import Pairs
from rescheduler.model.times import Duration, Second


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
    """status of a ReservationWindow; it is always written as a whole."""

    phase: WindowPhase | None = None
    """None: nobody has looked at it yet."""
    layout: Layout = LAYOUT
    observed_generation: int = 0
    start_s: Second | None = field(default=None, name="start")
    """Of the window that is gathered for or open, else of the next one."""
    end_s: Second | None = field(default=None, name="end")
    gather_from_s: Second | None = field(default=None, name="gatherFrom")
    wanted: int = 0
    """Rooms that should be held now."""
    gathered: int = 0
    """Rooms that are held."""
    placed_pods: tuple[str, ...] = ()
    """Uids of the pods that were placed since this window is gathered for."""
    nodes: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ReservationWindow(TemplatedObject, frozen=True, kw_only=True):
    """A ReservationWindow as read from the API server."""

    cron: str = ""
    time_zone: str = ""
    duration_s: Duration | None = field(default=None, name="duration")
    end: str = ""
    """A time of day; "": not given."""
    start_reserve_ago_s: Duration = field(default=0.0, name="startReserveAgo")
    suspend: bool = False
    make_room: bool = False
    """For what is foreseen nowhere running pods may be moved."""
    pods: int = field(default=1, name="podNumToReserve")
    resources: Resources = NO_RESOURCES
    """The sum for all pods; nothing if there is a template."""
    node_selector: Pairs = ()
    template_raw: bytes = b""
    """Empty: there is none."""
    owners: tuple[ReservationOwner, ...] = ()
    """Empty: pods that say themselves that they are for reserved room."""

    status: WindowStatus = WindowStatus()


class HeadRoomStatus(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """status of a HeadRoom; it is always written as a whole."""

    layout: Layout = LAYOUT
    observed_generation: int = 0
    wanted: int = 0
    standing: int = 0
    nodes: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


class HeadRoom(TemplatedObject, frozen=True, kw_only=True):
    """A HeadRoom as read from the API server."""

    rooms: int = 0
    spread_over: str = ""
    """Label of nodes; "": not given."""
    yield_to: YieldTo = YieldTo.HIGHER_PRIORITY
    make_room: bool = False
    """Where a room fits on no node running pods may be moved for it."""
    node_selector: Pairs = ()
    owners: tuple[ReservationOwner, ...] = ()

    status: HeadRoomStatus = HeadRoomStatus()
