"""Reconciles what the API servers must know: certificates (every replica), the webhooks' configurations (the leader).

Level-triggered: each pass compares what should be with what is. It may be late, never wrong: nothing is
evicted before a dry-run creation has proven that the gate is in force.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from rescheduler.kube.errors import ApiError, ConflictError
from rescheduler.kube.pass_thread import PassThread
from rescheduler.kube.transport import TransportError
from rescheduler.webhook.certificates import Material, renewed
from rescheduler.webhook.https_server import WebhookServer
from rescheduler.webhook.registration import WebhookConfiguration, WebhookSettings
from rescheduler.webhook.secret import CertificateStore

CERTIFICATES_EVERY_S: Final = 60.0
CONFIGURATION_EVERY_S: Final = 30.0
RETRY_S: Final = 1.0
REMEDY: Final = "apply manifests/components/webhook-server"


@dataclass(slots=True)
class Registration:
    """One configuration that the leader keeps; what befalls it says nothing of the others."""

    configuration: WebhookConfiguration[Any]
    wanted: Callable[[bytes], tuple[Any, ...] | None]
    """The webhooks that trust these authorities; None: it is not known yet."""
    remedy: str
    written: tuple[Any, ...] | None = field(default=None, init=False)
    due_s: float = field(default=0.0, init=False)
    problem: str = field(default="", init=False)

    @property
    def in_force(self) -> bool:
        """It was written, and the last look at it met no error."""
        return self.written is not None and not self.problem

    def reconcile(self, bundle: bytes, now_s: float, *, leads: bool) -> None:
        """Done by the leader; another replica forgets what it once wrote. Raises ApiError, TransportError."""
        wanted = self.wanted(bundle)
        if wanted is None or not leads:
            self.written = None
            self.due_s = now_s + (CONFIGURATION_EVERY_S if wanted is None else RETRY_S)
            return
        if wanted == self.written and now_s < self.due_s:
            return
        known, self.written = self.written is not None, None  # unknown until this has gone well
        changed = known and now_s < self.due_s  # no need to look: it is what we wrote
        if changed or not self.configuration.holds(wanted):
            self.configuration.write(wanted)
        self.written = wanted
        if not changed:
            self.due_s = now_s + CONFIGURATION_EVERY_S


@dataclass(slots=True, kw_only=True)
class WebhookReconciler:
    """One thread. ``wake`` makes it reconcile at once; ``step`` is one pass."""

    store: CertificateStore
    """The Secret with the certificates, shared by all replicas."""
    server: WebhookServer
    settings: WebhookSettings
    leads: Callable[[], bool]
    """Only the leader writes the configurations."""
    registrations: tuple[Registration, ...]
    clock: Callable[[], float] = time.time
    """Seconds since the epoch: certificates are checked against it."""
    _material: Material | None = None
    _certificates_due_s: float = 0.0
    _problem: str = ""
    _thread: PassThread = field(init=False)
    _log: Any = field(default_factory=lambda: structlog.get_logger("rescheduler.webhook"))

    def __post_init__(self) -> None:
        self._thread = PassThread("webhook-reconciler", self.step)

    @property
    def serves(self) -> bool:
        """There is a certificate, and the last look at it met no error."""
        return self._material is not None and not self._problem

    def wake(self) -> None:
        """Reconcile at once. May be called by any thread."""
        self._thread.wake()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the pass that is under way. What is stored stays: other replicas may serve it."""
        self._thread.stop()

    def step(self) -> float:
        """One pass; seconds until the next one is due."""
        try:
            self._reconcile_certificates()
        except ConflictError:
            self._certificates_due_s = 0.0  # another replica was faster: read what it wrote
            return 0.0
        except (ApiError, TransportError) as error:
            self._problem = self._told(self._problem, str(error), REMEDY)
            return RETRY_S
        self._problem = self._told(self._problem, "", REMEDY)
        now_s, due_s = self.clock(), self._certificates_due_s
        for registration in self.registrations:
            due_s = min(due_s, self._register(registration, now_s))
        return max(0.0, due_s - now_s)

    def _register(self, registration: Registration, now_s: float) -> float:
        """When it is due again."""
        if self._material is None:
            return now_s + RETRY_S
        problem = ""
        try:
            registration.reconcile(self._material.bundle, now_s, leads=self.leads())
        except (ApiError, TransportError) as error:
            problem = str(error)
        registration.problem = self._told(registration.problem, problem, registration.remedy)
        return now_s + RETRY_S if problem else registration.due_s

    def _reconcile_certificates(self) -> None:
        now_s = self.clock()
        if now_s < self._certificates_due_s:
            return
        stored = self.store.read()
        material = renewed(stored.material, self.settings.hosts, now_s)
        if material != stored.material:
            self.store.write(material, stored.resource_version)
            self._log.info("The webhook's certificates were renewed")
        if material != self._material:
            self.server.use(material.certificate, material.key)
            self._material = material
        self._certificates_due_s = now_s + CERTIFICATES_EVERY_S

    def _told(self, known: str, problem: str, remedy: str) -> str:
        """The ``problem``, which is logged if it is another than the one that is ``known``."""
        if problem and problem != known:
            self._log.warning(
                "The webhook's certificates or its configuration cannot be updated",
                error=problem,
                remedy=remedy,
            )
        elif known and not problem:
            self._log.info("The webhook's certificates and its configuration are up to date again")
        return problem
