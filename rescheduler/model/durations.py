"""Durations as Go writes them ("1h30m", "5m0s", "1.5s") in seconds, and back."""

from __future__ import annotations

import re
from typing import Final

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


class DurationError(ValueError):
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
    if not body or position != len(body) or nanos > _LONGEST:
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
