"""Why no room can be made for a pending pod: no node would take it, none is large enough, or whom something holds. Pure.

The nearest way is that of a short search as policy PendingPods makes it, first among pods that nothing holds, then among all that would come
back. Promises: by kube-scheduler's rules the pod fits on the node without the pods that leave it, and each of them fits on its new
node, beside the pending pod; nothing is planned. The work is bounded, so a way may be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from rescheduler.model.records import Pod
from rescheduler.planning.budgets import BudgetLedger
from rescheduler.planning.chains import ChainStep
from rescheduler.planning.plan import Blocked, SkipReason
from rescheduler.planning.protections import Protector
from rescheduler.planning.refusals import disruption_of
from rescheduler.planning.repair_drafts import Extent, RepairDrafts
from rescheduler.planning.targets import Targets, who_refuses
from rescheduler.planning.total_change import Objective
from rescheduler.planning.trial import Trial
from rescheduler.policies.framework import PolicyView
from rescheduler.policies.objective import Tier
from rescheduler.policies.pending_pods import PendingPods, PendingPodsArgs
from rescheduler.policies.proposals import Candidate
from rescheduler.replacements.replacement import Replacements
from rescheduler.scheduling.node_affinity import NodeAffinity
from rescheduler.scheduling.state import SchedulingState

NO_WAY: Final = "no pods that may be moved leave room enough for it on any node"
_TOO_SMALL: Final = "no node that would take it is large enough, even without the pods there"
_TOGETHER: Final = "together they pass a budget or a limit"
_NODES_REFUSED: Final = "no node would take it, whichever pods stood elsewhere"
_PODS: Final = 256
"""So many pods of nodes are looked at to say who stands in the way of a pod; and as many more for every eight."""
_ROUNDS: Final = 6
_ONLY_TOO_SMALL: Final = (
    "node/{}, the only one that it may run on, is not large enough for it, even without the pods there"
)
_ONLY_NO_WAY: Final = (
    "no pods that may be moved leave room enough for it on node/{}, the only one that it may run on"
)
_ONLY_REFUSES: Final = "node/{}, the only one that it may run on, would not take it, whichever pods stood elsewhere: {} refuses it"
_AFFINITY: Final = NodeAffinity()


def explaining(drafts: RepairDrafts, pods: int) -> RepairDrafts:
    """The same for so many pods that get no room, whatever budgets say."""
    return replace(
        drafts,
        budgets=None,
        passes=1,
        most_pods=min(drafts.most_pods, _PODS * (1 + pods // 8)),
        refused=set(),
    )


@dataclass(frozen=True, slots=True)
class Nearest:
    """Looks for ways with few moves, whatever holds those that step aside."""

    policy: PendingPods
    drafts: RepairDrafts
    leavers: Mapping[int, Sequence[Pod]]
    """By node: pods that leave it for rooms that were planned before."""
    may_leave: Callable[[Pod], bool]
    """True for all pods that may be named."""

    def ways(self, wanted: Sequence[Candidate]) -> dict[str, Sequence[ChainStep]]:
        """By uid, for each pod alone: the moves, and its arrival."""
        drafts, found = self.drafts, dict[str, Sequence[ChainStep]]()
        extent = Extent.of_rooms(self.policy.args, 1, self.may_leave, self.leavers, loses_wishes=True)
        for _ in range(_ROUNDS):
            number, refused = len(found), len(drafts.refused)
            left = [(self.policy, one) for one in wanted if one.pod.uid not in found]
            draft = drafts.draft(left, extent)
            aside = draft.by_node(drafts.trial.state.node_index)
            for one in draft.moves:
                way = drafts.chains.room(one.to, aside, self.leavers, self.policy.args.most_moves)
                if way:
                    found[one.candidate.pod.uid] = way
            # What one of them takes in a draft another one lacks: those are looked at again without it.
            if len(found) == len(wanted) or (number, refused) == (len(found), len(drafts.refused)):
                break
        return found


def why_no_room(
    wanted: Sequence[Candidate], nearest: Nearest, held: Callable[[Candidate, Pod], Blocked | None]
) -> dict[str, Blocked]:
    """By uid. ``held``: what keeps a pod from being moved now for a pending one."""
    trial = nearest.drafts.trial
    found: dict[str, Blocked] = {}
    for one in wanted:
        never = _never(one.pod, trial)
        if never is not None:
            found[one.pod.uid] = never
    ways = nearest.ways([one for one in wanted if one.pod.uid not in found])
    for one in wanted:
        if one.pod.uid in ways:
            found[one.pod.uid] = _held_back(one, ways[one.pod.uid], held)
        elif one.pod.uid not in found:
            only = _only_node(one.pod, trial.state)
            words = _ONLY_NO_WAY.format(only) if only else NO_WAY
            found[one.pod.uid] = Blocked(SkipReason.NO_TARGET, words, "")
    return found


def _never(pod: Pod, trial: Trial) -> Blocked | None:
    """Why no pods that step aside would help."""
    possible = trial.without_others(pod)
    if not possible.any():
        return _refused(pod, trial.state)
    if (possible & trial.large_enough(pod)).any():
        return None
    only = _only_node(pod, trial.state)
    words = _ONLY_TOO_SMALL.format(only) if only else _TOO_SMALL
    return Blocked(SkipReason.NO_TARGET, words, "NodeResourcesFit")


def _only_node(pod: Pod, state: SchedulingState) -> str:
    """The one node that its nodeSelector and node affinity name, as those of a DaemonSet's pod do; "": there are several, or none."""
    mask = _AFFINITY.mask(state.cluster.ask(pod), state.cluster)
    if mask is None or np.count_nonzero(mask) != 1:
        return ""
    return state.node_names[int(np.flatnonzero(mask)[0])]


