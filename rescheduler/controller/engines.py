"""Which engine holds rooms in this cluster: the configuration and what the server has, decided once per reading.

Auto takes Koordinator for its own scheduler's pods where its Reservations are served, placeholders for all others.
"""

from __future__ import annotations

import dataclasses

import msgspec

from rescheduler.config import Configuration, ConfigurationError, Problem
from rescheduler.config_rooms import Engine
from rescheduler.kube.discovery import Capabilities
from rescheduler.model.names import KOORDINATOR_API_VERSION, KOORDINATOR_SCHEDULER


def in_force(configuration: Configuration, capabilities: Capabilities) -> Configuration:
    """The configuration with its engine decided.

    With Koordinator its scheduler's pods are planned for by the configured profile as well: its own scheduler has the
    last word on every room, and rooms come before evictions.

    Raises:
        ConfigurationError: it demands Koordinator, and the cluster does not have it.
    """
    wanted, there = configuration.reservations.engine, capabilities.koordinator_reservations
    if wanted is Engine.KOORDINATOR and not there:
        remedy = "install Koordinator, or use engine: Auto"
        message = f"the cluster does not serve reservations of {KOORDINATOR_API_VERSION}"
        raise ConfigurationError([Problem("configuration", 0, "reservations.engine", message, remedy)])
    engine = Engine.KOORDINATOR if there and wanted is not Engine.PLACEHOLDER else Engine.PLACEHOLDER
    profile = configuration.profile
    if engine is Engine.KOORDINATOR:
        profile = dataclasses.replace(profile, stands_for=frozenset({KOORDINATOR_SCHEDULER}))
    return dataclasses.replace(
        configuration,
        reservations=msgspec.structs.replace(configuration.reservations, engine=engine),
        profile=profile,
    )
