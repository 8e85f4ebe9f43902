"""The names of the program: as a command of its own, and as a plugin of kubectl."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import Final

PROGRAM: Final = "rescheduler"
PLUGIN: Final = "kubectl-rescheduler"
COMPLETE_VARIABLE: Final = "_RESCHEDULER_COMPLETE"
"""By it a shell asks for completions."""


def called_as() -> str:
    """What people have typed before the command, for usage lines."""
    return "kubectl rescheduler" if PurePath(sys.argv[0]).name == PLUGIN else PROGRAM
