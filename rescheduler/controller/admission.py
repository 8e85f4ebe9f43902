"""How replacements come to be held at their creation in this cluster: by the policies, or by our own webhook.

Chosen once at the start, by discovery unless the configuration says otherwise. Both ways read the same
ConfigMaps, and the same proof is asked of both before an eviction (``controller.gating``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from rescheduler.config import GateDefaults, GateMode
from rescheduler.kube.discovery import Capabilities
from rescheduler.kube.gate import Gate
from rescheduler.kube.transport import Transport


def by_webhook(mode: GateMode, capabilities: Capabilities) -> bool:
    """Whether the webhook is needed."""
    if mode is GateMode.AUTO:
        return not capabilities.mutating_admission_policies
    return mode is GateMode.WEBHOOK


def installed_policy(gate: Gate, capabilities: Capabilities) -> Callable[[], bool]:
    """Asks whether the policies are there, in a cluster that can have them."""
    return lambda: capabilities.mutating_admission_policies and gate.installed()


def served_webhook(
    stack: ExitStack,
    transport: Transport,
    gate: Gate,
    *,
    defaults: GateDefaults,
    leads: Callable[[], bool],
) -> Callable[[], bool]:
    """Starts the webhook, to be stopped with ``stack``; asks whether it is in force. Raises OSError."""
    from rescheduler.webhook.webhook import Webhook, WebhookSettings  # noqa: PLC0415 - cryptography takes 8 MB

    settings = WebhookSettings(namespace=gate.namespace, port=defaults.port, url=defaults.url)
    webhook = Webhook(transport, settings, leads)
    webhook.start()
    stack.callback(webhook.stop)
    return lambda: webhook.in_force
