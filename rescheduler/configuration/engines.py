"""Which engine holds capacity in this cluster: what the document chooses and what the API server serves, decided once."""

from __future__ import annotations

import dataclasses

import msgspec

from rescheduler.configuration.document import Configuration
from rescheduler.configuration.problems import ConfigurationError, Problem
from rescheduler.model.names import KOORDINATOR_API_VERSION, KOORDINATOR_SCHEDULER
from rescheduler.reservations.settings import EngineChoice


def with_engine(configuration: Configuration, *, koordinator_served: bool) -> Configuration:
    """The configuration with its engine decided: no longer Auto. What is decided stays when it is asked again.

    With Koordinator its scheduler's pods are planned for by the configured profile as well: its own scheduler has the
    last word on every Reservation, and Reservations come before evictions.

    Raises:
        ConfigurationError: it demands Koordinator, and the cluster does not have it.
    """
    choice = configuration.reservations.engine
    if choice is EngineChoice.KOORDINATOR and not koordinator_served:
        remedy = "install Koordinator, or use engine: Auto"
        message = f"the cluster does not serve reservations of {KOORDINATOR_API_VERSION}"
        raise ConfigurationError([Problem("configuration", 0, "reservations.engine", message, remedy)])
    koordinator = koordinator_served and choice is not EngineChoice.PLACEHOLDER
    engine = EngineChoice.KOORDINATOR if koordinator else EngineChoice.PLACEHOLDER
    profile = configuration.profile
    if koordinator:
        profile = dataclasses.replace(profile, stands_for=frozenset({KOORDINATOR_SCHEDULER}))
    return msgspec.structs.replace(
        configuration,
        reservations=msgspec.structs.replace(configuration.reservations, engine=engine),
        profile=profile,
    )
