"""Where a window's rooms will be at its start, as far as it can be known now (rows V15 to V18). Pure; visits all pods."""

from __future__ import annotations

from collections.abc import Sequence

from rescheduler.model.reservation import ReservationPhase
from rescheduler.model.resources import Resources
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.model.snapshot import Snapshot
from rescheduler.room_sets.places import Idle, Place, chosen, idle_of, may_use, rooms_in
from rescheduler.room_sets.rooms import Recipe
from rescheduler.room_sets.windows import running


def foreseen(
    snapshot: Snapshot, window: ReservationWindow, recipe: Recipe, rooms: int, now_s: float
) -> Sequence[Place]:
    """The nodes for so many rooms; fewer rooms where more are not foreseen."""
    idle = _idle(snapshot, window, recipe.room, now_s)
    return chosen({name: rooms_in(amounts.then, recipe.room) for name, amounts in idle.items()}, rooms)


def held_now(
    snapshot: Snapshot, window: ReservationWindow, recipe: Recipe, rooms: int, now_s: float
) -> Sequence[Place]:
    """The nodes that have rooms at this moment."""
    idle = _idle(snapshot, window, recipe.room, now_s)
    return chosen({name: rooms_in(amounts.now, recipe.room) for name, amounts in idle.items()}, rooms)


def _idle(snapshot: Snapshot, window: ReservationWindow, room: Resources, now_s: float) -> dict[str, Idle]:
    found, _ = running(window, now_s)
    by_s = max(now_s, found.start_s) if found is not None else now_s
    nodes = {
        name: node
        for name, node in snapshot.nodes.items()
        if window.template_node in ("", name)
        and may_use(node, window.template if window.template_raw else None, window.node_selector)
    }
    resources = tuple(name for name, amount in room.items() if amount and name != "pods")
    idle = idle_of(snapshot, nodes, resources, by_s=by_s, now_s=now_s)
    # Rooms that are ordered on a node and have no placeholder yet.
    for ordered in snapshot.reservations.values():
        at = idle.get(ordered.template_node)
        pending = ordered.status.phase is ReservationPhase.PENDING and not ordered.deleting
        if at is None or not pending or ordered.template is None:
            continue
        for amounts in at:
            for name in resources:
                amounts[name] -= ordered.template.requests.amount(name)
            amounts["pods"] -= 1
    return idle
