"""Who leads: the Lease record and the rules of holding it (pure; time is an argument).

Two clocks never mix: deadlines are monotonic seconds of this process; the times inside the record are for
people to read. Another process' Lease has expired when *this* process saw no change of it for its duration, whatever its
times say, so clocks that differ or jump change nothing. Our own time is counted from before the write was
sent, so this process stops before another may start. Source: client-go leaderelection, KEP-589.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rescheduler.model.object_meta import ObjectMeta
from rescheduler.model.times import format_micros

RELEASED_DURATION_S: Final = 1
CATCHES_UP_S: Final = 5.0
"""Who takes a Lease that was handed back does nothing for so long: its watches show the last writes of the former holder by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """How long a Lease lasts.

    The defaults are longer than client-go's 15/10/2: one decode of a large page may hold the interpreter
    for tens of milliseconds, and a full collection for a second.
    """

    duration_s: float = 30.0
    """Other processes wait so long after the last renewal that they saw."""
    renew_s: float = 20.0
    """The holder stops after so long without a renewal."""
    retry_s: float = 4.0
    """Between two tries, of the holder and of the others."""

    def __post_init__(self) -> None:
        if not 0 < self.retry_s * 1.2 < self.renew_s < self.duration_s:
            raise ValueError("a lease needs 0 < 1.2 x retry < renew deadline < duration")


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """``spec`` of a Lease. Times: RFC 3339 with microseconds."""

    holder_identity: str | None = ""
    lease_duration_seconds: int | None = 0
    acquire_time: str | None = ""
    renew_time: str | None = ""
    lease_transitions: int | None = 0


class Lease(msgspec.Struct, frozen=True):
    """A Lease as read. ``raw``: the whole object, so that a write keeps what others put there."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
    raw: dict[str, Any] = msgspec.field(default_factory=dict)


_LEASE: Final = msgspec.json.Decoder(Lease)


def parse_lease(body: bytes) -> Lease:
    """A Lease from JSON. Raises msgspec.DecodeError."""
    return msgspec.structs.replace(_LEASE.decode(body), raw=msgspec.json.decode(body))


class LeaseAction(enum.Enum):
    """What a candidate does after looking at the Lease."""

    CREATE = enum.auto()
    TAKE = enum.auto()
    RENEW = enum.auto()
    WAIT = enum.auto()


@dataclass(slots=True)
class Election:
    """The rules for one candidate."""

    identity: str
    timing: LeaseTiming
    observed: Lease | None = None
    observed_at_s: float = 0.0
    held_until_s: float | None = None
    """Monotonic seconds; None: this process does not lead."""
    acts_from_s: float = 0.0
    """Monotonic seconds. What was read before this term may lack what the former holder wrote last, each kind something else."""
    rival: str = ""
    """Another holder that was seen to renew the Lease, so it lives; empty: none was."""

    def look(self, lease: Lease | None, now_s: float) -> LeaseAction:
        """The Lease as just read (None: there is none); remembers when it last changed."""
        if lease is None:
            self.observed = None
            return LeaseAction.CREATE
        before, self.observed = self.observed, lease
        if before is None or lease.spec != before.spec:
            self.observed_at_s = now_s
        holder = lease.spec.holder_identity or ""
        if before is not None and lease.spec != before.spec and before.spec.holder_identity == holder:
            self.rival = holder if holder != self.identity else ""
        if lease.spec.holder_identity == self.identity:
            return LeaseAction.RENEW
        if not lease.spec.holder_identity:
            return LeaseAction.TAKE
        lasts_s = lease.spec.lease_duration_seconds or self.timing.duration_s
        return LeaseAction.TAKE if now_s - self.observed_at_s > lasts_s else LeaseAction.WAIT

    def desired(self, action: LeaseAction, wall_s: float) -> LeaseSpec:
        """The spec to write for CREATE, TAKE or RENEW. ``wall_s``: seconds since the epoch."""
        old = self.observed.spec if self.observed else LeaseSpec()
        renewed = format_micros(wall_s)
        transitions = old.lease_transitions or 0
        same = action is LeaseAction.RENEW
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=max(1, round(self.timing.duration_s)),
            acquire_time=(old.acquire_time or renewed) if same else renewed,
            renew_time=renewed,
            lease_transitions=transitions + 1 if action is LeaseAction.TAKE else transitions,
        )

    def written(self, lease: Lease, sent_at_s: float) -> None:
        """Our write was accepted: we lead until the renew deadline, counted from before it was sent."""
        if self.held_until_s is None and self.observed and not self.observed.spec.holder_identity:
            # Under one that has expired nothing was written for longer than that.
            self.acts_from_s = sent_at_s + CATCHES_UP_S
        self.observed, self.observed_at_s = lease, sent_at_s
        self.held_until_s = sent_at_s + self.timing.renew_s

    def lose(self) -> None:
        """We do not lead any more."""
        self.held_until_s = None

    def leads(self, now_s: float, margin_s: float = 0.0) -> bool:
        """True if we lead now and for ``margin_s`` more."""
        return self.held_until_s is not None and now_s + margin_s < self.held_until_s

    def acts(self, now_s: float, margin_s: float = 0.0) -> bool:
        """The same, and what this process knows is not older than its term."""
        return self.leads(now_s, margin_s) and now_s >= self.acts_from_s

    def released(self, wall_s: float) -> LeaseSpec:
        """The spec that lets another process take the Lease at once."""
        old = self.observed.spec if self.observed else LeaseSpec()
        return msgspec.structs.replace(
            old,
            holder_identity="",
            lease_duration_seconds=RELEASED_DURATION_S,
            renew_time=format_micros(wall_s),
        )
