"""Chooses what adds the gate to new pods: the admission policies, or the controller's own webhook, which also serves the guard.

Chosen once at the start, by discovery unless ``gate.mode`` says otherwise. Both read the same ConfigMaps, and both are
proven in the same way before an eviction (``kube.gate``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from rescheduler.configuration.process_sections import GateMode
from rescheduler.controller.loop import Loop
from rescheduler.controller.server import listening
from rescheduler.extras import Extra, needs
from rescheduler.guard.guard import Guard
from rescheduler.kube.api_servers import ApiServers
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import Capabilities
from rescheduler.kube.errors import ForbiddenError, NotFoundError
from rescheduler.kube.gate import Gate
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.transport import Transport
from rescheduler.model.decode import Record
from rescheduler.model.kinds import Kind
from rescheduler.model.records import ObjectKey
from rescheduler.model.selectors import LabelSelector
from rescheduler.webhook.registration import (
    ValidatingWebhook,
    WebhookConfiguration,
    WebhookSettings,
    guarding,
)

_COUNT_S: Final = 2.0
"""How long an answer about API servers is waited for: longer than that costs a move more than it saves."""


@dataclass(slots=True)
class LoopCaches:
    """What the loop has read, as the guard asks for it. The webhook listens before there is a loop: then nothing is known."""

    loop: Loop | None = None

    def look(self, kind: Kind, key: str | ObjectKey) -> Record | None:
        """One object as it was last seen."""
        return self.loop.look(kind, key) if self.loop is not None else None

    def all_of(self, kind: Kind) -> Sequence[Record]:
        """All objects of a kind."""
        return self.loop.all_of(kind) if self.loop is not None else ()

    def complete(self) -> bool:
        """Complete and up to date."""
        return self.loop is not None and self.loop.ready().ok


def by_webhook(mode: GateMode, capabilities: Capabilities) -> bool:
    """True if the webhook is to be served."""
    if mode is GateMode.AUTO:
        return not capabilities.mutating_admission_policies
    return mode is GateMode.WEBHOOK


def single_api_server(transport: Transport, mode: GateMode, capabilities: Capabilities) -> Callable[[], bool]:
    """A check whether a proof of the gate holds for the whole cluster. Of a webhook it never does: each replica reads the keys itself."""
    if by_webhook(mode, capabilities):
        return lambda: False
    return ApiServers(KubeApi(transport, NO_RETRY, timeout_s=_COUNT_S), time.monotonic).single


def installed_policy(gate: Gate, capabilities: Capabilities) -> Callable[[], bool]:
    """A check whether the policies are installed; always False if the cluster does not support them."""
    return lambda: capabilities.mutating_admission_policies and gate.installed()


def another_installation(api: KubeApi, namespace: str, capabilities: Capabilities) -> str:
    """The namespace of the controller that the policies are for, if it is not this one; "": it is, or that may not be known.

    Raises ApiError, TransportError.
    """
    if not capabilities.mutating_admission_policies:
        return ""
    try:
        return Gate(api, namespace).of_another()
    except ForbiddenError:
        return ""


def guard_installed(api: KubeApi) -> bool:
    """True where the manifests of the guard are. Raises ApiError, TransportError."""
    try:
        WebhookConfiguration(api, ValidatingWebhook).look()
    except (NotFoundError, ForbiddenError):
        return False
    return True


def served_webhook(
    stack: ExitStack,
    transport: Transport,
    settings: WebhookSettings,
    leads: Callable[[], bool],
    *,
    gate: bool,
    guard: Guard | None,
    namespaces: Callable[[], LabelSelector],
) -> Callable[[], bool]:
    """Start the webhook, to be stopped with ``stack``; returns a check whether its gate is in force.

    ``namespaces``: those that are guarded.

    Raises:
        MissingExtraError: the extra ``webhook`` is not installed.
        CannotListenError: the port is taken.
    """
    user = "the gate in clusters before 1.36 (gate.mode)" if gate else "the guard (guard.enabled)"
    with needs(Extra.WEBHOOK, f"the webhook, which serves {user}"):
        # An extra; it takes 8 MB of memory.
        from rescheduler.webhook.reconciler import Registration  # noqa: PLC0415
        from rescheduler.webhook.webhook import GateWebhook, Webhook  # noqa: PLC0415

    guarded = None
    if guard is not None:
        registration = Registration(
            WebhookConfiguration(KubeApi(transport), ValidatingWebhook),
            lambda bundle: guarding(settings, bundle, namespaces(), guard.own_user),
            "apply manifests/components/guard",
        )
        guarded = (guard.respond, registration)
    with listening("the webhook", port=settings.port, key="gate.port"):
        webhook = Webhook(
            transport,
            settings,
            leads,
            gate=GateWebhook(transport, settings) if gate else None,
            guard=guarded,
        )
    webhook.start()
    stack.callback(webhook.stop)
    return lambda: webhook.in_force
