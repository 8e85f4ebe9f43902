"""Keeps what the API servers must know current: certificates (every replica), configuration (the leader).

Level-triggered: each round compares what should be with what is. It may be late, never wrong: nothing is
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
from rescheduler.webhook.configuration import Address, Webhook, WebhookConfiguration, webhooks
from rescheduler.webhook.secret import CertificateStore

CERTIFICATES_EVERY_S: Final = 60.0
CONFIGURATION_EVERY_S: Final = 30.0
RETRY_S: Final = 1.0
REMEDY: Final = "apply manifests/components/webhook"


class Serving(Protocol):
    """Who presents the certificate."""

    def use(self, certificate: bytes, key: bytes) -> None:
        """Serve with it from now on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the keeper takes care of, and whom it asks. ``live``, ``avoid``: by controller uid; None: not known yet."""

    store: CertificateStore
    configuration: WebhookConfiguration
    server: Serving
    address: Address
    hosts: tuple[str, ...]
    leads: Callable[[], bool]
    live: Callable[[], Mapping[str, str] | None]
    avoid: Callable[[], Mapping[str, str] | None]
    clock: Callable[[], float] = time.time
    """Seconds since 1970: certificates are judged by it."""


class Keeper:
    """One thread. ``wake`` makes it look at once; ``step`` is one round."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._material: Material | None = None
        self._written: tuple[Webhook, ...] | None = None
        self._certificates_due_s = 0.0
        self._configuration_due_s = 0.0
        self._problem = ""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhook-keeper", daemon=True)
        self._log = structlog.get_logger("rescheduler.webhook")

    @property
    def in_force(self) -> bool:
        """As far as we know the API servers have our certificate and our conditions."""
        return self._material is not None and self._written is not None and not self._problem

    @property
    def problem(self) -> str:
        """What keeps it from being in force, in words; "" if nothing."""
        return self._problem

    def wake(self) -> None:
        """Something has changed; any thread may say so."""
        self._wake.set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the round that is under way. What is stored stays: other replicas may serve it."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(5.0)

    def step(self) -> float:
        """One round; seconds until the next one is due."""
        try:
            self._keep_certificates()
            if self._material is not None:
                self._keep_configuration(self._material)
        except ConflictError:
            self._certificates_due_s = 0.0  # another replica was faster: read what it wrote
            return 0.0
        except (ApiError, TransportError) as error:
            self._tell(str(error))
            return RETRY_S
        self._tell("")
        now_s = self._kept.clock()
        return max(0.0, min(self._certificates_due_s, self._configuration_due_s) - now_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            wait_s = self.step()
            if not self._stopping.is_set():
                self._wake.wait(wait_s)
            self._wake.clear()

    def _keep_certificates(self) -> None:
        kept, now_s = self._kept, self._kept.clock()
        if now_s < self._certificates_due_s:
            return
        stored = kept.store.read()
        material = renewed(stored.material, kept.hosts, now_s)
        if material != stored.material:
            kept.store.write(material, stored.resource_version)
            self._log.info("The webhook's certificates were renewed")
        if material != self._material:
            kept.server.use(material.certificate, material.key)
            self._material = material
        self._certificates_due_s = now_s + CERTIFICATES_EVERY_S

    def _keep_configuration(self, material: Material) -> None:
        """The leader's; another replica forgets what it once wrote."""
        kept, now_s = self._kept, self._kept.clock()
        live, avoid = kept.live(), kept.avoid()
        if live is None or avoid is None or not kept.leads():
            self._written = None
            self._configuration_due_s = now_s + CONFIGURATION_EVERY_S if live is None else now_s + RETRY_S
            return
        wanted = webhooks(kept.address, material.bundle, live, avoid)
        if wanted != self._written or now_s >= self._configuration_due_s:
            known, self._written = self._written is not None, None  # unknown until this has gone well
            changed = known and now_s < self._configuration_due_s  # no need to look: it is what we wrote
            if changed or not kept.configuration.holds(wanted):
                kept.configuration.write(wanted)
            self._written = wanted
            if not changed:
                self._configuration_due_s = now_s + CONFIGURATION_EVERY_S

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            self._log.warning("The webhook cannot be kept current", error=problem, remedy=REMEDY)
        elif self._problem and not problem:
            self._log.info("The webhook is current again")
        self._problem = problem
