"""What is held in a cluster, for whom, since when and until when: Reservations, windows and head-rooms. Pure.

The work grows with the number of these objects only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from rescheduler.model.names import ANNOTATION_MIGRATION, LABEL_ROOM_OF
from rescheduler.model.own_objects import Condition, OwnObject, asked_by, condition
from rescheduler.model.reservation import Reservation, ReservationOwner, ReservationPhase, ReservationStatus
from rescheduler.model.room_sets import HeadRoom, ReservationWindow
from rescheduler.model.times import format_seconds
from rescheduler.reports.reservation_words import owner_text
from rescheduler.reports.status_document import HeldCapacity

_ENDED: Final = (ReservationPhase.SUCCEEDED, ReservationPhase.FAILED)
_HELD: Final = (ReservationPhase.AVAILABLE, ReservationPhase.WAITING)
_NODES: Final = 5


def held_capacity(
    reservations: Iterable[Reservation],
    windows: Iterable[ReservationWindow],
    head_rooms: Iterable[HeadRoom],
) -> tuple[HeldCapacity, ...]:
    """Windows and head-rooms, then Reservations that belong to nothing else, then the others; the oldest first."""
    sets: tuple[ReservationWindow | HeadRoom, ...] = (
        *sorted(windows, key=attrgetter("name")),
        *sorted(head_rooms, key=attrgetter("name")),
    )
    made_by = {one.uid: _named(one) for one in sets}
    rooms = [(_part_of(room, made_by), room) for room in reservations if room.status.phase not in _ENDED]
    rooms.sort(key=lambda item: (item[0] != "", item[1].created_at_s, item[1].name))
    return (
        *(_window(one) if isinstance(one, ReservationWindow) else _head_room(one) for one in sets),
        *(_reservation(room, part_of) for part_of, room in rooms),
    )


def unused_by_node(reservations: Iterable[Reservation]) -> dict[str, tuple[int, int]]:
    """CPU (milli) and memory (bytes) that are held and not used, by node."""
    found: dict[str, tuple[int, int]] = {}
    for room in reservations:
        status = room.status
        if status.phase not in _HELD or not status.node_name:
            continue
        cpu, memory = found.get(status.node_name, (0, 0))
        own_cpu, own_memory = _unused(status)
        found[status.node_name] = (cpu + own_cpu, memory + own_memory)
    return found


def _unused(status: ReservationStatus) -> tuple[int, int]:
    held, used = status.allocatable, status.allocated
    return max(0, held.cpu_milli - used.cpu_milli), max(0, held.memory_bytes - used.memory_bytes)


def _named(one: ReservationWindow | HeadRoom) -> str:
    return f"{'reservationwindow' if isinstance(one, ReservationWindow) else 'headroom'}/{one.name}"


def _part_of(room: Reservation, made_by: Mapping[str, str]) -> str:
    """The move, window or head-room that made it; "": none did."""
    if move := room.annotations.get(ANNOTATION_MIGRATION):
        return f"podmigration/{move}"
    maker = room.labels.get(LABEL_ROOM_OF)
    return made_by.get(maker, "a window or head-room that is gone") if maker else ""


def _reservation(room: Reservation, part_of: str) -> HeldCapacity:
    status = room.status
    cpu, memory = _unused(status)
    available = status.phase is ReservationPhase.AVAILABLE
    placed = condition(status.conditions, "Scheduled") if available else None
    return HeldCapacity(
        kind="Reservation",
        name=room.name,
        phase=status.phase.value,
        owners=_owners(room.owners),
        asked_by=part_of or asked_by(room.annotations),
        held=int(available),
        nodes=(status.node_name,) if status.node_name else (),
        since=(placed.last_transition_time if placed is not None else "") or moment(room.created_at_s),
        until=moment(status.expires_at_s),
        cpu_milli=cpu,
        memory_bytes=memory,
        message="" if available else _trouble(room, status.conditions),
    )


def _window(window: ReservationWindow) -> HeldCapacity:
    status = window.status
    return HeldCapacity(
        kind="ReservationWindow",
        name=window.name,
        phase=status.phase.value if status.phase is not None else "",
        owners=_owners(window.owners) or "pods that ask for reserved capacity",
        asked_by=asked_by(window.annotations),
        held=status.gathered,
        wanted=status.wanted,
        nodes=status.nodes[:_NODES],
        since=moment(status.start_s),
        until=moment(status.end_s),
        message=_trouble(window, status.conditions) if status.gathered < status.wanted else "",
    )


def _head_room(one: HeadRoom) -> HeldCapacity:
    status = one.status
    short = status.standing < status.wanted
    return HeldCapacity(
        kind="HeadRoom",
        name=one.name,
        phase="Short" if short else "Standing",
        owners=_owners(one.owners),
        asked_by=asked_by(one.annotations),
        held=status.standing,
        wanted=status.wanted,
        nodes=status.nodes[:_NODES],
        since=moment(one.created_at_s),
        message=_trouble(one, status.conditions) if short else "",
    )


def _owners(owners: Sequence[ReservationOwner]) -> str:
    return " or ".join(filter(None, map(owner_text, owners)))


def _trouble(one: OwnObject, conditions: Sequence[Condition]) -> str:
    """Why it is not as it should be, as the controller has written it."""
    if one.unreadable:
        return one.unreadable
    found = (c for c in conditions if c.status != "True" and (c.message or c.reason))
    return next((c.message or c.reason for c in found), "")


def moment(at_s: float | None) -> str:
    """RFC 3339; "" where there is none."""
    return format_seconds(at_s) if at_s else ""
