"""Numbers by node or by topology domain, kept sparse.

Most counts are about the few pods of one application: thousands of them over thousands of nodes would
otherwise fill hundreds of megabytes with zeros.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from rescheduler.scheduling.framework import IntArray
from rescheduler.scheduling.nodes import Column

_FULL: Final = 8
"""A count with entries in more than one of so many places is kept as an array."""


class Counts:
    """Numbers by index, nearly all 0. ``dense`` must not be changed by readers."""

    __slots__ = ("_array", "_size", "values")

    def __init__(self, size: int) -> None:
        self._size = size
        self._array: IntArray | None = None
        self.values: dict[int, int] = {}

    def change(self, index: int, delta: int) -> None:
        """Add to one number."""
        left = self.values.get(index, 0) + delta
        if left:
            self.values[index] = left
        else:
            del self.values[index]
        if self._array is not None:
            self._array[index] += delta

    def at(self, index: int) -> int:
        """One number."""
        return self.values.get(index, 0)

    def dense(self) -> IntArray:
        """All numbers."""
        if self._array is not None:
            return self._array
        array: IntArray = np.zeros(self._size, dtype=np.int64)
        if self.values:
            array[list(self.values)] = list(self.values.values())
        if len(self.values) * _FULL > self._size:
            self._array = array
        return array


def domain_sums(column: Column, per_node: IntArray) -> IntArray:
    """Sums of a per-node count over the domains of a column."""
    size = len(column.values)
    if column.complete:
        return np.bincount(column.codes, weights=per_node, minlength=size).astype(np.int64)
    present = column.present
    return np.bincount(column.codes[present], weights=per_node[present], minlength=size).astype(np.int64)
