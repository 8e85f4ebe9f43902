"""Measured usage of many things as arrays: one reading of all pods, and what is known of each of them. Pure.

At 150,000 pods an object for each would cost more than all that the controller knows of them. So a pod is a 64-bit number here
(``usage_key``), and its amounts stand in arrays in the order of those numbers. NaN: not known, which is no number and never zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from rescheduler.model.measured import NodeUsage, UsageStatistic
from rescheduler.model.records import ObjectKey
from rescheduler.model.usage_statistics import Amounts, Numbers, Times, statistic

DAY_S: Final = 86_400.0
"""Over which what was measured tells where a pod may go."""
MEASURED: Final = ("cpu", "memory")
"""The resources that are measured, in the order of the rows of ``Amounts``; in milli and in bytes."""


def usage_key(namespace: str, name: str) -> int:
    """The number of a pod, in this process; that of a node with the namespace ""."""
    return hash((namespace, name))


@dataclass(frozen=True, slots=True)
class Readings:
    """One sample of many things."""

    keys: Numbers
    """Ascending, each once."""
    at_s: Times
    """When each was measured."""
    amounts: Amounts
    """Shape (resources, things)."""

    @classmethod
    def of(cls, found: Iterable[tuple[int, float, float, float]]) -> Readings:
        """Of (key, time, cpu in milli, memory in bytes), in any order; of one that is named twice one entry counts."""
        table = list(found)
        keys, first = np.unique(np.array([one[0] for one in table], dtype=np.int64), return_index=True)
        at_s = np.array([one[1] for one in table], dtype=np.float64)[first]
        amounts = np.array([[one[2] for one in table], [one[3] for one in table]], dtype=np.float32)
        return cls(keys, at_s, amounts.reshape(len(MEASURED), -1)[:, first])

    @property
    def size(self) -> int:
        """How many were measured."""
        return len(self.keys)


NO_READINGS: Final = Readings.of(())


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """What one look at the metrics brought."""

    nodes: Sequence[NodeUsage] = ()
    pods: Readings = NO_READINGS
    """Empty: nobody measures pods, or they may not be read."""
    earlier: Sequence[MeasuredUsage] = ()
    """What a server that keeps its samples tells of the time before, the oldest first."""
    day: Sequence[MeasuredUsage] = ()
    """The same of the hours of the last day, where they are not part of it."""


NOTHING_MEASURED: Final = MeasuredUsage()


@dataclass(frozen=True, slots=True)
class Samples:
    """What was measured of some things, in parts of time that are the same for nodes and pods, so that a pod can be added to a node.

    In each part stands the mean of its samples, or the highest one where peaks are asked for. NaN: none. Arrays are not to be changed.
    """

    window: Amounts
    """Of ``usage.window``, the newest part last. Shape (resources, things, parts)."""
    day: Amounts
    """Means in parts of the last 24 hours, where the window is shorter; no parts: they are not kept."""
    known: npt.NDArray[np.bool_]
    """Which of them were measured often enough to be relied on."""

    @classmethod
    def of_one(cls, amounts: Amounts) -> Samples:
        """Of one sample each, where there is no more."""
        none = np.zeros((*amounts.shape, 0), dtype=np.float32)
        return cls(amounts[:, :, np.newaxis], none, ~np.isnan(amounts[0]))


@dataclass(frozen=True, slots=True)
class NodeSamples:
    """The samples of all nodes that are measured."""

    keys: Numbers
    """Ascending."""
    samples: Samples
    statistic: UsageStatistic
    """Which number stands for the window where a policy names none."""

    def of_each(self, names: Sequence[str]) -> Samples:
        """In the order of these nodes."""
        rows, there = _rows_of(self.keys, [usage_key("", name) for name in names])
        found, absent = self.samples, ~there
        window, day = found.window[:, rows], found.day[:, rows]
        window[:, absent], day[:, absent] = np.nan, np.nan
        return Samples(window, day, found.known[rows] & there)


def often(window: Amounts, most: Times, newest: int) -> Numbers:
    """How many of the newest samples of each thing are above its amount of ``most``; ``window`` of one resource."""
    taken = ~np.isnan(window)
    rank = np.cumsum(taken[:, ::-1], axis=1)[:, ::-1]
    counted: Numbers = (taken & (rank <= newest) & (window > most[:, np.newaxis])).sum(axis=1)
    return counted


def _rows_of(keys: Numbers, wanted: Sequence[int]) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The rows of these among ``keys``, of which there are some; and whether each is there: any row stands for one that is not."""
    numbers = np.array(wanted, dtype=np.int64)
    rows = np.minimum(np.searchsorted(keys, numbers), len(keys) - 1)
    return rows, keys[rows] == numbers


