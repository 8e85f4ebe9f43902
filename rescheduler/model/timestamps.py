"""RFC 3339 times as seconds since the epoch, and back. Fractions are kept to microseconds."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

_SHAPE: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?P<fraction>\.\d+)?(?P<zone>[Zz]|[+-]\d{2}:\d{2})"
)
_MICROSECOND_DIGITS: Final = 6


class TimestampError(ValueError):
    """A text that is no RFC 3339 time; the message quotes it."""


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time in any zone.

    Raises:
        TimestampError: no such time; a zone is required.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise TimestampError(f"time {text[:60]!r} is not of the form 2026-01-31T23:59:59Z")
    fraction = match["fraction"] or ""
    shortened = text.replace(
        fraction, fraction[: _MICROSECOND_DIGITS + 1].ljust(_MICROSECOND_DIGITS + 1, "0")
    )
    try:
        moment = dt.datetime.fromisoformat((shortened if fraction else text).upper())
        return moment.timestamp()
    except (ValueError, OverflowError) as error:
        raise TimestampError(f"time {text[:60]!r} does not exist: {error}") from error


def format_timestamp(seconds: float) -> str:
    """RFC 3339 in UTC; a fraction is written, with six digits, only where there is one."""
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    if moment.microsecond:
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def format_seconds(seconds: float) -> str:
    """RFC 3339 in UTC with whole seconds (rounded down): what a ``metav1.Time`` takes."""
    return dt.datetime.fromtimestamp(int(seconds // 1), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
