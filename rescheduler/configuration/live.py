"""The configuration in force in a running process: what is taken of a newer document, and what is not.

A bad document never replaces a good one; of a good one everything is taken but the keys that are read at the start
only. Each version of the document is looked at once. Pure but for the source, which is handed in and must not block.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from rescheduler.configuration.document import KIND, Configuration, parse_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.configuration.start_only import WaitingChange, waiting_changes, without
from rescheduler.errors import ReschedulerError
from rescheduler.model.names import API_VERSION

CAREFUL = "careful"
"""The version in force where there has been no document since the start of the process."""
_GONE = "gone"
_CAREFUL_DOCUMENT = f"apiVersion: {API_VERSION}\nkind: {KIND}\naggressiveness: 0\npolicies: []\n"


@dataclass(frozen=True)
class ConfigurationText:
    """One version of a document."""

    content: bytes
    origin: str
    """What error messages call it: a file or a key of a ConfigMap."""

    @cached_property
    def version(self) -> str:
        """Digest of the content."""
        return hashlib.sha256(self.content).hexdigest()[:12]


class ConfigurationSource(Protocol):
    """Where the document comes from."""

    def read(self) -> ConfigurationText | None:
        """The newest version that is known, without waiting; None if there is no document.

        Raises:
            UnreadableConfigurationError: there may be one, and it cannot be read.
        """
        ...


class UnreadableConfigurationError(ReschedulerError):
    """The place where the document should be cannot be read; its administrator must act."""


class ReloadOutcome(enum.StrEnum):
    """What became of a look at the source that brought something new; also a label of metrics."""

    TAKEN = "taken"
    REFUSED = "refused"
    """The newest document is bad: the last good one stays in force."""
    MISSING = "missing"
    """It was deleted: the last good one stays in force."""
    UNREADABLE = "unreadable"
    """It is not known whether there is a newer one: the last good one stays in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """What a look at the source brought."""

    outcome: ReloadOutcome
    version: str
    """Of the newest document."""
    waiting: tuple[WaitingChange, ...] = ()
    """TAKEN: what of it waits for a restart."""
    problem: str = ""
    """What is wrong, in words; empty: TAKEN."""


class LiveConfiguration:
    """The configuration in force. Used by the core thread only."""

    def __init__(self, source: ConfigurationSource) -> None:
        self._source = source
        self._looked_at = ""
        self._unreadable = ""
        self._problem = ""
        self._decide: Callable[[Configuration], Configuration] = lambda configuration: configuration
        self.version = CAREFUL
        """Of the document in force."""
        self.origin = ""
        """Where it is from."""
        self.current = careful_configuration()
        """The configuration in force; another object after each change."""

    def start(self) -> None:
        """First reading.

        Raises:
            ConfigurationError: the first version is bad: there is no good one to stay with.
            UnreadableConfigurationError: the source cannot be read.
        """
        text = self._source.read()
        self.current = self._decide(_parsed(text) if text else careful_configuration())
        self.version = text.version if text else CAREFUL
        self.origin = text.origin if text else ""
        self._looked_at = _version(text)

    @property
    def careful(self) -> bool:
        """True while there has been no document since the start."""
        return self.version == CAREFUL

    @property
    def problem(self) -> str:
        """Why the newest document is not in force; "": it is."""
        return self._unreadable or self._problem

    def decide(self, decide: Callable[[Configuration], Configuration]) -> None:
        """From now on every configuration is what ``decide`` makes of it in this cluster, the one in force included.

        Raises:
            ConfigurationError: ``decide`` refuses the one in force.
        """
        self.current = decide(self.current)
        self._decide = decide

    def reload(self) -> Reload | None:
        """Look for a newer version; None if nothing new was seen, also of what is wrong."""
        try:
            text = self._source.read()
        except UnreadableConfigurationError as error:
            return self._failed_to_read(str(error))
        self._unreadable = ""
        version = _version(text)
        if version == self._looked_at:
            return None
        self._looked_at = version
        if text is None:
            problem = "it, or its key config.yaml, was deleted: create it again (kubectl apply -k manifests/), or put an empty document there"
            self._problem = problem
            return Reload(outcome=ReloadOutcome.MISSING, version=self.version, problem=problem)
        try:
            waiting = self._take(_parsed(text))
        except ConfigurationError as error:
            self._problem = str(error)
            return Reload(outcome=ReloadOutcome.REFUSED, version=version, problem=str(error))
        self._problem = ""
        self.version, self.origin = version, text.origin
        return Reload(outcome=ReloadOutcome.TAKEN, version=version, waiting=waiting)

    def _take(self, newest: Configuration) -> tuple[WaitingChange, ...]:
        # Compared as decided: to name the engine that discovery chose anyway is no change. Decided again after the
        # running values are back: what follows from the engine must follow from the one that runs.
        waiting = waiting_changes(self.current, self._decide(newest))
        self.current = self._decide(without(newest, waiting))
        return waiting

    def _failed_to_read(self, problem: str) -> Reload | None:
        if problem == self._unreadable:
            return None
        self._unreadable = problem
        return Reload(outcome=ReloadOutcome.UNREADABLE, version=self.version, problem=problem)


def careful_configuration() -> Configuration:
    """What holds without a document: no policies, and the lowest limits for moves that people ask for.

    It may have been deleted by accident, with limits and protections that nobody wanted to lift.
    """
    return parse_configuration(_CAREFUL_DOCUMENT, "the careful configuration")


def _version(text: ConfigurationText | None) -> str:
    return text.version if text else _GONE


def _parsed(text: ConfigurationText) -> Configuration:
    return parse_configuration(text.content, text.origin)
