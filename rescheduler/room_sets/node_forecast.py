"""What the nodes will have for a window at its start, as far as it can be known now (rows V15 to V18). Pure; visits all nodes, and a rehearsal all pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rescheduler.model.records import Pod
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.model.snapshot import Snapshot
from rescheduler.room_sets.node_use import Idle, NodeUse
from rescheduler.room_sets.places import Outlook, Place, chosen, may_use, outlook, rooms_in, sizes_of
from rescheduler.room_sets.releases import declared_end_s
from rescheduler.room_sets.windows import running

PodsOf = Callable[[str], Iterable[Pod]]
"""Pods of a controller, by its uid."""


class Seen(NamedTuple):
    """What is known at one moment."""

    snapshot: Snapshot
    use: NodeUse
    pods_of: PodsOf
    now_s: float


def forecast(
    seen: Seen, window: ReservationWindow, room: Resources, own: Sequence[Reservation] = ()
) -> list[Outlook]:
    """Of each node that may be used and has something to hope for.

    ``own``: the window's Reservations; what is kept for those of them that still wait counts as unused.
    """
    snapshot, use, pods_of, now_s = seen
    found, _ = running(window, now_s)
    by_s = max(now_s, found.start_s) if found is not None else now_s
    sizes = sizes_of(room)
    names = tuple(name for name, _ in sizes)
    mine_too = {room.uid for room in own}
    ordered = _by_node(r for r in snapshot.reservations.values() if _ordered(r) and r.uid not in mine_too)
    waiting = _by_node(r for r in own if r.status.phase is ReservationPhase.WAITING)
    template = window.template if window.template_raw else None
    outlooks: list[Outlook] = []
    for name, node in snapshot.nodes.items():
        if window.template_node not in ("", name):
            continue
        idle = use.idle(node, names, by_s=by_s, now_s=now_s)
        # Rooms of others that are ordered there and have no placeholder yet.
        for other in ordered.get(name, ()):
            _change(idle, other.template.requests if other.template is not None else None, names, -1)
        for mine in waiting.get(name, ()):
            for pod in pods_of(mine.uid):
                if not pod.terminal and name in (pod.node, pod.nominated_node):
                    _change(idle, pod.spec.requests, names, 1)
        found_here = outlook(name, idle, sizes)
        if (found_here.free or found_here.rooms or found_here.hopes) and may_use(
            node, template, window.node_selector
        ):
            outlooks.append(found_here)
    return outlooks


def _ordered(room: Reservation) -> bool:
    return bool(room.template_node) and room.status.phase is ReservationPhase.PENDING and not room.deleting


def _by_node(rooms: Iterable[Reservation]) -> dict[str, list[Reservation]]:
    found: dict[str, list[Reservation]] = {}
    for room in rooms:
        found.setdefault(room.status.node_name or room.template_node, []).append(room)
    return found


def _change(idle: Idle, amounts: Resources | None, names: Iterable[str], sign: int) -> None:
    for total in {id(part): part for part in idle}.values():
        for name in names:
            total[name] += sign * (amounts.amount(name) if amounts is not None else 0)
        total["pods"] += sign


class Rehearsal(NamedTuple):
    """What a window would have if it began now, and by when the rest is foreseen."""

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
