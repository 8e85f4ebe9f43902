"""Chooses what adds the gate to new pods: the admission policies, or the controller's own webhook.

Chosen once at the start, by discovery unless ``gate.mode`` says otherwise. Both read the same ConfigMaps, and both are
proven in the same way before an eviction (``kube.gate``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from rescheduler.configuration.process_sections import GateMode, GateSection
from rescheduler.controller.server import listening
from rescheduler.extras import Extra, needs
from rescheduler.kube.discovery import Capabilities
from rescheduler.kube.gate import Gate
from rescheduler.kube.transport import Transport


def by_webhook(mode: GateMode, capabilities: Capabilities) -> bool:
    """True if the webhook is to be served."""
    if mode is GateMode.AUTO:
        return not capabilities.mutating_admission_policies
    return mode is GateMode.WEBHOOK


def installed_policy(gate: Gate, capabilities: Capabilities) -> Callable[[], bool]:
    """A check whether the policies are installed; always False if the cluster does not support them."""
    return lambda: capabilities.mutating_admission_policies and gate.installed()


def served_webhook(
    stack: ExitStack,
    transport: Transport,
    gate: Gate,
    *,
    section: GateSection,
    leads: Callable[[], bool],
) -> Callable[[], bool]:
    """Start the webhook, to be stopped with ``stack``; returns a check whether it is in force.

    Raises:
        MissingExtraError: the extra ``webhook`` is not installed.
        CannotListenError: the port is taken.
    """
    with needs(Extra.WEBHOOK, "the webhook, which adds the gate in clusters before 1.36 (gate.mode)"):
        # An extra; it takes 8 MB of memory.
        from rescheduler.webhook.registration import WebhookSettings  # noqa: PLC0415
        from rescheduler.webhook.webhook import Webhook  # noqa: PLC0415

    settings = WebhookSettings(namespace=gate.namespace, port=section.port, url=section.url)
    with listening("the webhook", port=section.port, key="gate.port"):
        webhook = Webhook(transport, settings, leads)
    webhook.start()
    stack.callback(webhook.stop)
    return lambda: webhook.in_force
