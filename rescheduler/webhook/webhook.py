"""The webhook as a whole: server, informers and reconciler, put together.

``rescheduler run`` starts one in every replica where the cluster has no MutatingAdmissionPolicy. Its effect
is that of ``manifests/base/gate.yaml`` and ``hint.yaml``; what it costs and when it is in force: docs/gate.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import structlog

from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_maps import ConfigMapInformer, StoredConfigMap, read_config_map
from rescheduler.kube.errors import ApiError
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Transport, TransportError
from rescheduler.model.names import AVOID_CONFIG_MAP, GATE_CONFIG_MAP
from rescheduler.webhook.https_server import WebhookServer
from rescheduler.webhook.match_conditions import MOST_KEYS
from rescheduler.webhook.reconciler import WebhookParts, WebhookReconciler
from rescheduler.webhook.registration import (
    GATE_PATH,
    HINT_PATH,
    WebhookConfiguration,
    WebhookSettings,
)
from rescheduler.webhook.review import Purpose, answer, gate_keys, hint_keys, hold, steer
from rescheduler.webhook.secret import CertificateStore

_LOOK_LIMIT_S: Final = 0.4
"""For reading the gate keys during a review, which has a second in all."""


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
        self._gate_keys = ConfigMapInformer(
            transport, settings.namespace, GATE_CONFIG_MAP, changed=self._changed
        )
        self._avoid_nodes = ConfigMapInformer(
            transport, settings.namespace, AVOID_CONFIG_MAP, changed=self._changed
        )
        self._impatient = KubeApi(transport, NO_RETRY, timeout_s=_LOOK_LIMIT_S)
        self._namespace = settings.namespace
        self._log = structlog.get_logger("rescheduler.webhook")
        held = partial(gate_keys, own=settings.namespace)
        self._server = WebhookServer(
            port=settings.port,
            routes={
                GATE_PATH: partial(answer, purpose=Purpose(held, self._reservation_of, hold)),
                HINT_PATH: partial(answer, purpose=Purpose(hint_keys, self._hosts_of, steer)),
            },
        )
        self._reconciler = WebhookReconciler(
            WebhookParts(
                store=CertificateStore(api, settings.namespace),
                configuration=WebhookConfiguration(api),
                server=self._server,
                settings=settings,
                leads=leads,
                gate_keys=lambda: self._gate_keys.data,
                avoid_nodes=lambda: self._avoid_nodes.data,
                clock=clock,
            )
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    @property
    def in_force(self) -> bool:
        """True on the leader once address and authorities are in the MutatingWebhookConfiguration."""
        return self._reconciler.in_force

    def start(self) -> None:
        """Begin to serve and to keep certificates and configuration current."""
        self._server.start()
        self._gate_keys.start()
        self._avoid_nodes.start()
        self._reconciler.start()

    def stop(self) -> None:
        """Stop serving: from now on calls are refused, and pods are created unchanged."""
        self._reconciler.stop()
        self._gate_keys.stop()
        self._avoid_nodes.stop()
        self._server.stop()

    def _changed(self) -> None:
        self._reconciler.wake()

    def _reservation_of(self, keys: tuple[str, ...], at_s: float) -> str:
        """The Reservation that a pod with one of these keys, created then, is held for; empty if it is not held.

        The API servers ask only about pods that the leader's conditions match. So a key that is not known here was
        switched on a moment ago, and the ConfigMap is read once. With more keys than conditions can list they ask
        about every pod, and most are none of ours: then what is known must do.
        """
        known = self._gate_keys.stored
        found = _held_for(known, keys, at_s)
        if found or len(known.data) > MOST_KEYS:
            return found
        return _held_for(self._read_gate_keys(), keys, at_s)

    def _read_gate_keys(self) -> StoredConfigMap:
        try:
            return read_config_map(self._impatient, self._namespace, GATE_CONFIG_MAP)
        except (ApiError, TransportError) as error:
            self._log.info("The gate keys could not be read during a review", error=str(error))
            return StoredConfigMap()

    def _hosts_of(self, keys: tuple[str, ...], _at_s: float) -> str:
        return _first(self._avoid_nodes.data or {}, keys)


def _held_for(stored: StoredConfigMap, keys: tuple[str, ...], at_s: float) -> str:
    return _first(stored.data, keys) if at_s < stored.valid_until_s else ""


def _first(data: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((data[key] for key in keys if key in data), "")
