"""Why the controller does not move a pod now, or that it does: as lines of text, and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rescheduler.model.counted import plural
from rescheduler.model.records import DisruptionBudget
from rescheduler.model.times import format_seconds
from rescheduler.planning.plan import Move, Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveAnswer:
    """Everything that has a say in whether one bound pod is moved. Times: epoch seconds."""

    policies: tuple[str, ...]
    """Those that are on."""
    move: Move | None = None
    """The one that the next decision would begin."""
    skipped: tuple[Skipped, ...] = ()
    """Where policies propose the pod, why it stays all the same."""
    protection: str = ""
    """Why it is not moved wherever there is room; empty: nothing protects it."""
    budgets: tuple[DisruptionBudget, ...] = ()
    """That select it."""
    rests_until_s: float | None = None
    """Its workload was moved lately."""
    waits_until_s: float | None = None
    """Its last moves failed."""


def move_answer_lines(answer: MoveAnswer) -> Iterator[str]:
    """What decides, first."""
    if answer.move is not None:
        yield f"would be moved to {answer.move.target}: {answer.move.policy}: {answer.move.message or answer.move.reason}"
    for one in answer.skipped:
        by = f" ({one.blocked_by})" if one.blocked_by else ""
        yield f"is not moved: {one.policy} proposes it: {one.reason}: {one.message}{by}"
    if answer.move is None and not answer.skipped:
        names = ", ".join(answer.policies)
        yield (
            f"is not moved: no policy finds it badly placed ({names})"
            if names
            else "is not moved: no policy is on"
        )
    if answer.protection:
        yield f"protected: {answer.protection}"
    for budget in answer.budgets:
        allows = plural(budget.disruptions_allowed, "disruption")
        yield (
            f"budget {budget.key}: allows {allows} ({budget.current_healthy} of {budget.expected_pods} pods are healthy, "
            f"{budget.desired_healthy} must be)"
        )
    if answer.rests_until_s is not None:
        yield f"cool-down: its workload was moved lately and rests until {format_seconds(answer.rests_until_s)}"
    if answer.waits_until_s is not None:
        yield f"back-off: its last move failed; the next try is at {format_seconds(answer.waits_until_s)}"


def move_answer_document(answer: MoveAnswer) -> dict[str, Any]:
    """The same for JSON; what says nothing is left out."""
    document: dict[str, Any] = {"policies": list(answer.policies)}
    if answer.move is not None:
        document["to"] = answer.move.target
        document["policy"] = answer.move.policy
    if answer.skipped:
        document["skipped"] = [
            {"policy": s.policy, "reason": s.reason, "message": s.message, "blockedBy": s.blocked_by}
            for s in answer.skipped
        ]
    if answer.protection:
        document["protection"] = answer.protection
    if answer.budgets:
        document["budgets"] = [
            {"namespace": b.namespace, "name": b.name, "disruptionsAllowed": b.disruptions_allowed}
            for b in answer.budgets
        ]
    if answer.rests_until_s is not None:
        document["cooldownUntil"] = format_seconds(answer.rests_until_s)
    if answer.waits_until_s is not None:
        document["backoffUntil"] = format_seconds(answer.waits_until_s)
    return document
