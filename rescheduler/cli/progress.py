"""One line on stderr that is overwritten, on a terminal only: what is waited for, and how far long work has got."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rescheduler.reports.table import bar, percent
from rescheduler.visible import visible_line


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
