"""Asks an API server for what ``status`` shows. What may not be read is a warning, never the end of the command."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rescheduler.cli.controller_configuration import controller_configuration
from rescheduler.cli.controller_presence import CONTROLLER_PODS, leader
from rescheduler.cli.controller_readiness import gate_state
from rescheduler.cli.errors import CommandError
from rescheduler.cli.migration_client import MigrationClient
from rescheduler.cli.snapshot_input import read_live
from rescheduler.cli.status.report import (
    StatusReport,
    badly_placed,
    blocked,
    controller_status,
    moves_under_way,
)
from rescheduler.configuration.document import Configuration
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError, ForbiddenError
from rescheduler.model.decode import Decoder
from rescheduler.model.migration import PodMigration
from rescheduler.model.snapshot import Snapshot
from rescheduler.model.times import format_seconds
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import plan as make_plan
from rescheduler.scheduling.state import SchedulingState

_REFUSED: Final = "ConfigurationRefused"


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
    warnings: list[str] = field(default_factory=list)

    def report(self) -> StatusReport:
        """The report of this moment. Raises ApiError, TransportError, CommandError: not even the moves can be read."""
        self.warnings.clear()
        found = leader(self.api, self.namespace, now_s=time.time, pause=time.sleep)
        read = controller_configuration(self.api, self.namespace)
        configuration = read.configuration
        if read.warning:
            self.warnings.append(read.warning)
        snapshot, plan = self._planned(configuration) if self.badly_placed else (None, None)
        moves = snapshot.migrations.values() if snapshot is not None else self._moves()
        return StatusReport(
            at=format_seconds(time.time()),
            controller=controller_status(found, self._images()),
            gate=gate_state(self.api, self.namespace),
            configuration=self._refusal(),
            moves=moves_under_way(moves) if moves is not None else None,
            policies=badly_placed(plan.before.policies) if plan is not None else (),
            blocked=blocked(plan.skipped) if plan is not None else (),
            would_move=len(plan.moves) if plan is not None else 0,
            warnings=tuple(dict.fromkeys(self.warnings)),
        )

    def _planned(self, configuration: Configuration) -> tuple[Snapshot | None, Plan | None]:
        try:
            source = read_live(self.kubeconfig, self.context, configuration.replacements, self.namespace)
        except ForbiddenError as error:
            self.warnings.append(
                f"what is badly placed is not known: you may not read the cluster: {error.message}"
            )
            return None, None
        self.warnings += source.warnings
        state = SchedulingState(source.snapshot, configuration.profile)
        found = make_plan(source.snapshot, configuration.build_policies(), configuration.inputs(), state)
        return source.snapshot, found

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

    def _refusal(self) -> str:
        """The last refusal that an Event tells of; Events are kept for an hour."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        try:
            body = self.api.get(path, {"fieldSelector": f"reason={_REFUSED}", "limit": "100"})
        except ApiError:
            return ""
        events = [e for e in read_answer(body, _Events).items or [] if e.reason == _REFUSED]
        last = max(events, key=lambda event: event.event_time or "", default=None)
        return f"refused at {last.event_time}: {last.note}" if last is not None else ""
