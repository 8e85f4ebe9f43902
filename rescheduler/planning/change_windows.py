"""Section ``limits.windows``: when planned moves may begin, and within which limits. Pure; the time is handed in.

Without an entry there is no such limit. With entries a policy's moves begin only while one of its windows is open, and none in the last
minute, so that none ends half-way: a move that has not evicted its pod when the windows end is given up. What people ask for
(``move``, ``drain``, the guard) is not held back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rescheduler.model.bounds import MOST_MOVE_TTL
from rescheduler.model.schedule import Schedule, ScheduleError, schedule
from rescheduler.model.times import parse_duration
from rescheduler.model.written import Count, DocumentSection, Duration, Mistake
from rescheduler.policies.wire import registered

LAST_S: Final = 60.0
"""No move begins in the last minute of a window: an ordinary one takes less."""
_FAR_S: Final = 2 * parse_duration(MOST_MOVE_TTL)
"""What is open for longer without a gap is open for ever, as far as a move is concerned."""
_ROUNDS: Final = 400
"""So many windows that follow each other without a gap are looked through."""


class ChangeWindow(DocumentSection, frozen=True, kw_only=True):
    """One entry. The calendar is that of a ReservationWindow (docs/windows.md)."""

    cron: str
    time_zone: str = "Etc/UTC"
    duration_s: Duration | None = None
    end: str = ""
    policies: tuple[str, ...] = ()
    """Whose moves begin in it; empty: those of all policies."""
    moves_at_once: Count | None = None
    """While it is open, instead of the limit of that name; None: that one holds."""
    moves_per_hour: Count | None = None
    per_node: Count | None = None
    per_namespace: Count | None = None
    per_workload: Count | None = None

    def mistakes(self) -> Iterator[Mistake]:
        """The calendar cannot be read."""
        try:
            self.schedule()
        except ScheduleError as error:
            yield (), str(error), "write it as in {cron: 0 22 * * 1-5, duration: 8h, timeZone: Europe/Berlin}"

    def schedule(self) -> Schedule:
        """When it begins and ends. Raises ScheduleError."""
        return schedule(self.cron, self.time_zone, self.duration_s, self.end)

    def serves(self, policy: str) -> bool:
        """True if moves of this policy begin in it; a registered name means those of all profiles."""
        return not self.policies or policy in self.policies or registered(policy) in self.policies


class Opening(NamedTuple):
    """Whether moves of a policy may begin now."""

    closes_s: float
    """Until when they may, without a gap; 0.0: they may not now; infinity: no move can take as long."""
    opens_s: float | None = None
    """When they may again; None: they may now, or never any more."""


def opening(windows: Sequence[ChangeWindow], policy: str, now_s: float) -> Opening:
    """For the moves of a policy."""
    if not windows:
        return Opening(math.inf)
    schedules = [one.schedule() for one in windows if one.serves(policy)]
    closes_s = _closes_s(schedules, now_s)
    if closes_s - now_s > LAST_S:
        return Opening(closes_s)
    later = (one.next_after(max(now_s, closes_s - LAST_S)) for one in schedules)
    return Opening(0.0, min((window.start_s for window in later if window is not None), default=None))


def limits_within(windows: Sequence[ChangeWindow], now_s: float) -> dict[str, int]:
    """What the first open window that states limits says, by field of ``Limits``."""
    for one in windows:
        stated = {name: value for name in _STATED if (value := getattr(one, name)) is not None}
        if stated and one.schedule().window_at(now_s) is not None:
            return stated
    return {}


def _closes_s(schedules: Sequence[Schedule], now_s: float) -> float:
    """When the last of the windows ends that are open now, or begin before the others end; ``now_s`` if none is open."""
    closes_s = now_s
    for _ in range(_ROUNDS):
        open_now = (window.end_s for one in schedules if (window := one.window_at(closes_s)) is not None)
        later = max(open_now, default=closes_s)
        if later <= closes_s:
            break
        closes_s = later
        if closes_s > now_s + _FAR_S:
            return math.inf
    return closes_s


_STATED: Final = ("moves_at_once", "moves_per_hour", "per_node", "per_namespace", "per_workload")
