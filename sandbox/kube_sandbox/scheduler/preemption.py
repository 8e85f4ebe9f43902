"""Preemption: on which node pods are deleted so that a pod of higher priority fits (plugin DefaultPreemption); the message of kube-scheduler for a pod that fits nowhere (FitError).

Works on a ``SchedulingState`` and leaves it unchanged. Nothing is deleted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rescheduler.model.records import DisruptionBudget, ObjectKey, Pod
from rescheduler.scheduling.framework import NodeVerdict
from rescheduler.scheduling.preemption import victims_on
from rescheduler.scheduling.state import SchedulingState

NO_NODES = "no nodes available to schedule pods"


def fit_message(verdicts: Sequence[NodeVerdict], after: str = "", everywhere: str = "") -> str:
    """``0/3 nodes are available: 1 Insufficient cpu, ...``.

    ``after``: the message of preemption. ``everywhere``: a reason that holds for the pod on every node, which
    kube-scheduler does not count by nodes.
    """
    if not verdicts:
        return NO_NODES
    reasons = _counted(r.reason for v in verdicts for r in v.refusals)
    text = f"0/{len(verdicts)} nodes are available:{f' {everywhere}.' if everywhere else reasons}"
    return f"{text} {after}" if after else text


def preemption_message(nodes: int, reasons: Iterable[str]) -> str:
    """The same for preemption: its reason for each node, counted."""
    return f"preemption: 0/{nodes} nodes are available:{_counted(reasons)}"


def _counted(reasons: Iterable[str]) -> str:
    texts = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f" {', '.join(texts)}." if texts else ""


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
        found = victims_on(state, pod, verdict.node, budgets)
        if isinstance(found, str):
            reasons.append(found)
        else:
            choices.append(PreemptionCandidate(verdict.node, found.pods, found.violations))
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
