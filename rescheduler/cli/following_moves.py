"""Follows the moves that a command has asked for, says each step, and tells how they ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from rescheduler.cli.errors import EXIT_BLOCKED, EXIT_DONE, EXIT_FAILED
from rescheduler.cli.migration_client import Following, MigrationClient, disturbs
from rescheduler.cli.moves_printing import StepLines, moves_table, names_text, step_line
from rescheduler.cli.output import emit, tell
from rescheduler.cli.progress import StatusLine
from rescheduler.cli.reserve.printing import json_list, yaml_list
from rescheduler.migrations.lifecycle import FINISHED, MigrationReason
from rescheduler.model.migration import MigrationPhase, PodMigration
from rescheduler.model.records import ObjectKey

Moves = Mapping[ObjectKey, PodMigration]
_LANDING_S: Final = 900.0
"""A move that has evicted its pod ends within less, whatever its ttl is; otherwise the controller is away."""


def follow(
    client: MigrationClient,
    keys: Iterable[ObjectKey],
    *,
    ttl_s: float,
    how_to_go_on: str,
    gives_up: Callable[[PodMigration], bool] = lambda _: False,
) -> dict[ObjectKey, PodMigration]:
    """What became of the moves. Interrupted, it says ``how_to_go_on``; the moves themselves go on.

    ``gives_up``: which of them are withdrawn if they stay like that for a while.
    """
    wanted = frozenset(keys)
    namespaces = sorted({key.namespace for key in wanted})
    following = Following(
        client=client,
        keys=wanted,
        gives_up=gives_up,
        look=lambda: {move.key: move for namespace in namespaces for move in client.select(namespace)},
    )
    steps = StepLines()
    with StatusLine() as line:

        def show(found: Moves) -> None:
            new = steps.new(found)
            if sys.stderr.isatty():
                line.show(_summary(found, len(wanted)))
            else:
                for text in new:
                    tell(text)

        try:
            return following.until_ended(show, time.monotonic() + ttl_s + _LANDING_S)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(how_to_go_on)
            raise


def exit_code(keys: Iterable[ObjectKey], found: Moves) -> int:
    """0: all landed. 3: nothing failed, but some were not begun in time, or are still under way. 1: the rest."""
    code = EXIT_DONE
    for key in keys:
        move = found.get(key)
        if move is None or (move.status.phase is MigrationPhase.FAILED and not _waited_in_vain(move)):
            return EXIT_FAILED
        if move.status.phase is not MigrationPhase.SUCCEEDED:
            code = EXIT_BLOCKED
    return code


def print_moves(client: MigrationClient, keys: Iterable[ObjectKey], found: Moves, output: str) -> None:
    """The moves in one of the formats of ``-o``."""
    wanted = list(keys)
    if output == "name":
        emit(names_text(wanted))
    elif output in ("json", "yaml"):
        bodies = [body for key in wanted if (body := client.raw(key)) is not None]
        emit(json_list(bodies) if output == "json" else yaml_list(bodies))
    else:
        emit(moves_table([found[key] for key in wanted if key in found], wide=output == "wide"))


def why_not(keys: Iterable[ObjectKey], found: Moves) -> list[str]:
    """A line for each move that has not landed."""
    lines: list[str] = []
    for key in keys:
        move = found.get(key)
        if move is None:
            lines.append(f"PodMigration {key} was deleted before it had ended")
        elif move.status.phase is not MigrationPhase.SUCCEEDED:
            lines.append(step_line(move))
    return lines


def _waited_in_vain(move: PodMigration) -> bool:
    return move.status.reason == MigrationReason.TIMEOUT and not disturbs(move)


def _summary(found: Moves, total: int) -> str:
    ended = [move for move in found.values() if move.status.phase in FINISHED]
    moving = next((step_line(move) for move in found.values() if move.status.phase not in FINISHED), "")
    done = sum(move.status.phase is MigrationPhase.SUCCEEDED for move in ended)
    failed = f", {len(ended) - done} failed" if len(ended) > done else ""
    return f"{done} of {total} landed{failed}; {moving}"
