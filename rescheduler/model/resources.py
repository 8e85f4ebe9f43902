"""Quantities of the API ("500m", "1.5Gi", "1e3") as exact integers, and resource lists, both ways.

A quantity is held in nano units, the finest that Kubernetes keeps: anything finer is rounded away from zero. ``Resources`` has CPU in
milli and everything else in its base unit, rounded away from zero too and clamped to an int64.

Mirrors kube-scheduler's ``framework.Resource``. No floats, so comparisons are exact. Which names of a resource
list count is decided as in kube-scheduler (``IsScalarResourceName``): extended resources, hugepages, attachable
volumes and prefixed native resources; other names without a prefix are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from rescheduler.errors import ReschedulerError

Amount = str | int | float
"""A quantity as JSON may carry it: a string, or a bare number."""

NANO: Final = 1_000_000_000
INT64_MAX: Final = (1 << 63) - 1

_NANO_PER_MILLI: Final = 1_000_000
_LONGEST_TEXT: Final = 200
_LARGEST_EXPONENT: Final = 60
_LARGEST_SUFFIX_EXPONENT: Final = 18
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_PATTERN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?"
)


class QuantityError(ReschedulerError, ValueError):
    """The text is not a quantity. The message quotes it and names the form of a quantity."""


def nano(amount: Amount) -> int:
    """The exact amount in nano units.

    Raises:
        QuantityError: not a quantity.
    """
    if isinstance(amount, str):
        return _parse(amount)
    if isinstance(amount, bool):
        raise QuantityError(f"quantity {amount!r} is neither a text nor a number")
    if isinstance(amount, int):
        return _parse(str(amount))
    return _parse(repr(amount))


def milli(amount: Amount) -> int:
    """Thousandths of a unit, rounded away from zero: what CPU is counted in."""
    return to_milli(nano(amount))


def units(amount: Amount) -> int:
    """Whole units, rounded away from zero: what everything but CPU is counted in."""
    return to_units(nano(amount))


def to_milli(nanos: int) -> int:
    """Nano units to thousandths, rounded away from zero, clamped to int64."""
    return _clamp(_scale_down(nanos, _NANO_PER_MILLI))


def to_units(nanos: int) -> int:
    """Nano units to whole units, rounded away from zero, clamped to int64."""
    return _clamp(_scale_down(nanos, NANO))


def format_milli(amount: int) -> str:
    """Thousandths as Kubernetes writes them: 1500 is "1500m", 2000 is "2"."""
    return _format_decimal(amount, -3)


def format_units(amount: int) -> str:
    """Whole units as Kubernetes writes a decimal quantity: 5000 is "5k"."""
    return _format_decimal(amount, 0)


def format_bytes(amount: int) -> str:
    """Bytes as Kubernetes writes a binary quantity: 1073741824 is "1Gi"; below 1024 plain digits."""
    if -1024 < amount < 1024:  # noqa: PLR2004 - the base of the binary suffixes
        return str(amount)
    power = 0
    while amount % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY_SUFFIX[power]}"


@lru_cache(maxsize=1 << 16)
def _parse(text: str) -> int:
    match = _PATTERN.fullmatch(text.strip()) if len(text) <= _LONGEST_TEXT else None
    if match is None or not (match["whole"] or match["fraction"]):
        raise QuantityError(
            f"quantity {text[:80]!r} is not a number with an optional suffix "
            "(n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3)"
        )
    fraction = match["fraction"] or ""
    digits = int(match["whole"] + fraction or "0")
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        amount = _shift(digits << _BINARY[suffix], 9 - len(fraction))
        amount = min(amount, INT64_MAX * NANO)
    else:
        exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        bounded = max(-_LONGEST_TEXT, min(exponent, _LARGEST_EXPONENT))
        amount = _shift(digits, bounded + 9 - len(fraction))
    return -amount if match["sign"] == "-" else amount


def _shift(digits: int, exponent: int) -> int:
    """``digits`` times ten to the ``exponent``, rounded up."""
    if exponent >= 0:
        return int(digits * 10**exponent)
    return -(-digits // int(10**-exponent))


def _scale_down(amount: int, divisor: int) -> int:
    return -(-amount // divisor) if amount >= 0 else amount // divisor


def _clamp(amount: int) -> int:
    return max(-INT64_MAX, min(amount, INT64_MAX))


def _format_decimal(amount: int, exponent: int) -> str:
    if amount == 0:
        return "0"
    while exponent < _LARGEST_SUFFIX_EXPONENT and amount % 1000 == 0:
        amount //= 1000
        exponent += 3
    return f"{amount}{_DECIMAL_SUFFIX[exponent]}"


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
        return self.each(lambda amount: amount * times)

    def each(self, change: Callable[[int], int]) -> Resources:
        """The same with every amount changed."""
        return Resources(
            cpu_milli=change(self.cpu_milli),
            memory_bytes=change(self.memory_bytes),
            ephemeral_bytes=change(self.ephemeral_bytes),
            pods=change(self.pods),
            scalars=tuple((name, change(amount)) for name, amount in self.scalars),
        )

    def not_below_zero(self) -> Resources:
        """The amounts with 0 in place of those below it; no pods."""
        return msgspec.structs.replace(self.each(lambda amount: max(0, amount)), pods=0)

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
_IN_BYTES: Final = frozenset({"memory", "ephemeral-storage", "storage"})


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
    return resources.each(lambda amount: min(amount, MOST))


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
    return format_bytes(amount) if name in _IN_BYTES or name.startswith(_HUGEPAGES) else format_units(amount)


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


# What placeholders and probes request and are limited to. Quotas and policies of a namespace may demand a request and a limit of each
# container, for CPU, memory and ephemeral storage; so all of them are named. What a placeholder is not asked to hold is requested as 0,
# because the API server would make a request of the limit. A limit is at least its request, and equal to it for resources that cannot be
# overcommitted; a placeholder is Burstable, so that no kubelet gives it exclusive CPUs or the memory of one NUMA node.

_LEAST_CPU_MILLI: Final = 100
"""With less, the container runtime takes seconds to start the container, and as long until it can be deleted."""
_LEAST_BYTES: Final = 64 << 20
"""Of memory: runtimes refuse limits below 12 MiB, and their own processes count in them. Of storage: the kubelet evicts beyond it."""
_NEXT_TO_NOTHING: Final = {"cpu": "1m", "memory": "1Mi", "ephemeral-storage": "1Mi"}
OF_PROBES: Final = {"requests": _NEXT_TO_NOTHING, "limits": _NEXT_TO_NOTHING}
"""Of a pod that is never placed: as little as any quota leaves."""


def placeholder_resources(requests: Resources) -> dict[str, Any]:
    """The field ``resources`` of a container that holds ``requests`` and nothing more."""
    amounts = list(_amounts(requests))
    return {
        "requests": {name: format_amount(name, amount) for name, amount in amounts},
        "limits": {name: format_amount(name, _limit(name, amount)) for name, amount in amounts},
    }


def _amounts(requests: Resources) -> Iterator[tuple[str, int]]:
    return (item for item in requests.items() if item[0] != "pods")


def _limit(name: str, amount: int) -> int:
    match name:
        case "cpu":  # never the request: with memory equal to its limit, the pod would be Guaranteed
            return max(amount + 1, _LEAST_CPU_MILLI)
        case "memory" | "ephemeral-storage":
            return max(amount, _LEAST_BYTES)
        case _:
            return amount
