"""When windows are: zones, midnight, clock changes, the hour range, and what is no schedule."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.room_sets import ReservationWindow, WindowStatus
from rescheduler.model.schedule import ScheduleError, schedule_of

BERLIN = "Europe/Berlin"


def schedule(cron, zone="Etc/UTC", *, duration_s=None, end=""):
    window = ReservationWindow(
        name="w", cron=cron, time_zone=zone, duration_s=duration_s, end=end, status=WindowStatus()
    )
    return schedule_of(window)


def at(text, zone="Etc/UTC"):
    moment = dt.datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).timestamp()


def shown(window, zone):
    return tuple(dt.datetime.fromtimestamp(s, ZoneInfo(zone)).isoformat()[5:] for s in window)


@pytest.mark.parametrize("cron", ["0 3-4 * * *", "0 3 - 4 * * *", " 0  3 -4 * *  * "])
def test_an_hour_range_is_a_window_from_its_first_to_its_last_hour(cron):
    made = schedule(cron)
    assert shown(made.window_at(at("2026-03-01T03:59:59")), "UTC") == (
        "03-01T03:00:00+00:00",
        "03-01T04:00:00+00:00",
    )
    assert made.window_at(at("2026-03-01T04:00:00")) is None
    assert made.next_after(at("2026-03-01T03:00:00")).start_s == at("2026-03-02T03:00:00")


def test_with_a_duration_each_hour_of_a_range_is_a_start():
    made = schedule("0 3-4 * * *", duration_s=600)
    assert made.next_after(at("2026-03-01T03:00:00")).start_s == at("2026-03-01T04:00:00")


@pytest.mark.parametrize("made", [
    schedule("0 23-2 * * *"),
    schedule("0 23 * * *", duration_s=3 * 3600),
    schedule("0 23 * * *", end="02:00"),
])  # fmt: skip
def test_a_window_may_be_over_midnight(made):
    assert made.window_at(at("2026-03-01T01:30:00")) == (at("2026-02-28T23:00:00"), at("2026-03-01T02:00:00"))
    assert made.window_at(at("2026-03-01T02:00:00")) is None


def test_an_hour_that_is_skipped_begins_at_the_first_moment_after_the_gap():
    made = schedule("30 2 * * *", BERLIN, duration_s=3600)
    found = made.next_after(at("2026-03-28T12:00", BERLIN))
    assert shown(found, BERLIN) == ("03-29T03:00:00+02:00", "03-29T04:00:00+02:00")
    following = made.next_after(found.start_s)
    assert shown(following, BERLIN) == ("03-30T02:30:00+02:00", "03-30T03:30:00+02:00")


def test_an_hour_that_comes_twice_begins_once_at_the_first():
    made = schedule("30 2 * * *", BERLIN, duration_s=3600)
    found = made.next_after(at("2026-10-24T12:00", BERLIN))
    assert shown(found, BERLIN) == ("10-25T02:30:00+02:00", "10-25T02:30:00+01:00")
    assert shown(made.next_after(found.start_s), BERLIN)[0] == "10-26T02:30:00+01:00"
    assert made.window_at(found.end_s + 600) is None


def test_an_end_is_a_time_of_day_and_a_duration_is_time_that_passes():
    night = at("2026-10-24T23:00", BERLIN)
    by_clock = schedule("0 0 * * *", BERLIN, end="04:00").next_after(night)
    by_time = schedule("0 0 * * *", BERLIN, duration_s=4 * 3600).next_after(night)
    assert by_clock.end_s - by_clock.start_s == 5 * 3600, "the night of the change is an hour longer"
    assert by_time.end_s - by_time.start_s == 4 * 3600


def test_week_days_and_zones():
    made = schedule("0 6 * * MON-FRI", "Asia/Kolkata", duration_s=3600)
    found = made.next_after(at("2026-11-20T06:00", "Asia/Kolkata"))
    assert shown(found, "Asia/Kolkata")[0] == "11-23T06:00:00+05:30"


@pytest.mark.parametrize(("cron", "more", "words"), [
    ("61 * * * *", {"duration_s": 5}, "Bad minute"),
    ("0 3 * *", {"duration_s": 5}, "five fields"),
    ("0 0 3 * * *", {"duration_s": 5}, "five fields"),
    ("0 3 30 2 *", {"duration_s": 5}, "Bad day-of-month"),
    ("0 3 * * *", {}, "must be a range"),
    ("0 3-99 * * *", {}, "must be a range"),
    ("0 3 * * *", {"end": "25:00"}, "no|not a time of day"),
    ("0 3 * * *", {"duration_s": 0}, "not above 0s"),
    ("0 3 * * *", {"duration_s": 9e9}, "at most 168h"),
    ("0 3 * * *", {"duration_s": 5, "zone": "Europe/Berlim"}, "not in the IANA data base"),
    ("0 3 * * *", {"duration_s": 5, "zone": "../../etc/passwd"}, "not in the IANA data base"),
    ("0 3 * * *", {"duration_s": 5, "zone": "Europe"}, "not in the IANA data base"),
    ("9" * 5000, {"duration_s": 5}, "five fields"),
])  # fmt: skip
def test_what_is_wrong_is_said(cron, more, words):
    with pytest.raises(ScheduleError, match=words):
        schedule(cron, **more)


@given(st.text(max_size=40), st.text(max_size=20), st.floats(0, 1e6) | st.none(), st.text(max_size=6))
def test_any_text_is_a_schedule_or_an_error(cron, zone, duration_s, end):
    try:
        made = schedule(cron, zone, duration_s=duration_s, end=end)
    except ScheduleError:
        return
    made.next_after(1_790_000_000.0)


@given(
    st.sampled_from(["30 2 * * *", "0 3-4 * * *", "*/20 1-3 * * *", "15 * * * SUN", "0 0 29 2 *"]),
    st.sampled_from([BERLIN, "America/St_Johns", "Australia/Lord_Howe", "Etc/UTC"]),
    st.integers(1_767_225_600, 1_830_000_000),
)
def test_what_is_open_began_before_and_what_is_next_begins_later(cron, zone, now_s):
    made = schedule(cron, zone, duration_s=1800)
    found, following = made.window_at(now_s), made.next_after(now_s)
    assert following.start_s > now_s
    assert following.end_s - following.start_s == 1800
    if found is not None:
        assert found.start_s <= now_s < found.end_s
