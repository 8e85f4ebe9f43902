"""The samples of many things over a window, in arrays: about 100 bytes for each with ten samples. Pure; times are in the samples.

The window is cut into parts of equal length, the same for all, so that the series of a pod can be added to that of a node. In each part
stands the mean of its samples, or the highest one where peaks are asked for. Promises: a sample that comes again counts once; a gap is a
gap and not zero; nothing is forgotten because one reading is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from rescheduler.model.measured import UsageStatistic
from rescheduler.model.usage import MEASURED, Readings
from rescheduler.model.usage_statistics import Amounts, Numbers, Times

SAMPLE_S: Final = 30.0
"""The shortest part: samples are read so often."""
MOST_PARTS: Final = 48
"""Of a day half an hour each."""
GONE_S: Final = 600.0
"""Who was not measured for so long while others were is gone."""
_MOST: Final = np.iinfo(np.uint16).max

Counts = npt.NDArray[np.uint16]


def part_of(window_s: float) -> float:
    """How long the parts of a window are."""
    return max(SAMPLE_S, window_s / MOST_PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSeries:
    """Rows in the order of ``keys``; the last part is the newest. The arrays are never changed."""

    part_s: float
    keys: Numbers
    newest: int
    """Number of the last part since the epoch."""
    values: Amounts
    """Shape (resources, things, parts); NaN: no sample."""
    last_s: Times
    """When each was measured last."""
    in_part: Counts
    """Samples in the last part that has one."""
    number: Counts
    """Samples altogether, since the start or ``anew``."""
    first_s: float = math.inf
    """The oldest sample that was ever taken."""
    highest: bool
    """The highest sample of a part stands for it, not the mean."""

    @classmethod
    def empty(cls, window_s: float, statistic: UsageStatistic, part_s: float | None = None) -> UsageSeries:
        """Nothing was measured yet."""
        part_s = part_of(window_s) if part_s is None else part_s
        parts = max(1, math.ceil(window_s / part_s))
        return cls(
            part_s=part_s,
            keys=np.zeros(0, dtype=np.int64),
            newest=0,
            values=np.full((len(MEASURED), 0, parts), np.nan, dtype=np.float32),
            last_s=np.zeros(0),
            in_part=np.zeros(0, dtype=np.uint16),
            number=np.zeros(0, dtype=np.uint16),
            highest=statistic is UsageStatistic.PEAK,
        )

    @property
    def bytes_each(self) -> float:
        """What one thing costs."""
        arrays = (self.keys, self.values, self.last_s, self.in_part, self.number)
        return sum(array.nbytes for array in arrays) / max(len(self.keys), 1)

    @property
    def watched(self) -> bool:
        """True if it is known what a window as long as this one is like: half a day says nothing of a day. Short ones begin at once."""
        if self.part_s <= SAMPLE_S or not self.last_s.size:
            return True
        return bool(self.last_s.max() - self.first_s >= self.part_s * (self.values.shape[2] - 2))

    def row(self, key: int) -> int | None:
        """Where it stands; None: it was not measured."""
        row = int(np.searchsorted(self.keys, key))
        return row if row < len(self.keys) and self.keys[row] == key else None

    def plus(self, found: Readings, kept: Numbers | None = None) -> UsageSeries:
        """With one sample more of each. ``kept``: who else stays; None: who was measured lately."""
        if not found.size:
            return self
        newest_s = max(float(found.at_s.max()), float(self.last_s.max(initial=0.0)))
        stays = self.last_s >= newest_s - GONE_S if kept is None else np.isin(self.keys, kept)
        series = self._with_rows(found.keys, stays, max(self.newest, int(newest_s // self.part_s)))
        rows = np.searchsorted(series.keys, found.keys)
        part = (found.at_s // self.part_s).astype(np.int64)
        parts = series.values.shape[2]
        column = part - series.newest + parts - 1
        new = (found.at_s > series.last_s[rows]) & (column >= 0)
        rows, part, column = rows[new], part[new], column[new]
        came = found.amounts[:, new]
        again = (series.last_s[rows] // self.part_s).astype(np.int64) == part
        count = np.where(again, np.minimum(series.in_part[rows], _MOST - 1) + 1, 1).astype(np.uint16)
        known = series.values[:, rows, column]
        merged = np.fmax(known, came) if self.highest else known + (came - known) / count
        series.values[:, rows, column] = np.where(again & ~np.isnan(known), merged, came)
        series.in_part[rows] = count
        series.number[rows] = np.minimum(series.number[rows], _MOST - 1) + 1
        series.last_s[rows] = found.at_s[new]
        return replace(series, first_s=min(series.first_s, float(found.at_s[new].min(initial=math.inf))))

    def of(self, keys: Numbers, newest: int) -> Amounts:
        """What was measured of these in as many parts, of which ``newest`` is the last; NaN: nothing."""
        resources, size, parts = self.values.shape
        found = np.full((resources, len(keys), parts), np.nan, dtype=np.float32)
        shift = newest - self.newest
        if not size or abs(shift) >= parts:
            return found
        rows = np.minimum(np.searchsorted(self.keys, keys), size - 1)
        there = self.keys[rows] == keys
        old = self.values[:, rows[there]]
        here, then = (
            slice(max(-shift, 0), parts - max(shift, 0)),
            slice(max(shift, 0), parts - max(-shift, 0)),
        )
        moved = np.full_like(old, np.nan)
        moved[:, :, here] = old[:, :, then]
        found[:, there] = moved
        return found

    def _with_rows(self, keys: Numbers, stays: npt.NDArray[np.bool_], newest: int) -> UsageSeries:
        """A copy with rows for these too, without those that are gone, and with ``newest`` as the last part."""
        known = self.keys[stays | np.isin(self.keys, keys)]
        all_keys = np.union1d(known, keys)
        old, new = np.searchsorted(self.keys, known), np.searchsorted(all_keys, known)
        resources, _, parts = self.values.shape
        size, shift = len(all_keys), newest - self.newest
        values = np.full((resources, size, parts), np.nan, dtype=np.float32)
        if shift < parts:
            values[:, new, : parts - shift] = self.values[:, old, shift:]
        last_s, in_part = np.zeros(size), np.zeros(size, dtype=np.uint16)
        number = np.zeros(size, dtype=np.uint16)
        last_s[new], in_part[new], number[new] = self.last_s[old], self.in_part[old], self.number[old]
        number[np.isnan(values[0]).all(axis=1)] = 0  # after a gap as long as the window it begins anew
        return replace(
            self, keys=all_keys, newest=newest, values=values, last_s=last_s, in_part=in_part, number=number
        )

    def changed(self, key: int, at_s: float, change: Amounts | None, *, anew: bool) -> UsageSeries:
        """Something came or left at that time: what was before counts with ``change`` added; None: no more.

        ``anew``: it is known again after new samples only.
        """
        row = self.row(key)
        if row is None:
            return self
        parts = self.values.shape[2]
        before = min(max(int(at_s // self.part_s) - self.newest + parts, 0), parts)
        values, number = self.values.copy(), self.number.copy()
        old = values[:, row, :before]
        values[:, row, :before] = np.nan if change is None else np.maximum(old + change[:, :before], 0.0)
        left = int(np.count_nonzero(~np.isnan(values[0, row])))
        number[row] = 0 if anew else min(int(number[row]), left) if change is None else number[row]
        return replace(self, values=values, number=number)

    def inherited(self, old: int, new: int, *, made: bool = False) -> UsageSeries | None:
        """With the samples of ``old`` where ``new`` has none; None: one of them is not there, yet or any more. ``made``: ``new`` need not be."""
        if self.row(old) is None or (self.row(new) is None and not made):
            return None
        series = self._with_rows(
            np.array([new], dtype=np.int64), np.ones_like(self.keys, dtype=np.bool_), self.newest
        )
        source, target = np.searchsorted(series.keys, old), np.searchsorted(series.keys, new)
        if not series.last_s[target]:
            series.last_s[target], series.in_part[target] = series.last_s[source], series.in_part[source]
        known = ~np.isnan(series.values[:, target])
        series.values[:, target] = np.where(known, series.values[:, target], series.values[:, source])
        series.number[target] = min(int(series.number[target]) + int(series.number[source]), _MOST)
        return series
