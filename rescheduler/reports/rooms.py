"""Room for pending pods as rows of a table: the node, who steps aside, or why nothing helps. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rescheduler.planning.plan import PendingRoom, Plan, PodRef

HEADER: Final = ("for", "room on", "pods that step aside", "why there is none")
ROOMS_SHOWN: Final = 200


def room_rows(plan: Plan) -> list[tuple[str, ...]]:
    """One row for each pending pod, at most ``ROOMS_SHOWN``."""
    return [_row(room) for room in plan.rooms[:ROOMS_SHOWN]]


def _row(room: PendingRoom) -> tuple[str, ...]:
    aside = _names(room.moves) if room.moves else "those that leave for others" if room.node else "-"
    wanted = f"Reservation {room.reservation}" if room.reservation else _name(room.pod)
    return wanted, room.node or "-", aside, room.message or "-"


def _names(pods: Sequence[PodRef]) -> str:
    return ", ".join(map(_name, pods))


def _name(pod: PodRef) -> str:
    return f"{pod.namespace}/{pod.name}"
