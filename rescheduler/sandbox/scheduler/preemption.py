"""Preemption: which pods to delete so that a pod of higher priority fits (plugin DefaultPreemption).

Works on a ``SchedulingState`` and leaves it unchanged. Nothing is deleted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rescheduler.model.records import DisruptionBudget, ObjectKey, Pod
from rescheduler.sandbox.scheduler.fit_error import preemption_message
from rescheduler.scheduling.framework import NodeVerdict
from rescheduler.scheduling.state import SchedulingState

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
ALREADY = "preemption: not eligible due to a terminating pod on the nominated node."
BY_SCHEDULER = "PreemptionByScheduler"


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node on which the pod fits once the victims are deleted."""

    node: str
    victims: tuple[Pod, ...]
    violations: int
    """Victims whose deletion violates a PodDisruptionBudget."""


@dataclass(frozen=True, slots=True)
class PreemptionResult:
    """The best candidate, or the reason why there is none."""

    choice: PreemptionCandidate | None
    message: str
    """Why there is no candidate."""
    eligible: bool = True
    """False: preemption was not tried."""


def preempt(
    state: SchedulingState,
    pod: Pod,
    verdicts: Sequence[NodeVerdict],
    budgets: Mapping[ObjectKey, DisruptionBudget],
) -> PreemptionResult:
    """The node where preemption does least harm."""
    if not pod.spec.preempts:
        return PreemptionResult(None, NEVER, eligible=False)
    if _waits_for_victims(state, pod, verdicts):
        return PreemptionResult(None, ALREADY, eligible=False)
    choices: list[PreemptionCandidate] = []
    reasons: list[str] = []
    for verdict in verdicts:
        if any(r.unresolvable for r in verdict.refusals):
            reasons.append(NOT_HELPFUL)
            continue
        found = _victims_on(state, pod, verdict.node, budgets)
        if isinstance(found, str):
            reasons.append(found)
        else:
            choices.append(found)
    if choices:
        return PreemptionResult(min(choices, key=_harm), "")
    return PreemptionResult(None, preemption_message(len(verdicts), reasons))


def _waits_for_victims(state: SchedulingState, pod: Pod, verdicts: Sequence[NodeVerdict]) -> bool:
    """True if earlier victims of the pod are still terminating on its nominated node."""
    if not pod.nominated_node or pod.nominated_node not in state.node_index:
        return False
    here = next((v for v in verdicts if v.node == pod.nominated_node), None)
    if here is not None and any(r.unresolvable for r in here.refusals):
        return False
    return any(
        p.deleting and p.disruption_reason == BY_SCHEDULER and p.spec.priority < pod.spec.priority
        for p in state.pods_on(pod.nominated_node)
    )


def _victims_on(
    state: SchedulingState, pod: Pod, node: str, budgets: Mapping[ObjectKey, DisruptionBudget]
) -> PreemptionCandidate | str:
    """The fewest victims on one node (SelectVictimsOnNode).

    All pods of lower priority are removed; then as many as possible are put back, the most important first.
    """
    lower = [p for p in state.pods_on(node) if p.spec.priority < pod.spec.priority]
    if not lower:
        return NO_VICTIMS
    index = state.node_index[node]
    mark = state.checkpoint()
    try:
        for each in lower:
            state.remove(each)
        result = state.filter(pod)
        if not result.feasible[index]:
            return next((r.reason for v in state.explain(pod) if v.node == node for r in v.refusals), "")
        violating, others = _by_budget(sorted(lower, key=_importance), budgets)
        victims = [p for p in violating if not _spared(state, pod, p, node, index)]
        violations = len(victims)
        victims += [p for p in others if not _spared(state, pod, p, node, index)]
    finally:
        state.rollback(mark)
    return PreemptionCandidate(node, tuple(sorted(victims, key=_importance)), violations)


def _spared(state: SchedulingState, pod: Pod, victim: Pod, node: str, index: int) -> bool:
    """True if the pod still fits with this victim put back; then the victim is left in the state."""
    mark = state.checkpoint()
    state.place(victim, node)
    if state.filter(pod).feasible[index]:
        return True
    state.rollback(mark)
    return False


def _importance(pod: Pod) -> tuple[int, float, str]:
    """Sorts the more important pod first: higher priority, then longer running."""
    return (-pod.spec.priority, pod.started_at_s or pod.created_at_s, pod.uid)


def _by_budget(
    pods: Sequence[Pod], budgets: Mapping[ObjectKey, DisruptionBudget]
) -> tuple[list[Pod], list[Pod]]:
    """Pods whose deletion would violate a budget, and the others."""
    left = {key: b.disruptions_allowed for key, b in budgets.items()}
    violating: list[Pod] = []
    others: list[Pod] = []
    for pod in pods:
        over = False
        for key, budget in budgets.items():
            if budget.namespace != pod.namespace or pod.name in budget.disrupted_pods:
                continue
            if budget.selector is None or budget.selector.empty or not budget.selector.matches(pod.labels):
                continue
            left[key] -= 1
            over = over or left[key] < 0
        (violating if over else others).append(pod)
    return violating, others


def _harm(choice: PreemptionCandidate) -> tuple[float, ...]:
    """Sorts by kube-scheduler's criteria (pickOneNodeForPreemption).

    Fewest violations, lowest priority of the highest victim, smallest sum of priorities, fewest victims, latest
    start of the earliest started victim of the highest priority.
    """
    if not choice.victims:
        return (float(choice.violations), float("-inf"), 0.0, 0.0, 0.0)
    highest = choice.victims[0].spec.priority
    lifted = sum(p.spec.priority + 2**31 for p in choice.victims)
    starts = [p.started_at_s or p.created_at_s for p in choice.victims if p.spec.priority == highest]
    return (float(choice.violations), float(highest), float(lifted), float(len(choice.victims)), -min(starts))
