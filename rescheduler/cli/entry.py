"""The process ``rescheduler``: its Ctrl-C and its streams are in order before anything else is imported.

This module imports nothing that takes time. The commands are in ``rescheduler.cli.main``.
"""

from __future__ import annotations

import sys

from rescheduler.cli import interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run the command that ``words`` (default: the arguments of the process) name, and exit with its code."""
    interrupts.end_at_once()
    from rescheduler.cli import streams  # noqa: PLC0415 - Ctrl-C is in order only now
    from rescheduler.cli.main import main as commands  # noqa: PLC0415 - the same

    streams.claim()
    code: int | str | None = interrupts.EXIT_INTERRUPTED
    try:
        interrupts.raise_it()
        commands(words)
    except SystemExit as end:
        code = end.code
    except BaseException:
        if not interrupts.interrupted():
            raise
        interrupts.say()
    interrupts.end_at_once()
    streams.settled(sys.stderr)
    _end(code)


def _end(code: int | str | None) -> NoReturn:
    """Exit without freeing all objects one by one, which takes a second after a large cluster. Other threads are waited for."""
    import atexit  # noqa: PLC0415 - Ctrl-C is in order only now
    import os  # noqa: PLC0415 - the same
    import threading  # noqa: PLC0415 - the same

    from rescheduler.cli.streams import settled  # noqa: PLC0415 - the same

    if isinstance(code, str) or threading.active_count() > 1:
        sys.exit(code)
    atexit._run_exitfuncs()  # noqa: SLF001 - as Python itself does in a child process
    for stream in (sys.stdout, sys.stderr):
        settled(stream)
    os._exit(code or 0)
