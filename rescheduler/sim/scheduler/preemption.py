"""Preemption: whom to remove so that a pod of higher priority fits (plugin DefaultPreemption).

Judges on a ``SchedulingState`` and leaves it as it was. Nothing is deleted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rescheduler.model.records import DisruptionBudget, ObjectKey, Pod
from rescheduler.scheduling.framework import NodeVerdict
from rescheduler.scheduling.state import SchedulingState
from rescheduler.sim.scheduler.message import preemption_message

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NEVER = "preemption: not eligible due to preemptionPolicy=Never."
ALREADY = "preemption: not eligible due to a terminating pod on the nominated node."
BY_SCHEDULER = "PreemptionByScheduler"


@dataclass(frozen=True, slots=True)
class Choice:
    """A node that the pod fits on once the victims are gone; ``violations``: victims whose budget says no."""

    node: str
    victims: tuple[Pod, ...]
    violations: int


@dataclass(frozen=True, slots=True)
class PreemptionResult:
    """``choice`` None: nothing to preempt, ``message`` says why. ``eligible``: it was tried at all."""

    choice: Choice | None
    message: str
    eligible: bool = True


def preempt(
    state: SchedulingState,
    pod: Pod,
    verdicts: Sequence[NodeVerdict],
    budgets: Mapping[ObjectKey, DisruptionBudget],
) -> PreemptionResult:
    """Look for the node where preemption harms least."""
    if not pod.spec.preempts:
        return PreemptionResult(None, NEVER, eligible=False)
    if _waits_for_victims(state, pod, verdicts):
        return PreemptionResult(None, ALREADY, eligible=False)
    choices: list[Choice] = []
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
    """Its earlier victims are still terminating on the node that it is nominated to."""
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
) -> Choice | str:
    """The fewest victims on one node: all lower ones go, then the important ones are taken back first."""
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
    return Choice(node, tuple(sorted(victims, key=_importance)), violations)


def _spared(state: SchedulingState, pod: Pod, victim: Pod, node: str, index: int) -> bool:
    """True if the pod fits with this one left in place, which then stays."""
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
    """Pods whose removal would overrun a budget, and the others."""
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


def _harm(choice: Choice) -> tuple[float, ...]:
    """Fewest violations, lowest highest victim, smallest sum, fewest victims, youngest important victim."""
    if not choice.victims:
        return (float(choice.violations), float("-inf"), 0.0, 0.0, 0.0)
    highest = choice.victims[0].spec.priority
    lifted = sum(p.spec.priority + 2**31 for p in choice.victims)
    starts = [p.started_at_s or p.created_at_s for p in choice.victims if p.spec.priority == highest]
    return (float(choice.violations), float(highest), float(lifted), float(len(choice.victims)), -min(starts))
