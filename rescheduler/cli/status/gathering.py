"""Asks an API server for what ``status`` shows. What may not be read is a warning, never the end of the command."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rescheduler.cli.controller_configuration import ReadConfiguration, controller_configuration
from rescheduler.cli.controller_presence import CONTROLLER_PODS, leader
from rescheduler.cli.controller_readiness import gate_state
from rescheduler.cli.errors import CommandError
from rescheduler.cli.migration_client import MigrationClient
from rescheduler.cli.status.planned import PlannedStatus, planned_status
from rescheduler.cli.status.report import StatusReport, controller_status, moves_under_way
from rescheduler.configuration.document import Configuration
from rescheduler.configuration.reservations_section import EngineChoice
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError, ForbiddenError
from rescheduler.kube.installed_rules import installed_rules
from rescheduler.model.decode import Decoder
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import CONFIG_MAP
from rescheduler.model.times import format_seconds

_REFUSED: Final = "ConfigurationRefused"
_SECONDS: Final = len("2026-11-01T08:00:00")
_RESTS: Final = 10.0
"""With --watch the cluster is read again after so many times as long as that took."""


class _Container(msgspec.Struct):
    image: str = ""


class _PodSpec(msgspec.Struct):
    containers: list[_Container] = []


class _Pod(msgspec.Struct):
    spec: _PodSpec


class _Pods(msgspec.Struct):
    items: list[_Pod] | None = None


class _Event(msgspec.Struct, rename="camel"):
    reason: str = ""
    note: str = ""
    event_time: str | None = ""


class _Events(msgspec.Struct):
    items: list[_Event] | None = None


@dataclass(slots=True, kw_only=True)
class Gathering:
    """One look. ``kubeconfig`` and ``context``: for reading the whole cluster."""

    api: KubeApi
    namespace: str
    kubeconfig: str | None
    context: str | None
    badly_placed: bool
    """False: the cluster is not planned, which takes long where it is big."""
    clock: Callable[[], float] = time.monotonic
    warnings: list[str] = field(default_factory=list)
    _planned: PlannedStatus | None = None
    _again_at_s: float = 0.0

    def report(self) -> StatusReport:
        """The report of this moment. Raises ApiError, TransportError, CommandError: not even the moves can be read."""
        self.warnings.clear()
        found = leader(self.api, self.namespace, now_s=time.time, pause=time.sleep)
        read = controller_configuration(self.api, self.namespace)
        configuration = read.configuration
        if read.warning:
            self.warnings.append(read.warning)
        if others := installed_rules(self.api).others:
            self.warnings.append(others)
        at = format_seconds(time.time())
        planned = self._badly_placed(configuration, at) or PlannedStatus()
        moves = planned.moves if planned.planned_at == at else self._moves()
        return StatusReport(
            at=at,
            controller=controller_status(found, self._images()),
            gate=gate_state(self.api, self.namespace),
            configuration=self._configuration(read),
            moves=moves_under_way(moves) if moves is not None else None,
            planned_at=planned.planned_at,
            policies=planned.policies,
            blocked=planned.blocked,
            would_move=planned.would_move,
            warnings=tuple(dict.fromkeys((*self.warnings, *planned.warnings))),
        )

    def _badly_placed(self, configuration: Configuration, at: str) -> PlannedStatus | None:
        """What a decision would find, or found not long ago; None: it is not asked for, or it may not be known."""
        if not self.badly_placed:
            return None
        if not any(policy.args.enabled for policy in configuration.policies):
            return PlannedStatus(planned_at=at, moves=self._moves())
        if self._planned is not None and self.clock() < self._again_at_s:
            return self._planned
        begun_s = self.clock()
        try:
            self._planned = planned_status(
                configuration, at, kubeconfig=self.kubeconfig, context=self.context, namespace=self.namespace
            )
        except ForbiddenError as error:
            self.warnings.append(
                f"what is badly placed is not known: you may not read the cluster: {error.message}"
            )
            return None
        ended_s = self.clock()
        self._again_at_s = ended_s + _RESTS * (ended_s - begun_s)
        return self._planned

    def _moves(self) -> list[PodMigration] | None:
        try:
            return MigrationClient(self.api, Decoder()).select("")
        except CommandError as error:
            if isinstance(error.__cause__, ForbiddenError):
                self.warnings.append(f"moves are not known: {error}")
                return None
            raise

    def _images(self) -> list[str]:
        try:
            body = self.api.get(
                f"/api/v1/namespaces/{self.namespace}/pods", {"labelSelector": CONTROLLER_PODS, "limit": "20"}
            )
        except ForbiddenError:
            return []
        pods = read_answer(body, _Pods).items or []
        return [container.image for pod in pods for container in pod.spec.containers]

    def _configuration(self, read: ReadConfiguration) -> str:
        """What is wrong with it. A refusal is told by an Event, which is kept for an hour: one of an older version is past."""
        if read.missing:
            where = f"{self.namespace}/{CONFIG_MAP}"
            return f"there is no ConfigMap {where}: a controller goes by its file, or by the last document until a restart"
        demanding = read.configuration.reservations.engine is EngineChoice.KOORDINATOR
        if not (read.warning or demanding):
            return ""  # the controller reads it by the same rules, and asks the cluster about nothing but the engine
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        try:
            body = self.api.get(path, {"fieldSelector": f"reason={_REFUSED}", "limit": "100"})
        except ApiError:
            return ""
        events = [e for e in read_answer(body, _Events).items or [] if e.reason == _REFUSED]
        last = max(events, key=lambda event: event.event_time or "", default=None)
        if last is None:
            return ""
        return f"refused at {(last.event_time or '')[:_SECONDS]}Z: {last.note}"
