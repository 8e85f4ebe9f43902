"""What a drain would do, for people and as JSON."""

from __future__ import annotations

from typing import Any

from rescheduler.cli.drain_plan import DrainPlan, Stays
from rescheduler.model.counted import plural, verb
from rescheduler.model.names import API_VERSION
from rescheduler.model.records import Pod
from rescheduler.reports.structured import pretty_json
from rescheduler.reports.table import table


def plan_text(plan: DrainPlan) -> str:
    """The plan, what keeps the nodes from being drained first."""
    lines = [_headline(plan)]
    if plan.refused:
        lines += ["", *table(("REFUSED", "NODE", "WHY"), [_why(pod, why) for pod, why in plan.refused])]
    if plan.moves:
        staged = any(move.stage for move in plan.moves)
        header = ("POD", "FROM", "TO", "STAGE") if staged else ("POD", "FROM", "TO")
        rows = [(str(m.pod.key), m.pod.node, m.target, str(m.stage + 1))[: len(header)] for m in plan.moves]
        lines += ["", *table(header, rows)]
    if plan.under_way:
        rows = [(str(pod.key), pod.node, f"PodMigration {key.name}") for pod, key in plan.under_way]
        lines += ["", *table(("MOVING ALREADY", "FROM", "BY"), rows)]
    if plan.evictions:
        lines += ["", *table(("EVICTED WITHOUT ROOM", "NODE", "WHY"), [_why(*one) for one in plan.evictions])]
    if plan.waits:
        lines += ["", *table(("WAITS FOR ITS BUDGET", "NODE", "WHY"), [_why(*one) for one in plan.waits])]
    if plan.stays:
        lines += ["", *table(("STAYS", "NODE", "WHY"), [_why(*one) for one in plan.stays])]
    return "\n".join(lines) + "\n"


def plan_json(plan: DrainPlan) -> str:
    """The same as one document."""
    found: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "DrainPlan",
        "nodes": list(plan.nodes),
        "moves": [
            {"pod": _ref(m.pod), "from": m.pod.node, "to": m.target, "stage": m.stage} for m in plan.moves
        ],
        "moving": [
            {"pod": _ref(pod), "podMigration": {"namespace": key.namespace, "name": key.name}}
            for pod, key in plan.under_way
        ],
        "evictions": [{"pod": _ref(pod), "message": why} for pod, why in plan.evictions],
        "waits": [{"pod": _ref(pod), "message": why} for pod, why in plan.waits],
        "stays": [{"pod": _ref(pod), "reason": why.name, "message": why.value} for pod, why in plan.stays],
        "refused": [{"pod": _ref(pod), "message": why} for pod, why in plan.refused],
    }
    return pretty_json(found)


def refusal_text(plan: DrainPlan) -> str:
    """Why the nodes are not drained: an error message."""
    listed = "".join(f"\n  {pod.key}: {why}" for pod, why in plan.refused)
    return f"{_named(plan)} cannot be drained because of {plural(len(plan.refused), 'pod')}:{listed}"


def _headline(plan: DrainPlan) -> str:
    parts = [f"{plural(len(plan.moves), 'pod')} would be moved"]
    if plan.evictions:
        parts.append(f"{len(plan.evictions)} evicted without room")
    if plan.refused:
        parts.append(f"{len(plan.refused)} refused: the drain would not begin")
    return f"{_named(plan)}: {', '.join(parts)}"


def _named(plan: DrainPlan) -> str:
    return f"{verb(len(plan.nodes), 'node', 'nodes')} {', '.join(plan.nodes)}"


def _why(pod: Pod, why: str | Stays) -> tuple[str, str, str]:
    return str(pod.key), pod.node, str(why)


def _ref(pod: Pod) -> dict[str, str]:
    return {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
