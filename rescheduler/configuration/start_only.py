"""Keys that a process reads at its start and never again: each of them holds something open, or names what exists.

A Lease, a port and a webhook are taken once. The placeholders, gate keys and Lease of a running controller live in the
namespace where they were made: with another name of it their Reservations would be found without placeholders and
fail. So a changed value waits for a restart, is told to people, and everything else of its document is taken.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rescheduler.configuration.document import Configuration

START_ONLY: Final = (
    "reservations.engine",
    "reservations.namespace",
    "gate.mode",
    "gate.port",
    "gate.url",
    "guard.enabled",
    "leaderElection.enabled",
    "server.port",
    "server.page",
)
"""The whole list; every other key is taken while the process runs."""


@dataclass(frozen=True, slots=True)
class WaitingChange:
    """A value of a newer document that is not taken before the next start."""

    key: str
    running: object
    """The value in force."""
    configured: object
    """The value of the newest document."""

    def __str__(self) -> str:
        running, configured = _shown(self.running), _shown(self.configured)
        return f"{self.key} changes at a restart only: {running} stays in force until then, not {configured}"


def waiting_changes(running: Configuration, newest: Configuration) -> tuple[WaitingChange, ...]:
    """What of ``newest`` has to wait, both with their engine decided."""
    values = ((key, value_of(running, key), value_of(newest, key)) for key in START_ONLY)
    return tuple(WaitingChange(key, old, new) for key, old, new in values if old != new)


def without(newest: Configuration, waiting: tuple[WaitingChange, ...]) -> Configuration:
    """``newest`` with the running values of what has to wait."""
    for change in waiting:
        section, field = _fields(change.key)
        values = msgspec.structs.replace(getattr(newest, section), **{field: change.running})
        newest = msgspec.structs.replace(newest, **{section: values})
    return newest


def value_of(configuration: Configuration, key: str) -> Any:
    """The value of a dotted key of START_ONLY: fields of a Configuration are named like the keys of a document."""
    return functools.reduce(getattr, _fields(key), configuration)


def _fields(key: str) -> tuple[str, str]:
    section, _, field = key.partition(".")
    return _snake_case(section), _snake_case(field)


def _snake_case(key: str) -> str:
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key)


def _shown(value: object) -> str:
    """As it is written in a document."""
    return str(value).lower() if isinstance(value, bool) else str(value) or "''"
