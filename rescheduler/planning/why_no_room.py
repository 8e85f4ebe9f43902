"""Why no room can be made for a pending pod: no node would take it, none is large enough, or whom something holds. Pure.

The nearest way is that of policy PendingPods, first among pods that nothing holds, then among all that would come back. Promises: by
kube-scheduler's rules the pod fits on the node without the pods that leave it, and each of them fits on its new node, beside the
pending pod; nothing is planned. The work is bounded, so a way may be missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.planning.budgets import Blocked, BudgetLedger
from rescheduler.planning.plan import SkipReason
from rescheduler.planning.protections import Protector
from rescheduler.planning.refusals import disruption_of
from rescheduler.planning.room_levels import RoomLevels
from rescheduler.planning.room_search import Reach, RoomSearch, SearchWork, Way
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.planning.victim_sets import VictimSets
from rescheduler.policies.framework import PolicyView, RoomBounds
from rescheduler.policies.pending_pods import PendingPodsArgs
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.node_affinity import NodeAffinity
from rescheduler.scheduling.state import SchedulingState

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


_ARGS: Final = PendingPodsArgs()
_BOUNDS: Final = RoomBounds(depth=_ARGS.depth, most_moves=_ARGS.most_moves, higher_priorities=True)
"""As far as the policy looks if nobody says otherwise; higher priorities are a reason that is told."""


class StepAside(NamedTuple):
    """A pod that would stand elsewhere."""

    pod: Pod
    target: str
    held: str
    """What keeps it from being moved; "" if nothing does."""


class NearestWay(NamedTuple):
    """A node that would take the pod."""

    node: str
    steps: tuple[StepAside, ...]

    @property
    def held(self) -> int:
        """How many of the pods are kept from being moved."""
        return sum(bool(step.held) for step in self.steps)


class NearestWays:
    """Looks for ways in one state, which is left as it was."""

    def __init__(
        self, state: SchedulingState, replacements: Replacements, protector: Protector, budgets: BudgetLedger
    ) -> None:
        self._state, self._replacements = state, replacements
        self._protector, self._budgets = protector, budgets
        view = PolicyView.of(replacements.snapshot, state)
        self._trial = Trial(replacements.snapshot, view, set())
        self._searches: dict[int | None, RoomSearch] = {}

    def of(self, pod: Pod) -> NearestWay | None:
        """The nearest way of a pending pod; None if none is found, or if it fits already."""
        result = self._state.filter(pod)
        if result.any() or result.everywhere is not None:
            return None
        for highest in (pod.spec.priority, None):
            search = self._search(highest)
            search.work.left = WORK_OF_A_REASON
            way = nearest_way(pod, search, _BOUNDS)
            if way is not None:
                steps = (
                    StepAside(step.pod, step.target.node, self._held(pod, step.pod)) for step in way.steps
                )
                return NearestWay(way.node, tuple(steps))
        return None

    def _search(self, highest: int | None) -> RoomSearch:
        """Among pods up to that priority that nothing holds; None: among all that would come back."""
        found = self._searches.get(highest)
        if found is None:
            levels = RoomLevels(
                self._trial,
                self._replacements.coming,
                lambda one: self._comes_back(one) and (highest is None or self._is_free(one, highest)),
                _BOUNDS.depth - 1,
            )
            sets = VictimSets(trial=self._trial, levels=levels, cost=self._cost)
            objective = Objective((), self._trial.view)
            work = SearchWork(WORK_OF_A_REASON)
            found = RoomSearch(self._trial, objective, self._replacements.coming, "", sets, work)
            self._searches[highest] = found
        return found

    def _is_free(self, pod: Pod, highest: int) -> bool:
        return pod.spec.priority <= highest and not self._reason(pod)

    def _cost(self, pod: Pod) -> float:
        return disruption_of(pod, self._replacements.snapshot)

    def _comes_back(self, pod: Pod) -> bool:
        return self._replacements.of(pod).pod is not None

    def _held(self, pod: Pod, leaving: Pod) -> str:
        if leaving.spec.priority > pod.spec.priority:
            return "has a higher priority"
        return self._reason(leaving)

    def _reason(self, leaving: Pod) -> str:
        protected = self._protector.refusal(leaving)
        if protected is not None:
            return protected.message
        blocked = self._budgets.refusal(leaving)
        return f"is held by budget {blocked.by}" if blocked is not None else ""
