"""Section ``reservations`` of the configuration document. Pure; ``rescheduler.config`` calls it and gathers problems."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from rescheduler.model.names import DEFAULT_NAMESPACE
from rescheduler.model.quantity import QuantityError
from rescheduler.model.resource_lists import parse_resources
from rescheduler.reservations.shares import Share
from rescheduler.strictyaml import Path

Complain = Callable[[Path, str, str], None]


class Duration(Protocol):
    """Reads a duration of the document; complains of what is none, and gives the default then."""

    def __call__(self, path: Path, value: object, default: float, *, least: float = 0.0) -> float: ...  # noqa: D102


class Engine(enum.StrEnum):
    """Who holds the room of a Reservation."""

    AUTO = "Auto"
    PLACEHOLDER = "Placeholder"
    KOORDINATOR = "Koordinator"


class ReservationDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """How Reservations are made for moves, and served. ``shares``: by namespace, ``*`` for all."""

    engine: Engine = Engine.AUTO
    ttl_s: float = 300.0
    default_ttl_s: float = 86_400.0
    namespace: str = DEFAULT_NAMESPACE
    pause_image: str = "registry.k8s.io/pause:3.10"
    finished_ttl_s: float = 3600.0
    gate_limit_s: float = 60.0
    shares: dict[str, Share] = msgspec.field(default_factory=dict)


class ReservationsWire(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The section as it is written."""

    engine: Engine | None = None
    ttl: str | None = None
    default_ttl: str | None = None
    namespace: str | None = None
    pause_image: str | None = None
    finished_ttl: str | None = None
    gate_limit: str | None = None
    shares: dict[str, dict[str, str | int | float]] | None = None


def read_reservations(wire: ReservationsWire, duration: Duration, complain: Complain) -> ReservationDefaults:
    """The section as values."""
    base = ReservationDefaults()
    return ReservationDefaults(
        engine=wire.engine or base.engine,
        ttl_s=duration(("reservations", "ttl"), wire.ttl, base.ttl_s, least=1.0),
        default_ttl_s=duration(("reservations", "defaultTtl"), wire.default_ttl, base.default_ttl_s),
        namespace=wire.namespace or base.namespace,
        pause_image=wire.pause_image or base.pause_image,
        finished_ttl_s=duration(("reservations", "finishedTtl"), wire.finished_ttl, base.finished_ttl_s),
        gate_limit_s=duration(("reservations", "gateLimit"), wire.gate_limit, base.gate_limit_s, least=1.0),
        shares={name: _share(name, given, complain) for name, given in (wire.shares or {}).items()},
    )


def _share(namespace: str, given: Mapping[str, str | int | float], complain: Complain) -> Share:
    path: Path = ("reservations", "shares", namespace)
    count = given.get("reservations")
    if count is not None and (not isinstance(count, int) or count < 0):
        complain((*path, "reservations"), f"is {count!r}", "write a whole number, 0 or more")
        count = None
    amounts: dict[str, int] = {}
    for name in (n for n in given if n != "reservations"):
        try:
            amounts[name] = dict(parse_resources({name: given[name]}).items())[name]
        except QuantityError as error:
            complain((*path, name), str(error), "write a quantity such as 500m, 4 or 8Gi")
        except KeyError:
            complain((*path, name), "is no resource that pods request", "use cpu, memory, or example.com/gpu")
    return Share(reservations=count, amounts=tuple(sorted(amounts.items())))
