"""``run``: one controller process: its threads, its server, its Lease, and the loop that ``assemble`` puts together.

What is in here belongs to a process: it starts informers, elector, recorder and server, and stops them again. A lost
leadership ends the process' work: a new process starts clean.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from rescheduler.configuration.engines import with_engine
from rescheduler.configuration.live import LiveConfiguration
from rescheduler.controller.admission import (
    LoopCaches,
    another_installation,
    by_webhook,
    guard_installed,
    installed_policy,
    served_webhook,
    single_api_server,
)
from rescheduler.controller.assembly import assemble, leadership
from rescheduler.controller.call_pool import CallPool, ThreadPool
from rescheduler.controller.configuration_sources import ConfigMapSource, FileSource
from rescheduler.controller.cycle import Decision
from rescheduler.controller.effects import NotLeaderError
from rescheduler.controller.eviction_watch import EvictionWatch, readable_evictions
from rescheduler.controller.first_look import first_look
from rescheduler.controller.live_page import Health, LivePage
from rescheduler.controller.loop import GATE_KEYS_CHANGED, WAKE, Loop
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.ports import ClockPorts, GatePorts, LoopTimings, Ports, ReportPorts, unseen
from rescheduler.controller.server import HealthReport, Heartbeat, Server, listening, probes
from rescheduler.errors import ReschedulerError
from rescheduler.guard.filer import Filer, FilerParts, GuardRules
from rescheduler.guard.guard import Guard, user_of
from rescheduler.guard.responding import EvictionSource, Responding
from rescheduler.kube.client import KubeApi
from rescheduler.kube.config_map_informer import ConfigMapInformer
from rescheduler.kube.controller_manager import ControllerManager
from rescheduler.kube.discovery import OLDEST, Capabilities
from rescheduler.kube.elector import Elector
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.gate import Gate
from rescheduler.kube.informers import Informers
from rescheduler.kube.installed_rules import InstalledRules, installed_rules
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.server_clock import ServerClock, TimedTransport
from rescheduler.kube.transport import Transport
from rescheduler.model.config_map import ConfigMap
from rescheduler.model.decode import Decoder
from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.kinds import RESOURCES, Kind, Resource
from rescheduler.model.migration import PodMigration
from rescheduler.model.names import ANNOTATION_CONFIGURATION, CONFIG_MAP, GATE_CONFIG_MAP, LEASE_NAME
from rescheduler.model.records import ObjectKey
from rescheduler.reports.status_document import ControllerStatus, Presence
from rescheduler.webhook.registration import WebhookSettings

CALL_DEADLINE_S: Final = 15.0
"""Longer than an admission webhook may take by default (10 s), so that its refusal is heard."""
_GUARD_CALL_S: Final = 5.0
"""For a PodMigration of the guard; the next pass tries again."""
_LOOK_LIMIT_S: Final = 2.0
"""For what is looked at before a move goes on, and counts as not known without an answer."""
_LAST_CALLS_S: Final = 5.0
"""How long calls under way are waited for when the process ends."""
_SWITCH_S: Final = 0.0005
"""A call, like an answer of the webhook, needs the interpreter four times: at 5 ms, as by default, a round that computes delays each by 20 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line."""

    config_file: str | None = None
    """Overrides ``config_map``."""
    config_map: tuple[str, str] | None = None
    """(namespace, name)."""
    dry_run: bool = False
    once: bool = False
    identity: str = ""
    """Identity in the Lease; "": a unique one is generated."""
    timings: LoopTimings = field(default_factory=LoopTimings)
    serve: bool = True
    """Serve health checks and metrics."""
    port: int | None = None
    """Where, instead of ``server.port`` of the configuration."""
    patience_s: float = 0.0
    """How long an API server that is away, or only starts, is waited for."""


class MissingParts(ReschedulerError):  # noqa: N818 - not a fault: the cluster lacks our CRDs, or is too old
    """The cluster does not have what the controller needs; the administrator must install it."""


class AnotherLeadsError(ReschedulerError):
    """With ``once``: another controller is at work, so this process would wait for as long as that one lives."""


class Controller:
    """One controller process. Any thread may set ``stop``; ``run`` then returns within seconds."""

    def __init__(self, transport: Transport, options: Options, stop: threading.Event | None = None) -> None:
        self._time = ServerClock()
        self._transport = TimedTransport(transport, self._time)
        self._options = options
        self._api = KubeApi(self._transport)
        self._metrics = Metrics()
        self._heartbeat = Heartbeat()
        self._source = source_of(self._api, options)
        self._configuration = LiveConfiguration(self._source)
        self._log = structlog.get_logger("rescheduler.controller")
        self._identity = options.identity or f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"
        self.stop = stop or threading.Event()
        self.lost_leadership, self._loses = False, threading.Lock()
        self._elector: Elector | None = None
        self._page: LivePage | None = None
        """None: it is off."""
        self.loop: Loop | None = None
        self._caches = LoopCaches()
        self.port = 0
        """The port of the server; 0 while there is none."""

    @property
    def decision(self) -> Decision | None:
        """The last decision."""
        return self.loop.decision if self.loop else None

    def outcomes(self) -> dict[ObjectKey, PodMigration | None]:
        """The PodMigrations that the last decision began, as they are now; None: the object was deleted."""
        if self.loop is None or self.loop.decision is None:
            return {}
        migrations = self.loop.snapshot().migrations
        return {key: migrations.get(key) for key in self.loop.decision.issued}

    def run(self) -> None:
        """Run until ``stop`` is set.

        Raises:
            ConfigurationError, UnreadableConfigurationError, ApiError, TransportError, MissingParts,
                MissingExtraError, CannotListenError: it cannot even start.
            AnotherLeadsError: ``once``, and another controller leads.
        """
        sys.setswitchinterval(_SWITCH_S)
        capabilities = first_look(
            self._configuration, self._api, self.stop, patience_s=self._options.patience_s
        )
        if capabilities is None:
            return
        if self._configuration.careful:
            self._log.error(
                "There is no configuration: no policy moves anything, and the lowest limits hold",
                remedy="create the ConfigMap (kubectl apply -k manifests/)",
            )
        self._check(capabilities)
        self._compare_rules()
        if not self._time.known:
            self._log.warning("The API server's answers have no Date: ages are told by this machine's clock")
        self._configuration.decide(
            partial(with_engine, koordinator_served=capabilities.koordinator_reservations)
        )
        if self._configuration.current.server.page and self._served:
            self._page = LivePage(health=self._health, source=self._identity, dry_run=self._options.dry_run)
        with ExitStack() as stack:
            informers = Informers(self._transport, Decoder(), resources=_to_read(capabilities))
            loop = assemble(self._configuration, self._ports(stack, informers, capabilities))
            self.loop = self._caches.loop = loop
            self._serve(stack, loop, informers)
            self._follow(stack, informers)
            self._log.info(
                "Started",
                dry_run=self._options.dry_run,
                server=capabilities.version.text,
                configuration=self._configuration.version,
            )
            try:
                loop.run(self.stop)
            except NotLeaderError as error:
                self._lose(str(error))
        self._log.info("Stopped")

    def _follow(self, stack: ExitStack, informers: Informers) -> None:
        """Start the informers, also that of the configuration if it is a ConfigMap."""
        watched = list(informers.all())
        if isinstance(self._source, ConfigMapSource):
            watched.append(self._source.informer)
            self._source.start()
            stack.callback(self._source.stop)
        self._metrics.watch_informers(watched)
        informers.start()
        stack.callback(informers.stop)

    def _dead(self, informers: Informers) -> tuple[Kind, ...]:
        """Kinds whose informer thread ended because of a defect."""
        source = self._source
        own = (Kind.CONFIG_MAP,) if isinstance(source, ConfigMapSource) and source.informer.died else ()
        return (*informers.dead(), *own)

    def _check(self, capabilities: Capabilities) -> None:
        """Raises MissingParts if the cluster does not support moves; a dry run needs no support."""
        if self._options.dry_run:
            return
        if capabilities.too_old:
            raise MissingParts(
                f"Kubernetes {OLDEST.major}.{OLDEST.minor} or newer is needed to move pods; this server is "
                f"{capabilities.version.text} (plan, explain and run --dry-run work with it)"
            )
        if not capabilities.installed:
            raise MissingParts(
                "the kinds Reservation and PodMigration are missing: kubectl apply -k manifests/crds"
            )
        namespace = self._configuration.current.reservations.namespace
        other = another_installation(self._api, namespace, capabilities)
        if other:
            raise MissingParts(
                f"reservations.namespace is {namespace}, but the admission policies are those of a controller in "
                f"namespace {other}, and two controllers would take each other's rooms: write namespace {other}, "
                f"or remove that one first (rescheduler uninstall --namespace {other})"
            )

    def _compare_rules(self) -> None:
        """GuardRules of another version are told, and stop nothing."""
        found = InstalledRules() if self._options.dry_run else installed_rules(self._api)
        if found.others:
            self._log.warning("Admission policies or CRDs are of another version", which=found.others)
        if found.unknown:
            self._log.warning(
                "The version of admission policies and CRDs may not be read", reason=found.unknown
            )

    def _ports(self, stack: ExitStack, informers: Informers, capabilities: Capabilities) -> Ports:
        """The ports of this process. Starts their threads, to be stopped with ``stack``."""
        options, current = self._options, self._configuration.current
        recorder = EventRecorder(self._api, instance=self._identity, wall=self._time.now_s)
        if not options.dry_run:
            recorder.start()
            stack.callback(recorder.stop)
        leads = self._elect(stack)
        namespace, name = options.config_map or (current.reservations.namespace, CONFIG_MAP)
        return Ports(
            api=KubeApi(self._transport, NO_RETRY, timeout_s=CALL_DEADLINE_S),
            informers=informers,
            leads=leads,
            controllers_away=ControllerManager(
                KubeApi(self._transport, NO_RETRY, timeout_s=_LOOK_LIMIT_S), time.monotonic, self._time.now_s
            ).away,
            gate=GatePorts(
                ready=self._gate_ready(stack, leads, capabilities, recorder),
                keys=self._watch_gate_keys(stack, informers),
                single_api_server=single_api_server(self._transport, current.gate.mode, capabilities),
            ),
            reports=ReportPorts(
                events=recorder,
                configured_by=ObjectReference(kind="ConfigMap", name=name, namespace=namespace),
                metrics=self._metrics,
                heartbeat=self._heartbeat,
                show=self._page.publish if self._page is not None else unseen,
            ),
            process=uuid.uuid4().hex[:8],
            clocks=ClockPorts(server=self._time),
            pool=self._pool(stack, informers),
            timings=options.timings,
            dry_run=options.dry_run,
            once=options.once,
        )

    def _watch_gate_keys(self, stack: ExitStack, informers: Informers) -> Callable[[], ConfigMap | None]:
        """Follow the gate keys, so that a change of somebody else is seen at once. Until they are read, they are not watched."""
        if self._options.dry_run:
            return lambda: None
        namespace = self._configuration.current.reservations.namespace
        wake = partial(informers.events.put, GATE_KEYS_CHANGED)
        keys = ConfigMapInformer(self._transport, namespace, GATE_CONFIG_MAP, changed=wake)
        keys.start()
        stack.callback(keys.stop)
        return lambda: keys.seen

    def _pool(self, stack: ExitStack, informers: Informers) -> CallPool:
        """A dry run sends nothing, so it waits for no answer."""
        if self._options.dry_run:
            return CallPool()
        pool = ThreadPool(answered=lambda: informers.events.put(WAKE))
        if self._options.once:
            # After the pool has stopped: what its last calls have done is logged, too.
            stack.callback(lambda: pool.land(self._time.now_s()))
        # Before the Lease is given up: the next leader must not meet calls of this one.
        stack.callback(pool.stop, _LAST_CALLS_S)
        return pool

    def _elect(self, stack: ExitStack) -> Callable[[], bool]:
        """Start the elector; returns the check of leadership. A dry run writes nothing and so needs no Lease."""
        current = self._configuration.current
        if self._options.dry_run or not current.leader_election.enabled:
            self._metrics.leader.set(1)
            return lambda: True
        elector = Elector(
            self._transport,
            namespace=current.reservations.namespace,
            name=LEASE_NAME,
            identity=self._identity,
            on_lost=self._lose,
            wall=self._time.now_s,
            annotations=lambda: {
                ANNOTATION_CONFIGURATION: f"{self._configuration.version} {self._configuration.origin}"
            },
        )
        self._elector = elector
        elector.start()
        stack.callback(elector.stop)
        leads = leadership(elector, self._metrics)
        return partial(_leads_or_ends, elector, leads) if self._options.once else leads

    def _health(self) -> Health:
        """For the page. A dry run and a process without leader election do what they do by themselves."""
        leads, holder = True, self._identity
        if self._elector is not None:
            leads, holder = self._elector.still_leader(), self._elector.holder
        presence = Presence.LEADING if holder else Presence.UNKNOWN
        controller = ControllerStatus(
            presence=presence, holder=holder, configuration=self._configuration.version
        )
        return Health(leads=leads, controller=controller, configuration=self._configuration.problem)

    def _lose(self, reason: str) -> None:
        """Told once: by the elector, or by the call that was not sent because of it."""
        if self._loses.acquire(blocking=False):
            self.lost_leadership = True
            self._log.error("Leadership is lost: this process stops", reason=reason)
        self.stop.set()

    def _gate_ready(
        self,
        stack: ExitStack,
        leads: Callable[[], bool],
        capabilities: Capabilities,
        recorder: EventRecorder,
    ) -> Callable[[], bool]:
        """The check whether the gate is in force. Starts the webhook if this cluster needs it, for the gate or for the guard."""
        current, options = self._configuration.current, self._options
        gate = Gate(self._api, namespace=current.reservations.namespace)
        needed = by_webhook(current.gate.mode, capabilities)
        if options.dry_run:
            # A dry run evicts no pod, so it needs no gate.
            return (lambda: True) if needed else installed_policy(gate, capabilities)
        guarded = current.guard.enabled and not options.once and guard_installed(self._api)
        evictions = None if options.once else readable_evictions(self._api)
        filer = (
            self._filer(stack, gate.namespace, leads, evictions, recorder.record)
            if guarded or evictions
            else None
        )
        if not (needed or guarded):
            return installed_policy(gate, capabilities)
        section = current.gate
        guard = self._guard(filer, gate.namespace, recorder) if guarded and filer else None
        in_force = served_webhook(
            stack,
            self._transport,
            WebhookSettings(namespace=gate.namespace, port=section.port, url=section.url),
            leads,
            gate=needed,
            guard=guard,
            namespaces=lambda: self._configuration.current.guard.namespace_selector,
        )
        return in_force if needed else installed_policy(gate, capabilities)

    def _guard(self, filer: Filer, namespace: str, recorder: EventRecorder) -> Guard:
        return Guard(
            filer=filer,
            caches=self._caches,
            rules=partial(self._guard_rules, namespace),
            own_user=user_of(self._api, namespace),
            now_s=self._time.now_s,
            record=recorder.record,
            count=self._metrics.guarded,
        )

    def _filer(
        self,
        stack: ExitStack,
        namespace: str,
        leads: Callable[[], bool],
        evictions: Resource | None,
        record: Callable[[Event], None],
    ) -> Filer:
        """Files the evictions that wait, from now on until ``stack`` ends. ``evictions``: where EvictionRequests are answered."""
        parts = FilerParts(
            caches=self._caches,
            api=KubeApi(self._transport, NO_RETRY, timeout_s=_GUARD_CALL_S),
            rules=partial(self._guard_rules, namespace),
            leads=leads,
            now_s=self._time.now_s,
        )
        filer = Filer(parts)
        if evictions is not None:
            watch = EvictionWatch(self._transport, evictions)
            filer.listen_to(Responding(parts, filer, EvictionSource(evictions, watch.current), record).step)
            watch.start()
            stack.callback(watch.stop)
        self._metrics.guard_waiting.set_function(lambda: filer.asks.waiting(self._time.now_s()))
        filer.start()
        stack.callback(filer.stop)
        return filer

    def _guard_rules(self, namespace: str) -> GuardRules:
        current = self._configuration.current
        return GuardRules(
            settings=current.guard,
            replacements=current.replacements,
            judges=current.profile.judges,
            own_namespace=namespace,
        )

    def _serve(self, stack: ExitStack, loop: Loop, informers: Informers) -> None:
        self._metrics.configuration_ok.set(not self._configuration.careful)
        if not self._served:
            return
        asked = self._options.port
        port = self._configuration.current.server.port if asked is None else asked
        key = "server.port" if asked is None else "--port"
        with listening("the server of health and metrics", port=port, key=key):
            server = Server(
                port=port,
                routes={
                    **probes(
                        health=lambda: health(self._heartbeat, self._dead(informers)),
                        ready=loop.ready,
                        metrics=self._metrics.render,
                    ),
                    **(self._page.routes() if self._page is not None else {}),
                },
            )
        server.start()
        stack.callback(server.stop)
        self.port = server.port

    @property
    def _served(self) -> bool:
        """With ``--once`` the process ends before it is probed or scraped. A dry run may be a Deployment, which needs the server."""
        return self._options.serve and not self._options.once


def _leads_or_ends(elector: Elector, leads: Callable[[], bool]) -> bool:
    """The check of leadership of a process that is to end. Raises AnotherLeadsError."""
    leading = leads()
    if not leading and elector.rival:
        raise AnotherLeadsError(
            f"another controller is at work: {elector.rival} renews the Lease. Let it decide (rescheduler status), stop "
            "it first, or look at the decision only, with --dry-run"
        )
    return leading


def health(heartbeat: Heartbeat, dead: Sequence[Kind]) -> HealthReport:
    """Not ok if the loop stands still or an informer's thread has ended: a restart helps against both."""
    if dead:
        return HealthReport(ok=False, reason=f"the informers of {', '.join(dead)} died")
    return heartbeat.report()


