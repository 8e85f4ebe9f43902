"""Starts of cron expressions in every zone: each search ends, and finds what a walk minute by minute finds."""

import datetime as dt
import os
import random
import signal
from contextlib import contextmanager
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rescheduler.model.cron import CronError, cron_of

ZONES = sorted(available_timezones() - {"localtime"})
EVERY_ZONE = os.environ.get("RESCHEDULER_EVERY_ZONE") == "1"
"""All zones and all clock changes of 2020 to 2040: minutes of work, for the nightly run."""
FIRST, LAST = (int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) for year in (2020, 2041))
DAY_S, MINUTE_S = 86400, 60
DAYS_BACK = 8


@contextmanager
def at_most(seconds):
    """A search that does not end fails the test instead of the run."""

    def fail(*_):
        raise AssertionError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def clock_changes(name):
    """The moments of 2020 to 2040 at which the zone's offset changes, to the second."""
    zone = ZoneInfo(name)

    def offset(second):
        return dt.datetime.fromtimestamp(second, zone).utcoffset()

    found = []
    for day in range(FIRST, LAST, 7 * DAY_S):
        low, high = day, day + 7 * DAY_S
        if offset(low) == offset(high):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if offset(middle) != offset(day) else (middle, high)
        found.append(high)
    return tuple(found)


