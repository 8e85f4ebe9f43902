"""What the rounds take of the configuration. Values only; ``controller.assembly`` makes them."""

from __future__ import annotations

from dataclasses import dataclass, field

from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.planning.limits import Limits
from rescheduler.policies.keeping_empty import KeepingRule
from rescheduler.reservations.settings import ReservationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Both machines' settings, the limits of moves, and what becomes of emptied nodes."""

    migrations: MigrationSettings = field(default_factory=MigrationSettings)
    limits: Limits = field(default_factory=Limits)
    keeping: tuple[KeepingRule, ...] = ()
    """Which nodes that are emptied are kept so."""

    @property
    def reservations(self) -> ReservationSettings:
        """The Reservation machine's."""
        return self.migrations.reservations
