"""The nearest way for a pod that fits on no node: who would have to stand elsewhere. Pure; nothing is planned.

Promises: by kube-scheduler's rules the pod fits on the node without the pods that leave it, and each of them fits on its new node,
beside the pending pod. It is the search of policy PendingPods, first among pods that nothing holds, then among all that would come back.
What holds one (a budget, a protection, a higher priority) is said. The work is bounded, so a way may be missed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rescheduler.model.records import Pod
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.protections import Protector
from rescheduler.planning.refusals import disruption_of
from rescheduler.planning.room_levels import RoomLevels
from rescheduler.planning.room_search import RoomSearch, SearchWork
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.planning.victim_sets import VictimSets
from rescheduler.planning.why_no_room import WORK_OF_A_REASON, nearest_way
from rescheduler.policies.framework import PolicyView, RoomBounds
from rescheduler.policies.pending_pods import PendingPodsArgs
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.state import SchedulingState

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
                self._replacement,
                lambda one: self._comes_back(one) and (highest is None or self._is_free(one, highest)),
                _BOUNDS.depth - 1,
            )
            sets = VictimSets(trial=self._trial, levels=levels, cost=self._cost)
            objective = Objective((), self._trial.view)
            work = SearchWork(WORK_OF_A_REASON)
            found = RoomSearch(self._trial, objective, self._replacement, "", sets, work)
            self._searches[highest] = found
        return found

    def _is_free(self, pod: Pod, highest: int) -> bool:
        return pod.spec.priority <= highest and not self._reason(pod)

    def _cost(self, pod: Pod) -> float:
        return disruption_of(pod, self._replacements.snapshot)

    def _comes_back(self, pod: Pod) -> bool:
        return self._replacements.of(pod).pod is not None

    def _replacement(self, pod: Pod) -> Pod:
        found = self._replacements.of(pod)
        if found.pod is None:
            raise LookupError(f"pod {pod.key} {found.message}")
        return found.pod

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
