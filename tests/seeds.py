"""How many seeds a property is tried with: few for each change, all of them in the nightly run.

``make nightly`` sets RESCHEDULER_SEEDS; then a property is tried with every seed, set of policies and example that it names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

NIGHTLY = "RESCHEDULER_SEEDS" in os.environ
FIRST = int(os.environ.get("RESCHEDULER_FIRST_SEED", "0"))


def fresh(usual: int, after: int = 0) -> range:
    """Seeds from FIRST and ``after`` on: ``usual`` of them for each change, RESCHEDULER_SEEDS in the nightly run, other ones each night."""
    return range(FIRST + after, FIRST + after + int(os.environ.get("RESCHEDULER_SEEDS", usual)))


def parts(every: int) -> range:
    """Of tests that try each ``every``-th of many moments: the first part, and all of them in the nightly run."""
    return range(every if NIGHTLY else 1)


def seeds(first: int, end: int, usual: int) -> range:
    """The seeds from ``first`` to before ``end``; the first ``usual`` of them outside of the nightly run."""
    return range(first, end if NIGHTLY else min(end, first + usual))


def some(of: Iterable[T], every: int) -> list[T]:
    """Of many cases each ``every``-th; all of them in the nightly run."""
    return list(of)[:: 1 if NIGHTLY else every]


def examples(usual: int, nightly: int) -> int:
    """How many examples hypothesis tries."""
    return nightly if NIGHTLY else usual
