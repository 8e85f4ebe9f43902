"""What the rounds take of the configuration: values, which ``controller.assembly`` makes, and which of them are in force after a pause."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

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


_PAUSE_S: Final = 30.0
"""Rounds follow one another faster, also where nothing happens."""
_AFTER_S: Final = 15.0
"""So long the pods that were gated meanwhile may wait after a pause, ..."""
_TIMES: Final = 10
"""... if they are not older than so many times the limit."""


@dataclass(slots=True)
class SettingsInForce:
    """The settings of a round. Right after a pause of the rounds the gate limit is longer.

    While no controller acted, nobody could give the pods at the gate their rooms, which are still held. So they are handed over, not
    released because of their age. Slow rounds, or a controller that crashes again and again, hold no pod for ever.
    """

    until_s: float = -math.inf
    """Until then the limit is longer."""
    _last_s: float = -math.inf
    _paused_s: float = -math.inf

    def at(self, configured: Settings, now_s: float) -> Settings:
        """Those of the round at this time, a later one than those before."""
        limit_s = configured.reservations.gate_limit_s
        if now_s > self._last_s + _PAUSE_S and now_s > self._paused_s + limit_s:
            self._paused_s, self.until_s = now_s, now_s + _AFTER_S
        self._last_s = now_s
        if now_s >= self.until_s:
            return configured
        patient = msgspec.structs.replace(configured.reservations, gate_limit_s=_TIMES * limit_s)
        return replace(configured, migrations=replace(configured.migrations, reservations=patient))
