"""The configuration by which the controller of a live cluster acts, for commands that say beforehand what it will do."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from rescheduler.cli.configuration_input import load_configuration
from rescheduler.cli.controller_presence import Leader, Presence, leader, need_controller
from rescheduler.cli.controller_readiness import hindrances
from rescheduler.cli.output import warn
from rescheduler.configuration.document import Configuration, default_configuration, parse_configuration
from rescheduler.configuration.live import careful_configuration
from rescheduler.configuration.problems import ConfigurationError
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.errors import ForbiddenError
from rescheduler.model.names import CONFIG_KEY, CONFIG_MAP


class ReadConfiguration(NamedTuple):
    """A configuration and from where it is."""

    configuration: Configuration
    warning: str = ""
    """Why it may not be the one that the controller has; empty: it is that one."""
    source: str = ""
    """Where it is from, for people."""
    missing: bool = False
    """There is no document."""


def controller_configuration(api: KubeApi, namespace: str) -> ReadConfiguration:
    """What ConfigMap ``rescheduler`` says. Raises ApiError and TransportError for other reasons than a missing right.

    The controller stays with the last good version of a bad document, which nobody else knows: then it is the default one.
    """
    where = f"ConfigMap {namespace}/{CONFIG_MAP}"
    built_in = f"the built-in default, instead of {where}"
    try:
        text = read_config_map(api, namespace, CONFIG_MAP).data.get(CONFIG_KEY)
    except ForbiddenError as error:
        return ReadConfiguration(
            default_configuration(),
            f"{where} may not be read, the default is taken: {error.message}",
            built_in,
        )
    if text is None:
        return ReadConfiguration(
            careful_configuration(), source=f"there is no {where}: no policies", missing=True
        )
    try:
        return ReadConfiguration(parse_configuration(text, where), source=where)
    except ConfigurationError as error:
        return ReadConfiguration(
            default_configuration(),
            f"{where} is refused by the controller, the default is taken: {error}",
            built_in,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveController:
    """The controller of a live cluster, as far as a command can know it: who leads, and what it goes by."""

    api: KubeApi
    namespace: str
    leader: Leader
    read: ReadConfiguration

    @property
    def configuration(self) -> Configuration:
        """What it goes by."""
        return self.read.configuration

    def need(self) -> None:
        """Refuse to ask it for something that nobody would do. Raises CommandError."""
        need_controller(self.leader, self.namespace, elects=self.configuration.leader_election.enabled)

    def told_configuration(self) -> Configuration:
        """What it goes by, for a command that acts on it; what may be wrong with it is told."""
        if self.read.warning:
            warn(self.read.warning)
        return self.configuration

    def warnings(self) -> tuple[str, ...]:
        """What may be wrong with its configuration, and what keeps it from doing anything. Asks the API server."""
        wrong = (self.read.warning,) if self.read.warning else ()
        return (*wrong, *hindrances(self.api, self.leader, self.namespace, self.configuration))


def live_controller(api: KubeApi, namespace: str, path: str | None) -> LiveController:
    """The one whose Lease is in ``namespace``; ``path``: a file with another configuration. Raises ApiError, TransportError."""
    found = leader(api, namespace, now_s=time.time, pause=time.sleep)
    return LiveController(
        api=api, namespace=namespace, leader=found, read=_configuration_of(api, namespace, path, found)
    )


def _configuration_of(api: KubeApi, namespace: str, path: str | None, found: Leader) -> ReadConfiguration:
    """That of the controller, unless a file is named; the built-in default where there is neither a controller nor a ConfigMap.

    A controller that was started with a file has no ConfigMap: whoever asks names the file, too.
    """
    if path is not None:
        return ReadConfiguration(load_configuration(path), source=path)
    read = controller_configuration(api, namespace)
    if found.presence is Presence.ABSENT and read.missing:
        return ReadConfiguration(
            default_configuration(), source="the built-in default: no controller has led here"
        )
    return read
