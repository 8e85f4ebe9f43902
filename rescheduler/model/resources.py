"""Resources as integers: CPU in milli, everything else in its base unit; resource lists of the API, both ways.

Mirrors kube-scheduler's ``framework.Resource``. No floats, so comparisons are exact. Which names of a resource
list count is decided as in kube-scheduler (``IsScalarResourceName``): extended resources, hugepages, attachable
volumes and prefixed native resources; other names without a prefix are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from rescheduler.model.quantity import (
    NANO,
    Amount,
    QuantityError,
    format_bytes,
    format_milli,
    format_units,
    nano,
    to_milli,
    to_units,
)


class Resources(msgspec.Struct, frozen=True, gc=False, cache_hash=True, omit_defaults=True):
    """An amount of each resource."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    pods: int = 0
    """Of an allocatable only: the number of pods that the node admits."""
    scalars: tuple[tuple[str, int], ...] = ()
    """(resource name, amount) of all other resources, sorted by name. An amount may be zero."""

    def scalar(self, name: str) -> int:
        """Amount of an extended resource or hugepages size; absent is 0."""
        for key, amount in self.scalars:
            if key == name:
                return amount
        return 0

    def amount(self, resource: str) -> int:
        """One amount by its wire name; CPU in milli, 0 if it is absent."""
        match resource:
            case "cpu":
                return self.cpu_milli
            case "memory":
                return self.memory_bytes
            case "ephemeral-storage":
                return self.ephemeral_bytes
            case "pods":
                return self.pods
            case _:
                return self.scalar(resource)

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

    def __mul__(self, times: int) -> Resources:
        return Resources(
            cpu_milli=self.cpu_milli * times,
            memory_bytes=self.memory_bytes * times,
            ephemeral_bytes=self.ephemeral_bytes * times,
            pods=self.pods * times,
            scalars=tuple((name, amount * times) for name, amount in self.scalars),
        )

    def within(self, named: Resources) -> Resources:
        """The amounts of those resources of which ``named`` has an amount."""
        return Resources(
            cpu_milli=self.cpu_milli if named.cpu_milli else 0,
            memory_bytes=self.memory_bytes if named.memory_bytes else 0,
            ephemeral_bytes=self.ephemeral_bytes if named.ephemeral_bytes else 0,
            pods=self.pods if named.pods else 0,
            scalars=tuple((name, amount) for name, amount in self.scalars if named.scalar(name)),
        )

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

MOST: Final = 1 << 48
"""No amount of a pod or node counts for more: 256 TiB, or 281 billion CPUs. So the sum of 32,000 pods on one node is below 2^63, in which
the scheduling state counts; an amount near 2^63, which the API allows, would make a full node look empty."""


Nanos = dict[str, int]
"""Resource name -> exact amount in nano units."""

_NATIVE: Final = "kubernetes.io/"
_HUGEPAGES: Final = "hugepages-"
_EXTENDED: Final = re.compile(
    r"[a-z0-9]([-a-z0-9.]{0,242}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_BINARY: Final = frozenset({"memory", "ephemeral-storage", "storage"})


def is_scalar(name: str) -> bool:
    """True if kube-scheduler counts a resource of this name beside cpu, memory, storage and pods."""
    if name.startswith((_HUGEPAGES, "attachable-volumes-")) or _NATIVE in name:
        return True
    return not name.startswith("requests.") and _EXTENDED.fullmatch(name) is not None


def is_pod_level(name: str) -> bool:
    """True if ``spec.resources`` of a pod may set it (KEP-2837)."""
    return name in ("cpu", "memory") or name.startswith(_HUGEPAGES)


def parse_amounts(amounts: Mapping[str, Amount | None] | None) -> Nanos:
    """Exact amounts of a resource list; a null amount is 0 as in Go.

    Raises:
        QuantityError: an amount is no quantity or negative; the message names the resource.
    """
    parsed: Nanos = {}
    for name, amount in (amounts or {}).items():
        try:
            value = nano(amount) if amount is not None else 0
        except QuantityError as error:
            raise QuantityError(f"{name}: {error}") from None
        if value < 0:
            raise QuantityError(f"{name}: quantity {amount!r} is negative")
        parsed[name] = value
    return parsed


def resources_of(amounts: Nanos) -> Resources:
    """The amounts that kube-scheduler counts, each rounded up once."""
    if not amounts:
        return NO_RESOURCES
    return Resources(
        cpu_milli=to_milli(amounts.get("cpu", 0)),
        memory_bytes=to_units(amounts.get("memory", 0)),
        ephemeral_bytes=to_units(amounts.get("ephemeral-storage", 0)),
        pods=to_units(amounts.get("pods", 0)),
        scalars=tuple(sorted((name, to_units(value)) for name, value in amounts.items() if is_scalar(name))),
    )


def bounded(resources: Resources) -> Resources:
    """The same with no amount above MOST: what pods and nodes count for in the scheduling state."""
    if all(amount <= MOST for _, amount in resources.items()):
        return resources
    return Resources(
        cpu_milli=min(resources.cpu_milli, MOST),
        memory_bytes=min(resources.memory_bytes, MOST),
        ephemeral_bytes=min(resources.ephemeral_bytes, MOST),
        pods=min(resources.pods, MOST),
        scalars=tuple((name, min(amount, MOST)) for name, amount in resources.scalars),
    )


def parse_resources(amounts: Mapping[str, Amount | None] | None) -> Resources:
    """A resource list as ``Resources``."""
    return resources_of(parse_amounts(amounts))


def encode_resources(resources: Resources) -> dict[str, str]:
    """A resource list with canonical quantities. An amount of 0 is omitted, except that of a scalar resource."""
    encoded: dict[str, str] = {}
    for name, amount in resources.items():
        if amount or is_scalar(name):
            encoded[name] = format_amount(name, amount)
    return encoded


def format_amount(name: str, amount: int) -> str:
    """One amount of a ``Resources`` item as a quantity: "cpu" is in milli."""
    if name == "cpu":
        return format_milli(amount)
    return format_bytes(amount) if name in _BINARY or name.startswith(_HUGEPAGES) else format_units(amount)


def add_amounts(total: Nanos, more: Nanos) -> None:
    """Add ``more`` to ``total`` in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def raise_to(total: Nanos, other: Nanos) -> None:
    """Raise each amount of ``total`` to that of ``other`` in place."""
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


DEFAULT_CPU: Final = NANO // 10
"""CPU that scores count for a container without a CPU request: 100m."""

DEFAULT_MEMORY: Final = 200 * 1024 * 1024 * NANO
"""Memory that scores count for a container without a memory request: 200 MiB."""
