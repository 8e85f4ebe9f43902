"""What became of the moves of one decision, as text: ``run --once`` ends with it."""

from __future__ import annotations

from collections.abc import Mapping

from rescheduler.model.counted import plural
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.reports.table import table
from rescheduler.reports.text import Style, plain

_ROLES: Mapping[MigrationPhase, str] = {MigrationPhase.SUCCEEDED: "good", MigrationPhase.FAILED: "bad"}


def outcomes_text(moves: Mapping[ObjectKey, PodMigration | None], style: Style = plain) -> str:
    """One line for each PodMigration that was begun, ending in a newline. None: its object was deleted meanwhile."""
    if not moves:
        return "No move was begun.\n"
    landed = sum(m is not None and m.status.phase is MigrationPhase.SUCCEEDED for m in moves.values())
    rows = [_row(key, move) for key, move in moves.items()]
    head, *lines = table(("pod", "from", "to", "became", "why"), rows)
    phases = (move.status.phase if move is not None else MigrationPhase.FAILED for move in moves.values())
    coloured = [style(line, _ROLES.get(phase, "faint")) for line, phase in zip(lines, phases, strict=True)]
    headline = f"{plural(len(moves), 'move')} begun, {landed} landed on the reserved node"
    return "\n".join([headline, style(head, "heading"), *coloured]) + "\n"


def _row(key: ObjectKey, move: PodMigration | None) -> tuple[str, ...]:
    if move is None:
        return (f"PodMigration {key}", "", "", "Deleted", "its object was deleted before it had ended")
    status = move.status
    return (
        f"{move.namespace}/{move.pod_name}",
        status.source_node,
        status.node_name or move.target_node,
        status.reason or str(status.phase),
        status.message,
    )
