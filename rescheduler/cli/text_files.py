"""Files that people write and name: configurations, manifests. Read as a whole, up to a limit.

A device or a pipe without an end is refused like a file that is too large, and a path that leads nowhere is told apart
from a file that is not there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO, Final

from rescheduler.cli.errors import EXIT_USAGE, CommandError
from rescheduler.yaml_limits import MOST_BYTES

STANDARD_INPUT: Final = "-"


def read_text(path: str, what: str) -> bytes:
    """The content of a file that the user named; ``what``: a word for it.

    Raises:
        CommandError: it cannot be read, or is larger than such a file can be.
    """
    try:
        with Path(path).open("rb") as file:
            return _read(file, path, what)
    except OSError as error:
        message = f"{path}: cannot read the {what}: {why_unreadable(path, error)}"
        raise CommandError(message, EXIT_USAGE) from error


def read_text_or_stdin(path: str, what: str) -> bytes:
    """As ``read_text``; ``-`` is stdin. Raises CommandError."""
    if path != STANDARD_INPUT:
        return read_text(path, what)
    try:
        return _read(sys.stdin.buffer, "stdin", what)
    except OSError as error:
        message = f"stdin: cannot read the {what}: {error.strerror or error}"
        raise CommandError(message, EXIT_USAGE) from error


def _read(file: BinaryIO, path: str, what: str) -> bytes:
    content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        message = f"{path}: more than {MOST_BYTES >> 20} MiB: this is no {what}; check the path"
        raise CommandError(message, EXIT_USAGE)
    return content


def why_unreadable(path: str, error: OSError) -> str:
    """What the system says of a path, and where it leads if it is a broken link."""
    place = Path(path)
    if isinstance(error, FileNotFoundError) and place.is_symlink():
        return f"it is a symbolic link to {place.readlink()}, which does not exist"
    return "no such file or folder" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
