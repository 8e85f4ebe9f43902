"""``rescheduler reserve window``: create, list and rehearse ReservationWindows."""

from __future__ import annotations

from typing import Final

import click

from rescheduler.cli.lazy_group import LazyCommand, LazyGroup

SUBCOMMANDS: Final = {
    "create": LazyCommand("rescheduler.cli.window_create:create_command", "Hold room at certain hours."),
    "list": LazyCommand("rescheduler.cli.window_list:list_command", "List ReservationWindows."),
    "rehearse": LazyCommand(
        "rescheduler.cli.window_rehearse:rehearse_command", "What there would be if it began now."
    ),
}


@click.group("window", cls=LazyGroup, table=SUBCOMMANDS)
def window_group() -> None:
    """Room that is gathered and held in a window of time that recurs.

    The controller (rescheduler run) must be running: it makes the Reservations.
    """
