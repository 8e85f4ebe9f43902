"""Measured usage of many things as arrays: one reading of all pods, and what is known of each of them. Pure.

At 150,000 pods an object for each would cost more than all that the controller knows of them. So a pod is a 64-bit number here
(``usage_key``), and its amounts stand in arrays in the order of those numbers. NaN: not known, which is no number and never zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from rescheduler.model.measured import NodeUsage
from rescheduler.model.records import ObjectKey

Numbers = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float32]
Times = npt.NDArray[np.float64]

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


NOTHING_MEASURED: Final = MeasuredUsage()


@dataclass(frozen=True, slots=True)
class NodeSamples:
    """The samples of the window of each node."""

    keys: Numbers
    """Ascending."""
    values: Amounts
    """Shape (resources, nodes, samples), the newest last; NaN: none. Not to be changed."""

    def above(self, names: Sequence[str], resource: str, most: Times, newest: int) -> Numbers:
        """How many of the newest samples of each of these nodes are above its amount of ``most``."""
        values = self.values[MEASURED.index(resource)]
        taken = ~np.isnan(values)
        rank = np.cumsum(taken[:, ::-1], axis=1)[:, ::-1]
        if not len(self.keys):
            return np.zeros(len(names), dtype=np.int64)
        rows, known = _rows_of(self.keys, [usage_key("", name) for name in names])
        counted = taken[rows] & (rank[rows] <= newest) & (values[rows] > most[:, np.newaxis])
        return np.where(known, counted.sum(axis=1), 0)


def _rows_of(keys: Numbers, wanted: Sequence[int]) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The rows of these among ``keys``, of which there are some; and whether each is there: any row stands for one that is not."""
    numbers = np.array(wanted, dtype=np.int64)
    rows = np.minimum(np.searchsorted(keys, numbers), len(keys) - 1)
    return rows, keys[rows] == numbers


class PodUsage:
    """What is known of the usage of each pod. It is worked out for those that somebody asks about: mostly pods of few nodes."""

    def __init__(self, keys: Numbers, find: Callable[[Numbers], Amounts]) -> None:
        """``keys``: ascending. ``find`` gives the amounts of some rows, NaN where nothing is known."""
        self._keys, self._find = keys, find
        self._amounts: Amounts | None = None
        self._found = np.zeros(len(keys), dtype=np.bool_)

    @classmethod
    def of_readings(cls, found: Readings) -> PodUsage:
        """Of one sample, where there is no more."""
        return cls(found.keys, lambda rows: found.amounts[:, rows])

    def of(self, key: ObjectKey, resource: str) -> float | None:
        """What one pod uses; None: not known."""
        (amount,) = self.column((key,), resource).tolist()
        return None if math.isnan(amount) else amount

    def column(self, pods: Iterable[ObjectKey], resource: str) -> Times:
        """What each of these pods uses; NaN: not known."""
        wanted = [usage_key(*key) for key in pods]
        if not len(self._keys):
            return np.full(len(wanted), np.nan)
        rows, known = _rows_of(self._keys, wanted)
        amounts = self._of_rows(rows)[MEASURED.index(resource), rows].astype(np.float64)
        return np.where(known, amounts, np.nan)

    def _of_rows(self, rows: Numbers) -> Amounts:
        if self._amounts is None:
            self._amounts = np.full((len(MEASURED), len(self._keys)), np.nan, dtype=np.float32)
        if not self._found[rows].all():
            asked = np.unique(rows[~self._found[rows]])
            self._amounts[:, asked] = self._find(asked)
            self._found[asked] = True
        return self._amounts
