"""Commands whose work is imported when they are called. What declares them has their options only, and imports nothing that takes time.

So help and completion are there at once. ``rescheduler version`` and ``--help`` import neither the API client nor numpy.
"""

from __future__ import annotations

import gc
import importlib
import signal
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, NoReturn

import click
from click.core import ParameterSource

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.suggestions import did_you_mean

OF_CLUSTER: Final = (
    "kubeconfig",
    "context",
    "as_user",
    "request_timeout",
    "controller_namespace",
    "config_file",
)

MAY_BE_EMPTY: Final = ("context", "as_user", "request_timeout", "namespace", "selector")
"""As in kubectl: as if they were not given. An empty --to of a script must not become "anywhere"."""
_LISTED: Final = 8
"""A group of at most so many commands names them all where no name is like the one that was given."""


def imported(place: str) -> Any:
    """What is at MODULE:NAME."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


class DeferredCommand(click.Command):
    """The options of a command. ``work``: MODULE:NAME of the function that is called with them."""

    def __init__(self, *args: Any, work: str, **more: Any) -> None:
        self.work = work
        super().__init__(*args, **{**more, "callback": partial(_called, work)})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it, but --dry-run may have a value, as with kubectl: nothing is stored either way."""
        found: list[str] = []
        for word in args:
            name, equals, value = word.partition("=")
            if name != "--dry-run" or not equals:
                found.append(word)
            elif value in ("server", "client"):
                found.append(name)
            elif value != "none":
                ctx.fail(f"--dry-run={value}: write none, server or client")
        return super().parse_args(ctx, found)


def command(
    name: str, work: str, short_help: str | None = None
) -> Callable[[Callable[..., Any]], DeferredCommand]:
    """Declares a command. ``short_help``: the line that the help of its group shows."""
    return click.command(name, cls=DeferredCommand, work=work, short_help=short_help)


def _called(work: str, **flags: Any) -> None:
    """The options of a cluster and its controller become its ``cluster``. Raises UsageError: one is empty, or two contradict."""
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        given = flags.get(name)
        if isinstance(option, click.Argument) and (given == "" or (isinstance(given, tuple) and "" in given)):
            raise click.UsageError(f"{option.human_readable_name}: a name is empty; name it, or leave it out")
        if (
            given == ""
            and name not in MAY_BE_EMPTY
            and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        ):
            raise click.UsageError(f"{option.opts[-1]}: the value is empty; leave the option out")
    if (
        flags.get("all_namespaces")
        and context.get_parameter_source("namespace") is ParameterSource.COMMANDLINE
    ):
        raise click.UsageError("-n and -A exclude each other")
    if "kubeconfig" in flags:
        named = {name: flags.pop(name) for name in OF_CLUSTER if name in flags}
        flags["cluster"] = imported("rescheduler.cli.clients:NamedCluster")(**named)
    carry_out = imported(work)
    if not gc.isenabled():  # as ``entry`` has left it while modules were imported
        gc.freeze()
        gc.enable()
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    ):  # as ``entry`` has left it while modules were imported
        signal.signal(signal.SIGINT, signal.default_int_handler)
    carry_out(**flags)


class CommandGroup(click.Group):
    """Commands in their order; a name that is mistyped gets a suggestion.

    Options of the commands may stand before the name, too, as with kubectl: ``rescheduler -n shop history``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it, with the options before the name of a command behind it."""
        theirs = _options(self)
        moved: list[str] = []
        rest = list(args)
        while rest:
            name, equals, _ = rest[0].partition("=")
            glued = rest[0][:2] if not name.startswith("--") else ""
            option = theirs.get(name) or theirs.get(glued)
            if option is None:
                break
            alone = option.is_flag or (equals if name.startswith("--") else name != glued)
            moved, rest = moved + rest[: 1 if alone else 2], rest[1 if alone else 2 :]
        own = rest[:1] and rest[0].startswith("-")
        return super().parse_args(ctx, args if own else [*rest[:1], *moved, *rest[1:]])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        del ctx
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, but for the suggestion."""
        if (
            args
            and args[0] not in self.commands
            and not args[0].startswith("-")
            and not ctx.resilient_parsing
        ):
            listed = f"; there are {', '.join(self.commands)}" if len(self.commands) <= _LISTED else "."
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], self.commands) or listed}")
        return super().resolve_command(ctx, args)


def _options(group: click.Group) -> dict[str, click.Option]:
    """The options of all commands of a group, by name, without its own."""
    found: dict[str, click.Option] = {}
    for one in group.commands.values():
        if isinstance(one, click.Group):
            found = _options(one) | found
        options = [option for option in one.params if isinstance(option, click.Option)]
        found |= {name: option for option in options for name in (*option.opts, *option.secondary_opts)}
    own = {name for option in group.params for name in option.opts}
    return {name: option for name, option in found.items() if name not in own}


def installed_command(name: str, place: str) -> click.Command:
    """The command at ``place``; if its package is not installed a substitute, every call of which fails with what to install."""
    package = place.partition(".")[0]
    if find_spec(package) is not None:
        found: click.Command = imported(place)
        return found
    shown = package.replace("_", "-")

    def refuse(**_: Any) -> NoReturn:
        raise CommandError(
            f"'rescheduler {name}' is in the package {shown}, which is not installed (make install in a clone of the project)",
            EXIT_USAGE,
        )

    return click.Command(
        name,
        callback=refuse,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        short_help=f"Not installed: it is in the package {shown}.",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )
