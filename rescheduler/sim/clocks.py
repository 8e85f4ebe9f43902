"""The clock of an embedded cluster in virtual time: it stands until it is moved."""

from __future__ import annotations

START_S = 1_790_000_000.0
"""A moment in 2026; virtual clusters begin here unless they are told otherwise."""


class VirtualClock:
    """Callable like ``time.time``; never goes back."""

    def __init__(self, start_s: float = START_S) -> None:
        self._now_s = start_s

    def __call__(self) -> float:
        """The time now, in seconds since the epoch."""
        return self._now_s

    def move_to(self, moment_s: float) -> None:
        """Go forward to a moment; an earlier one changes nothing."""
        self._now_s = max(self._now_s, moment_s)
