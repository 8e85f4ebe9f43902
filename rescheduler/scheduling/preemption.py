"""Which pods of one node kube-scheduler would delete for a pod of higher priority (plugin DefaultPreemption). Pure.

Promises: the rules of ``SelectVictimsOnNode`` of kube-scheduler 1.37, budgets and order included; the state is left unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from rescheduler.model.records import DisruptionBudget, ObjectKey, Pod
from rescheduler.scheduling.state import SchedulingState

NO_VICTIMS: Final = "No preemption victims found for incoming pod"


class Victims(NamedTuple):
    """What must be deleted on a node so that the pod fits."""

    pods: tuple[Pod, ...]
    """The most important first."""
    violations: int
    """How many of them violate a PodDisruptionBudget: that only puts them back first."""


def victims_on(
    state: SchedulingState, pod: Pod, node: str, budgets: Mapping[ObjectKey, DisruptionBudget]
) -> Victims | str:
    """The fewest victims on one node, or why deleting all pods of lower priority would not help.

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
        if not state.feasible_at(pod, index):
            return next((r.reason for v in state.explain(pod) if v.node == node for r in v.refusals), "")
        violating, others = _by_budget(sorted(lower, key=_importance), budgets)
        victims = [p for p in violating if not _spared(state, pod, p, node, index)]
        violations = len(victims)
        victims += [p for p in others if not _spared(state, pod, p, node, index)]
    finally:
        state.rollback(mark)
    return Victims(tuple(sorted(victims, key=_importance)), violations)


def _spared(state: SchedulingState, pod: Pod, victim: Pod, node: str, index: int) -> bool:
    """True if the pod still fits with this victim put back; then the victim is left in the state."""
    mark = state.checkpoint()
    state.place(victim, node)
    if state.feasible_at(pod, index):
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
