"""Gives freed memory back to the system. Affects nothing but the size of the process.

A decision on a large cluster needs working memory that is free afterwards, but the C library keeps it: a
third of the process at 150,000 pods. Where there is no ``malloc_trim`` (musl, other systems) nothing happens.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Return what is free; takes some milliseconds."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return found