def starts_of_walk(expression, zone, change):
    """All starts of two days before and after a clock change, found minute by minute."""
    read = CronSim(expression, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    minute, hour = expression.split()[:2]
    by_clock = not minute.startswith("*") and not hour.startswith("*")

    def matches(local):
        fields = local.minute in read.minutes and local.hour in read.hours and local.month in read.months
        return fields and read.match_day(local.date())

    begin = change - 2 * DAY_S - change % MINUTE_S
    moments = [
        dt.datetime.fromtimestamp(s, zone) for s in range(begin, begin + 4 * DAY_S + 2 * MINUTE_S, MINUTE_S)
    ]
    found = {int(m.timestamp()) for m in moments if matches(m) and not (by_clock and m.fold)}
    if by_clock:
        before = dt.datetime.fromtimestamp(change - 1, zone).replace(tzinfo=None) + dt.timedelta(seconds=1)
        after = dt.datetime.fromtimestamp(change, zone).replace(tzinfo=None)
        skipped = (after - before) // dt.timedelta(minutes=1)
        if any(matches(before + dt.timedelta(minutes=n)) for n in range(skipped)):
            found.add(change)
    return begin, begin + 4 * DAY_S, sorted(found)


def check(expression, name, change, moments):
    """The searches in both directions against the walk, from each moment."""
    zone, cron = ZoneInfo(name), cron_of(expression)
    begin, end, starts = starts_of_walk(expression, zone, change)
    for moment in moments:
        with at_most(10):
            following = cron.first_after(moment, zone)
            last = cron.last_until(moment, zone, days_back=DAYS_BACK)
        told = f"{expression} {name} {moment}"
        later = [s for s in starts if s > moment]
        assert following == later[0] if later else following is None or following > end, told
        earlier = [s for s in starts if s <= moment]
        assert last == earlier[-1] if earlier else last is None or last < begin, told


def around(change, rng):
    near = [change + step for step in (-7200, -3600, -1800, -60, -1, 0, 1, 60, 1800, 3600, 7200)]
    return near + [change + rng.randrange(-2 * DAY_S, 2 * DAY_S) for _ in range(4)]


def expressions_near(name, change, rng):
    """Of every form, and all match the day of the change."""
    local = dt.datetime.fromtimestamp(change - 1, ZoneInfo(name))
    minute = rng.choice([0, 15, 30, 59])
    hour = rng.choice([local.hour, (local.hour + 1) % 24, (local.hour - 1) % 24])
    week_day = local.strftime("%a").upper()
    return [
        f"{minute} * * {local.month} {week_day}",
        f"{minute} {hour} {local.day} {local.month} *",
        f"*/{rng.choice([7, 20])} {hour}-23 * * {week_day}",
        f"{minute} */{rng.choice([1, 2, 5])} */{local.day} * *",
        f"{minute},59 {hour} * * {(local.weekday() + 1) % 7}L",
    ]


@pytest.mark.parametrize("name", ["America/Nuuk", "America/Godthab", "America/Scoresbysund"])
def test_a_search_ends_where_clocks_change_on_a_day_that_matches(name):
    changes = [c for c in clock_changes(name) if dt.datetime.fromtimestamp(c, dt.UTC).month == 3]
    assert changes
    for change in changes:
        check("0 * * 3 SAT", name, change, around(change, random.Random(change)))  # noqa: S311


@pytest.mark.parametrize("expression", ["45 * * * *", "*/20 0,23 * * *", "10 0,23 * * *"])
def test_a_clock_that_is_set_back_over_midnight_mixes_two_days(expression):
    change = int(dt.datetime(2010, 11, 7, 2, 31, tzinfo=dt.UTC).timestamp())  # 00:01 becomes 23:01
    moments = range(change - 3 * 3600, change + 3 * 3600, 600)
    check(expression, "America/St_Johns", change, moments)


def zones_and_changes():
    """A few of both, drawn at random; all of them in the nightly run."""
    if EVERY_ZONE:
        yield from ((name, change) for name in ZONES for change in clock_changes(name))
        return
    rng = random.Random(1)  # noqa: S311
    drawn = ((name, clock_changes(name)) for name in (rng.choice(ZONES) for _ in range(200)))
    changing = ((name, rng.choice(changes)) for name, changes in drawn if changes)
    yield from islice(changing, 40)


def test_what_is_found_around_a_clock_change_is_what_a_walk_by_minutes_finds():
    for name, change in zones_and_changes():
        rng = random.Random(change)  # noqa: S311
        expressions = expressions_near(name, change, rng)
        for expression in expressions if EVERY_ZONE else rng.sample(expressions, 2):
            check(expression, name, change, around(change, rng))


FIELD = st.one_of(
    st.just("*"),
    st.integers(1, 40).map(lambda n: f"*/{n}"),
    st.integers(0, 60).map(str),
    st.lists(st.integers(0, 31).map(str), min_size=1, max_size=3).map(",".join),
    st.tuples(st.integers(0, 12), st.integers(0, 31)).map(lambda pair: f"{pair[0]}-{pair[1]}"),
    st.sampled_from(["L", "LW", "MON", "FRI#5", "5#5", "SUNL", "7L", "FEB", "0", "29", "31"]),
)


@given(
    st.tuples(FIELD, FIELD, FIELD, FIELD, FIELD).map(" ".join),
    st.sampled_from(ZONES),
    st.integers(FIRST, LAST),
)
@example("0 0 */31 * 5#5", "Etc/UTC", FIRST)
@example("0 0 29 2 */7", "Etc/UTC", FIRST)
@settings(max_examples=int(os.environ.get("RESCHEDULER_EXAMPLES", "60")))
def test_every_expression_is_refused_or_answered_at_once(expression, name, moment):
    zone = ZoneInfo(name)
    with at_most(2):
        try:
            cron = cron_of(expression)
        except CronError:
            return
        following = cron.first_after(moment, zone)
        assert following is not None, "what never starts is refused"
        assert following > moment
        last = cron.last_until(moment, zone, days_back=DAYS_BACK)
        assert last is None or last <= moment
        if last is not None:
            assert cron.first_after(last, zone) > moment, "nothing starts between the two"


@pytest.mark.parametrize(
    "expression", ["0 0 */31 * 5#5", "0 0 31 2 */2", "0 0 30-31 2,2 *", "0 0 */31 2 6#2"]
)
def test_what_no_day_of_any_year_matches_is_refused(expression):
    with pytest.raises(CronError, match=r"no day of any year|Bad day"):
        cron_of(expression)


def test_the_rarest_day_is_found():
    found = cron_of("0 0 29 2 */7").first_after(
        dt.datetime(2032, 3, 1, tzinfo=dt.UTC).timestamp(), ZoneInfo("Etc/UTC")
    )
    assert dt.datetime.fromtimestamp(found, dt.UTC).date() == dt.date(2060, 2, 29), "a Sunday"
