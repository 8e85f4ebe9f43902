"""Moves as commands show them: a line for each step, a table at the end, or the objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from rescheduler.model.migration import PodMigration
from rescheduler.model.records import ObjectKey
from rescheduler.reports.table import table
from rescheduler.visible import visible_line

if TYPE_CHECKING:
    from rescheduler.cli.move_checks import CheckedMove

OUTPUTS: Final = ("text", "wide", "name", "json", "yaml")
_NARROW: Final = ("POD", "FROM", "TO", "STATE", "REASON")


def step_line(move: PodMigration) -> str:
    """One step: the pod, what happens, and what it waits for."""
    status = move.status
    steps = dict.fromkeys((str(status.phase), status.reason or "asked for", status.message or ""))
    return visible_line(f"{move.namespace}/{move.pod_name}: {': '.join(filter(None, steps))}")


def moves_table(moves: Iterable[PodMigration], *, wide: bool) -> str:
    """What became of each move."""
    header = (*_NARROW, "REPLACEMENT", "MIGRATION", "MESSAGE") if wide else _NARROW
    rows = [_row(move, wide=wide) for move in moves]
    return "\n".join(line.removeprefix("  ") for line in table(header, rows)) + "\n"


def checks_table(checked: Iterable[CheckedMove]) -> str:
    """What would become of each move."""
    rows = [
        (
            f"{check.pod.namespace}/{check.pod.name}",
            check.pod.node or "-",
            "-" if check.refusal else check.target,
            check.refusal or "",
        )
        for check in checked
    ]
    lines = table(("POD", "FROM", "TO", "REFUSED"), rows)
    return "\n".join(line.removeprefix("  ") for line in lines) + "\n"


def names_text(keys: Iterable[ObjectKey]) -> str:
    """One PodMigration a line, as ``kubectl get -o name``."""
    return "".join(f"podmigration.rescheduler.dev/{key.name}\n" for key in keys)


class StepLines:
    """Says each step of each move once."""

    def __init__(self) -> None:
        self._said: dict[ObjectKey, str] = {}

    def new(self, moves: Mapping[ObjectKey, PodMigration]) -> list[str]:
        """The lines that were not said yet."""
        lines: list[str] = []
        for key, move in moves.items():
            line = step_line(move)
            if self._said.get(key) != line:
                self._said[key] = line
                lines.append(line)
        return lines


def _row(move: PodMigration, *, wide: bool) -> tuple[str, ...]:
    status = move.status
    narrow = (
        f"{move.namespace}/{move.pod_name}",
        status.source_node or "-",
        status.node_name or move.target_node or "-",
        str(status.phase),
        status.reason or "-",
    )
    if not wide:
        return narrow
    replacement = status.replacement.name if status.replacement is not None else "-"
    return (*narrow, replacement, move.name, status.message)
