"""The webhook as a whole: server, informers and reconciler, put together.

``rescheduler run`` starts one in every replica where the cluster has no MutatingAdmissionPolicy, or where the guard is
installed. The effect of the gate is that of ``manifests/base/gate.yaml`` and ``hint.yaml``; what it costs: docs/gate.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import structlog

from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_map_informer import ConfigMapInformer
from rescheduler.kube.config_maps import read_config_map
from rescheduler.kube.errors import ApiError
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Transport, TransportError
from rescheduler.model.config_map import MISSING, ConfigMap
from rescheduler.model.names import AVOID_CONFIG_MAP, GATE_CONFIG_MAP
from rescheduler.webhook.https_server import Respond, WebhookServer
from rescheduler.webhook.match_conditions import MOST_KEYS
from rescheduler.webhook.reconciler import Registration, WebhookReconciler
from rescheduler.webhook.registration import (
    GATE_PATH,
    GUARD_PATH,
    HINT_PATH,
    MutatingWebhook,
    WebhookConfiguration,
    WebhookSettings,
    webhooks,
)
from rescheduler.webhook.review import Purpose, answer, gate_keys, hint_keys, hold, steer
from rescheduler.webhook.secret import CertificateStore

_LOOK_LIMIT_S: Final = 0.4
"""For reading the gate keys during a review, which has a second in all."""


class GateWebhook:
    """Gate and hint as webhooks: two routes, the ConfigMaps behind them, and how API servers learn of them."""

    def __init__(self, transport: Transport, settings: WebhookSettings) -> None:
        self.changed: Callable[[], None] = lambda: None
        """Called when one of the ConfigMaps has changed."""
        self._settings = settings
        self._gate_keys, self._avoid_nodes = (
            ConfigMapInformer(transport, settings.namespace, name, changed=self._tell)
            for name in (GATE_CONFIG_MAP, AVOID_CONFIG_MAP)
        )
        self._impatient = KubeApi(transport, NO_RETRY, timeout_s=_LOOK_LIMIT_S)
        self._log = structlog.get_logger("rescheduler.webhook")
        self.registration = Registration(
            WebhookConfiguration(KubeApi(transport), MutatingWebhook),
            self._wanted,
            "apply manifests/components/webhook",
        )

    @property
    def routes(self) -> dict[str, Respond]:
        """What is answered."""
        held = partial(gate_keys, own=self._settings.namespace)
        return {
            GATE_PATH: partial(answer, purpose=Purpose(held, self._reservation_of, hold)),
            HINT_PATH: partial(answer, purpose=Purpose(hint_keys, self._hosts_of, steer)),
        }

    def start(self) -> None:
        """Follow the ConfigMaps."""
        self._gate_keys.start()
        self._avoid_nodes.start()

    def stop(self) -> None:
        """Follow them no more."""
        self._gate_keys.stop()
        self._avoid_nodes.stop()

    def _tell(self) -> None:
        self.changed()

    def _wanted(self, bundle: bytes) -> tuple[MutatingWebhook, ...] | None:
        keys, nodes = self._gate_keys.data, self._avoid_nodes.data
        return None if keys is None or nodes is None else webhooks(self._settings, bundle, keys, nodes)

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

    def _read_gate_keys(self) -> ConfigMap:
        try:
            return read_config_map(self._impatient, self._settings.namespace, GATE_CONFIG_MAP)
        except (ApiError, TransportError) as error:
            self._log.info("The gate keys could not be read during a review", error=str(error))
            return MISSING

    def _hosts_of(self, keys: tuple[str, ...], _at_s: float) -> str:
        return _first(self._avoid_nodes.data or {}, keys)


class Webhook:
    """Serves from ``start`` to ``stop``: the gate where the cluster has no policies for it, the guard where it is installed."""

    def __init__(
        self,
        transport: Transport,
        settings: WebhookSettings,
        leads: Callable[[], bool],
        clock: Callable[[], float] = time.time,
        *,
        gate: GateWebhook | None = None,
        guard: tuple[Respond, Registration] | None = None,
    ) -> None:
        """Raises OSError if the port is taken. ``leads``: whether this replica keeps the configurations."""
        self._gate = gate
        routes = gate.routes if gate is not None else {}
        registrations = [gate.registration] if gate is not None else []
        if guard is not None:
            routes[GUARD_PATH] = guard[0]
            registrations.append(guard[1])
        self._server = WebhookServer(port=settings.port, routes=routes)
        self._reconciler = WebhookReconciler(
            store=CertificateStore(KubeApi(transport), settings.namespace),
            server=self._server,
            settings=settings,
            leads=leads,
            registrations=tuple(registrations),
            clock=clock,
        )
        if gate is not None:
            gate.changed = self._reconciler.wake

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.port

    @property
    def in_force(self) -> bool:
        """Of the gate: true on the leader once address and authorities are in the MutatingWebhookConfiguration."""
        gate = self._gate
        return gate is not None and self._reconciler.serves and gate.registration.in_force

    def start(self) -> None:
        """Begin to serve and to keep certificates and configurations current."""
        self._server.start()
        if self._gate is not None:
            self._gate.start()
        self._reconciler.start()

    def stop(self) -> None:
        """Stop serving: from now on calls are refused; pods are created unchanged, and evictions go on."""
        self._reconciler.stop()
        if self._gate is not None:
            self._gate.stop()
        self._server.stop()


def _held_for(stored: ConfigMap, keys: tuple[str, ...], at_s: float) -> str:
    return _first(stored.data, keys) if at_s < stored.valid_until_s else ""


def _first(data: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((data[key] for key in keys if key in data), "")
