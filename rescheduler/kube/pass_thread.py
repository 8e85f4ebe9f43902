"""A thread that makes one pass after the other: when the last one says that the next is due, or at once when it is woken.

Promises: ``stop`` ends it after the pass that is under way. It knows nothing of what a pass does; one that raises is logged, and the next
one follows: whatever these threads keep up, certificates or evictions that wait, must not end with a defect.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

_LAST_PASS_S: Final = 5.0
AFTER_A_CRASH_S: Final = 1.0


class PassThread:
    """From ``start`` to ``stop``; ``wake`` may be called by any thread."""

    def __init__(self, name: str, step: Callable[[], float], *, gathered_s: float = 0.0) -> None:
        """``step``: one pass; seconds until the next one is due. ``gathered_s``: so long who wakes it waits for others who do."""
        self._step, self._gathered_s = step, gathered_s
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def stopping(self) -> bool:
        """``stop`` was called: a long pass should end early."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Make a pass now."""
        self._wake.set()

    def stop(self) -> None:
        """End after the pass that is under way."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(_LAST_PASS_S)

    def _run(self) -> None:
        while not self.stopping:
            wait_s = self._pass()
            if not self.stopping and self._wake.wait(wait_s):
                self._stopping.wait(self._gathered_s)
            self._wake.clear()

    def _pass(self) -> float:
        try:
            return self._step()
        except Exception as error:  # noqa: BLE001 - see the module's promises
            structlog.get_logger("rescheduler.kube").error(
                "A pass crashed", thread=self._thread.name, exc_info=error
            )
            return AFTER_A_CRASH_S
