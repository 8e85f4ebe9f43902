"""What is to be done for ReservationWindows and HeadRooms, besides what is done for any Reservation. Values only."""

from __future__ import annotations

import msgspec

from rescheduler.model.room_sets import HeadRoom, HeadRoomStatus, ReservationWindow, WindowStatus


class CreateRoom(msgspec.Struct, frozen=True, tag=True):
    """Create a Reservation for such an object."""

    name: str
    body: bytes
    """The Reservation as JSON."""


class WriteWindowStatus(msgspec.Struct, frozen=True, tag=True):
    """Write the status if the ReservationWindow is still as it was seen."""

    seen: ReservationWindow
    status: WindowStatus


class WriteHeadRoomStatus(msgspec.Struct, frozen=True, tag=True):
    """Write the status if the HeadRoom is still as it was seen."""

    seen: HeadRoom
    status: HeadRoomStatus


RoomSetAction = CreateRoom | WriteWindowStatus | WriteHeadRoomStatus