def _refused(pod: Pod, state: SchedulingState) -> Blocked:
    result = state.filter(pod)
    if result.everywhere is not None:
        return Blocked(SkipReason.NO_TARGET, result.everywhere.reason, result.everywhere.plugin)
    only = _only_node(pod, state)
    if only and (code := int(result.refused_by[state.node_index[only]])) >= 0:
        by = result.plugins[code]
        return Blocked(SkipReason.NO_TARGET, _ONLY_REFUSES.format(only, by), by)
    text, first = who_refuses(result.counts())
    return Blocked(SkipReason.NO_TARGET, f"{_NODES_REFUSED}: {text}" if text else _NODES_REFUSED, first)


def _held_back(
    wanted: Candidate, way: Sequence[ChainStep], held: Callable[[Candidate, Pod], Blocked | None]
) -> Blocked:
    *steps, arrival = way
    moved = " and ".join(f"{step.pod.key} (to {step.target.node})" for step in steps)
    why = [(step.pod, found) for step in steps if (found := held(wanted, step.pod)) is not None]
    text = "; ".join(f"{pod.key}: {found.message}" for pod, found in why) or _TOGETHER
    reason, by = (why[0][1].reason, why[0][1].by) if why else (SkipReason.NO_TARGET, "")
    return Blocked(reason, f"it would fit on {arrival.target.node} if {moved} moved; {text}", by)


_POLICY: Final = PendingPods(PendingPodsArgs(move_higher_priorities=True))
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
        trial = Trial(replacements.snapshot, view, set())
        self._drafts = RepairDrafts(
            trial=trial,
            targets=Targets(trial),
            objective=Objective((), view),
            budgets=None,
            replacement=replacements.coming,
            disruption=lambda one: disruption_of(one, replacements.snapshot),
            passes=1,
            most_pods=_PODS,
        )

    def of(self, pod: Pod) -> NearestWay | None:
        """The nearest way of a pending pod; None if none is found, or if it fits already."""
        result = self._state.filter(pod)
        if result.any() or result.everywhere is not None:
            return None
        wanted = Candidate(pod=pod, policy=_POLICY.name, reason="", message="", gain=0.0, tier=Tier.PENDING)
        for may_leave in (lambda one: self._is_free(one, pod.spec.priority), self._comes_back):
            way = Nearest(_POLICY, explaining(self._drafts, 1), {}, may_leave).ways([wanted]).get(pod.uid)
            if way is not None:
                *moves, arrival = way
                steps = (StepAside(step.pod, step.target.node, self._held(pod, step.pod)) for step in moves)
                return NearestWay(arrival.target.node, tuple(steps))
        return None

    def _is_free(self, pod: Pod, highest: int) -> bool:
        return pod.spec.priority <= highest and self._comes_back(pod) and not self._reason(pod)

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
