"""Why a pod can or cannot go to each node, and what keeps a bound one: as text, and as JSON with one line for each pod."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rescheduler.model.counted import plural
from rescheduler.model.names import API_VERSION
from rescheduler.model.records import DisruptionBudget, Pod
from rescheduler.model.times import format_seconds
from rescheduler.planning.plan import Move, Skipped
from rescheduler.planning.why_no_room import NearestWay
from rescheduler.reports.table import amount, table, wrapped
from rescheduler.reports.text import Style, plain
from rescheduler.scheduling.framework import NodeVerdict

_INSUFFICIENT = "Insufficient "
_NODES_SHOWN = 10
_WIDTH = 100
"""Columns of the text, on terminals and elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The result of kube-scheduler's filters and scores for one pod."""

    pod: Pod
    verdicts: tuple[NodeVerdict, ...]
    """One for each node."""
    best_free: Mapping[str, int] = field(default_factory=dict)
    """By resource: the largest free amount of the nodes that do not fit."""
    nearest: NearestWay | None = None
    """Which pods would have to stand elsewhere; None if it fits already, or no way was found."""
    moved: MoveAnswer | None = None
    """Whether the controller moves it, and what keeps it; None for a pending pod."""
    notes: tuple[str, ...] = ()
    """Aspects that the result does not cover, for example dynamic resource allocation."""


def explanation_document(explanation: Explanation) -> dict[str, object]:
    """As docs/commands.md has it."""
    pod = explanation.pod
    document: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": "Explanation",
        "pod": {"namespace": pod.namespace, "name": pod.name},
        "nodes": [_node_document(verdict) for verdict in explanation.verdicts],
    }
    if explanation.nearest is not None:
        document["nearest"] = _nearest_document(explanation.nearest)
    if explanation.moved is not None:
        document["move"] = move_answer_document(explanation.moved)
    if explanation.notes:
        document["notes"] = list(explanation.notes)
    return document


def _nearest_document(way: NearestWay) -> dict[str, object]:
    moves: list[dict[str, str]] = []
    for step in way.steps:
        move = {"namespace": step.pod.namespace, "name": step.pod.name, "to": step.target}
        moves.append({**move, "held": step.held} if step.held else move)
    return {"node": way.node, "moves": moves}


def _node_document(verdict: NodeVerdict) -> dict[str, object]:
    document: dict[str, object] = {
        "name": verdict.node,
        "feasible": verdict.feasible,
        "reasons": [{"plugin": r.plugin, "reason": r.reason} for r in verdict.refusals],
    }
    if verdict.feasible:
        document["scores"] = dict(verdict.scores)
        document["score"] = verdict.score
    return document


def explanation_text(explanation: Explanation, style: Style = plain) -> str:
    """A few lines: the best nodes with their scores, and the others grouped by reason."""
    pod = explanation.pod
    feasible = sorted((v for v in explanation.verdicts if v.feasible), key=lambda v: (-v.score, v.node))
    stands = bool(pod.node) and not pod.terminal
    where = "pending"
    if stands:
        where = f"on {pod.node}, computed as if it were removed"
    elif pod.terminal:
        where = f"{pod.phase}, it holds nothing any more"
    total = len(explanation.verdicts)
    role = "good" if feasible else "bad"
    answer = f"{len(feasible)} of {plural(total, 'node')} would take it" if total else "there are no nodes"
    name = f"{pod.namespace}/{pod.name}"
    lines = [f"{style(name, 'heading')} ({where}): {style(answer, role)}"]
    if len(f"{name} ({where}): {answer}") > _WIDTH and stands:
        lines = [
            f"{style(name, 'heading')} (on {pod.node}):",
            f"  computed as if it were removed: {style(answer, role)}",
        ]
    lines += [f"  note: {note}" for note in explanation.notes]
    if explanation.moved is not None:
        lines += [line for text in move_answer_lines(explanation.moved) for line in _wrapped(text)]
    if feasible:
        lines += _scores(feasible)
    lines += _refusals(explanation)
    if explanation.nearest is not None:
        lines += _wrapped(_nearest(explanation.nearest))
    elif not feasible and not pod.node and not pod.spec.gates and total:
        lines.append("  no pods could stand elsewhere so that it fits there")
    return "\n".join(lines) + "\n"


def _scores(feasible: list[NodeVerdict]) -> list[str]:
    plugins = [name for name, _ in feasible[0].scores]
    shown = feasible[:_NODES_SHOWN]
    differing = [i for i in range(len(plugins)) if len({verdict.scores[i][1] for verdict in shown}) > 1]
    rows = [(v.node, str(v.score), *(str(v.scores[i][1]) for i in differing)) for v in shown]
    header = ["NODE", "SCORE", *(plugins[i] for i in differing)]
    widths = [max(len(row[i]) for row in (header, *rows)) + 2 for i in range(len(header))]
    fit = max((n for n in range(2, len(header) + 1) if sum(widths[:n]) <= _WIDTH), default=2)
    lines = table(header[:fit], [row[:fit] for row in rows], right=frozenset(range(1, fit)), width=_WIDTH)
    if len(header) > fit:
        lines += _wrapped(f"they differ, too, by {', '.join(header[fit:])} (-o json has all scores)")
    if len(feasible) > _NODES_SHOWN:
        lines.append(f"  and {plural(len(feasible) - _NODES_SHOWN, 'more node')}")
    return lines


def _wrapped(text: str) -> list[str]:
    return wrapped(text, _WIDTH, "  ", "    ")


def _nearest(way: NearestWay) -> str:
    moved = " and ".join(f"{step.pod.key} (to {step.target})" for step in way.steps)
    held = "".join(f"; {step.pod.key} {step.held}" for step in way.steps if step.held)
    return f"it would fit on {way.node} if {moved} moved{held}"


def _refusals(explanation: Explanation) -> list[str]:
    groups: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    for verdict in explanation.verdicts:
        for refusal in verdict.refusals:
            groups[refusal.reason, refusal.unresolvable].append(verdict.node)
    lines = []
    for (reason, hopeless), nodes in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        named = ", ".join(nodes[:3]) + (", …" if len(nodes) > 3 else "")  # noqa: PLR2004 - three examples fit a line
        remark = "; evicting pods there would not help" if hopeless else ""
        lines += _wrapped(
            f"{plural(len(nodes), 'node')}: {reason}{_amounts(explanation, reason)}{remark} [{named}]"
        )
    return lines


def _amounts(explanation: Explanation, reason: str) -> str:
    if not reason.startswith(_INSUFFICIENT):
        return ""
    resource = reason.removeprefix(_INSUFFICIENT)
    needs = dict(explanation.pod.spec.requests.items()).get(resource)
    best = explanation.best_free.get(resource)
    if needs is None or best is None:
        return ""
    return f" (needs {amount(resource, needs)}, best has {amount(resource, best)})"


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
