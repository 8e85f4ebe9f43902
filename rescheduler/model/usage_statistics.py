"""Which number stands for the samples of a window, and how far chance alone may be off it. Arrays; the last axis is time; NaN: no sample. Pure."""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from rescheduler.model.measured import UsageStatistic

Numbers = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float32]
Times = npt.NDArray[np.float64]

_OF_MEDIAN: Final = 1.25
"""The standard error of a median, in those of the mean; with few samples the distances between them say too little."""


Values = TypeVar("Values", Amounts, Times)


def statistic(values: Values, kind: UsageStatistic) -> Values:
    """The number that stands for the samples of each thing, of which there are some; NaN: none was taken."""
    if kind is UsageStatistic.PEAK or values.shape[-1] == 1:
        highest: Values = np.fmax.reduce(values, axis=-1)
        return highest
    taken = ~np.isnan(values)
    count = np.sum(taken, axis=-1)
    if kind.part is None:
        found = np.sum(values, axis=-1, where=taken, dtype=np.float64) / np.maximum(count, 1)
        found[count == 0] = np.nan
    else:
        found = _at(np.sort(values.astype(np.float64), axis=-1), count, np.full(count.shape, kind.part))
    amounts: Values = found.astype(values.dtype)
    return amounts


def standard_error(values: Amounts | Times, kind: UsageStatistic) -> Amounts:
    """Of that number. Of a quantile it is how far the quantiles are that lie one standard deviation of their rank below and above: no distribution is assumed."""
    ordered = np.sort(values.astype(np.float64), axis=-1)  # NaN last
    taken = ~np.isnan(ordered)
    count = np.sum(taken, axis=-1)
    mean = np.sum(ordered, axis=-1, where=taken) / np.maximum(count, 1)
    squares = np.sum((ordered - mean[..., np.newaxis]) ** 2, axis=-1, where=taken)
    error = np.sqrt(squares / np.maximum(count - 1, 1) / np.maximum(count, 1))
    if kind.part is not None:
        rank = np.minimum(kind.part, 1.0 - 0.5 / np.maximum(count, 1))
        deviation = np.sqrt(rank * (1.0 - rank) / np.maximum(count, 1))
        found = _at(ordered, count, np.full(count.shape, kind.part))
        below = _at(ordered, count, np.maximum(rank - deviation, 0.0))
        above = _at(ordered, count, np.minimum(rank + deviation, 1.0))
        apart = np.maximum(np.maximum(above - found, found - below), 0.0)
        error = np.maximum(apart, _OF_MEDIAN * error)
    amounts: Amounts = np.nan_to_num(error).astype(np.float32)
    return amounts


def _at(ordered: Times, count: Numbers, part: Times) -> Times:
    place = part * np.maximum(count - 1, 0)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(count - 1, 0))
    lower = np.take_along_axis(ordered, low[..., np.newaxis], axis=-1)[..., 0]
    upper = np.take_along_axis(ordered, high[..., np.newaxis], axis=-1)[..., 0]
    found: Times = lower + (upper - lower) * (place - low)
    return found
