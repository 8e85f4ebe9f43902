"""Measured usage of a node, and which number stands for the samples of a window. Apart from the arrays, so that commands need no numpy."""

from __future__ import annotations

import enum
from typing import Final

import msgspec


class NodeUsage(msgspec.Struct, frozen=True, gc=False):
    """Measured usage of a node (metrics.k8s.io)."""

    node: str
    cpu_milli: int
    memory_bytes: int
    measured_at_s: float = 0.0
    settled: bool = True
    """False: measured too seldom since the start, or since a pod came or left, to be relied on."""


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
