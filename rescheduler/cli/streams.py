"""stdin, stdout and stderr of the process, also where the caller has closed them or nothing can be written to them.

A closed descriptor would be given to the next file that is opened, and Python has no stream for it. So it is opened to
fail: reading from it or writing to it is an ordinary ``OSError``, which every command can put into words.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import Final, TextIO

_WRONG_WAY: Final = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_RDONLY}


def claim() -> None:
    """Open the standard descriptors that are closed, and let no character stop the output."""
    for number, flags in _WRONG_WAY.items():
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # the lowest free descriptor: this one
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BufferedReader(io.FileIO(0)))
    sys.stdout = sys.stdout or _writer(1)
    sys.stderr = sys.stderr or _writer(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _writer(number: int) -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(io.FileIO(number, "w")), encoding="utf-8")


def reason(error: OSError) -> str:
    """Why a stream cannot be read or written, for people."""
    return "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)


def settled(stream: TextIO) -> OSError | None:
    """Write what is left; the error if that is not possible. Then it is thrown away, so that Python does not try again."""
    try:
        stream.flush()
    except OSError as error:
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        with contextlib.suppress(OSError):
            stream.flush()
        return error
    return None
