"""Waiting for Reservations to come to something, while the API server may be away for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rescheduler.model.reservation import Reservation

NOBODY_ACTS_S: Final = 15.0
"""Where no controller has acted within so long, though the API server answered, there is none."""

_BREAK_S: Final = 2.0


def wait_for(
    look: Callable[[], tuple[Reservation, ...]],
    done: Callable[[tuple[Reservation, ...], float], bool],
    *,
    ends_s: float,
    clock: Callable[[], float],
    pause: Callable[[], None],
    show: Callable[[tuple[Reservation, ...]], None],
) -> tuple[Reservation, ...]:
    """Look until ``done`` or until ``ends_s`` of ``clock``; the last look.

    ``done`` is told, too, for how many seconds the API server has answered without a break: only in such time can
    anybody be expected to act. A look that takes long is one that was tried again.
    """
    answers_since_s = clock()
    while True:
        asked_s = clock()
        found = look()
        now_s = clock()
        if now_s - asked_s > _BREAK_S:
            answers_since_s = now_s
        show(found)
        if done(found, now_s - answers_since_s) or now_s >= ends_s:
            return found
        pause()
