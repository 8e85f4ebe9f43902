"""Section ``reservations``: how capacity is held for moves, for how long, and how much of it."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec

from rescheduler.model.names import DEFAULT_NAMESPACE, KOORDINATOR_SCHEDULER, NAMESPACE_SYNTAX
from rescheduler.model.node_autoscaler import NodeAutoscaler
from rescheduler.model.resources import QuantityError, parse_resources
from rescheduler.model.times import LEAST_GATE_LIMIT_S
from rescheduler.model.written import (
    LONGEST_S,
    SECONDS,
    DocumentSection,
    Duration,
    Mistake,
    MistakenError,
    NoKey,
    WrittenAs,
)
from rescheduler.reservations.quota import ANY_NAMESPACE, Quota

_MOST_RESERVATIONS: Final = (1 << 31) - 1
_MOST_AMOUNT: Final = 1 << 62
"""The API server takes amounts of 64 bits."""
_DAY_S: Final = 86_400.0


class EngineChoice(enum.StrEnum):
    """What holds the capacity of a Reservation."""

    AUTO = "Auto"
    """Koordinator for the pods of its own scheduler where its Reservations are served, placeholders for all others."""
    PLACEHOLDER = "Placeholder"
    KOORDINATOR = "Koordinator"


def _quota(written: Mapping[str, str | int | float]) -> Quota:
    mistakes: list[Mistake] = []
    count = written.get("reservations")
    if count is not None and (not isinstance(count, int) or not 0 <= count <= _MOST_RESERVATIONS):
        remedy = f"write a whole number from 0 to {_MOST_RESERVATIONS:,}"
        mistakes.append((("reservations",), f"is {count!r}", remedy))
        count = None
    amounts: dict[str, int] = {}
    for name in (n for n in written if n != "reservations"):
        try:
            amounts[name] = dict(parse_resources({name: written[name]}).items())[name]
        except QuantityError as error:
            mistakes.append(((name,), str(error), "write a quantity such as 500m, 4 or 8Gi"))
        except KeyError:
            remedy = "use cpu, memory, or example.com/gpu"
            mistakes.append(((name,), "is no resource that pods request", remedy))
        if amounts.get(name, 0) > _MOST_AMOUNT:
            mistakes.append(((name,), f"is {written[name]}, more than any cluster has", "write less"))
    if mistakes:
        raise MistakenError(mistakes)
    return Quota(reservations=count, amounts=tuple(sorted(amounts.items())))


class ReservationSettings(DocumentSection, frozen=True, kw_only=True):
    """The section, and the limits that no document sets."""

    engine: EngineChoice = EngineChoice.AUTO
    ttl_s: Annotated[float, SECONDS, msgspec.Meta(ge=1.0, le=LONGEST_S)] = 300.0
    """Of a move that names none, and of its Reservation until the eviction."""
    max_ttl_s: Duration | None = None
    """None: a day, or ``ttl_s`` if that is longer."""
    default_ttl_s: Duration = _DAY_S
    """Of a Reservation that names neither ttl nor expires (K28); 0: it never ends by itself."""
    max_lifetime_s: Duration = 0.0
    """No Reservation lives longer, whatever it names; 0: as long as it names."""
    namespace: str = DEFAULT_NAMESPACE
    """Where placeholders, Lease and ConfigMaps live."""
    pause_image: str = "registry.k8s.io/pause:3.10"
    """Of placeholders that are made from now on."""
    finished_ttl_s: Duration = 3_600.0
    """Finished Reservations (K71) and PodMigrations are deleted after it."""
    node_autoscaler: NodeAutoscaler = NodeAutoscaler.AUTO
    """Whether pending pods ask it for a node while moves that people ask for find no target."""
    gate_limit_s: Annotated[float, SECONDS, msgspec.Meta(ge=LEAST_GATE_LIMIT_S, le=LONGEST_S)] = 60.0
    """No pod is held by the gate for longer."""
    quotas: dict[str, Annotated[Quota, WrittenAs(dict[str, str | int | float], _quota)]] = msgspec.field(
        default_factory=dict, name="shares"
    )
    """How much may be reserved for the pods of a namespace; ``*`` for all."""
    makes_room: NoKey[bool] = True
    """A policy moves running pods for Reservations with makeRoom."""
    least_landing_limit_s: NoKey[float] = 300.0
    after_gate_s: NoKey[float] = 240.0
    """A claimant that is released at the limit of its gate is watched for so long."""
    node_grace_s: NoKey[float] = 60.0
    """How long the node may be NotReady or unschedulable before the room counts as lost."""
    retarget_s: NoKey[float] = 30.0
    """A placeholder that the scheduler refuses for so long is given another node, although our own rules do not know
    why it is refused: they would send it back at once. Where they know, it moves on at once."""
    taint_settle_s: NoKey[float] = 1.0
    """Nodes and pods reach the scheduler by two informers: how long it may take until both are seen."""
    orphan_grace_s: NoKey[float] = 30.0
    """A Reservation made for a PodMigration that is not there is given up after it."""

    @property
    def longest_ttl_s(self) -> float:
        """No move may take longer until the eviction, whatever ttl it asks for; one of 0 asks for this."""
        return max(_DAY_S, self.ttl_s) if self.max_ttl_s is None else self.max_ttl_s

    @property
    def landing_limit_s(self) -> float:
        """A released claimant is watched for at least so long, counted from its creation."""
        return max(self.least_landing_limit_s, self.gate_limit_s + self.after_gate_s)

    @property
    def koordinator_scheduler(self) -> str:
        """SchedulerName of pods whose rooms Koordinator holds; "": its engine is not in force."""
        return KOORDINATOR_SCHEDULER if self.engine is EngineChoice.KOORDINATOR else ""

    def mistakes(self) -> Iterator[Mistake]:
        """The longest move is shorter than the usual one, or no namespace or image has such a name."""
        if not re.fullmatch(NAMESPACE_SYNTAX, self.namespace):
            yield ("namespace",), f"is {self.namespace!r}", "use lower case letters, digits and '-'"
        for name in self.quotas:
            if name != ANY_NAMESPACE and not re.fullmatch(NAMESPACE_SYNTAX, name):
                yield (
                    ("shares", name),
                    "is no namespace, so nothing would be limited",
                    "use lower case letters, digits and '-', or '*' for each namespace",
                )
        if not re.fullmatch(r"\S+", self.pause_image):
            yield (
                ("pauseImage",),
                f"is {self.pause_image!r}",
                "write one image, such as registry.k8s.io/pause:3.10",
            )
        if self.max_ttl_s is not None and self.max_ttl_s < self.ttl_s:
            yield ("maxTtl",), f"is {SECONDS.show(self.max_ttl_s)}", f"must be at least {self.ttl_s:g}s"
