"""Which number stands for the samples of a window. Apart from the arrays, so that a configuration is read without numpy."""

from __future__ import annotations

import enum
from typing import Final


class UsageStatistic(enum.StrEnum):
    """Which number stands for the samples of a window."""

    MEAN = "mean"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    PEAK = "peak"

    @property
    def part(self) -> float | None:
        """The part of the samples that is no higher; None: it is their mean."""
        return _PARTS[self]


_PARTS: Final[dict[UsageStatistic, float | None]] = {
    UsageStatistic.MEAN: None,
    UsageStatistic.P50: 0.5,
    UsageStatistic.P90: 0.9,
    UsageStatistic.P95: 0.95,
    UsageStatistic.P99: 0.99,
    UsageStatistic.PEAK: 1.0,
}
