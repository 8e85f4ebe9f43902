"""The configuration by which the controller of a live cluster acts, for commands that say beforehand what it will do."""

from __future__ import annotations

from typing import NamedTuple

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


def controller_configuration(api: KubeApi, namespace: str) -> ReadConfiguration:
    """What ConfigMap ``rescheduler`` says. Raises ApiError and TransportError for other reasons than a missing right.

    The controller stays with the last good version of a bad document, which nobody else knows: then it is the default one.
    """
    where = f"ConfigMap {namespace}/{CONFIG_MAP}"
    try:
        text = read_config_map(api, namespace, CONFIG_MAP).data.get(CONFIG_KEY)
    except ForbiddenError as error:
        return ReadConfiguration(
            default_configuration(), f"{where} may not be read, the default is taken: {error.message}"
        )
    if text is None:
        return ReadConfiguration(careful_configuration())
    try:
        return ReadConfiguration(parse_configuration(text, where))
    except ConfigurationError as error:
        return ReadConfiguration(
            default_configuration(), f"{where} is refused by the controller, the default is taken: {error}"
        )
