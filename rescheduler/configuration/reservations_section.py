"""Section ``reservations``: how capacity is held for moves, for how long, and how much of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from rescheduler.configuration.reader import SectionReader
from rescheduler.configuration.strictyaml import Path
from rescheduler.configuration.value_checks import MOST
from rescheduler.model.names import DEFAULT_NAMESPACE
from rescheduler.model.quantity import QuantityError
from rescheduler.model.resources import parse_resources
from rescheduler.model.time_limits import LEAST_GATE_LIMIT_S
from rescheduler.reservations.quota import Quota

_MOST_AMOUNT: Final = 1 << 62
"""The API server takes amounts of 64 bits."""


class EngineChoice(enum.StrEnum):
    """What holds the capacity of a Reservation."""

    AUTO = "Auto"
    """Koordinator for the pods of its own scheduler where its Reservations are served, placeholders for all others."""
    PLACEHOLDER = "Placeholder"
    KOORDINATOR = "Koordinator"


class ReservationsSection(msgspec.Struct, frozen=True, kw_only=True):
    """The section as values."""

    engine: EngineChoice = EngineChoice.AUTO
    ttl_s: float = 300.0
    """Of a move, and of its Reservation until the eviction."""
    max_ttl_s: float = 86_400.0
    """No move may take longer, whatever ttl it asks for."""
    default_ttl_s: float = 86_400.0
    """Of a Reservation that names none; 0: it never ends by itself."""
    max_lifetime_s: float = 0.0
    """No Reservation may live longer, whatever it asks for; 0: as long as it asks for."""
    namespace: str = DEFAULT_NAMESPACE
    """Where placeholders, Lease and ConfigMaps live."""
    pause_image: str = "registry.k8s.io/pause:3.10"
    """Of placeholders that are made from now on."""
    finished_ttl_s: float = 3600.0
    """Finished Reservations and PodMigrations are deleted after it."""
    gate_limit_s: float = 60.0
    """Longest time that a replacement is held behind its gate."""
    quotas: dict[str, Quota] = msgspec.field(default_factory=dict)
    """Most that may be reserved for pods of a namespace; ``*`` for all namespaces."""


class ReservationsWire(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The section as it is written."""

    engine: EngineChoice | None = None
    ttl: str | None = None
    max_ttl: str | None = None
    default_ttl: str | None = None
    max_lifetime: str | None = None
    namespace: str | None = None
    pause_image: str | None = None
    finished_ttl: str | None = None
    gate_limit: str | None = None
    shares: dict[str, dict[str, str | int | float]] | None = None


def read_reservations(reader: SectionReader) -> ReservationsSection:
    """What is written goes before the defaults."""
    base = ReservationsSection()
    wire = reader.section("reservations", ReservationsWire) or ReservationsWire()

    def duration(key: str, value: str | None, default: float, *, least: float = 0.0) -> float:
        return reader.duration(("reservations", key), value, default, least=least)

    ttl_s = duration("ttl", wire.ttl, base.ttl_s, least=1.0)
    return ReservationsSection(
        engine=wire.engine or base.engine,
        ttl_s=ttl_s,
        max_ttl_s=duration("maxTtl", wire.max_ttl, max(base.max_ttl_s, ttl_s), least=ttl_s),
        default_ttl_s=duration("defaultTtl", wire.default_ttl, base.default_ttl_s),
        max_lifetime_s=duration("maxLifetime", wire.max_lifetime, base.max_lifetime_s),
        namespace=wire.namespace or base.namespace,
        pause_image=wire.pause_image or base.pause_image,
        finished_ttl_s=duration("finishedTtl", wire.finished_ttl, base.finished_ttl_s),
        gate_limit_s=duration("gateLimit", wire.gate_limit, base.gate_limit_s, least=LEAST_GATE_LIMIT_S),
        quotas={name: _quota(reader, name, given) for name, given in (wire.shares or {}).items()},
    )


def _quota(reader: SectionReader, namespace: str, given: Mapping[str, str | int | float]) -> Quota:
    path: Path = ("reservations", "shares", namespace)
    count = given.get("reservations")
    if count is not None and (not isinstance(count, int) or not 0 <= count <= MOST):
        reader.complain((*path, "reservations"), f"is {count!r}", f"write a whole number from 0 to {MOST:,}")
        count = None
    amounts: dict[str, int] = {}
    for name in (n for n in given if n != "reservations"):
        try:
            amounts[name] = dict(parse_resources({name: given[name]}).items())[name]
        except QuantityError as error:
            reader.complain((*path, name), str(error), "write a quantity such as 500m, 4 or 8Gi")
        except KeyError:
            remedy = "use cpu, memory, or example.com/gpu"
            reader.complain((*path, name), "is no resource that pods request", remedy)
        if amounts.get(name, 0) > _MOST_AMOUNT:
            reader.complain((*path, name), f"is {given[name]}, more than any cluster has", "write less")
    return Quota(reservations=count, amounts=tuple(sorted(amounts.items())))
