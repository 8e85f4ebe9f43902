"""``run``: puts the controller together and keeps it running until it is stopped or loses its leadership.

Only assembly: every part is made here once and handed its collaborators. The parts know nothing of each
other beyond their Protocols. A lost leadership ends the process' work: a new process starts clean.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import structlog

from rescheduler.config import Configuration, ConfigurationError
from rescheduler.config_rooms import Engine
from rescheduler.controller.admission import by_webhook, installed_policy, served_webhook
from rescheduler.controller.configuration import ConfigMapSource, FileSource, LiveConfiguration, Source
from rescheduler.controller.cycle import Cycle, Decision
from rescheduler.controller.effects import NotLeaderError
from rescheduler.controller.engines import in_force
from rescheduler.controller.executor import ApplyExecutor, Executor, RecordExecutor
from rescheduler.controller.gating import LiveGate, RehearsedGate
from rescheduler.controller.issuing import ApiIssuer, DryRunIssuer, MoveIssuer
from rescheduler.controller.loop import Loop, Pace, Rounds
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.mirror import Mirror, Switch
from rescheduler.controller.outages import CautiousRounds
from rescheduler.controller.reconcile import Reconciler, Settings
from rescheduler.controller.reporting import EventReporter, MoveCounter
from rescheduler.controller.rules import RulesPlacement
from rescheduler.controller.safeguards import protection_of
from rescheduler.controller.server import Heartbeat, Server, Verdict
from rescheduler.kube.client import KubeApi
from rescheduler.kube.discovery import OLDEST, Capabilities, discover
from rescheduler.kube.elector import Elector
from rescheduler.kube.event_series import ObjectReference, Occurrence
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.gate import Gate
from rescheduler.kube.informers import Informers
from rescheduler.kube.metrics_api import node_usage
from rescheduler.kube.transport import Transport
from rescheduler.migrations.observed import MigrationSettings
from rescheduler.model.decode import Decoder
from rescheduler.model.kinds import RESOURCES, Kind, Resource
from rescheduler.model.migration import MoveMode
from rescheduler.model.names import AVOID_CONFIG_MAP, CONFIG_MAP, KOORDINATOR_SCHEDULER, LEASE_NAME
from rescheduler.reservations.engine import PlaceholderEngine
from rescheduler.reservations.koordinator import KoordinatorEngine
from rescheduler.reservations.observed import ReservationSettings

LEADER_MARGIN_S = 2.0
"""An eviction is sent only if we lead for that much longer, whatever happens to the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line gives. ``config_map``: (namespace, name); ``config_file`` wins over it."""

    config_file: str | None = None
    config_map: tuple[str, str] | None = None
    dry_run: bool = False
    once: bool = False
    identity: str = ""
    pace: Pace = field(default_factory=Pace)
    serve: bool = True


class MissingParts(Exception):  # noqa: N818 - not a fault: the cluster lacks our CRDs, or is too old
    """The cluster does not have what the controller needs; the administrator must install it."""


class Controller:
    """One controller process. ``stop`` may be set by anyone; ``run`` then ends within seconds."""

    def __init__(self, transport: Transport, options: Options, stop: threading.Event | None = None) -> None:
        self._transport = transport
        self._options = options
        self._api = KubeApi(transport)
        self._metrics = Metrics()
        self._heartbeat = Heartbeat()
        self._configuration = LiveConfiguration(source_of(self._api, options), clock=time.monotonic)
        self._log = structlog.get_logger("rescheduler.controller")
        self._identity = options.identity or f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self.stop = stop or threading.Event()
        self.lost_leadership = False
        self.loop: Loop | None = None
        self.port = 0

    @property
    def decision(self) -> Decision | None:
        """The last decision."""
        return self.loop.decision if self.loop else None

    def run(self) -> None:
        """Work until stopped.

        Raises:
            ConfigurationError, ApiError, TransportError, MissingParts: it cannot even start.
        """
        self._configuration.start()
        capabilities = discover(self._api)
        if capabilities.too_old and not self._options.dry_run:
            raise MissingParts(
                f"Kubernetes {OLDEST.major}.{OLDEST.minor} or newer is needed to move pods; this server is "
                f"{capabilities.version.text} (plan, explain and run --dry-run work with it)"
            )
        if not capabilities.installed and not self._options.dry_run:
            raise MissingParts(
                "the kinds Reservation and PodMigration are missing: kubectl apply -k manifests/crds"
            )
        self._configuration.adapt(partial(in_force, capabilities=capabilities))
        with ExitStack() as stack:
            recorder = EventRecorder(self._api, instance=self._identity)
            if not self._options.dry_run:
                recorder.start()
                stack.callback(recorder.stop)
            informers = Informers(self._transport, Decoder(), resources=_to_read(capabilities))
            leads = self._elect(stack)
            gate = Gate(self._api, namespace=self._configuration.current.reservations.namespace)
            gate_ready = self._gate_ready(stack, gate, leads, capabilities)
            loop = self._assemble(informers, recorder, leads, gate, gate_ready)
            self.loop = loop
            self._serve(stack, loop, informers)
            self._metrics.watch_informers(informers.all())
            informers.start()
            stack.callback(informers.stop)
            self._log.info(
                "Started",
                dry_run=self._options.dry_run,
                server=capabilities.version.text,
                configuration=self._configuration.version,
            )
            try:
                loop.run(self.stop)
            except NotLeaderError:
                self._lose("leadership was lost right before an eviction")
        self._log.info("Stopped")

    def _elect(self, stack: ExitStack) -> Callable[[], bool]:
        """How to ask for leadership. A dry run writes nothing and so needs none."""
        current = self._configuration.current
        if self._options.dry_run or not current.leader_election:
            self._metrics.leader.set(1)
            return lambda: True
        elector = Elector(
            self._transport,
            namespace=current.reservations.namespace,
            name=LEASE_NAME,
            identity=self._identity,
            on_lost=self._lose,
        )
        elector.start()
        stack.callback(elector.stop)

        def leads() -> bool:
            leading = elector.still_leader(LEADER_MARGIN_S)
            self._metrics.leader.set(1 if leading else 0)
            return leading

        return leads

    def _lose(self, reason: str) -> None:
        self.lost_leadership = True
        self._log.error("Leadership is lost: this process stops", reason=reason)
        self.stop.set()

    def _assemble(
        self,
        informers: Informers,
        recorder: EventRecorder,
        leads: Callable[[], bool],
        gate: Gate,
        gate_ready: Callable[[], bool],
    ) -> Loop:
        executor, switch, issuer = self._strategy(gate, recorder, leads)
        hints = self._hints(gate.namespace)
        reconciler = _reconciler(
            executor, switch, hints, self._configuration.current, MoveCounter(self._metrics)
        )
        cycle = Cycle(
            issuer=issuer,
            metrics=self._metrics,
            gate_ready=gate_ready,
            whole_plans=self._options.once,
        )
        return Loop(
            informers=informers,
            rounds=self._rounds(reconciler, informers),
            cycle=cycle,
            configuration=self._configuration,
            leads=leads,
            metrics=self._metrics,
            heartbeat=self._heartbeat,
            read_usage=lambda: node_usage(self._api),
            on_configuration=lambda error: self._configured(reconciler, recorder, error),
            once=self._options.once,
            pace=self._options.pace,
        )

    def _rounds(self, reconciler: Reconciler, informers: Informers) -> Rounds:
        """A dry run gives no room up, so it has nothing to ask."""
        if self._options.dry_run:
            return reconciler
        gaps = informers.of(Kind.POD).gaps
        return CautiousRounds(reconciler, gaps, self._api, process=uuid.uuid4().hex[:8])

    def _gate_ready(
        self, stack: ExitStack, gate: Gate, leads: Callable[[], bool], capabilities: Capabilities
    ) -> Callable[[], bool]:
        """How to ask whether the gate is there; serves it, where that is the way of this cluster."""
        defaults = self._configuration.current.gate
        if not by_webhook(defaults.mode, capabilities):
            return installed_policy(gate, capabilities)
        if self._options.dry_run:
            return lambda: True  # a dry run evicts nothing, so it holds nothing either
        return served_webhook(stack, self._transport, gate, defaults=defaults, leads=leads)

    def _strategy(
        self, gate: Gate, recorder: EventRecorder, leads: Callable[[], bool]
    ) -> tuple[Executor, Switch, MoveIssuer]:
        """Really doing it, or writing down what would be done."""
        if self._options.dry_run:
            return RecordExecutor(), RehearsedGate(gate), DryRunIssuer()
        current = self._configuration.current
        live = LiveGate(gate)
        executor = ApplyExecutor(
            api=self._api,
            engine=PlaceholderEngine(reservation_settings(current)),
            koordinator=KoordinatorEngine(reservation_settings(current)),
            namespace=current.reservations.namespace,
            gate=live,
            still_leader=leads,
            record_event=EventReporter(recorder),
        )
        return executor, live, ApiIssuer(self._api)

    def _hints(self, namespace: str) -> Switch:
        """ConfigMap ``avoid``, which the hint policy reads."""
        gate = Gate(self._api, namespace=namespace, config_map=AVOID_CONFIG_MAP)
        return RehearsedGate(gate) if self._options.dry_run else LiveGate(gate)

    def _configured(
        self, reconciler: Reconciler, recorder: EventRecorder, error: ConfigurationError | None
    ) -> None:
        current = self._configuration.current
        if error is None:
            reconciler.settings = settings_of(current)
            reconciler.placement = _placement(current)
        elif not self._options.dry_run:
            namespace, name = self._options.config_map or (current.reservations.namespace, CONFIG_MAP)
            recorder.record(
                Occurrence(
                    regarding=ObjectReference(kind="ConfigMap", name=name, namespace=namespace),
                    reason="ConfigurationRefused",
                    note=f"the last good configuration stays in force: {error}",
                    warning=True,
                )
            )

    def _serve(self, stack: ExitStack, loop: Loop, informers: Informers) -> None:
        self._metrics.configuration_ok.set(1)
        if not self._options.serve:
            return
        server = Server(
            port=self._configuration.current.server_port,
            health=lambda: health(self._heartbeat, informers.dead()),
            ready=loop.ready,
            metrics=self._metrics.render,
        )
        server.start()
        stack.callback(server.stop)
        self.port = server.port


def health(heartbeat: Heartbeat, dead: Sequence[Kind]) -> Verdict:
    """Well while the loop turns and every informer's thread lives; a restart would bring back a dead one."""
    if dead:
        return Verdict(ok=False, reason=f"the informers of {', '.join(dead)} died")
    return heartbeat.verdict()


