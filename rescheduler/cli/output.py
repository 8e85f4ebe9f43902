"""All that the commands write: data to stdout or a file, messages to stderr. Nothing of a cluster reaches a terminal raw.

Colour on a terminal only (NO_COLOR, FORCE_COLOR). What a command gives to ``emit`` and ``tell`` is made visible there
(``rescheduler.visible``), in files and pipes too, so that the same input gives the same bytes everywhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from rescheduler.cli.errors import CommandError
from rescheduler.cli.streams import reason
from rescheduler.visible import HIDDEN, escaped, visible

_ROLES: Final = {
    "heading": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "faint": {"dim": True},
}
_MARK: Final = f"\x1b{os.urandom(8).hex()}"
"""Begins what becomes colour. Nobody outside of this process knows it, so no text of others can be coloured."""
_MARKED: Final = re.compile(f"{_MARK}(?P<role>[a-z]*);|[{HIDDEN}]")


def wants_colour() -> bool:
    """True on a terminal unless NO_COLOR is set; always true with FORCE_COLOR."""
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def terminal_width() -> int | None:
    """Columns of the terminal; None where stdout is none, so that nothing is cut in files and pipes."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def style() -> Callable[[str, str], str]:
    """The style for ``emit`` to stdout: (text, role) -> text in which the colour is only marked."""
    return _coloured if wants_colour() else _plain


def _plain(text: str, role: str) -> str:
    del role
    return text


def _coloured(text: str, role: str) -> str:
    return f"{_MARK}{role};{text}{_MARK};" if role in _ROLES else text


def _shown(found: re.Match[str]) -> str:
    role = found["role"]
    if role is None:
        return escaped(found[0])
    return click.style("", reset=False, **_ROLES[role]) if role else "\x1b[0m"  # type: ignore[arg-type]


def emit(text: str, file: str | None = None) -> None:
    """Write data to ``file`` or to stdout. Raises CommandError if that cannot be written."""
    seen = _MARKED.sub(_shown, text)
    try:
        if file is None:
            click.echo(seen, nl=False, color=True if wants_colour() else None)
        else:
            Path(file).write_text(seen, encoding="utf-8")
    except BrokenPipeError:
        raise  # the reader closed the pipe; the command ends without a message
    except OSError as error:
        name = file or "standard output"
        raise CommandError(f"{name}: cannot write: {reason(error)}") from error


def warn(text: str) -> None:
    """Write to stderr what may make the answer another one than is expected."""
    tell(f"warning: {text}")


def tell(text: str) -> None:
    """Write a message to stderr. Where nobody can read it, nothing happens: the exit code tells how it ended."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(visible(text), err=True)
