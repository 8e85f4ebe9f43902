"""Reconciles what the API servers must know: certificates (every replica), MutatingWebhookConfiguration (the leader).

Level-triggered: each pass compares what should be with what is. It may be late, never wrong: nothing is
evicted before a dry-run creation has proven that the gate is in force.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from rescheduler.kube.errors import ApiError, ConflictError
from rescheduler.kube.transport import TransportError
from rescheduler.webhook.certificates import Material, renewed
from rescheduler.webhook.registration import MutatingWebhook, WebhookConfiguration, WebhookSettings, webhooks
from rescheduler.webhook.secret import CertificateStore

CERTIFICATES_EVERY_S: Final = 60.0
CONFIGURATION_EVERY_S: Final = 30.0
RETRY_S: Final = 1.0
REMEDY: Final = "apply manifests/components/webhook"


class Serving(Protocol):
    """The server that presents the certificate."""

    def use(self, certificate: bytes, key: bytes) -> None:
        """Serve with it from now on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookParts:
    """What the reconciler reads and writes."""

    store: CertificateStore
    """The Secret with the certificates, shared by all replicas."""
    configuration: WebhookConfiguration
    """The MutatingWebhookConfiguration."""
    server: Serving
    settings: WebhookSettings
    leads: Callable[[], bool]
    """Only the leader writes the MutatingWebhookConfiguration."""
    gate_keys: Callable[[], Mapping[str, str] | None]
    """Keys of pods that are held; None: not read yet."""
    avoid_nodes: Callable[[], Mapping[str, str] | None]
    """Uids of controllers whose pods get a hint; None: not read yet."""
    clock: Callable[[], float] = time.time
    """Seconds since the epoch: certificates are checked against it."""


class WebhookReconciler:
    """One thread. ``wake`` makes it reconcile at once; ``step`` is one pass."""

    def __init__(self, parts: WebhookParts) -> None:
        self._parts = parts
        self._material: Material | None = None
        self._written: tuple[MutatingWebhook, ...] | None = None
        self._certificates_due_s = 0.0
        self._configuration_due_s = 0.0
        self._problem = ""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhook-reconciler", daemon=True)
        self._log = structlog.get_logger("rescheduler.webhook")

    @property
    def in_force(self) -> bool:
        """The certificate and the match conditions were written, and the last pass met no error."""
        return self._material is not None and self._written is not None and not self._problem

    @property
    def problem(self) -> str:
        """The error of the last pass; empty if there was none."""
        return self._problem

    def wake(self) -> None:
        """Reconcile at once. May be called by any thread."""
        self._wake.set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the pass that is under way. What is stored stays: other replicas may serve it."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(5.0)

    def step(self) -> float:
        """One pass; seconds until the next one is due."""
        try:
            self._reconcile_certificates()
            if self._material is not None:
                self._reconcile_configuration(self._material)
        except ConflictError:
            self._certificates_due_s = 0.0  # another replica was faster: read what it wrote
            return 0.0
        except (ApiError, TransportError) as error:
            self._tell(str(error))
            return RETRY_S
        self._tell("")
        now_s = self._parts.clock()
        return max(0.0, min(self._certificates_due_s, self._configuration_due_s) - now_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            wait_s = self.step()
            if not self._stopping.is_set():
                self._wake.wait(wait_s)
            self._wake.clear()

    def _reconcile_certificates(self) -> None:
        parts, now_s = self._parts, self._parts.clock()
        if now_s < self._certificates_due_s:
            return
        stored = parts.store.read()
        material = renewed(stored.material, parts.settings.hosts, now_s)
        if material != stored.material:
            parts.store.write(material, stored.resource_version)
            self._log.info("The webhook's certificates were renewed")
        if material != self._material:
            parts.server.use(material.certificate, material.key)
            self._material = material
        self._certificates_due_s = now_s + CERTIFICATES_EVERY_S

    def _reconcile_configuration(self, material: Material) -> None:
        """Done by the leader; another replica forgets what it once wrote."""
        parts, now_s = self._parts, self._parts.clock()
        gate_keys, avoid_nodes = parts.gate_keys(), parts.avoid_nodes()
        if gate_keys is None or avoid_nodes is None or not parts.leads():
            self._written = None
            self._configuration_due_s = (
                now_s + CONFIGURATION_EVERY_S if gate_keys is None else now_s + RETRY_S
            )
            return
        wanted = webhooks(parts.settings, material.bundle, gate_keys, avoid_nodes)
        if wanted != self._written or now_s >= self._configuration_due_s:
            known, self._written = self._written is not None, None  # unknown until this has gone well
            changed = known and now_s < self._configuration_due_s  # no need to look: it is what we wrote
            if changed or not parts.configuration.holds(wanted):
                parts.configuration.write(wanted)
            self._written = wanted
            if not changed:
                self._configuration_due_s = now_s + CONFIGURATION_EVERY_S

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            self._log.warning(
                "The webhook's certificates or its MutatingWebhookConfiguration cannot be updated",
                error=problem,
                remedy=REMEDY,
            )
        elif self._problem and not problem:
            self._log.info(
                "The webhook's certificates and its MutatingWebhookConfiguration are up to date again"
            )
        self._problem = problem
