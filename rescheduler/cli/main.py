"""The console script ``rescheduler``: a group whose commands are imported when they are used.

Adding a command is its options, a module for its work, and one line in ``COMMANDS``. Importing this module imports no command, so
``rescheduler version`` and ``rescheduler --help`` import neither the API client nor numpy.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import PurePath
from typing import Any, Final

import click

from rescheduler.cli.ending import exit_code_of
from rescheduler.cli.lazy_group import LazyCommand, LazyGroup
from rescheduler.cli.version import run as print_version

PROGRAM: Final = "rescheduler"
PLUGIN: Final = "kubectl-rescheduler"
COMPLETE_VARIABLE: Final = "_RESCHEDULER_COMPLETE"
"""By it a shell asks for completions."""
COMMANDS: Final = {
    "plan": LazyCommand(
        "rescheduler.cli.commands_reading:plan_command",
        "Show what would move where and why; changes nothing.",
    ),
    "explain": LazyCommand(
        "rescheduler.cli.commands_reading:explain_group", "Explain why a pod can or cannot go to each node."
    ),
    "run": LazyCommand("rescheduler.cli.commands_installing:run_command", "Run the controller."),
    "move": LazyCommand(
        "rescheduler.cli.commands_moving:move_command", "Move pods to other nodes, room reserved first."
    ),
    "drain": LazyCommand(
        "rescheduler.cli.commands_moving:drain_command", "Empty nodes by moves whose room is reserved first."
    ),
    "consolidate": LazyCommand(
        "rescheduler.cli.commands_moving:consolidate_command",
        "Find the nodes that can go, and empty them.",
    ),
    "uncordon": LazyCommand(
        "rescheduler.cli.commands_moving:uncordon_command", "Let nodes take pods again; ends a drain."
    ),
    "status": LazyCommand(
        "rescheduler.cli.commands_reading:status_command",
        "Show the controller, its moves, and what is blocked.",
    ),
    "ui": LazyCommand(
        "rescheduler.cli.commands_reading:ui_command",
        "Serve a page of the cluster and its plan on this machine.",
    ),
    "history": LazyCommand(
        "rescheduler.cli.commands_reading:history_command", "Show what was moved when, why, and how it ended."
    ),
    "reserve": LazyCommand(
        "rescheduler.cli.reserve:reserve_group", "Create, list, watch and release Reservations."
    ),
    "scale": LazyCommand(
        "rescheduler.cli.commands_moving:scale_command", "Scale up into rooms that are reserved first."
    ),
    "demo": LazyCommand(
        "kube_sandbox.commands:demo_command",
        "Watch badly placed pods being moved, for a minute; nothing is needed.",
    ),
    "sandbox": LazyCommand("kube_sandbox.commands:sandbox_command", "Run the sandbox alone, for kubectl."),
    "validate": LazyCommand(
        "rescheduler.cli.commands_installing:validate_command", "Check configuration documents."
    ),
    "convert": LazyCommand(
        "rescheduler.cli.commands_installing:convert_command",
        "Convert a policy of descheduler to a configuration.",
    ),
    "uninstall": LazyCommand(
        "rescheduler.cli.commands_installing:uninstall_command", "Take rescheduler out of a cluster."
    ),
    "completion": LazyCommand(
        "rescheduler.cli.commands_installing:completion_command", "Print the completion script of a shell."
    ),
    "version": LazyCommand("rescheduler.cli.commands_installing:version_command", "Print the version."),
}
"""In the order of the help."""


def _called_as() -> str:
    """What people have typed before the command, for usage lines."""
    return "kubectl rescheduler" if PurePath(sys.argv[0]).name == PLUGIN else PROGRAM


class _Commands(LazyGroup):
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
    table=COMMANDS,
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
