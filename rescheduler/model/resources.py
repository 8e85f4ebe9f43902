"""Amounts of resources on integers (rows M26, M27): CPU in milli, everything else in its base unit.

Mirrors kube-scheduler's ``framework.Resource``. Never floats, so comparisons are exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Resources(msgspec.Struct, frozen=True, gc=False, cache_hash=True, omit_defaults=True):
    """One vector of amounts. ``scalars``: (resource name, amount), sorted by name, zero amounts allowed.

    ``pods`` is used for allocatable only: the number of pods that a node admits.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    pods: int = 0
    scalars: tuple[tuple[str, int], ...] = ()

    def scalar(self, name: str) -> int:
        """Amount of an extended resource or hugepages size; absent is 0."""
        for key, amount in self.scalars:
            if key == name:
                return amount
        return 0

    def items(self) -> Iterator[tuple[str, int]]:
        """All (name, amount) with the wire names; CPU in milli."""
        yield "cpu", self.cpu_milli
        yield "memory", self.memory_bytes
        yield "ephemeral-storage", self.ephemeral_bytes
        yield "pods", self.pods
        yield from self.scalars

    def __add__(self, other: Resources) -> Resources:
        return self._combine(other, 1)

    def __sub__(self, other: Resources) -> Resources:
        return self._combine(other, -1)

    def _combine(self, other: Resources, sign: int) -> Resources:
        if self.scalars or other.scalars:
            merged = dict(self.scalars)
            for key, amount in other.scalars:
                merged[key] = merged.get(key, 0) + sign * amount
            scalars = tuple(sorted(merged.items()))
        else:
            scalars = ()
        return Resources(
            cpu_milli=self.cpu_milli + sign * other.cpu_milli,
            memory_bytes=self.memory_bytes + sign * other.memory_bytes,
            ephemeral_bytes=self.ephemeral_bytes + sign * other.ephemeral_bytes,
            pods=self.pods + sign * other.pods,
            scalars=scalars,
        )


NO_RESOURCES = Resources()
