"""The console script ``rescheduler``: all commands, in the order of the help.

Adding a command is its options, a module for its work, and one line here. Importing this module imports the work of none.
"""

from __future__ import annotations

import platform
import sys
from functools import partial
from pathlib import PurePath
from typing import Any, Final

import click

from rescheduler import __version__
from rescheduler.cli import commands_installing as installing
from rescheduler.cli import commands_moving as moving
from rescheduler.cli import commands_reading as reading
from rescheduler.cli.deferred import CommandGroup, installed_command
from rescheduler.cli.ending import exit_code_of
from rescheduler.cli.output import emit
from rescheduler.cli.reserve import reserve_group
from rescheduler.model.names import API_VERSION

PROGRAM: Final = "rescheduler"
PLUGIN: Final = "kubectl-rescheduler"
COMPLETE_VARIABLE: Final = "_RESCHEDULER_COMPLETE"
"""By it a shell asks for completions."""
COMMANDS: Final = (
    reading.plan_command,
    reading.explain_group,
    installing.run_command,
    moving.move_command,
    moving.drain_command,
    moving.consolidate_command,
    moving.uncordon_command,
    reading.status_command,
    reading.check_command,
    reading.budgets_command,
    reading.ui_command,
    reading.history_command,
    reserve_group,
    moving.scale_command,
    installed_command("demo", "kube_sandbox.commands:demo_command"),
    installed_command("sandbox", "kube_sandbox.commands:sandbox_command"),
    installing.validate_command,
    installing.convert_command,
    installing.release_gates_command,
    installing.uninstall_command,
    installing.completion_command,
    installing.version_command,
)
"""In the order of the help."""


def print_version() -> None:
    """The program, the API that it speaks, and Python."""
    emit(f"rescheduler {__version__} (API {API_VERSION}, Python {platform.python_version()})\n")


def _called_as() -> str:
    """What people have typed before the command, for usage lines."""
    return "kubectl rescheduler" if PurePath(sys.argv[0]).name == PLUGIN else PROGRAM


class _Commands(CommandGroup):
    """All commands; tells how one ended."""

    def main(self, *args: Any, standalone_mode: bool = True, **more: Any) -> Any:
        """Run a command and exit with its code; without ``standalone_mode`` as click does it."""
        more = {"prog_name": _called_as(), "complete_var": COMPLETE_VARIABLE, **more}
        run = partial(super().main, *args, standalone_mode=False, **more)
        if not standalone_mode:
            return run()
        sys.exit(exit_code_of(run))


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's callback
    if value and not ctx.resilient_parsing:
        print_version()
        ctx.exit()


@click.group(
    cls=_Commands,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
def main() -> None:
    """Move running pods to better nodes, and never evict into the void.

    A pod is evicted only after room for its replacement is reserved on a named node. Data goes to stdout,
    messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 done but something stays
    blocked (plan --exit-code), 130 interrupted.
    """
