"""Measured use of one resource on all nodes, sample by sample, so that a node with a pod has the statistic of the sum. Pure.

Of the mean, for which it makes no difference, one number is kept instead of the samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rescheduler.model.measured import UsageStatistic
from rescheduler.model.usage import often
from rescheduler.model.usage_statistics import Amounts, standard_error, statistic
from rescheduler.scheduling.framework import BoolArray, FloatArray, IntArray, NodeIndices

More = float | FloatArray
"""What comes to a node, or leaves it: an amount; of a pod that is measured, one for each sample."""


def is_any(more: More) -> bool:
    """True if it is not nothing."""
    return bool(more) if isinstance(more, float) else bool(more.any())


class Most(NamedTuple):
    """The share up to which a node may be filled."""

    now: float
    day: FloatArray | float
    """In each part of the last day."""


def _above_mean(window: FloatArray, kind: UsageStatistic) -> FloatArray:
    """As a column."""
    above: FloatArray = statistic(window, kind) - statistic(window, UsageStatistic.MEAN)
    return above[:, np.newaxis]


def highest(values: FloatArray) -> FloatArray:
    """Of each row, of what is known; NaN: nothing is."""
    found: FloatArray = np.fmax.reduce(values, axis=1, initial=np.nan)
    return found


def means_of(day: FloatArray) -> FloatArray:
    """Of the nodes in each part of the day; NaN: none is known."""
    known = ~np.isnan(day)
    number = known.sum(axis=0)
    return np.where(number > 0, day.sum(axis=0, where=known) / np.maximum(number, 1), np.nan)


@dataclass(frozen=True, slots=True)
class SampledUse:
    """Rows are nodes; of those that are not known nothing counts."""

    kind: UsageStatistic
    measured: Amounts
    """The samples, as they were taken."""
    window: FloatArray
    """What counts of them, with planned moves."""
    day: FloatArray
    """Means in parts of the last day; NaN: not known."""
    error: FloatArray
    """Standard error of what stands for the window."""

    @classmethod
    def of(cls, window: Amounts, day: Amounts, kind: UsageStatistic, known: BoolArray) -> SampledUse:
        """As it was measured. ``known``: which nodes are."""
        rows = known[:, np.newaxis]
        counted = statistic(window, kind)[:, np.newaxis] if kind is UsageStatistic.MEAN else window
        error = np.where(known, standard_error(window, kind), 0.0)
        of_day = np.where(rows, day, np.nan).astype(np.float64)
        return cls(kind, window, np.where(rows, counted, 0.0).astype(np.float64), of_day, error)

    @property
    def parts(self) -> int:
        """So many numbers stand for each node."""
        return int(self.window.shape[1])

    @property
    def amounts(self) -> FloatArray:
        """The one that counts of them."""
        return statistic(self.window, self.kind)

    @property
    def of_day(self) -> FloatArray:
        """In each part of the day what would stand for a window there: it is as far above the mean as now."""
        return self.day + _above_mean(self.window, self.kind)

    def amounts_with(self, samples: FloatArray, nodes: NodeIndices | slice) -> FloatArray:
        """Of some nodes, with so much more in each sample."""
        return statistic(self.window[nodes] + samples, self.kind)

    def with_more(self, samples: FloatArray, day: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``amounts`` and ``of_day`` with so much more in each sample and in each part of the day."""
        window = self.window + samples
        return statistic(window, self.kind), self.day + day + _above_mean(window, self.kind)

    def plus(self, more: FloatArray) -> SampledUse:
        """With so much more on each node, at all times."""
        rows = more[:, np.newaxis]
        return replace(self, window=self.window + rows, day=self.day + rows)

    def copy(self) -> SampledUse:
        """One that ``carry`` may change."""
        return replace(self, window=self.window.copy(), day=self.day.copy())

    def carry(self, source: int, target: int, parts: FloatArray, day: FloatArray) -> None:
        """A pod goes from one node to another one."""
        self.window[source] -= parts
        self.window[target] += parts
        self.day[source] -= day
        self.day[target] += day

    def above_often(self, most: FloatArray, newest: int) -> IntArray:
        """In how many of the newest samples each node was above its amount of ``most``."""
        return often(self.measured, most, newest)
