"""Why a pod can or cannot go to each node, as text, and as JSON with one line for each pod."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from rescheduler.model.records import Pod
from rescheduler.planning.nearest_way import NearestWay
from rescheduler.reports.table import amount, plural, table
from rescheduler.reports.text import Style, plain
from rescheduler.scheduling.framework import NodeVerdict

_INSUFFICIENT = "Insufficient "
_NODES_SHOWN = 10


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
    notes: tuple[str, ...] = ()
    """Aspects that the result does not cover, for example dynamic resource allocation."""


def explanation_json(explanation: Explanation) -> str:
    """One line of JSON (docs/commands.md), ending in a newline."""
    pod = explanation.pod
    document = {
        "kind": "Explanation",
        "pod": {"namespace": pod.namespace, "name": pod.name},
        "nodes": [_node_document(verdict) for verdict in explanation.verdicts],
    }
    if explanation.nearest is not None:
        document["nearest"] = _nearest_document(explanation.nearest)
    if explanation.notes:
        document["notes"] = list(explanation.notes)
    return msgspec.json.encode(document).decode() + "\n"


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
    where = f"on {pod.node}, computed as if it were removed" if pod.node else "pending"
    total = len(explanation.verdicts)
    role = "good" if feasible else "bad"
    answer = f"{len(feasible)} of {plural(total, 'node')} would take it" if total else "there are no nodes"
    lines = [f"{style(f'{pod.namespace}/{pod.name}', 'heading')} ({where}): {style(answer, role)}"]
    lines += [f"  note: {note}" for note in explanation.notes]
    if feasible:
        lines += _scores(feasible)
    lines += _refusals(explanation)
    if explanation.nearest is not None:
        lines.append(_nearest(explanation.nearest))
    elif not feasible and not pod.node and total:
        lines.append("  no one or two pods of a node could stand elsewhere so that it fits there")
    return "\n".join(lines) + "\n"


def _scores(feasible: list[NodeVerdict]) -> list[str]:
    plugins = [name for name, _ in feasible[0].scores]
    rows = [
        (verdict.node, str(verdict.score), *(str(score) for _, score in verdict.scores))
        for verdict in feasible[:_NODES_SHOWN]
    ]
    lines = table(("NODE", "SCORE", *plugins), rows, right=frozenset(range(1, len(plugins) + 2)))
    if len(feasible) > _NODES_SHOWN:
        lines.append(f"  and {plural(len(feasible) - _NODES_SHOWN, 'more node')}")
    return lines


def _nearest(way: NearestWay) -> str:
    moved = " and ".join(f"{step.pod.key} (to {step.target})" for step in way.steps)
    held = "".join(f"; {step.pod.key} {step.held}" for step in way.steps if step.held)
    return f"  it would fit on {way.node} if {moved} moved{held}"


def _refusals(explanation: Explanation) -> list[str]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    hopeless: set[str] = set()
    for verdict in explanation.verdicts:
        for refusal in verdict.refusals:
            groups[refusal.reason].append(verdict.node)
            if refusal.unresolvable:
                hopeless.add(refusal.reason)
    lines = []
    for reason, nodes in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        named = ", ".join(nodes[:3]) + (", …" if len(nodes) > 3 else "")  # noqa: PLR2004 - three examples fit a line
        remark = "; evicting pods there would not help" if reason in hopeless else ""
        lines.append(
            f"  {plural(len(nodes), 'node')}: {reason}{_amounts(explanation, reason)}{remark} [{named}]"
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
