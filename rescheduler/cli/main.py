"""The console script ``rescheduler``: a group whose commands are imported when they are used.

Adding a command is one module and one line in ``COMMANDS``. Importing this module imports no command, so
``rescheduler version`` imports neither the API client nor numpy.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NoReturn

import click

from rescheduler.cli.ending import exit_code_of
from rescheduler.extras import Extra, MissingExtraError, needs

COMMANDS: Final = {
    "plan": "rescheduler.cli.plan:plan_command",
    "explain": "rescheduler.cli.explain:explain_group",
    "run": "rescheduler.cli.run:run_command",
    "reserve": "rescheduler.cli.reserve:reserve_group",
    "scale": "rescheduler.cli.scale:scale_command",
    "demo": "rescheduler.cli.demo:demo_command",
    "sandbox": "rescheduler.cli.sandbox:sandbox_command",
    "validate": "rescheduler.cli.validate:validate_command",
    "uninstall": "rescheduler.cli.uninstall:uninstall_command",
    "version": "rescheduler.cli.version:version_command",
}

_EXTRAS: Final[Mapping[str, Extra]] = {"demo": Extra.SANDBOX, "sandbox": Extra.SANDBOX}
"""Commands whose modules cannot be imported without an extra."""


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is used, and tells how it ended."""

    def main(self, *args: Any, standalone_mode: bool = True, **more: Any) -> Any:
        """Run a command and exit with its code; without ``standalone_mode`` as click does it."""
        run = partial(super().main, *args, standalone_mode=False, **more)
        if not standalone_mode:
            return run()
        sys.exit(exit_code_of(run))

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        extra = _EXTRAS.get(cmd_name)
        if extra is None:
            return _load(cmd_name)
        try:
            with needs(extra, f"'rescheduler {cmd_name}'"):
                return _load(cmd_name)
        except MissingExtraError as missing:
            return _unavailable(cmd_name, missing)


def _unavailable(name: str, missing: MissingExtraError) -> click.Command:
    """The substitute for a command whose extra is missing: every call fails with what to install."""

    @click.command(
        name,
        short_help=f"Not installed: needs the extra '{missing.extra}'.",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def command(words: tuple[str, ...]) -> NoReturn:
        del words
        raise missing

    return command


def _load(name: str) -> click.Command:
    module, _, attribute = COMMANDS[name].partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return command


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
def main() -> None:
    """Move running pods to better nodes, and never evict into the void.

    A pod is evicted only after room for its replacement is reserved on a named node. Data goes to stdout,
    messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 done but something stays
    blocked (plan --exit-code), 130 interrupted.
    """
