"""Times and durations as the API writes them, in seconds, and back.

Durations are Go's (``1h30m``, ``5m0s``, ``1.5s``). Times are RFC 3339, as seconds since the epoch; fractions are
kept to microseconds. A field of our own objects says by its type (``Duration``, ``Moment``, ``Second``) how its seconds are written.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Final

from rescheduler.errors import ReschedulerError

Duration = Annotated[float, "duration"]
"""Seconds, written as Go's duration."""
Moment = Annotated[float, "moment"]
"""Seconds since the epoch, written in RFC 3339 with a fraction where there is one."""
Second = Annotated[float, "second"]
"""Seconds since the epoch, written in RFC 3339 with whole seconds."""

# Times on which more than one layer relies; ``controller.time_limits`` has the table of all of them. Whoever gates a pod sees what happens to
# it in time, because a dead connection is left before the gate's limit ends.

WATCH_LASTS_S: Final = (22, 30)
"""Asked of the server for a watch, at random in between, so that not all watches end together. Its end proves that it lived."""
FIRST_WATCH_LASTS_S: Final = (240, 480)
"""The same for a watch that begins with all objects, which take their time in a large cluster."""
SILENCE_S: Final = 35.0
"""A watch without a word for so long is a connection to leave: the server ends each one sooner."""
RECONNECT_S: Final = 4.0
"""Longest pause of an informer before it asks again, if no server answered."""
ROUND_S: Final = 2.0
"""A round of the loop and the call that it leads to, under load."""
LEAST_GATE_LIMIT_S: Final = 50.0
"""A gated pod is seen within the silence of a dead watch, a pause and a round, and a scheduler that is back answers in three quarters."""

_NANOS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = re.compile(r"(\d+)?(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)")
_LONGEST: Final = (1 << 63) - 1
_MICRO: Final = 1_000
_LONGEST_TEXT: Final = 100

_MOST_DOUBLINGS: Final = 16


class DurationError(ReschedulerError, ValueError):
    """A text that is no Go duration; the message quotes it."""


def parse_duration(text: str) -> float:
    """Seconds of a Go duration; "0" needs no unit.

    Raises:
        DurationError: not a duration, or longer than Go can hold (about 292 years).
    """
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return 0.0
    nanos, position = 0, 0
    while match := _PART.match(body, position):
        whole, fraction = match[1] or "", match[2] or ""
        if not (whole or fraction) or len(body) > _LONGEST_TEXT:
            break
        unit = _NANOS[match[3]]
        nanos += int(whole or "0") * unit + int(fraction or "0") * unit // int(10 ** len(fraction))
        position = match.end()
    if body and position == len(body) and nanos > _LONGEST:
        raise DurationError(f"duration {text[:60]!r} is longer than 292 years")
    if not body or position != len(body):
        raise DurationError(f"duration {text[:60]!r} is not of the form 90s, 5m or 1h30m")
    return sign * nanos / 1e9


def format_duration(seconds: float) -> str:
    """A duration as Go prints it ("1h30m0s", "1.5s", "0s"), to microseconds."""
    micros = round(abs(seconds) * 1_000_000)
    sign = "-" if seconds < 0 and micros else ""
    if 0 < micros < _MICRO:
        return f"{sign}{micros}µs"
    if 0 < micros < _MICRO * _MICRO:
        return f"{sign}{_decimal(micros, 3)}ms"
    minutes, rest = divmod(micros, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 6)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _decimal(amount: int, digits: int) -> str:
    whole, fraction = divmod(amount, 10**digits)
    return f"{whole}.{fraction:0{digits}d}".rstrip("0").rstrip(".") if fraction else str(whole)


_SHAPE: Final = re.compile(
    r"(?P<local>\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2})(?P<fraction>\.\d+)?"
    r"(?P<zone>[Zz]|(?P<sign>[+-])(?P<hours>\d{2}):(?P<minutes>\d{2}))",
    re.ASCII,
)
_MICROSECOND_DIGITS: Final = 6
_FIRST_S: Final = dt.datetime(1, 1, 1, tzinfo=dt.UTC).timestamp()
_LAST_S: Final = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC).timestamp()


class TimestampError(ReschedulerError, ValueError):
    """A text that is no RFC 3339 time; the message quotes it."""


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time in any zone.

    A moment that is before year 1 or after year 9999 in UTC counts as the first or last second that
    ``format_timestamp`` can write: the API server accepts 9999-12-31T23:59:59-12:00.

    Raises:
        TimestampError: no such time; a zone is required.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise TimestampError(f"time {text[:60]!r} is not of the form 2026-01-31T23:59:59Z")
    fraction = (match["fraction"] or ".0")[: _MICROSECOND_DIGITS + 1]
    # The API server takes zones of up to 99 hours and the year 0; datetime does not.
    east_s = 3600 * int(match["hours"] or 0) + 60 * int(match["minutes"] or 0)
    if match["local"].startswith("0000-"):
        return _FIRST_S
    try:
        moment = dt.datetime.fromisoformat(f"{match['local'].upper()}{fraction.ljust(7, '0')}+00:00")
        seconds = moment.timestamp() - (-east_s if match["sign"] == "-" else east_s)
        return min(max(seconds, _FIRST_S), _LAST_S)
    except (ValueError, OverflowError) as error:
        raise TimestampError(f"time {text[:60]!r} does not exist: {error}") from error


def format_timestamp(seconds: float) -> str:
    """RFC 3339 in UTC; a fraction is written, with six digits, only where there is one. Years 1 to 9999."""
    moment = dt.datetime.fromtimestamp(min(max(seconds, _FIRST_S), _LAST_S), dt.UTC)
    return _text(moment, "microseconds" if moment.microsecond else "seconds")


def format_seconds(seconds: float) -> str:
    """RFC 3339 in UTC with whole seconds (rounded down): what a ``metav1.Time`` takes. Years 1 to 9999."""
    whole_s = int(min(max(seconds, _FIRST_S), _LAST_S) // 1)
    return _text(dt.datetime.fromtimestamp(whole_s, dt.UTC), "seconds")


def format_micros(seconds: float) -> str:
    """RFC 3339 in UTC with six digits, also where they are 0: a ``metav1.MicroTime``. Years 1 to 9999."""
    return _text(dt.datetime.fromtimestamp(seconds, dt.UTC), "microseconds")


def _text(moment: dt.datetime, precision: str) -> str:
    # Not strftime: it writes year 1 as "1", which no parser takes.
    return f"{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z"


def earliest(*moments_s: float | None) -> float | None:
    """Of those that there are; None: there is none."""
    return min((at_s for at_s in moments_s if at_s is not None), default=None)


def doubling_s(first_s: float, tries: int, most_s: float) -> float:
    """How long is waited after so many tries in vain: twice as long after each, and no longer than ``most_s``."""
    return float(min(most_s, first_s * 2.0 ** min(max(0, tries - 1), _MOST_DOUBLINGS)))
