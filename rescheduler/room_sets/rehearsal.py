"""What a window would have if it began now, and by when the rest is foreseen. Pure; visits all pods some times."""

from __future__ import annotations

from typing import NamedTuple

from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.model.snapshot import Snapshot
from rescheduler.room_sets.node_use import NodeUse
from rescheduler.room_sets.places import Place, chosen, may_use, rooms_in, sizes_of
from rescheduler.room_sets.releases import declared_end_s


class Rehearsal(NamedTuple):
    """The outcome."""

    room: Resources
    """Of one pod."""
    wanted: int
    """Rooms."""
    now: tuple[Place, ...]
    """Where there is room at this moment."""
    rest_by_s: float | None
    """When all are foreseen; None: never, as far as pods have declared their end."""
    foreseen: int
    """Rooms that are foreseen once every pod that has declared an end has ended."""


def rehearse(snapshot: Snapshot, window: ReservationWindow, room: Resources, now_s: float) -> Rehearsal:
    """For a window that needs ``podNumToReserve`` such rooms."""
    template = window.template if window.template_raw else None
    nodes = {
        name: node
        for name, node in snapshot.nodes.items()
        if window.template_node in ("", name) and may_use(node, template, window.node_selector)
    }
    use = NodeUse.of(snapshot)
    sizes = sizes_of(room)
    resources = tuple(name for name, _ in sizes)

    def rooms_by(at_s: float) -> dict[str, int]:
        return {
            name: rooms_in(use.idle(node, resources, by_s=at_s, now_s=now_s).then, sizes)
            for name, node in nodes.items()
        }

    ends = sorted(
        {
            end_s
            for name in nodes
            for pod in use.leaving(name)
            if (end_s := declared_end_s(pod, snapshot)) is not None and end_s > now_s
        }
    )
    last = sum(rooms_by(ends[-1]).values()) if ends else 0
    now = tuple(chosen(rooms_by(now_s), window.pods))
    held = sum(place.rooms for place in now)
    if held >= window.pods:
        return Rehearsal(room, window.pods, now, now_s, held)
    if last < window.pods:
        return Rehearsal(room, window.pods, now, None, max(held, last))
    low, high = 0, len(ends) - 1
    while low < high:  # with time there is only more room
        middle = (low + high) // 2
        if sum(rooms_by(ends[middle]).values()) >= window.pods:
            high = middle
        else:
            low = middle + 1
    return Rehearsal(room, window.pods, now, ends[low], last)
