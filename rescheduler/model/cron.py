"""When a cron expression starts, in the time of an IANA zone. Pure.

Promises: every search ends. A search looks at one month after the other, at fifty years at most, and within a day it bisects the
day's times; nothing steps along a clock that may be set back. So a clock change on a day that matches costs what any other
day costs. An expression that no day of any year matches is refused when it is read.

The times of a day, when the clock changes (docs/windows.md, "When a window is"):
- Minutes and hours that are both stated are times of day: what a clock change skips starts at the first moment after the gap, what
  comes twice starts at the first of the two.
- With ``*`` or steps in one of them, time that passes counts: what is skipped is no start, what comes twice are two.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left, bisect_right
from calendar import monthrange
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from cronsim import CronSim, CronSimError

from rescheduler.errors import ReschedulerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from zoneinfo import ZoneInfo

_MOST_MONTHS: Final = 12 * 50
"""As far as a search looks ahead: 29 February is a Sunday again after 40 years at most."""
_LAST_YEAR: Final = 9000
_MONTHS: Final = 12
_SHAPES: Final = tuple(
    {monthrange(year, month): (year, month) for year in range(2000, 2400) for month in range(1, 13)}.values()
)
"""One month of each shape: its first day of the week, and its length. There are 28."""

_RANGES: Final = "minute 0-59, hour 0-23, day of the month 1-31, month 1-12, day of the week 0-7"


class CronError(ReschedulerError, ValueError):
    """The expression has no starts; the message says what is wrong, for people."""


@dataclass(frozen=True, slots=True)
class Cron:
    """The days and the times of day of an expression."""

    minutes_of_day: tuple[int, ...]
    """Since midnight, in order."""
    by_clock: bool
    """Minutes and hours are stated: times of day rather than time that passes."""
    months: frozenset[int]
    days: Mapping[tuple[int, int], tuple[int, ...]]
    """The days that match, by the first day of the week and the length of a month."""

    def first_after(self, after_s: float, zone: ZoneInfo) -> float | None:
        """The first start later than that; None: there is none within fifty years."""
        yesterday = dt.datetime.fromtimestamp(int(after_s), zone).date() - dt.timedelta(days=1)
        return self._nearest(self._days_from(yesterday), zone, after_s, 1)

    def last_until(self, until_s: float, zone: ZoneInfo, *, days_back: int) -> float | None:
        """The last start at that time or before it, of the days since ``days_back``."""
        # What a clock change skips may start on the day after.
        tomorrow = dt.datetime.fromtimestamp(int(until_s), zone).date() + dt.timedelta(days=1)
        days = (tomorrow - dt.timedelta(days=back) for back in range(days_back + 3))
        match = (
            day for day in days if day.month in self.months and day.day in self._days_of(day.year, day.month)
        )
        return self._nearest(match, zone, until_s, -1)

    def _nearest(self, days: Iterable[dt.date], zone: ZoneInfo, moment_s: float, ahead: int) -> float | None:
        """The start next to a moment, after it (1) or until it (-1); ``days``: from there on."""
        found: float | None = None
        found_on: dt.date | None = None
        for day in days:
            # A clock that is set back over midnight mixes the times of a day with those of the next one.
            if found_on is not None and ahead * (day - found_on).days > 1:
                break
            for fold in (0,) if self.by_clock else (0, 1):
                start_s = self._on(day, zone, fold, moment_s, ahead)
                if start_s is not None and (found is None or ahead * (start_s - found) < 0):
                    found, found_on = start_s, found_on or day
        return found

    def _on(self, day: dt.date, zone: ZoneInfo, fold: int, moment_s: float, ahead: int) -> float | None:
        """The start of one day that is next to a moment."""
        times = self.minutes_of_day
        cut = bisect_right(times, moment_s, key=lambda minute: _moment(day, minute, zone, fold)[0])
        for minute in times[cut:] if ahead > 0 else reversed(times[:cut]):
            start_s, shown = _moment(day, minute, zone, fold)
            if shown or self.by_clock:
                return start_s
        return None

    def _days_from(self, day: dt.date) -> Iterator[dt.date]:
        year, month = day.year, day.month
        for _ in range(_MOST_MONTHS):
            if year > _LAST_YEAR:
                return
            if month in self.months:
                for number in self._days_of(year, month):
                    found = dt.date(year, month, number)
                    if found >= day:
                        yield found
            year, month = (year, month + 1) if month < _MONTHS else (year + 1, 1)

    def _days_of(self, year: int, month: int) -> tuple[int, ...]:
        return self.days.get(monthrange(year, month), ())


@lru_cache(maxsize=1024)
def cron_of(expression: str) -> Cron:
    """The days and times of five fields.

    Raises:
        CronError: a field is wrong, or no day ever matches.
    """
    try:
        read = CronSim(expression, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    except (CronSimError, ValueError, AssertionError) as error:
        raise CronError(f"{str(error) or 'cannot be read'} ({_RANGES})") from error
    days = {
        monthrange(year, month): tuple(
            number
            for number in range(1, monthrange(year, month)[1] + 1)
            if read.match_day(dt.date(year, month, number))
        )
        for year, month in _SHAPES
    }
    months = frozenset(read.months)
    if not any(found for (_, length), found in days.items() if length in _lengths(months)):
        raise CronError("no day of any year matches (choose a day that the month has)")
    minute, hour = expression.split()[:2]
    return Cron(
        minutes_of_day=tuple(sorted(h * 60 + m for h in read.hours for m in read.minutes)),
        by_clock=not minute.startswith("*") and not hour.startswith("*"),
        months=months,
        days=days,
    )


def _lengths(months: frozenset[int]) -> frozenset[int]:
    return frozenset(monthrange(year, month)[1] for year in (2000, 2001) for month in months)


def _moment(day: dt.date, minute: int, zone: ZoneInfo, fold: int) -> tuple[float, bool]:
    """When the clock shows that minute of the day, and whether it does; else the first moment after the gap.

    It never falls as the minutes rise, so that a day's times can be bisected.
    """
    local = dt.datetime(day.year, day.month, day.day, minute // 60, minute % 60, tzinfo=zone, fold=fold)
    before, after = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    if before is None or after is None or before >= after:
        return local.timestamp(), True
    # In a gap fold 0 reads the time with the offset before the change, fold 1 with that after it.
    low_s, high_s = int(local.replace(fold=1).timestamp()), int(local.replace(fold=0).timestamp())
    change = bisect_left(
        range(low_s, high_s + 1),
        after,
        key=lambda second: dt.datetime.fromtimestamp(second, zone).utcoffset() or dt.timedelta(),
    )
    return float(low_s + change), False
