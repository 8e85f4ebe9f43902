"""The webhook as a whole: server, caches and keeper, put together.

``rescheduler run`` starts one in every replica where the cluster has no MutatingAdmissionPolicy. Its effect
is that of ``manifests/base/gate.yaml`` and ``hint.yaml``; what it costs and when it is in force: docs/gate.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from rescheduler.kube.client import KubeApi
from rescheduler.kube.transport import Transport
from rescheduler.model.names import AVOID_CONFIG_MAP, GATE_CONFIG_MAP
from rescheduler.webhook.conditions import MOST_KEYS
from rescheduler.webhook.configuration import (
    GATE_PATH,
    HINT_PATH,
    SERVICE_NAME,
    Address,
    WebhookConfiguration,
)
from rescheduler.webhook.keeper import Keeper, Kept
from rescheduler.webhook.review import Purpose, answer, controller_keys, gate_keys, hold, steer
from rescheduler.webhook.secret import CertificateStore
from rescheduler.webhook.server import WebhookServer
from rescheduler.webhook.watched import WatchedConfigMap


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """``namespace``: the controller's own. ``url``: where API servers reach us if not through the Service."""

    namespace: str
    port: int
    url: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """What the certificate must name."""
        service = f"{SERVICE_NAME}.{self.namespace}.svc"
        own = urlsplit(self.url).hostname if self.url else None
        return (service, f"{service}.cluster.local", *((own,) if own else ()))


class Webhook:
    """Serves from ``start`` to ``stop``. ``leads``: whether this replica keeps the configuration."""

    def __init__(
        self,
        transport: Transport,
        settings: WebhookSettings,
        leads: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises OSError if the port is taken."""
        api = KubeApi(transport)
        self._live = WatchedConfigMap(transport, settings.namespace, GATE_CONFIG_MAP, changed=self._changed)
        self._avoid = WatchedConfigMap(transport, settings.namespace, AVOID_CONFIG_MAP, changed=self._changed)
        self._server = WebhookServer(
            port=settings.port,
            routes={
                GATE_PATH: partial(answer, purpose=Purpose(gate_keys, self._reservation_of, hold)),
                HINT_PATH: partial(answer, purpose=Purpose(controller_keys, self._hosts_of, steer)),
            },
        )
        self._keeper = Keeper(
            Kept(
                store=CertificateStore(api, settings.namespace),
                configuration=WebhookConfiguration(api),
                server=self._server,
                address=Address(settings.namespace, settings.url),
                hosts=settings.hosts,
                leads=leads,
                live=lambda: self._live.data if self._live.known else None,
                avoid=lambda: self._avoid.data if self._avoid.known else None,
                clock=clock,
            )
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    @property
    def in_force(self) -> bool:
        """True on the leader once the API servers were told where to call and whom to trust."""
        return self._keeper.in_force

    def start(self) -> None:
        """Begin to serve and to keep certificates and configuration current."""
        self._server.start()
        self._live.start()
        self._avoid.start()
        self._keeper.start()

    def stop(self) -> None:
        """Stop serving: from now on calls are refused, and pods are created unchanged."""
        self._keeper.stop()
        self._live.stop()
        self._avoid.stop()
        self._server.stop()

    def _changed(self) -> None:
        self._keeper.wake()

    def _reservation_of(self, keys: tuple[str, ...]) -> str:
        """A pod that we do not know was switched on just now: the leader's conditions let it through."""
        live = self._live.data
        found = _first(live, keys)
        selective = len(live) <= MOST_KEYS
        return found or (_first(self._live.fresh(), keys) if selective else "")

    def _hosts_of(self, keys: tuple[str, ...]) -> str:
        return _first(self._avoid.data, keys)


def _first(data: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((data[key] for key in keys if key in data), "")
