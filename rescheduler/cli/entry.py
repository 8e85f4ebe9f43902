"""The process ``rescheduler``: its Ctrl-C and its streams are in order before anything else is imported.

While modules are imported nothing is under way, and an exception in the middle of an import can come out as another one: Ctrl-C ends
the process as the system does it, which shells show as 130. Once a command works it is KeyboardInterrupt (``deferred``), so that
the command can give back what it holds. A process that was started with SIGINT ignored goes on ignoring it.
"""

from __future__ import annotations

import gc
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run the command that ``words`` (default: the arguments of the process) name, and exit with its code."""
    _end_at_once()
    gc.disable()  # modules stay: looking through them time and again is an eighth of importing them
    from rescheduler.cli import streams  # noqa: PLC0415 - Ctrl-C is in order only now
    from rescheduler.cli.main import main as commands  # noqa: PLC0415 - the same

    streams.claim()
    code: int | str | None = None
    try:
        commands(words)
    except SystemExit as end:
        code = end.code
    _end_at_once()
    streams.settled(sys.stderr)
    _end(code)


def _end_at_once() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


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
