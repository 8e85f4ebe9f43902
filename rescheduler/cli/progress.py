"""Progress on stderr, on a terminal only: a bar for long work, and a status line for waiting."""

from __future__ import annotations

import shutil
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rescheduler.visible import visible_line

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Progress:
    """Context manager for a progress bar. If stderr is no terminal, nothing is printed and rich is not imported."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar, self._task = self._open()
        return self

    def _open(self) -> tuple[RichProgress, TaskID]:
        from rich.console import Console  # noqa: PLC0415 - only on a terminal
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
        from rich.progress import Progress as RichProgress  # noqa: PLC0415

        bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        bar.start()
        return bar, bar.add_task(self._title, total=None)

    def advance_to(self, done: int, total: int, what: str) -> None:
        """Show ``done`` of ``total`` (0: unknown) units; ``what``: name of what is read."""
        if self._bar is not None and self._task is not None:
            description = visible_line(f"{self._title} {what}")
            self._bar.update(self._task, completed=done, total=total or None, description=description)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


class StatusLine:
    """Context manager for one line that is overwritten. If stderr is no terminal, nothing is printed."""

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
