"""The console script ``rescheduler``: a group whose commands are loaded when they are asked for.

Adding a command is one module and one line in ``COMMANDS``. Importing this module imports no command, so
``rescheduler version`` does not wait for the API client or numpy.
"""

from __future__ import annotations

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "plan": "rescheduler.cli.plan:plan_command",
    "explain": "rescheduler.cli.explain:explain_group",
    "run": "rescheduler.cli.run:run_command",
    "reserve": "rescheduler.cli.reserve:reserve_group",
    "scale": "rescheduler.cli.scale:scale_command",
    "demo": "rescheduler.cli.demo:demo_command",
    "sandbox": "rescheduler.cli.sandbox:sandbox_command",
    "validate": "rescheduler.cli.validate:validate_command",
    "version": "rescheduler.cli.version:version_command",
}


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
def main() -> None:
    """Move running pods to better nodes, and never evict into the void.

    A pod is evicted only after room for its replacement is reserved on a named node. Data goes to stdout,
    messages to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage or input, 3 done but something stays
    blocked (plan --exit-code).
    """
