"""Times and durations as they stand in objects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.times import (
    DurationError,
    TimestampError,
    doubling_s,
    format_duration,
    format_seconds,
    format_timestamp,
    parse_duration,
    parse_timestamp,
)


@pytest.mark.parametrize(("text", "seconds"), [
    ("1970-01-01T00:00:00Z", 0.0),
    ("1970-01-01T01:00:00+01:00", 0.0),
    ("1969-12-31T19:30:00-04:30", 0.0),
    ("2026-11-21T02:00:00Z", 1795226400.0),
    ("1970-01-01T00:00:01.25Z", 1.25),
    ("1970-01-01T00:00:01.123456789Z", 1.123456),
    ("1970-01-01t00:00:00z", 0.0),
])  # fmt: skip
def test_times_of_any_zone_are_one_moment(text, seconds):
    assert parse_timestamp(text) == pytest.approx(seconds, abs=1e-9)


@given(st.floats(allow_nan=False))
def test_every_number_of_seconds_has_a_text_that_reads_back(seconds):
    for text in (format_timestamp(seconds), format_seconds(seconds)):
        assert format_timestamp(parse_timestamp(text)) in (text, text.replace("Z", ".000000Z"))


@pytest.mark.parametrize(("text", "shown"), [
    ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59Z"),
    ("0001-01-01T00:00:00+12:00", "0001-01-01T00:00:00Z"),
])  # fmt: skip
def test_a_time_that_leaves_the_calendar_in_utc_is_its_first_or_last_second(text, shown):
    assert format_timestamp(parse_timestamp(text)) == shown
    assert format_seconds(parse_timestamp(text)) == shown


@pytest.mark.parametrize(
    "text", ["", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z", "yesterday", "1767225600"]
)
def test_a_time_without_zone_or_sense_is_refused(text):
    with pytest.raises(TimestampError):
        parse_timestamp(text)


@given(st.integers(0, 4_000_000_000), st.integers(0, 999_999))
def test_times_read_back_to_the_microsecond(seconds, micros):
    moment = seconds + micros / 1e6
    assert parse_timestamp(format_timestamp(moment)) == pytest.approx(moment, abs=1e-6)
    assert parse_timestamp(format_seconds(moment)) == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "seconds"), [
    ("0", 0), ("0s", 0), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5s", 1.5), ("-2m", -120),
    (".5s", 0.5), ("100ms", 0.1), ("+1h", 3600),
])  # fmt: skip
def test_go_durations(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "5 m", "1d", "1h30", ".s", "-", "9999999999h", "1e3s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(DurationError):
        parse_duration(text)


@pytest.mark.parametrize(("seconds", "text"), [
    (0, "0s"),
    (300, "5m0s"),
    (5400, "1h30m0s"),
    (1.5, "1.5s"),
    (0.1, "100ms"),
    (0.000002, "2µs"),
    (-60, "-1m0s"),
])  # fmt: skip
def test_durations_are_written_as_go_writes_them(seconds, text):
    assert format_duration(seconds) == text


@given(st.integers(-(10**15), 10**15))
def test_durations_read_back_to_the_microsecond(micros):
    assert parse_duration(format_duration(micros / 1e6)) == pytest.approx(micros / 1e6, abs=1e-6, rel=1e-12)


def test_waits_double_up_to_the_longest():
    assert [doubling_s(1.0, n, 8.0) for n in range(1, 7)] == [1, 2, 4, 8, 8, 8]
    assert doubling_s(1.0, 5_000, 8.0) == 8.0
