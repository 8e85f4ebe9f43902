"""Why no room can be made for a pending pod: no node would take it, none is large enough, or whom something holds. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from rescheduler.model.records import Pod
from rescheduler.planning.budgets import Blocked
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.room_search import RoomSearch, Way
from rescheduler.policies.making_room import RoomBounds

NO_WAY: Final = "no pods that may be moved leave room enough for it on any node"
_TOO_SMALL: Final = "no node that would take it is large enough, even without the pods there"
_TOGETHER: Final = "together they pass a budget or a limit"
_NODES_REFUSED: Final = "no node would take it, whichever pods stood elsewhere"
WORK_OF_A_REASON: Final = 600_000
"""Nodes that are looked at to say who stands in the way of one pod."""
_HINTS: Final = 4


def why_no_room(
    pod: Pod, search: RoomSearch, bounds: RoomBounds, held: Callable[[Pod], Blocked | None]
) -> Blocked:
    """``search``: among all pods that would come back. ``held``: what keeps one of them from being moved now."""
    possible = search.nodes_without(pod)
    if not possible.any():
        return _refused(pod, search)
    state = search.trial.state
    large = possible.copy()
    for name, needed in search.trial.needs(pod):
        large &= state.allocatable(name) >= needed
    if not large.any():
        return Blocked(SkipReason.NO_TARGET, _TOO_SMALL, "NodeResourcesFit")
    way = nearest_way(pod, search, bounds)
    return Blocked(SkipReason.NO_TARGET, NO_WAY, "") if way is None else _held_back(way, held)


def nearest_way(pod: Pod, search: RoomSearch, bounds: RoomBounds) -> Way | None:
    """The way with the fewest moves, whatever holds the pods."""
    share = WORK_OF_A_REASON // bounds.most_moves
    ways = (
        search.find(pod, moves, bounds.depth, lambda _: True, share)
        for moves in range(1, bounds.most_moves + 1)
    )
    return next((way for way in ways if way is not None), None)


def _refused(pod: Pod, search: RoomSearch) -> Blocked:
    result = search.trial.state.filter(pod)
    if result.everywhere is not None:
        return Blocked(SkipReason.NO_TARGET, result.everywhere.reason, result.everywhere.plugin)
    counted = Counter(result.plugins[code] for code in result.refused_by.tolist() if code >= 0)
    most = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:_HINTS]
    text = ", ".join(f"{plugin} refuses {number}" for plugin, number in most)
    return Blocked(
        SkipReason.NO_TARGET,
        f"{_NODES_REFUSED}: {text}" if text else _NODES_REFUSED,
        most[0][0] if most else "",
    )


def _held_back(way: Way, held: Callable[[Pod], Blocked | None]) -> Blocked:
    moved = " and ".join(f"{step.pod.key} (to {step.target.node})" for step in way.steps)
    why = [(step.pod, found) for step in way.steps if (found := held(step.pod)) is not None]
    text = "; ".join(f"{pod.key}: {found.message}" for pod, found in why) or _TOGETHER
    reason, by = (why[0][1].reason, why[0][1].by) if why else (SkipReason.NO_TARGET, "")
    return Blocked(reason, f"it would fit on {way.node} if {moved} moved; {text}", by)
