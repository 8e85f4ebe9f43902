"""The controller as ``run`` assembles it, in virtual time: when one process ends, the next one starts.

The loop, the elector and everything between them and the API server are those of the product; only threads are replaced
by steps, and the clock is that of the sandbox; ``late_answers`` stands for the threads that wait for answers. A crash, at any write, loses everything in memory; the next process reads
the cluster and goes on from the objects. A process that loses its Lease ends, as a real one does. While the program
waits between two tries of a call, all else goes on, also its own watches and its elector.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final

from harness.histories.as_controller import AsController
from harness.histories.caches import Caches
from harness.histories.faulty_transport import Killed, LeaseLine, Line
from harness.histories.late_answers import LatePool, covered_s
from harness.histories.virtual_retry import virtual_proof
from kube_sandbox.apiserver.store import ObjectChange
from kube_sandbox.controllers.unstructured import GroupKind, Obj, key
from kube_sandbox.sandbox import Sandbox
from rescheduler.configuration.document import Configuration
from rescheduler.configuration.live import ConfigurationText, LiveConfiguration
from rescheduler.controller.assembly import assemble, leadership, machine_settings
from rescheduler.controller.crashes import Step
from rescheduler.controller.dispatcher import FRESH_S
from rescheduler.controller.effects import NotLeaderError
from rescheduler.controller.loop import GATE_KEYS_CHANGED
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.ports import ClockPorts, GatePorts, LoopTimings, Ports, ReportPorts
from rescheduler.controller.server import Heartbeat
from rescheduler.controller.settings import Settings
from rescheduler.kube.client import KubeApi
from rescheduler.kube.election import LeaseTiming
from rescheduler.kube.elector import Elector
from rescheduler.kube.gate import Gate
from rescheduler.kube.retry import NO_RETRY
from rescheduler.kube.server_clock import ServerClock, TimedTransport
from rescheduler.kube.transport import Request
from rescheduler.model.config_map import MISSING, ConfigMap
from rescheduler.model.event import Event
from rescheduler.model.names import DEFAULT_NAMESPACE, GATE_CONFIG_MAP, LEASE_NAME

MOST_DEPOSED: Final = 100
"""No history takes the Lease away so often."""
QUIET: Final = b"""\
apiVersion: rescheduler.dev/v1alpha1
kind: ReschedulerConfiguration
policies: []
"""
"""It carries out what users request and plans no moves of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOptions:
    """How a program is run."""

    document: bytes
    """Its configuration."""
    quiet_document: bytes = QUIET
    """Its configuration once all faults have ended: no new moves."""
    settings_of: Callable[[Configuration], Settings] = machine_settings
    timings: LoopTimings = field(default_factory=LoopTimings)
    lease: LeaseTiming = field(default_factory=LeaseTiming)
    identity: str = "controller"
    """Name in the Lease; the same in each life, so that a process that starts again need not wait for its own."""
    crashes: int = 0
    """How often it is killed at a write."""
    writes_per_life: int = 25
    """It is killed within this number of writes."""
    late: bool = False
    """Its watches receive events late, in small portions."""
    clock_ahead_s: float = 0.0
    """By how much the clock of its machine is ahead of the API server's."""
    late_answers: float = 0.0
    """Share of the steps whose calls, or the answers to them, are late while everything else goes on."""


@dataclass(slots=True)
class Events:
    """Records the program's Events. Those with reason Damaged are faults of the history."""

    told: list[str] = field(default_factory=list)
    """All of them, as REASON: NOTE."""
    damaged: list[str] = field(default_factory=list)
    """Messages about objects in a state that the tables of transitions do not have."""
    dropped: int = 0

    def record(self, what: Event) -> None:
        """Keep it."""
        self.told.append(f"{what.reason}: {what.message}")
        if what.reason == "Damaged":
            self.damaged.append(f"{what.regarding.name}: {what.message}")


class _CrashesAreFaults(Metrics):
    """The metrics of a program whose crashes are faults of the history, also those that no object has an Event of."""

    def __init__(self, events: Events) -> None:
        super().__init__()
        self._events = events

    def crashed(self, step: Step) -> None:
        """Count it, and keep it as a fault."""
        super().crashed(step)
        self._events.damaged.append(f"a step of {step} crashed")


@dataclass(slots=True)
class Document:
    """The configuration's source: a text that may change."""

    content: bytes | None
    """None: it was deleted."""

    def read(self) -> ConfigurationText | None:
        """The newest version."""
        return None if self.content is None else ConfigurationText(self.content, "histories")


