"""What a consolidation would do, for people and as JSON."""

from __future__ import annotations

from typing import Any, Final

from rescheduler.cli.consolidation import ConsolidationPlan, Share
from rescheduler.model.counted import plural
from rescheduler.model.names import API_VERSION
from rescheduler.reports.structured import pretty_json
from rescheduler.reports.table import table

_STAYING: Final = 10
"""Of the nodes that stay so many are shown, with the reason."""
_MOVES: Final = 40


def consolidation_text(found: ConsolidationPlan) -> str:
    """Which nodes go, where their pods go, and why the others stay."""
    lines = [headline(found)]
    if found.going:
        rows = [(name, _state(found, name), str(_pods(found, name))) for name in found.going]
        lines += ["", *table(("NODE THAT GOES", "NOW", "MOVES"), rows, right=frozenset({2}))]
    if found.moves:
        moves = [(str(m.pod.key), m.pod.node, m.target) for m in found.moves[:_MOVES]]
        lines += ["", *table(("POD", "FROM", "TO"), moves)]
        if len(found.moves) > _MOVES:
            lines.append(f"  and {len(found.moves) - _MOVES:,} more (-o json has all)")
    if found.stay:
        lines += ["", *table(("NODE THAT STAYS", "WHY"), found.stay[:_STAYING])]
        if len(found.stay) > _STAYING:
            lines.append(f"  and {len(found.stay) - _STAYING:,} more (-o json has all)")
    return "\n".join(lines) + "\n"


def consolidation_json(found: ConsolidationPlan) -> str:
    """The same as one document."""
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Consolidation",
        "nodes": [{"name": n, "state": _state(found, n), "moves": _pods(found, n)} for n in found.going],
        "moves": [
            {
                "pod": {"namespace": m.pod.namespace, "name": m.pod.name, "uid": m.pod.uid},
                "from": m.pod.node,
                "to": m.target,
                "stage": m.stage,
            }
            for m in found.moves
        ],
        "stay": [{"name": name, "message": why} for name, why in found.stay],
        "refused": [
            {"pod": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}, "message": why}
            for pod, why in found.refused
        ],
        "before": _share(found.before),
        "after": _share(found.after),
    }
    return pretty_json(document)


def headline(found: ConsolidationPlan) -> str:
    """How many nodes go, and how full the others are then."""
    before, after = found.before, found.after
    if not found.going:
        return f"no node can go: {_full(before)}"
    going = f"{len(found.going)} of {plural(before.nodes + len(found.resumed), 'node')} can go"
    return f"{going}, with {plural(len(found.moves), 'move')}; now {_full(before)}, then {_full(after)}"


def _full(share: Share) -> str:
    return f"{plural(share.nodes, 'node')} with {share.cpu:.0%} of CPU and {share.memory:.0%} of memory requested"


def _state(found: ConsolidationPlan, name: str) -> str:
    if name in found.empty:
        return "empty"
    return "begun earlier" if name in found.resumed else "in use"


def _pods(found: ConsolidationPlan, node: str) -> int:
    return sum(move.pod.node == node for move in found.moves)


def _share(share: Share) -> dict[str, Any]:
    return {"nodes": share.nodes, "cpu": round(share.cpu, 4), "memory": round(share.memory, 4)}
