"""Gathers what ``status`` and ``ui`` show. What ``status`` may not read is a warning, never the end of the command."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rescheduler.cli.clients import NamedCluster, listed
from rescheduler.cli.controller_presence import leader
from rescheduler.cli.errors import CommandError
from rescheduler.cli.live_controller import ReadConfiguration, controller_configuration, gate_state, read_for
from rescheduler.cli.migration_client import MigrationClient
from rescheduler.configuration.document import Configuration, default_configuration
from rescheduler.kube.answers import read_items
from rescheduler.kube.client import KubeApi
from rescheduler.kube.errors import ApiError, ForbiddenError, NotFoundError, NotServedError
from rescheduler.kube.gc_pause import PROCESS_PAUSE
from rescheduler.kube.installed_rules import installed_rules
from rescheduler.model.gated_pods import gated_pods
from rescheduler.model.kinds import Kind
from rescheduler.model.names import CONFIG_MAP
from rescheduler.model.records import Pod
from rescheduler.model.reservation import Reservation
from rescheduler.model.times import format_duration, format_seconds
from rescheduler.planning.limits import PlanningInputs
from rescheduler.planning.plan import Plan
from rescheduler.planning.planner import decide
from rescheduler.reports.cluster_status import (
    ClusterPicture,
    SeenObjects,
    blockers_of,
    cluster_status,
    evicted_now,
    finished_moves,
    moves_under_way,
    shown_gated,
    waiting_moves,
)
from rescheduler.reports.health import with_health
from rescheduler.reports.objective_words import headline
from rescheduler.reports.status_document import ClusterStatus
from rescheduler.reservations.settings import EngineChoice
from rescheduler.scheduling.state import SchedulingState

_REFUSED: Final = "ConfigurationRefused"
_SECONDS: Final = len("2026-11-01T08:00:00")
_RESTS: Final = 10.0
"""With --watch the cluster is read again after so many times as long as that took."""


class _Event(msgspec.Struct, rename="camel"):
    reason: str = ""
    note: str = ""
    event_time: str | None = ""


def picture_of(
    cluster: NamedCluster, configuration: Configuration, inputs: PlanningInputs, *, whole: bool, **where: Any
) -> ClusterPicture:
    """Reads the whole cluster, or a dump, and decides as the controller does. ``where``: as ``read_for`` takes it.

    ``whole``: every pod that is skipped is looked at, and what there would be after the moves; else skipped pods are only counted.

    Raises ApiError, TransportError, CommandError.
    """
    # Without ``settle``: what was planned is let go of before the next look.
    with PROCESS_PAUSE.during():
        found = read_for(cluster, configuration, **where)
        state = SchedulingState(found.snapshot, configuration.profile)
        policies = configuration.build_policies()
        decided = decide(found.snapshot, policies, inputs, state, looks_ahead=whole, explains=True)
        plan, skipped = decided.plan() if whole else decided.moving, decided.skipped.tally()
    return ClusterPicture(
        seen=SeenObjects.of(found.snapshot, found.snapshot.pods.values()),
        plan=plan,
        blockers=blockers_of(skipped.reasons),
        badly_placed=Counter(move.source for move in plan.moves) + skipped.nodes,
        source=found.source,
        headline=headline(plan) if whole else "",
        shows_plan=whole,
        warnings=(*found.warnings, *_waits(configuration, plan), *plan.metadata.warnings),
    )


def _waits(configuration: Configuration, plan: Plan) -> Iterator[str]:
    """Policies that find something here and may find it later in the controller, which knows since when it has seen it."""
    finds = {policy.name for policy in plan.before.policies if policy.badly_placed}
    for policy in configuration.policies:
        after_s: float = getattr(policy.args, "after_s", 0.0)
        if after_s > 0 and policy.args.enabled and policy.title in finds:
            yield (
                f"{policy.title} counts at once here: the controller acts on what has stood for `after` "
                f"({format_duration(after_s)}) since it was seen, where the object does not say since when"
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
    configuration: Configuration = field(default_factory=default_configuration)
    """What the controller goes by, as of the last look."""
    _planned: ClusterStatus | None = None
    _again_at_s: float = 0.0

    @property
    def _namespace(self) -> str:
        return self.cluster.controller_namespace

    def report(self) -> ClusterStatus:
        """The status of this moment. Raises ApiError, TransportError, CommandError: not even the moves can be read."""
        self.warnings.clear()
        found = leader(self.api, self._namespace)
        read = controller_configuration(self.api, self._namespace).beside(found)
        self.configuration = read.configuration
        if read.warning and not read.refused:
            self.warnings.append(read.warning)
        if others := installed_rules(self.api).others:
            self.warnings.append(others)
        at = format_seconds(time.time())
        planned = self._badly_placed(read.configuration, at) or ClusterStatus()
        moves = {} if planned.planned_at == at else self._moves()
        found_all = msgspec.structs.replace(
            planned,
            at=at,
            controller=found,
            gate=gate_state(self.api, self._namespace),
            configuration=self._configuration(read),
            warnings=tuple(dict.fromkeys((*self.warnings, *planned.warnings))),
            **moves,
            **self._gated(),
        )
        return with_health(found_all)

    def _badly_placed(self, configuration: Configuration, at: str) -> ClusterStatus | None:
        """What a decision would find, or found not long ago; None: it is not asked for, or it may not be known."""
        if not self.badly_placed:
            return None
        if not any(policy.args.enabled for policy in configuration.policies):
            return ClusterStatus(planned_at=at, **self._moves())
        if self._planned is not None and self.clock() < self._again_at_s:
            return self._planned
        begun_s = self.clock()
        try:
            picture = picture_of(self.cluster, configuration, configuration.inputs(), whole=False)
        except ForbiddenError as error:
            self.warnings.append(
                f"what is badly placed is not known: you may not read the cluster: {error.message}"
            )
            return None
        self._planned = msgspec.structs.replace(cluster_status(picture), planned_at=at)
        ended_s = self.clock()
        self._again_at_s = ended_s + _RESTS * (ended_s - begun_s)
        return self._planned

    def _moves(self) -> dict[str, Any]:
        """The fields of moves."""
        try:
            found = MigrationClient(self.api).select("")
        except CommandError as error:
            if isinstance(error.__cause__, ForbiddenError):
                self.warnings.append(f"moves are not known: {error}")
                return {"moves": None}
            raise
        moves = tuple(moves_under_way(found))
        return {
            "moves": moves,
            "moves_in_all": len(moves),
            "moves_under_way": len(moves),
            "evicted_now": evicted_now(moves),
            "waiting": waiting_moves(moves),
            "finished": finished_moves(found),
        }

    def _gated(self) -> dict[str, Any]:
        """The fields of pods at the gate: of this moment, also where the cluster is not planned."""
        pending = {"fieldSelector": "status.phase=Pending"}
        try:
            found = gated_pods(listed(self.api, Kind.POD, Pod, query=pending))
        except ForbiddenError as error:
            self.warnings.append(f"whether pods wait at the gate is not known: {error.message}")
            return {"gated": None}
        try:
            rooms = listed(self.api, Kind.RESERVATION, Reservation) if found else []
        except (ForbiddenError, NotFoundError, NotServedError):
            rooms = []
        shown = shown_gated(found, {room.name: room for room in rooms})
        return {"gated": shown, "gated_in_all": len(found)}

    def _configuration(self, read: ReadConfiguration) -> str:
        """What is wrong with it. A refusal is told by an Event, which is kept for an hour: one of an older version is past."""
        if read.missing:
            where = f"{self._namespace}/{CONFIG_MAP}"
            return f"there is no ConfigMap {where}: a controller goes by its file, or by the last document until a restart"
        demanding = read.configuration.reservations.engine is EngineChoice.KOORDINATOR
        if not (read.warning or demanding):
            return ""  # the controller reads it by the same rules, and asks the cluster about nothing but the engine
        unseen = f"refused, the last good version stays in force: {read.refused}" if read.refused else ""
        path = f"/apis/events.k8s.io/v1/namespaces/{self._namespace}/events"
        try:
            body = self.api.get(path, {"fieldSelector": f"reason={_REFUSED}", "limit": "100"})
        except ApiError:
            return unseen
        events = [e for e in read_items(body, _Event) if e.reason == _REFUSED]
        last = max(events, key=lambda event: event.event_time or "", default=None)
        if last is None:
            return unseen
        return f"refused at {(last.event_time or '')[:_SECONDS]}Z: {last.note}"