def _to_read(capabilities: Capabilities) -> dict[Kind, Resource]:
    """Every kind; those of Koordinator only where they are served."""
    if capabilities.koordinator_reservations:
        return RESOURCES
    return {kind: r for kind, r in RESOURCES.items() if kind is not Kind.KOORDINATOR_RESERVATION}


def source_of(api: KubeApi, options: Options) -> Source:
    """Where the configuration comes from; by default the ConfigMap of the installation."""
    if options.config_file is not None:
        return FileSource(options.config_file)
    namespace, name = options.config_map or (os.environ.get("POD_NAMESPACE") or "rescheduler", CONFIG_MAP)
    return ConfigMapSource(api, namespace, name)


def reservation_settings(configuration: Configuration) -> ReservationSettings:
    """What the Reservation machine takes of the configuration."""
    reservations = configuration.reservations
    return ReservationSettings(
        namespace=reservations.namespace,
        pause_image=reservations.pause_image,
        default_ttl_s=reservations.default_ttl_s,
        finished_ttl_s=reservations.finished_ttl_s,
        gate_limit_s=reservations.gate_limit_s,
        shares=reservations.shares,
        koordinator_scheduler=KOORDINATOR_SCHEDULER if reservations.engine is Engine.KOORDINATOR else "",
    )