def _to_read(capabilities: Capabilities) -> dict[Kind, Resource]:
    """The kinds to follow; PodGroups, and those of Koordinator, only if the cluster serves them.

    Of our own kinds, once they are found to be installed, nothing else than a list says what there is.
    """
    served = {
        Kind.KOORDINATOR_RESERVATION: capabilities.koordinator_reservations,
        Kind.VOLCANO_POD_GROUP: capabilities.volcano_pod_groups,
        Kind.COSCHEDULING_POD_GROUP: capabilities.coscheduling_pod_groups,
        Kind.POD_GROUP: capabilities.pod_groups,
    }
    found = {kind: resource for kind, resource in RESOURCES.items() if served.get(kind, True)}
    if capabilities.installed:
        found |= {
            kind: found[kind]._replace(optional=False) for kind in (Kind.RESERVATION, Kind.POD_MIGRATION)
        }
    return found


def source_of(api: KubeApi, options: Options) -> FileSource | ConfigMapSource:
    """Where the configuration comes from; by default the ConfigMap of the installation."""
    if options.config_file is not None:
        return FileSource(options.config_file)
    namespace, name = options.config_map or (os.environ.get("POD_NAMESPACE") or "rescheduler", CONFIG_MAP)
    return ConfigMapSource(api, namespace, name)
