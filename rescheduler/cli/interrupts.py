"""Ctrl-C: at any moment of any command it ends with 130 and a word, and never with a traceback.

While modules are imported nothing is under way, and an exception in the middle of an import can come out as another one:
the process ends at once. While a command works, KeyboardInterrupt is raised, so that it can give back what it holds;
``interrupted`` tells it from what became of that exception on its way. A process that was started with SIGINT ignored (a
job in the background of a script) goes on ignoring it. This module is the first to be imported, and reads no other file:
what comes before it, the start of Python, answers Ctrl-C in the way of Python.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from types import FrameType
    from typing import Final, NoReturn
else:
    import _signal as signal  # ``signal`` imports enum, and a Ctrl-C meanwhile would be a traceback

EXIT_INTERRUPTED: Final = 130
_WORD: Final = b"interrupted\n"
_AGAIN_S: Final = 0.05
_seen: Final[list[int]] = []


def interrupted() -> bool:
    """True once SIGINT was received."""
    return bool(_seen)


def end_at_once() -> None:
    """From now on SIGINT ends the process."""
    _handle(_end)


def raise_it() -> None:
    """From now on SIGINT raises KeyboardInterrupt in the main thread."""
    sys.unraisablehook = _not_lost
    _handle(_raise)


def say() -> None:
    """Tell on stderr, without any stream of Python."""
    try:  # noqa: SIM105 - contextlib is not imported yet
        os.write(2, _WORD)
    except OSError:
        pass


def _handle(handler: Callable[[int, FrameType | None], object]) -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    say()
    os._exit(EXIT_INTERRUPTED)


def _not_lost(lost: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised inside of a destructor or a callback. A KeyboardInterrupt is raised again a little later."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    import _thread  # noqa: PLC0415 - needed hardly ever
    import threading  # noqa: PLC0415 - the same

    threading.Timer(_AGAIN_S, _thread.interrupt_main).start()


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    _seen.append(number)
    raise KeyboardInterrupt
