"""``rescheduler completion``: the script with which a shell completes commands and flags, and the same for kubectl.

kubectl asks a program ``kubectl_complete-rescheduler`` for the completions of ``kubectl rescheduler``, in the form of cobra: one
a line, with what it means behind a tab, and a number at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from rescheduler.cli.main import COMPLETE_VARIABLE, PROGRAM
from rescheduler.cli.main import main as commands
from rescheduler.cli.output import emit

SHELLS: Final[dict[str, type[ShellComplete]]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}
_NO_FILES: Final = ":4"
"""Cobra's ShellCompDirectiveNoFileComp."""


def run(shell: str) -> None:
    """Print the completion script of a shell."""
    found = SHELLS[shell](commands, {}, PROGRAM, COMPLETE_VARIABLE)
    # Not ``source()``, which runs bash to ask for its version.
    emit(f"{found.source_template % found.source_vars()}\n")


def completions(words: Sequence[str]) -> list[str]:
    """What the last of ``words``, which may be empty, can become: lines for kubectl."""
    *before, incomplete = words or ("",)
    found = ShellComplete(commands, {}, PROGRAM, COMPLETE_VARIABLE).get_completions(list(before), incomplete)
    lines = [
        f"{item.value}\t{item.help}" if item.help else item.value for item in found if item.type == "plain"
    ]
    return [*lines, _NO_FILES]


def for_kubectl() -> None:
    """The console script ``kubectl_complete-rescheduler``."""
    emit("\n".join(completions(sys.argv[1:])) + "\n")
