"""Until when a Reservation is held, in words. Pure."""

from __future__ import annotations

from rescheduler.cli.reservation_client import is_unobserved
from rescheduler.model.reservation import Reservation


def until(room: Reservation, now_s: float) -> str:
    """In how long it expires."""
    if room.status.expires_at_s is not None:
        return span(room.status.expires_at_s - now_s)
    return "-" if is_unobserved(room) else "never"


def span(seconds: float) -> str:
    """A duration as kubectl prints ages (45s, 12m, 5h, 3d), or ``now`` if it is not positive."""
    if seconds <= 0:
        return "now"
    for unit_s, unit, upto in ((1, "s", 120), (60, "m", 7_200), (3_600, "h", 172_800)):
        if seconds < upto:
            return f"{int(seconds // unit_s)}{unit}"
    return f"{int(seconds // 86_400)}d"
