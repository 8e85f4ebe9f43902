"""Why no room can be made for a pending pod: no node would take it, none is large enough, or whom something holds. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.planning.budgets import Blocked
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.room_search import Reach, RoomSearch, Way
from rescheduler.policies.framework import RoomBounds
from rescheduler.scheduling.node_affinity import NodeAffinity

NO_WAY: Final = "no pods that may be moved leave room enough for it on any node"
_TOO_SMALL: Final = "no node that would take it is large enough, even without the pods there"
_TOGETHER: Final = "together they pass a budget or a limit"
_NODES_REFUSED: Final = "no node would take it, whichever pods stood elsewhere"
WORK_OF_A_REASON: Final = 600_000
"""Nodes that are looked at to say who stands in the way of one pod."""
_HINTS: Final = 4
_ONLY_TOO_SMALL: Final = (
    "node/{}, the only one that it may run on, is not large enough for it, even without the pods there"
)
_ONLY_NO_WAY: Final = (
    "no pods that may be moved leave room enough for it on node/{}, the only one that it may run on"
)
_ONLY_REFUSES: Final = "node/{}, the only one that it may run on, would not take it, whichever pods stood elsewhere: {} refuses it"
_AFFINITY: Final = NodeAffinity()


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
        only = _only_node(pod, search)
        words = _ONLY_TOO_SMALL.format(only) if only else _TOO_SMALL
        return Blocked(SkipReason.NO_TARGET, words, "NodeResourcesFit")
    way = nearest_way(pod, search, bounds)
    if way is not None:
        return _held_back(way, held)
    only = _only_node(pod, search)
    return Blocked(SkipReason.NO_TARGET, _ONLY_NO_WAY.format(only) if only else NO_WAY, "")


def _only_node(pod: Pod, search: RoomSearch) -> str:
    """The one node that its nodeSelector and node affinity name, as those of a DaemonSet's pod do; "": there are several, or none."""
    state = search.trial.state
    mask = _AFFINITY.mask(state.cluster.ask(pod), state.cluster)
    if mask is None or np.count_nonzero(mask) != 1:
        return ""
    return state.node_names[int(np.flatnonzero(mask)[0])]


def nearest_way(pod: Pod, search: RoomSearch, bounds: RoomBounds) -> Way | None:
    """The way with the fewest moves, whatever holds the pods."""
    share = WORK_OF_A_REASON // bounds.most_moves
    ways = (
        search.find(pod, Reach(moves, bounds.depth), lambda _: True, share)
        for moves in range(1, bounds.most_moves + 1)
    )
    return next((way for way in ways if way is not None), None)


def _refused(pod: Pod, search: RoomSearch) -> Blocked:
    result = search.trial.state.filter(pod)
    if result.everywhere is not None:
        return Blocked(SkipReason.NO_TARGET, result.everywhere.reason, result.everywhere.plugin)
    only = _only_node(pod, search)
    if only and (code := int(result.refused_by[search.trial.state.node_index[only]])) >= 0:
        by = result.plugins[code]
        return Blocked(SkipReason.NO_TARGET, _ONLY_REFUSES.format(only, by), by)
    counted = result.counts()
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