class Program:
    """A component of the sandbox: a controller that is started again whenever it ends."""

    def __init__(self, cluster: Sandbox, rng: random.Random, options: ProgramOptions) -> None:
        self._cluster, self._rng, self._options = cluster, rng, options
        self.document = Document(options.document)
        self.line = Line(AsController(cluster.transport), rng, cluster.clock)
        self.caches = Caches(
            cluster.api,
            rng,
            clock=cluster.clock,
            late=options.late,
            reachable=lambda: not self.line.is_away(),
        )
        self._answers = random.Random(rng.random()) if options.late_answers else rng  # noqa: S311 - reproducible
        self.died = 0
        """Processes that were killed, between two calls or at a write."""
        self.deposed = 0
        """Processes that ended because they had lost the Lease."""
        self.events = Events()
        self.wall_ahead_s = options.clock_ahead_s
        """By how much the clock of its machine is ahead of the time that it counted itself."""
        self._stood_still_s = 0.0
        self._pauses_s: list[tuple[float, float]] = []
        """When its machine was paused, and for how long."""
        self._slow_s: list[tuple[float, float]] = []
        self.server_time = ServerClock(self._clock, lambda: self._clock() + self.wall_ahead_s)
        """Seconds pass on this machine as on the API server's; what its clock shows is another time."""
        # As discovery does at the start of a real process, before anything is compared with a time.
        TimedTransport(cluster.transport, self.server_time).send(Request(method="GET", path="/version"))
        self.frozen = False
        """While True nothing of it runs, neither loop nor elector nor watches, as in a process that got SIGSTOP."""
        self._gate_keys = MISSING
        """As a watch of them shows them, at once."""
        self._follow_gate_keys()
        self._crashes_left = options.crashes
        self._sleeps = self._killed_asleep = self._lost = False
        self._start()

    def step(self, now_s: float) -> int:
        """One turn, if an event has arrived or something is due.

        Watches and the elector also run while the loop sleeps between two tries, because they are threads of their own.
        """
        if self.frozen:
            return 0
        done = self.caches.connect(now_s) + self._campaign(now_s)
        if self._sleeps:
            return done
        if self._lost:
            self._end_deposed()
            return 1
        try:
            done += self.pool.step(now_s)
            if not self.caches.waiting(now_s) and self._clock() < self.loop.due_s():
                return done
            self.caches.deliver(now_s)
            self.loop.turn()
        except Killed:
            self._crashes_left -= 1
            self._end_killed()
        except NotLeaderError:
            self._end_deposed()
        return 1

    def next_due_s(self, now_s: float) -> float | None:
        """When the next step is due even if no event arrives."""
        if self.frozen:
            return None
        if self._sleeps:
            return min(filter(None, (self.caches.asks_at_s(), self._attempt_at_s)))
        due = (self.caches.next_due_s(now_s), self.pool.next_due_s())
        return min(
            self._attempt_at_s,
            self.loop.due_s() + self._stood_still_s,
            *(due_s for due_s in due if due_s is not None),
        )

    def lose_api_server(self, until_s: float, *, forgotten: bool) -> None:
        """No request is answered until then, and all watches end. The Lease is lost if it expires before.

        ``forgotten``: watches cannot continue afterwards and must list again.
        """
        now_s = self._cluster.clock()
        self.line.away.append((now_s, until_s))
        self.caches.break_off(now_s, forgotten=forgotten)

    def stood_still(self, pause_s: float) -> None:
        """Its machine was paused for so long, and has not counted that time."""
        self._stood_still_s += pause_s
        self._pauses_s.append((self._cluster.clock() - pause_s, pause_s))

    def decided_before(self, change_at_s: float) -> bool:
        """True if it had decided on the call that it makes now before that change, and the decision is still fresh.

        It does not count the time for which its machine was paused.
        """
        decided_s = self.pool.decided_at_s
        if decided_s is None or change_at_s < decided_s:
            return False
        paused_s = sum(pause_s for at_s, pause_s in self._pauses_s if at_s >= decided_s)
        return self._cluster.clock() - decided_s - paused_s <= FRESH_S

    def _clock(self) -> float:
        """Seconds that its machine has counted."""
        return self._cluster.clock() - self._stood_still_s

    def be_kind(self) -> None:
        """No more faults from now on, and no new moves."""
        self._crashes_left = 0
        self.document.content = self._options.quiet_document
        self.line.doom(None, after=False)
        self.line.trouble = 0.0

    @property
    def answers_late(self) -> bool:
        """True if some of its calls are answered late."""
        return self._options.late_answers > 0.0

    def waited_s(self, since_s: float, until_s: float) -> float:
        """For how many seconds between the two it waited for an answer that took seconds."""
        return covered_s(self._slow_s, since_s, until_s)

    def kill(self) -> None:
        """The process is killed between two calls; a new one starts."""
        if self._sleeps:
            self._killed_asleep = True
        else:
            self._end_killed()

    def _end_killed(self) -> None:
        self.died += 1
        self._start()

    def _end_deposed(self) -> None:
        self.deposed += 1
        if self.deposed > MOST_DEPOSED:
            raise RuntimeError(
                "the program ends and starts again without end: it sends calls without the Lease"
            )
        self._start()

    def _start(self) -> None:
        options, now_s, rng = self._options, self._cluster.clock(), self._rng
        self._lost = False
        self.caches.read_anew(now_s)
        self.elector = Elector(
            LeaseLine(self.line), namespace=DEFAULT_NAMESPACE, name=LEASE_NAME, identity=options.identity,
            on_lost=self._lose, timing=options.lease, clock=self._clock,
            wall=lambda: self._clock() + self.wall_ahead_s, chance=rng.random,
        )  # fmt: skip
        self._attempt_at_s = now_s
        configuration = self.configuration = LiveConfiguration(self.document)
        configuration.start()
        self.metrics = _CrashesAreFaults(self.events)
        self.metrics.watch_informers(self.caches.watches())
        self.leads = leadership(self.elector, self.metrics)
        self.pool = LatePool(self._answers, clock=self._cluster.clock, share=options.late_answers)
        self.pool.slow_s = self._slow_s
        self.loop = assemble(configuration, self._ports(), options.settings_of)
        self.line.doom(
            rng.randint(1, options.writes_per_life) if self._crashes_left > 0 else None,
            after=rng.random() < 0.5,  # noqa: PLR2004 - one half
        )

    def _ports(self) -> Ports:
        clock, chance = self._clock, self._rng.random
        api = KubeApi(TimedTransport(self.line, self.server_time), NO_RETRY)
        return Ports(
            api=api,
            informers=self.caches,
            leads=self.leads,
            gate=GatePorts(
                ready=Gate(api).installed,
                keys=lambda: self._gate_keys,
                proof=virtual_proof(chance, self._sleep),
            ),
            reports=ReportPorts(events=self.events, metrics=self.metrics, heartbeat=Heartbeat(clock=clock)),
            process=f"{self._options.identity}-{self.died + self.deposed}",
            timings=self._options.timings,
            clocks=ClockPorts(monotonic=clock, server=self.server_time, cpu=lambda: 0.0),
            pool=self.pool,
            deciding=lambda _: nullcontext(),
        )

    def _follow_gate_keys(self) -> None:
        api = self._cluster.api
        found = api.get(GroupKind("", "ConfigMap"), DEFAULT_NAMESPACE, GATE_CONFIG_MAP)
        self._gate_keys = MISSING if found is None else _stored(found)
        api.subscribe(self._hear)

    def _hear(self, change: ObjectChange) -> None:
        obj = change.object
        if obj["kind"] == "ConfigMap" and key(obj) == (DEFAULT_NAMESPACE, GATE_CONFIG_MAP):
            self._gate_keys = MISSING if change.type == "DELETED" else _stored(obj)
            self.caches.events.put(GATE_KEYS_CHANGED)

    def _campaign(self, now_s: float) -> int:
        if now_s < self._attempt_at_s:
            return 0
        self.elector.expire()
        if not self._lost:
            self.elector.attempt()
        self._attempt_at_s = now_s + self.elector.pause_s()
        return 1

    def _lose(self, _reason: str) -> None:
        self._lost = True

    def _sleep(self, seconds: float) -> None:
        self._sleeps = True
        self._cluster.advance(seconds)
        self._sleeps = False
        if self._killed_asleep:
            self._killed_asleep = False
            raise Killed


def _stored(config_map: Obj) -> ConfigMap:
    version = config_map["metadata"]["resourceVersion"]
    return ConfigMap(data=dict(config_map.get("data") or {}), resource_version=version)
