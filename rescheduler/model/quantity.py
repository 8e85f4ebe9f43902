"""Kubernetes quantities ("500m", "1.5Gi", "1e3") as exact integers.

Amounts are held in nano units, the finest that Kubernetes keeps: anything finer is rounded away from
zero. ``milli`` and ``units`` round away from zero too and clamp to an int64, as kube-scheduler's
``Resource`` holds amounts. Never a float, so sums of fractions are exact.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rescheduler.errors import ReschedulerError

Amount = str | int | float
"""A quantity as JSON may carry it: a string, or a bare number."""

NANO: Final = 1_000_000_000
INT64_MAX: Final = (1 << 63) - 1

_NANO_PER_MILLI: Final = 1_000_000
_LONGEST_TEXT: Final = 200
_LARGEST_EXPONENT: Final = 60
_LARGEST_SUFFIX_EXPONENT: Final = 18
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?"
)


class QuantityError(ReschedulerError, ValueError):
    """The text is not a quantity. The message quotes it and names the form of a quantity."""


def nano(amount: Amount) -> int:
    """The exact amount in nano units.

    Raises:
        QuantityError: not a quantity.
    """
    if isinstance(amount, str):
        return _parse(amount)
    if isinstance(amount, bool):
        raise QuantityError(f"quantity {amount!r} is neither a text nor a number")
    if isinstance(amount, int):
        return _parse(str(amount))
    return _parse(repr(amount))


def milli(amount: Amount) -> int:
    """Thousandths of a unit, rounded away from zero: what CPU is counted in."""
    return to_milli(nano(amount))


def units(amount: Amount) -> int:
    """Whole units, rounded away from zero: what everything but CPU is counted in."""
    return to_units(nano(amount))


def to_milli(nanos: int) -> int:
    """Nano units to thousandths, rounded away from zero, clamped to int64."""
    return _clamp(_scale_down(nanos, _NANO_PER_MILLI))


def to_units(nanos: int) -> int:
    """Nano units to whole units, rounded away from zero, clamped to int64."""
    return _clamp(_scale_down(nanos, NANO))


def format_milli(amount: int) -> str:
    """Thousandths as Kubernetes writes them: 1500 is "1500m", 2000 is "2"."""
    return _format_decimal(amount, -3)


def format_units(amount: int) -> str:
    """Whole units as Kubernetes writes a decimal quantity: 5000 is "5k"."""
    return _format_decimal(amount, 0)


def format_bytes(amount: int) -> str:
    """Bytes as Kubernetes writes a binary quantity: 1073741824 is "1Gi"; below 1024 plain digits."""
    if -1024 < amount < 1024:  # noqa: PLR2004 - the base of the binary suffixes
        return str(amount)
    power = 0
    while amount % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY_SUFFIX[power]}"


@lru_cache(maxsize=1 << 16)
def _parse(text: str) -> int:
    match = _PATTERN.fullmatch(text.strip()) if len(text) <= _LONGEST_TEXT else None
    if match is None or not (match["whole"] or match["fraction"]):
        raise QuantityError(
            f"quantity {text[:80]!r} is not a number with an optional suffix "
            "(n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3)"
        )
    fraction = match["fraction"] or ""
    digits = int(match["whole"] + fraction or "0")
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        amount = _shift(digits << _BINARY[suffix], 9 - len(fraction))
        amount = min(amount, INT64_MAX * NANO)
    else:
        exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        bounded = max(-_LONGEST_TEXT, min(exponent, _LARGEST_EXPONENT))
        amount = _shift(digits, bounded + 9 - len(fraction))
    return -amount if match["sign"] == "-" else amount


def _shift(digits: int, exponent: int) -> int:
    """``digits`` times ten to the ``exponent``, rounded up."""
    if exponent >= 0:
        return int(digits * 10**exponent)
    return -(-digits // int(10**-exponent))


def _scale_down(amount: int, divisor: int) -> int:
    return -(-amount // divisor) if amount >= 0 else amount // divisor


def _clamp(amount: int) -> int:
    return max(-INT64_MAX, min(amount, INT64_MAX))


def _format_decimal(amount: int, exponent: int) -> str:
    if amount == 0:
        return "0"
    while exponent < _LARGEST_SUFFIX_EXPONENT and amount % 1000 == 0:
        amount //= 1000
        exponent += 3
    return f"{amount}{_DECIMAL_SUFFIX[exponent]}"