def settings_of(configuration: Configuration) -> Settings:
    """What both machines take of the configuration."""
    soft = configuration.mode is MoveMode.SOFT
    return Settings(
        reservations=reservation_settings(configuration),
        migrations=MigrationSettings(
            ttl_s=configuration.reservations.ttl_s,
            finished_ttl_s=configuration.reservations.finished_ttl_s,
            default_mode=MoveMode.RESERVE_FIRST
            if configuration.mode is MoveMode.AUTO
            else configuration.mode,
            soft_allowed=soft,
            start_first_policies=frozenset(
                name for name, mode in configuration.modes.items() if mode is MoveMode.START_FIRST
            ),
        ),
    )


def _reconciler(
    executor: Executor, switch: Switch, hints: Switch, configuration: Configuration, listener: MoveCounter
) -> Reconciler:
    return Reconciler(
        executor=executor,
        gate=Mirror(switch=switch, lenient=True),
        hints=Mirror(switch=hints),
        placement=_placement(configuration),
        settings=settings_of(configuration),
        listener=listener,
    )


def _placement(configuration: Configuration) -> RulesPlacement:
    return RulesPlacement(
        namespace=configuration.reservations.namespace,
        profile=configuration.profile,
        protection=protection_of(configuration.protections, configuration.profile),
    )
