"""``rescheduler reserve``: create, list, watch and release Reservations. A sub-command is imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from rescheduler.cli.lazy_group import LazyCommand, LazyGroup

SUBCOMMANDS: Final = {
    "create": LazyCommand("rescheduler.cli.reserve_create:create_command", "Hold room."),
    "list": LazyCommand("rescheduler.cli.reserve_list:list_command", "List Reservations."),
    "watch": LazyCommand("rescheduler.cli.reserve_watch:watch_command", "Show every change of Reservations."),
    "window": LazyCommand("rescheduler.cli.window:window_group", "Room at certain hours."),
    "release": LazyCommand("rescheduler.cli.reserve_release:release_command", "Release reserved room."),
}


@click.group("reserve", cls=LazyGroup, table=SUBCOMMANDS)
def reserve_group() -> None:
    """Hold room on nodes for pods that do not exist yet.

    The controller (rescheduler run) must be running: it processes Reservations.
    """
