"""What a controller reads before it begins: its configuration, and which server it talks to.

In a Pod it waits for an API server that is away or only starts: a container that ends is started again later and later, so the
controller would be away for minutes after the server is back, and pods at the gate would wait as long.
"""

from __future__ import annotations

import threading
import time
from typing import Final

import structlog

from rescheduler.configuration.live import LiveConfiguration
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import Capabilities, discover
from rescheduler.kube.errors import AccessError, TryLaterError
from rescheduler.kube.transport import TransportError

_ASK_AGAIN_S: Final = 2.0


def first_look(
    configuration: LiveConfiguration, api: KubeApi, stop: threading.Event, *, patience_s: float
) -> Capabilities | None:
    """Start the configuration, and ask what is served; None: ``stop`` was set before there was an answer.

    ``patience_s``: for so long an answer is waited for. A 401 or 403 counts as none: a server that starts gives
    it until it has read the roles, and every server for a token that is about to be renewed.

    Raises:
        ConfigurationError, UnreadableConfigurationError, ApiError, TransportError: it cannot begin.
    """
    ends_s = time.monotonic() + patience_s
    while True:
        try:
            configuration.start()
            return discover(api)
        except (AccessError, TryLaterError, TransportError) as error:
            if time.monotonic() >= ends_s:
                raise
            structlog.get_logger("rescheduler.controller").warning(
                "The API server is waited for", error=str(error)
            )
        if stop.wait(_ASK_AGAIN_S):
            return None
