"""How many seeds a property is tried with: few for each change, all of them in the nightly run.

``make nightly`` sets RESCHEDULER_SEEDS; then a property is tried with every seed, set of policies and example that it names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

NIGHTLY = "RESCHEDULER_SEEDS" in os.environ


def seeds(first: int, end: int, usual: int) -> range:
    """The seeds from ``first`` to before ``end``; the first ``usual`` of them outside of the nightly run."""
    return range(first, end if NIGHTLY else min(end, first + usual))


def some(of: Iterable[T], every: int) -> list[T]:
    """Of many cases each ``every``-th; all of them in the nightly run."""
    return list(of)[:: 1 if NIGHTLY else every]


def examples(usual: int, nightly: int) -> int:
    """How many examples hypothesis tries."""
    return nightly if NIGHTLY else usual
