"""Commands that are imported when they are used: their options for their help, and their work when they are called.

A group lists its commands without importing any. The module of a ``DeferredCommand`` has its options only, and imports nothing
that takes time: so help and completion are there at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.suggestions import did_you_mean

OF_CLUSTER: Final = ("kubeconfig", "context", "controller_namespace", "config_file")


def imported(place: str) -> Any:
    """What is at MODULE:NAME."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


class DeferredCommand(click.Command):
    """The options of a command. ``work``: MODULE:NAME of the function that is called with them."""

    def __init__(self, *args: Any, work: str, **more: Any) -> None:
        self.work = work
        super().__init__(*args, **{**more, "callback": partial(_called, work)})


def _called(work: str, **flags: Any) -> None:
    """The options of a cluster and its controller become its ``cluster``."""
    if "kubeconfig" in flags:
        named = {name: flags.pop(name) for name in OF_CLUSTER if name in flags}
        flags["cluster"] = imported("rescheduler.cli.clients:NamedCluster")(**named)
    imported(work)(**flags)


class LazyCommand(NamedTuple):
    """Where a command is, and what the help of its group says of it."""

    place: str
    """Module and attribute, with a colon between them. The module may be of a package that is installed separately."""
    short_help: str

    def load(self, name: str) -> click.Command:
        """The command; if its package is missing a substitute that says so whenever it is used."""
        return self._imported() if self._is_installed() else _unavailable(name, self._package)

    def summary(self) -> str:
        """One line for the help."""
        return self.short_help if self._is_installed() else _missing(self._package)

    @property
    def _package(self) -> str:
        return self.place.partition(".")[0]

    def _is_installed(self) -> bool:
        return find_spec(self._package) is not None

    def _imported(self) -> click.Command:
        command: click.Command = imported(self.place)
        command.short_help = self.short_help
        return command


class LazyGroup(click.Group):
    """The commands of one table, in its order."""

    def __init__(self, *args: Any, table: Mapping[str, LazyCommand], **more: Any) -> None:
        super().__init__(*args, **more)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        del ctx
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now; None if there is none of that name."""
        del ctx
        known = self._table.get(cmd_name)
        return known.load(cmd_name) if known is not None else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; a name that is mistyped gets a suggestion, without importing any command."""
        if args and args[0] not in self._table and not args[0].startswith("-") and not ctx.resilient_parsing:
            hint = did_you_mean(args[0], self._table)
            ctx.fail(f"No such command {args[0]!r}{hint or '.'}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """As click does it, which imports every command for the sake of one line."""
        options = click.Command.shell_complete(self, ctx, incomplete)
        names = [name for name in self._table if name.startswith(incomplete)]
        return [*(CompletionItem(name, help=self._table[name].summary()) for name in names), *options]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click does it, which imports every command for the sake of one line."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, known.summary()) for name, known in self._table.items()])


def _missing(package: str) -> str:
    return f"Not installed: it is in the package {package.replace('_', '-')}."


def _unavailable(name: str, package: str) -> click.Command:
    """The substitute for a command whose package is missing: every call fails with what to install."""

    @click.command(
        name,
        short_help=_missing(package),
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def command(words: tuple[str, ...]) -> NoReturn:
        del words
        raise CommandError(
            f"'rescheduler {name}' is in the package {package.replace('_', '-')}, which is not installed (make install in a clone of the project)",
            EXIT_USAGE,
        )

    return command
