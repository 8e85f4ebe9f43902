"""Assembles the controller: ``assemble`` is the only place where its parts are created and connected.

``rescheduler run``, the demo, the random histories and the tests all call it; they differ in the ports that they pass
in: a clock, caches, a connection to the API server, leadership. The parts depend on each other only through Protocols,
and nothing here starts a thread, opens a socket or reads a clock of its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from rescheduler.configuration.document import Configuration
from rescheduler.configuration.live import LiveConfiguration, Reload, ReloadOutcome
from rescheduler.controller.crashes import CrashReports
from rescheduler.controller.cycle import Cycle
from rescheduler.controller.decision_inputs import (
    AUTOSCALER,
    GATE,
    PATIENCE_S,
    USAGE,
    DecisionInputs,
    RepeatedRead,
)
from rescheduler.controller.failed_pods import FailedPodCleaner
from rescheduler.controller.issuing import ApiIssuer, DryRunIssuer
from rescheduler.controller.loop import Loop
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.mirror import ConfigMapKeys, Mirror
from rescheduler.controller.move_log import MoveLog
from rescheduler.controller.ports import Ports
from rescheduler.controller.probing import SchedulerProbes
from rescheduler.controller.reconcile import Reconciler
from rescheduler.controller.recording import MoveRecorder
from rescheduler.controller.reporting import MoveCounter, report_reload
from rescheduler.controller.sender import ApiSender, CallLog, DryRunSender, Sender
from rescheduler.controller.settings import Settings
from rescheduler.controller.usage_reading import UsageReader
from rescheduler.coordination.placement import Placement
from rescheduler.coordination.protection import protection_of
from rescheduler.guard.settings import WhenNoRoom
from rescheduler.kube.elector import Elector
from rescheduler.kube.gate import KEYS_LAST_S, Gate
from rescheduler.kube.node_autoscaler import node_autoscaler_reports
from rescheduler.migrations.observed_migration import MigrationSettings
from rescheduler.model.config_map import ConfigMap
from rescheduler.model.kinds import Kind
from rescheduler.model.names import (
    AVOID_CONFIG_MAP,
    GATE_CONFIG_MAP,
    HISTORY_CONFIG_MAP,
)
from rescheduler.model.node_autoscaler import NodeAutoscaler
from rescheduler.model.records import ObjectKey
from rescheduler.model.usage import NOTHING_MEASURED
from rescheduler.policies.pending_pods import PendingPods
from rescheduler.scheduling.state import SharedSchedulingState

LEADER_MARGIN_S: Final = 2.0
"""A process acts only while its Lease is valid for this much longer, so that an eviction is answered before it ends."""
KEYS_STAY_S: Final = 0.5
"""How long a gate key may stay after its room was claimed, so that keys of several moves are removed by one call. A new pod that
is gated meanwhile is admitted in the next round."""
HINTS_WAIT_S: Final = 2.0
"""How long nodes to avoid may wait for others: they are preferences for the next half an hour."""


def assemble(
    configuration: LiveConfiguration,
    ports: Ports,
    settings_of: Callable[[Configuration], Settings] | None = None,
) -> Loop:
    """The loop of the controller, ready to run. ``configuration``: must be started.

    ``settings_of``: the machines' settings of a configuration; simulations use shorter limits here.
    """
    return _Assembly(configuration, ports, settings_of or machine_settings).loop()


def leadership(elector: Elector, metrics: Metrics) -> Callable[[], bool]:
    """The port ``leads`` of a process that campaigns for a Lease."""

    def leads() -> bool:
        leading = elector.may_act(LEADER_MARGIN_S)
        metrics.leader.set(1 if leading else 0)
        return leading

    return leads


@dataclass(frozen=True, slots=True)
class _Assembly:
    configuration: LiveConfiguration
    ports: Ports
    settings_of: Callable[[Configuration], Settings]
    states: SharedSchedulingState = field(default_factory=SharedSchedulingState)
    """One for decisions and for placement: rounds and decisions alternate in one thread."""

    def loop(self) -> Loop:
        ports = self.ports
        ports.reports.metrics.events_dropped.set_function(lambda: ports.reports.events.dropped)
        ports.reports.metrics.clock_skew.set_function(ports.clocks.server.skew_s)
        ports.reports.metrics.server_clocks_apart.set_function(ports.clocks.server.apart_s)
        gates: list[Mirror] = []
        sender, issuer = self._strategy(lambda: gates[0].known)
        recorder = MoveRecorder(
            mirror=self._mirror(sender, HISTORY_CONFIG_MAP),
            required=not ports.dry_run,
            no_time=ports.clocks.server.problem,
        )
        reconciler = self._reconciler(sender, recorder)
        gates.append(reconciler.gate)
        return Loop(
            ports,
            reconciler=reconciler,
            cycle=Cycle(
                issuer=issuer,
                metrics=ports.reports.metrics,
                states=self.states,
                crashes=CrashReports(ports.reports.metrics.crashed),
                whole_plans=ports.once,
                clock=ports.clocks.monotonic,
                on_emptying=reconciler.follow_emptying,
            ),
            configuration=self.configuration,
            crashes=CrashReports(ports.reports.metrics.crashed),
            inputs=DecisionInputs(
                usage=RepeatedRead(
                    what=USAGE,
                    read=UsageReader(ports.api, self.configuration, ports.clocks.server.now_s).read,
                    pool=ports.pool,
                    every_s=30.0,
                    unknown=NOTHING_MEASURED,
                ),
                node_autoscaler=RepeatedRead(
                    what=AUTOSCALER,
                    read=lambda: node_autoscaler_reports(ports.api, ports.clocks.server.now_s()),
                    pool=ports.pool,
                    every_s=30.0,
                    unknown=False,
                ),
                recorder=recorder,
                gate=RepeatedRead(what=GATE, read=ports.gate.ready, pool=ports.pool, every_s=5.0),
                # The one decision of a process is made with all that it may need to know.
                patience_s=math.inf if ports.once else PATIENCE_S,
            ),
            on_configuration=lambda reload: self._reconfigure(reconciler, reload),
            cleaner=FailedPodCleaner(
                api=ports.api,
                pool=ports.pool,
                leads=ports.leads,
                wall_s=ports.clocks.server.now_s,
                dry_run=ports.dry_run,
            ),
        )

    def _strategy(
        self, gate_keys: Callable[[], Mapping[str, str] | None]
    ) -> tuple[Sender, ApiIssuer | DryRunIssuer]:
        """Really doing it, or writing down what would be done. ``gate_keys``: those that are stored."""
        if self.ports.dry_run:
            return DryRunSender(CallLog()), DryRunIssuer()
        sender = ApiSender(
            api=self.ports.api,
            gate=Gate(
                self.ports.api, namespace=self._namespace(), proof=self.ports.gate.proof, known=gate_keys
            ),
            still_leader=self.ports.leads,
            gate_stands=partial(_stands, gate_keys, self.ports.gate.keys),
            single_api_server=self.ports.gate.single_api_server,
            controllers_away=self.ports.controllers_away,
            record_event=self.ports.reports.events.record,
        )
        return sender, ApiIssuer(
            self.ports.api, self.ports.leads, self.ports.pool, self.ports.clocks.monotonic
        )

    def _settings(self) -> Settings:
        settings = self.settings_of(self.configuration.current)
        if not self.ports.once:
            return settings
        # A process that ends with its moves could neither give a node back nor stop asking for one.
        silent = msgspec.structs.replace(settings.reservations, node_autoscaler=NodeAutoscaler.ABSENT)
        migrations = dataclasses.replace(settings.migrations, reservations=silent)
        return dataclasses.replace(settings, keeping=(), migrations=migrations)

    def _reconciler(self, sender: Sender, recorder: MoveRecorder) -> Reconciler:
        return Reconciler(
            sender=sender,
            gate=self._mirror(
                sender,
                GATE_CONFIG_MAP,
                watched=self.ports.gate.keys,
                lenient=True,
                lasts_s=KEYS_LAST_S,
                removals_wait_s=KEYS_STAY_S,
            ),
            hints=self._mirror(
                sender, AVOID_CONFIG_MAP, additions_wait_s=HINTS_WAIT_S, removals_wait_s=HINTS_WAIT_S
            ),
            recorder=recorder,
            placement=_placement(self.configuration.current, self.states),
            settings=self._settings(),
            pool=self.ports.pool,
            clock=self.ports.clocks.monotonic,
            # Of a dry run nothing is true: each round would log again what it would write.
            listeners=(
                MoveCounter(self.ports.reports.metrics),
                *(() if self.ports.dry_run else (MoveLog(),)),
            ),
            crashes=CrashReports(self.ports.reports.metrics.crashed),
            probes=self._probes(),
        )

    def _probes(self) -> SchedulerProbes | None:
        """A dry run gives no room up, so it need not ask whether the schedulers are up to date."""
        informers, process = self.ports.informers, self.ports.process
        gaps = partial(informers.gaps, Kind.POD)
        return None if self.ports.dry_run else SchedulerProbes(gaps=gaps, process=process)

    def _mirror(
        self,
        sender: Sender,
        config_map: str,
        *,
        watched: Callable[[], ConfigMap | None] = lambda: None,
        lenient: bool = False,
        lasts_s: float = 0.0,
        additions_wait_s: float = 0.0,
        removals_wait_s: float = 0.0,
    ) -> Mirror:
        return Mirror(
            switch=ConfigMapKeys(self.ports.api, sender, ObjectKey(self._namespace(), config_map)),
            what=f"ConfigMap {config_map}",
            pool=self.ports.pool,
            watched=watched,
            lenient=lenient,
            lasts_s=lasts_s,
            additions_wait_s=additions_wait_s,
            removals_wait_s=removals_wait_s,
        )

    def _namespace(self) -> str:
        return self.configuration.current.reservations.namespace

    def _reconfigure(self, reconciler: Reconciler, reload: Reload) -> None:
        if reload.outcome is ReloadOutcome.TAKEN:
            reconciler.settings = self._settings()
            reconciler.placement = _placement(self.configuration.current, self.states)
        ports = self.ports
        record = None if ports.dry_run else ports.reports.events.record
        report_reload(reload, ports.reports.metrics, ports.reports.configured_by, record)


def machine_settings(configuration: Configuration) -> Settings:
    """What both machines take of the configuration."""
    guard = configuration.guard
    lets_through = guard.enabled and guard.when_no_room is WhenNoRoom.LET_THROUGH
    makes_room = any(isinstance(policy, PendingPods) for policy in configuration.build_policies())
    return Settings(
        migrations=MigrationSettings(
            reservations=msgspec.structs.replace(configuration.reservations, makes_room=makes_room),
            mode=configuration.mode,
            modes=configuration.modes,
            asked_limit_s=guard.limit_s if lets_through else math.inf,
        ),
        limits=configuration.limits,
        keeping=tuple(filter(None, (policy.keeping for policy in configuration.policies))),
    )


def _placement(configuration: Configuration, states: SharedSchedulingState) -> Placement:
    return Placement(
        namespace=configuration.reservations.namespace,
        profile=configuration.profile,
        states=states,
        protection=protection_of(
            configuration.protections, configuration.profile, configuration.protections_by_policy
        ),
    )


def _stands(known: Callable[[], Mapping[str, str] | None], seen: Callable[[], ConfigMap | None]) -> bool:
    """True if the watch shows every gate key that is taken for stored, or if they are not watched."""
    shown, keys = seen(), known()
    return shown is None or (keys is not None and all(shown.data.get(k) == v for k, v in keys.items()))
