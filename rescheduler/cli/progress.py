"""A progress bar on stderr for long work, on a terminal only."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Progress:
    """Context manager; ``advance_to(done, total, what)`` may be called as often as one likes.

    Where stderr is no terminal nothing is printed, and rich is not even imported.
    """

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
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        bar.start()
        return bar, bar.add_task(self._title, total=None)

    def advance_to(self, done: int, total: int, what: str) -> None:
        """``done`` of ``total`` (0: unknown) units; ``what``: what is being read."""
        if self._bar is not None and self._task is not None:
            description = f"{self._title} {what}"
            self._bar.update(self._task, completed=done, total=total or None, description=description)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
