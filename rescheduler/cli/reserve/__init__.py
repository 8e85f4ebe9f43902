"""``rescheduler reserve``: create, list, watch and release Reservations. A sub-command is imported when it is used."""

from __future__ import annotations

import importlib
from typing import Final

import click

SUBCOMMANDS: Final = {
    "create": "rescheduler.cli.reserve.create:create_command",
    "list": "rescheduler.cli.reserve.list:list_command",
    "watch": "rescheduler.cli.reserve.watch:watch_command",
    "release": "rescheduler.cli.reserve.release:release_command",
}


class _Lazy(click.Group):
    """Imports the module of a sub-command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in SUBCOMMANDS:
            return None
        module, _, attribute = SUBCOMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group("reserve", cls=_Lazy, short_help="Create, list, watch and release Reservations.")
def reserve_group() -> None:
    """Hold room on nodes for pods that do not exist yet.

    The controller (rescheduler run) must be running: it processes Reservations.
    """
