"""What the nodes will have for a window at its start, as far as it can be known now (rows V15 to V18). Pure; visits all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rescheduler.model.records import Pod
from rescheduler.model.reservation import Reservation, ReservationPhase
from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.model.snapshot import Snapshot
from rescheduler.room_sets.node_use import Idle, NodeUse
from rescheduler.room_sets.places import Outlook, may_use, outlook, sizes_of
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
