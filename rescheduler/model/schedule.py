"""When windows of time begin and end, those of ReservationWindows and those in which moves begin: cron, IANA time zone, duration or end. Pure.

Rules (docs/windows.md, "When a window is"):
- Five fields, as CronJob reads them, in the zone's own time. An hour that a clock change skips: the window begins at the first
  moment after the gap. An hour that comes twice: it begins at the first of the two. ``*`` and steps of hours follow the time
  that passes.
- ``duration`` is time that passes. ``end`` and the seed's hour range (``0 3-4 * * *`` without a duration: from 3 to 4
  o'clock) are times of day, on the next day if they are not after the start.
- Windows of one object follow each other: one that begins while another is open is taken once that one has ended.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from rescheduler.errors import ReschedulerError
from rescheduler.model.bounds import LONGEST_CRON, LONGEST_ZONE, MOST_WINDOW
from rescheduler.model.cron import Cron, CronError, cron_of
from rescheduler.model.room_sets import ReservationWindow
from rescheduler.model.times import format_duration, parse_duration

LONGEST_WINDOW_S: Final = parse_duration(MOST_WINDOW)
_LONGEST_WINDOW_DAYS: Final = int(LONGEST_WINDOW_S // 86400) + 1
_FIELDS: Final = 5
_HOURS: Final = 24
_DASH: Final = re.compile(r"\s*-\s*")
_RANGE: Final = re.compile(r"(\d{1,2})-(\d{1,2})")
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_ZONE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9+_-]+)*")
_A_MONDAY_S: Final = dt.datetime(2024, 1, 1, tzinfo=dt.UTC).timestamp()
_STARTS: Final = 400
"""More than a year of days."""
_LAST_START: Final = dt.datetime(9000, 1, 1, tzinfo=dt.UTC).timestamp()


class ScheduleError(ReschedulerError, ValueError):
    """The spec has no schedule; the message says what is wrong, for people."""


class Window(NamedTuple):
    """One window of time, in seconds since the epoch."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """When windows begin and end."""

    cron: Cron
    """Its hours are one number if they were a range."""
    zone: ZoneInfo
    duration_s: float | None
    end: dt.time | None
    """Of day; None: ``duration_s`` counts."""

    def window_at(self, now_s: float) -> Window | None:
        """The window that is open at that time; of several the one that began last."""
        if not 0 <= now_s < _LAST_START:
            return None
        start_s = self.cron.last_until(now_s, self.zone, days_back=_LONGEST_WINDOW_DAYS)
        if start_s is None:
            return None
        found = self._window(start_s)
        return found if now_s < found.end_s else None

    def next_after(self, now_s: float) -> Window | None:
        """The first window that begins later than ``now_s``; None: there is none any more."""
        if not 0 <= now_s < _LAST_START:
            return None
        start_s = self.cron.first_after(now_s, self.zone)
        return self._window(start_s) if start_s is not None else None

    def check_apart(self) -> float:
        """The shortest time from one start to the next of the coming ones, in a zone without clock changes.

        Raises:
            ScheduleError: a window lasts until after the next one has begun.
        """
        plain, period_s = replace(self, zone=ZoneInfo("Etc/UTC")), math.inf
        found = plain.next_after(_A_MONDAY_S)
        for _ in range(_STARTS):
            after = plain.next_after(found.start_s) if found is not None else None
            if found is None or after is None:
                break
            period_s = min(period_s, after.start_s - found.start_s)
            if found.end_s > after.start_s:
                lasts, apart = found.end_s - found.start_s, format_duration(after.start_s - found.start_s)
                raise ScheduleError(
                    f"a window of {format_duration(lasts)} lasts until after the next one has begun, {apart} later: make it shorter, or let it begin less often"
                )
            found = after
        return period_s

    def _window(self, start_s: float) -> Window:
        if self.end is None:
            # Whole seconds, as the API writes times: what is read back must be the same window.
            return Window(start_s, start_s + float(max(1, int(self.duration_s or 0.0))))
        start = dt.datetime.fromtimestamp(start_s, self.zone)
        end_s = dt.datetime.combine(start.date(), self.end, self.zone).timestamp()
        if end_s <= start_s:
            next_day = start.date() + dt.timedelta(days=1)
            end_s = dt.datetime.combine(next_day, self.end, self.zone).timestamp()
        return Window(start_s, end_s)


def schedule_of(window: ReservationWindow) -> Schedule:
    """The schedule of a spec. Raises ScheduleError."""
    return schedule(window.cron, window.time_zone or "Etc/UTC", window.duration_s, window.end)


@lru_cache(maxsize=1024)
def schedule(cron: str, zone: str, duration_s: float | None, end: str) -> Schedule:
    """The schedule of these fields, as they are written.

    Raises:
        ScheduleError: cron, zone, duration or end is wrong.
    """
    fields = _DASH.sub("-", cron[: LONGEST_CRON + 1]).split()
    if len(cron) > LONGEST_CRON or len(fields) != _FIELDS:
        raise ScheduleError(f"cron {cron[:60]!r} has not five fields, such as 0 3 * * *")
    ends = _time_of(end) if end else None
    if duration_s is None and ends is None:
        hours = _RANGE.fullmatch(fields[1])
        if hours is None or not fields[0].isdecimal() or int(hours[2]) > _HOURS:
            raise ScheduleError(
                f"without duration or end the hours of cron {cron!r} must be a range, such as 0 3-4 * * *"
            )
        fields[1] = hours[1]
        ends = _time_of(f"{int(hours[2]) % 24:02}:{int(fields[0]) % 60:02}")
    if duration_s is not None and not 0 < duration_s <= LONGEST_WINDOW_S:
        most = format_duration(LONGEST_WINDOW_S)
        raise ScheduleError(f"duration {format_duration(duration_s)} is not above 0s and at most {most}")
    try:
        starts = cron_of(" ".join(fields))
    except CronError as error:
        raise ScheduleError(f"cron {cron!r}: {error}") from error
    return Schedule(starts, _zone_of(zone), duration_s, ends)


def _zone_of(name: str) -> ZoneInfo:
    try:
        # ZoneInfo reads files: of its names only those that look like one get there.
        if len(name) <= LONGEST_ZONE and _ZONE.fullmatch(name) and name != "localtime":
            return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise ScheduleError(_no_zone(name)) from error
    raise ScheduleError(_no_zone(name))


def _no_zone(name: str) -> str:
    return f"timeZone {name[:LONGEST_ZONE]!r} is not in the IANA data base (write one of it, such as Europe/Berlin)"


def _time_of(text: str) -> dt.time:
    found = _TIME.fullmatch(text)
    if found is None:
        raise ScheduleError(f"end {text[:20]!r} is not a time of day such as 04:00")
    return dt.time(int(found[1]), int(found[2]))