class PodUsage:
    """What is known of the usage of each pod. It is worked out for those that somebody asks about: mostly pods of few nodes."""

    def __init__(
        self,
        keys: Numbers,
        find: Callable[[Numbers], Samples],
        usual: UsageStatistic = UsageStatistic.MEAN,
        left: Mapping[int, AbstractSet[tuple[str, str]]] = MappingProxyType({}),
    ) -> None:
        """``keys``: ascending. ``find`` gives the samples of some rows. ``usual``: where a policy names no statistic. ``left``: see there."""
        self._keys, self._find, self._usual, self._left = keys, find, usual, left
        self._amounts: dict[UsageStatistic, Amounts] = {}
        """By statistic what stands for each pod; infinite: nobody has asked."""
        self._samples: dict[int, Samples] = {}

    @classmethod
    def of_readings(cls, found: Readings) -> PodUsage:
        """Of one sample, where there is no more."""
        return cls(found.keys, lambda rows: Samples.of_one(found.amounts[:, rows]))

    def of(self, key: ObjectKey, resource: str, kind: UsageStatistic | None = None) -> float | None:
        """What one pod uses; None: not known."""
        (amount,) = self.column((key,), resource, kind).tolist()
        return None if math.isnan(amount) else amount

    def column(self, pods: Iterable[ObjectKey], resource: str, kind: UsageStatistic | None = None) -> Times:
        """What each of these pods uses; NaN: not known."""
        wanted = [usage_key(*key) for key in pods]
        if not len(self._keys):
            return np.full(len(wanted), np.nan)
        rows, known = _rows_of(self._keys, wanted)
        amounts = self._of_rows(rows, kind or self._usual)[MEASURED.index(resource), rows]
        return np.where(known, amounts.astype(np.float64), np.nan)

    def left(self, key: ObjectKey, policy: str) -> list[str]:
        """The nodes that the pod, or one that it replaces, left for this policy in the last day."""
        return [node for name, node in self._left.get(usage_key(*key), ()) if name == policy]

    def samples(self, key: ObjectKey, resource: str) -> tuple[Amounts, Amounts] | None:
        """Of the window and of the day, in the parts of those of nodes; None: not known."""
        number = usage_key(*key)
        found = self._samples.get(number)
        if found is None:
            if not len(self._keys):
                return None
            row = int(np.searchsorted(self._keys, number))
            if row == len(self._keys) or self._keys[row] != number:
                return None
            found = self._samples[number] = self._find(np.array([row], dtype=np.int64))
        at = MEASURED.index(resource)
        return (found.window[at, 0], found.day[at, 0]) if found.known[0] else None

    def _of_rows(self, rows: Numbers, kind: UsageStatistic) -> Amounts:
        known = self._amounts.get(kind)
        if known is None:
            known = np.full((len(MEASURED), len(self._keys)), np.inf, dtype=np.float32)
            self._amounts[kind] = known
        asked = np.unique(rows[np.isinf(known[0, rows])])
        if len(asked):
            found = self._find(asked)
            amounts = statistic(found.window, kind)
            amounts[:, ~found.known] = np.nan
            known[:, asked] = amounts
        return known
