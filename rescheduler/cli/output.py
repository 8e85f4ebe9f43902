"""All that the commands write: data to stdout or a file, messages to stderr. Nothing of a cluster reaches a terminal raw.

Colour on a terminal only (NO_COLOR, FORCE_COLOR). What a command gives to ``emit`` and ``tell`` is made visible there
(``rescheduler.visible``), in files and pipes too, so that the same input gives the same bytes everywhere. On a terminal one line of
stderr is overwritten: what is waited for, and how far long work has got.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Self

import click

from rescheduler.cli.errors import CommandError
from rescheduler.cli.streams import reason
from rescheduler.reports.structured import line_json, pretty_json_parts, pretty_yaml, resource_list
from rescheduler.reports.table import bar, percent
from rescheduler.visible import HIDDEN, escaped, visible, visible_line

_ROLES: Final = {
    "heading": {"bold": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "faint": {"dim": True},
}
_MARK: Final = f"\x1b{os.urandom(8).hex()}"
"""Begins what becomes colour. Nobody outside of this process knows it, so no text of others can be coloured."""
_MARKED: Final = re.compile(f"{_MARK}(?P<role>[a-z]*);|[{HIDDEN}]")

_PIECE: Final = 1 << 20
"""Characters that are written at once."""


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


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    """The text as it is seen, in parts: a plan of a large cluster is not held several times."""
    for text in texts:
        start = 0
        while start < len(text):
            end = text.find("\n", start + _PIECE) + 1 or len(text)
            piece, start = text[start:end], end
            plain = piece.isascii() and piece.replace("\n", "").replace("\t", "").isprintable()
            yield piece if plain else _MARKED.sub(_shown, piece)


def emit(text: str | Iterable[str], file: str | None = None) -> None:
    """Write data, or its parts, to ``file`` or to stdout. Raises CommandError if that cannot be written."""
    texts = (text,) if isinstance(text, str) else text
    try:
        if file is None:
            colour = True if wants_colour() else None
            for piece in _pieces(texts):
                click.echo(piece, nl=False, color=colour)
        else:
            with Path(file).open("w", encoding="utf-8") as written:
                written.writelines(_pieces(texts))
    except BrokenPipeError:
        raise  # the reader closed the pipe; the command ends without a message
    except OSError as error:
        name = file or "standard output"
        raise CommandError(f"{name}: cannot write: {reason(error)}") from error


def emit_as(
    output: str,
    *,
    document: Callable[[], Any],
    names: Callable[[], Iterable[str]] = tuple,
    text: Callable[[], str],
    file: str | None = None,
    one_of_many: bool = False,
) -> None:
    """What each command with -o writes: a document (json, yaml), its objects as RESOURCE/NAME (name), or text (text, wide).

    ``one_of_many``: others follow, so that JSON is one line, and YAML begins with its own mark.
    """
    match output:
        case "json":
            found: str | Iterable[str] = (
                line_json(document()) if one_of_many else pretty_json_parts(document())
            )
        case "yaml":
            found = f"{'---' if one_of_many else ''}\n{pretty_yaml(document())}".lstrip("\n")
        case "name":
            found = "".join(f"{name}\n" for name in names())
        case _:
            found = text()
    emit(found, file)


def emit_objects(
    output: str,
    resource: str,
    names: Iterable[str],
    bodies: Iterable[bytes | None],
    text: Callable[[], str],
) -> None:
    """``emit_as`` for objects of the API server. ``bodies``: read only if they are written, without those that are gone."""
    emit_as(
        output,
        document=lambda: resource_list(body for body in bodies if body is not None),
        names=lambda: (f"{resource}/{name}" for name in names),
        text=text,
    )


def is_text(output: str) -> bool:
    """Whether stdout is for people, so that what happens may be told there, too."""
    return output in ("text", "wide")


def is_document(output: str) -> bool:
    """Whether whole objects go to stdout."""
    return output in ("json", "yaml")


def teller(output: str) -> Callable[[str], None]:
    """Writes what a command does: to stdout for people, to stderr where stdout is for a program."""
    return (lambda text: emit(f"{text}\n")) if is_text(output) else tell


def warn(text: str) -> None:
    """Write to stderr what may make the answer another one than is expected."""
    tell(f"warning: {text}")


def tell(text: str) -> None:
    """Write a message to stderr. Where nobody can read it, nothing happens: the exit code tells how it ended."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(visible(text), err=True)


_LONG_S: Final = 2.0


@contextlib.contextmanager
def long_work(title: str) -> Iterator[None]:
    """Around work that may take long: from 2 s on the status line counts the seconds."""
    done, begun_s = threading.Event(), time.monotonic()

    def count() -> None:
        with StatusLine() as line:
            wait_s = _LONG_S
            while not done.wait(wait_s):
                line.show(f"{title}: {time.monotonic() - begun_s:.0f} s")
                wait_s = 1.0

    thread = threading.Thread(target=count, daemon=True)
    if sys.stderr.isatty():
        thread.start()
    try:
        yield
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()


class StatusLine:
    """Context manager for the line. If stderr is no terminal, nothing is printed."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = ""

    def __enter__(self) -> Self:
        return self

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._terminal and text != self._shown:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\033[K{visible_line(text)[:width]}")
            sys.stderr.flush()
            self._shown = text

    def progress(self, title: str) -> Callable[[int, int, str], None]:
        """Shows how far a work has got: (units done, all units or 0 for unknown, what is read)."""

        def advance_to(done: int, total: int, what: str) -> None:
            share = f"{bar(done, total)} {percent(done, total)} " if total else ""
            self.show(f"{title} {share}{what}")

        return advance_to

    def clear(self) -> None:
        """Clear the line."""
        if self._terminal and self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self._shown = ""

    def __exit__(self, *_: object) -> None:
        self.clear()
