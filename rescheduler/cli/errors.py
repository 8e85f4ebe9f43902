"""Exit codes of the commands (docs/commands.md), and the error that carries one."""

from __future__ import annotations

from typing import Final

from rescheduler.errors import ReschedulerError

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_BLOCKED: Final = 3
EXIT_INTERRUPTED: Final = 130


class CommandError(ReschedulerError):
    """An error with a message for the user and an exit code."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code
