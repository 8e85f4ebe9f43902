"""One line on stderr that is written over while something is waited for; on a terminal only."""

from __future__ import annotations

import shutil
import sys
from types import TracebackType
from typing import Self


class StatusLine:
    """Context manager; where stderr is no terminal nothing is printed."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = ""

    def __enter__(self) -> Self:
        return self

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._terminal and text != self._shown:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\033[K{text[:width]}")
            sys.stderr.flush()
            self._shown = text

    def clear(self) -> None:
        """Take the line away."""
        if self._terminal and self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
            self._shown = ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
