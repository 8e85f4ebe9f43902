"""Output to stdout or a file, in colour on a terminal only (NO_COLOR, FORCE_COLOR)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from rescheduler.cli.errors import CommandError
from rescheduler.reports.text import Style, plain

_ROLES = {"heading": {"bold": True}, "good": {"fg": "green"}, "bad": {"fg": "red"}, "faint": {"dim": True}}


def wants_colour() -> bool:
    """True on a terminal unless NO_COLOR is set; always true with FORCE_COLOR."""
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def style() -> Style:
    """The style for stdout."""
    return _coloured if wants_colour() else plain


def _coloured(text: str, role: str) -> str:
    return click.style(text, **_ROLES.get(role, {}))  # type: ignore[arg-type]


def emit(text: str, file: str | None = None) -> None:
    """Write data to ``file`` or to stdout. Raises CommandError if that cannot be written."""
    try:
        if file is None:
            click.echo(text, nl=False, color=True if wants_colour() else None)
        else:
            Path(file).write_text(text, encoding="utf-8")
    except BrokenPipeError:
        raise  # the reader closed the pipe; click exits without a message
    except OSError as error:
        name = file or "standard output"
        raise CommandError(f"{name}: cannot write: {error.strerror or error}") from error
