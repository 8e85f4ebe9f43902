"""Asks an API server for what ``status`` shows. What may not be read is a warning, never the end of the command."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rescheduler.cli.clients import NamedCluster
from rescheduler.cli.controller_presence import CONTROLLER_PODS, leader
from rescheduler.cli.errors import CommandError
from rescheduler.cli.live_controller import ReadConfiguration, controller_configuration, gate_state
from rescheduler.cli.migration_client import MigrationClient
from rescheduler.cli.snapshot_input import read_input
from rescheduler.cli.status_report import StatusReport, controller_status
from rescheduler.configuration.document import Configuration
from rescheduler.kube.answers import read_answer
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError, ForbiddenError
from rescheduler.kube.gc_pause import PROCESS_PAUSE
from rescheduler.kube.installed_rules import installed_rules
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import CONFIG_MAP
from rescheduler.model.times import format_seconds
from rescheduler.planning.planner import decide
from rescheduler.reports.figures import (
    Blocker,
    ShownPolicy,
    blockers_of,
    moves_under_way,
    shown_move,
    shown_policies,
)
from rescheduler.reservations.settings import EngineChoice
from rescheduler.scheduling.state import SchedulingState

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


class PlannedStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the next decision would find badly placed, without the plan and the cluster themselves."""

    planned_at: str = ""
    """RFC 3339; "": nothing was read."""
    moves: Sequence[PodMigration] | None = None
    """All that there were then; None: they may not be read."""
    policies: tuple[ShownPolicy, ...] = ()
    blocked: tuple[Blocker, ...] = ()
    would_move: int = 0
    warnings: tuple[str, ...] = ()


def planned_status(cluster: NamedCluster, configuration: Configuration, at: str) -> PlannedStatus:
    """Reads the whole cluster and decides as the controller does: what is skipped is counted, nothing after the moves is looked at.

    Raises ApiError, TransportError.
    """
    # Without ``settle``: what was planned is let go of before the next look.
    with PROCESS_PAUSE.during():
        source = read_input(cluster, rules=configuration.replacements)
        state = SchedulingState(source.snapshot, configuration.profile)
        policies, inputs = configuration.build_policies(), configuration.inputs()
        found = decide(source.snapshot, policies, inputs, state, explains=True)
        counted = found.skipped.counts()
    return PlannedStatus(
        planned_at=at,
        moves=tuple(source.snapshot.migrations.values()),
        policies=shown_policies(found.moving.before.policies),
        blocked=blockers_of(counted),
        would_move=len(found.moving.moves),
        warnings=source.warnings,
    )


@dataclass(slots=True, kw_only=True)
class Gathering:
    """One look. ``api``: a client of ``cluster``."""

    cluster: NamedCluster
    api: KubeApi
    badly_placed: bool
    """False: the cluster is not planned, which takes long where it is big."""
    clock: Callable[[], float] = time.monotonic
    warnings: list[str] = field(default_factory=list)
    _planned: PlannedStatus | None = None
    _again_at_s: float = 0.0

    @property
    def _namespace(self) -> str:
        return self.cluster.controller_namespace

    def report(self) -> StatusReport:
        """The report of this moment. Raises ApiError, TransportError, CommandError: not even the moves can be read."""
        self.warnings.clear()
        found = leader(self.api, self._namespace)
        read = controller_configuration(self.api, self._namespace)
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
            gate=gate_state(self.api, self._namespace),
            configuration=self._configuration(read),
            moves=tuple(map(shown_move, moves_under_way(moves))) if moves is not None else None,
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
            self._planned = planned_status(self.cluster, configuration, at)
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
            return MigrationClient(self.api).select("")
        except CommandError as error:
            if isinstance(error.__cause__, ForbiddenError):
                self.warnings.append(f"moves are not known: {error}")
                return None
            raise

    def _images(self) -> list[str]:
        try:
            body = self.api.get(
                f"/api/v1/namespaces/{self._namespace}/pods",
                {"labelSelector": CONTROLLER_PODS, "limit": "20"},
            )
        except ForbiddenError:
            return []
        pods = read_answer(body, _Pods).items or []
        return [container.image for pod in pods for container in pod.spec.containers]

    def _configuration(self, read: ReadConfiguration) -> str:
        """What is wrong with it. A refusal is told by an Event, which is kept for an hour: one of an older version is past."""
        if read.missing:
            where = f"{self._namespace}/{CONFIG_MAP}"
            return f"there is no ConfigMap {where}: a controller goes by its file, or by the last document until a restart"
        demanding = read.configuration.reservations.engine is EngineChoice.KOORDINATOR
        if not (read.warning or demanding):
            return ""  # the controller reads it by the same rules, and asks the cluster about nothing but the engine
        path = f"/apis/events.k8s.io/v1/namespaces/{self._namespace}/events"
        try:
            body = self.api.get(path, {"fieldSelector": f"reason={_REFUSED}", "limit": "100"})
        except ApiError:
            return ""
        events = [e for e in read_answer(body, _Events).items or [] if e.reason == _REFUSED]
        last = max(events, key=lambda event: event.event_time or "", default=None)
        if last is None:
            return ""
        return f"refused at {(last.event_time or '')[:_SECONDS]}Z: {last.note}"
