"""The controller as ``run`` assembles it, driven in virtual time: one process after the other.

A crash forgets everything that is in memory, at any write; the next process reads the cluster and goes on
from the objects. While the program waits between two tries of a call, the rest of the cluster goes on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from rescheduler.config import Configuration
from rescheduler.controller.cycle import Cycle
from rescheduler.controller.executor import ApplyExecutor
from rescheduler.controller.gating import LiveGate
from rescheduler.controller.issuing import ApiIssuer
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.mirror import Mirror
from rescheduler.controller.outages import CautiousRounds
from rescheduler.controller.reconcile import Reconciler, Settings
from rescheduler.controller.rules import RulesPlacement
from rescheduler.controller.safeguards import protection_of
from rescheduler.kube.client import KubeApi
from rescheduler.kube.election import LeaseTiming
from rescheduler.kube.errors import ApiError
from rescheduler.kube.gate import Gate
from rescheduler.kube.retry import Retry
from rescheduler.kube.transport import TransportError
from rescheduler.model.names import AVOID_CONFIG_MAP
from rescheduler.reservations.actions import RecordEvent
from rescheduler.reservations.engine import PlaceholderEngine
from rescheduler.reservations.koordinator import KoordinatorEngine
from rescheduler.sim.cluster import EmbeddedCluster
from rescheduler.testing.histories.caches import Caches
from rescheduler.testing.histories.line import Killed, Line

_ROUND_S: Final = 10.0
_ROUND_GAP_S: Final = 0.02
_DECISION_S: Final = 2.0
_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Temper:
    """How a program is run. ``decides``: it plans moves itself. ``crashes``: how often it dies.

    ``writes_per_life``: it dies within so many writes. ``late``: its caches lag. ``patience_s``: how long a
    refused call is tried again before the reconciler hears of it. ``round_gap_s``: between two rounds, at least.
    """

    settings: Settings
    configuration: Configuration
    decides: bool = False
    crashes: int = 0
    writes_per_life: int = 25
    late: bool = False
    patience_s: float = 30.0
    round_gap_s: float = 0.0


class Program:
    """A stepper of the cluster. ``died``: how many processes have ended so far. ``damaged``: steps off the tables."""

    def __init__(self, cluster: EmbeddedCluster, rng: random.Random, temper: Temper) -> None:
        self._cluster, self._rng, self._temper = cluster, rng, temper
        self.line = Line(cluster.transport, rng, cluster.clock)
        self.caches = Caches(cluster.api, rng, late=temper.late, reachable=lambda: not self.line.is_away())
        self.died = 0
        self.damaged: list[str] = []
        self._crashes_left = temper.crashes
        self._sleeps = self._killed_asleep = False
        self._round_at_s = self._decide_at_s = self._rests_until_s = 0.0
        self._cycle: Cycle | None = None
        self._start()

    def step(self, now_s: float) -> int:
        """A turn, if there is news or it is time. Watches come back while it sleeps: they are threads."""
        asked = self.caches.connect(now_s)
        if self._sleeps or (
            not self.caches.waiting(now_s) and now_s < min(self._round_at_s, self._decide_at_s)
        ):
            return asked
        self.caches.take_in(now_s)
        if not self.caches.synced:
            return asked
        try:
            self._turn(now_s)
        except Killed:
            self.died += 1
            self._crashes_left -= 1
            self._start()
        except (ApiError, TransportError):
            self._round_at_s = now_s + _RETRY_S
        return 1

    def next_due_s(self, now_s: float) -> float | None:
        """When the next turn is."""
        if self._sleeps:
            return self.caches.asks_at_s()
        if not self.caches.synced:
            return self.caches.next_due_s(now_s)
        news_s = self.caches.next_due_s(now_s)
        due_s = min(self._round_at_s, self._decide_at_s)
        return max(self._rests_until_s, due_s if news_s is None else min(news_s, due_s))

    def lose_api_server(self, until_s: float, *, forgotten: bool) -> None:
        """Nobody answers until then, and all watches end; who cannot renew its Lease in time ends as well.

        ``forgotten``: the server that comes back does not know what the watches have missed.
        """
        now_s, timing = self._cluster.clock(), LeaseTiming()
        self.line.away.append((now_s, until_s))
        self.caches.break_off(now_s, forgotten=forgotten)
        if until_s - now_s > timing.renew_s - self._rng.uniform(0.0, timing.retry_s):
            self.kill()

    def be_kind(self) -> None:
        """No more faults from now on, and no more moves but those that are begun."""
        self._crashes_left = 0
        self._cycle, self._decide_at_s = None, float("inf")
        self.line.doom(None, after=False)
        self.line.trouble = 0.0

    def kill(self) -> None:
        """The process is killed between two calls; a new one starts."""
        if self._sleeps:
            self._killed_asleep = True
            return
        self.died += 1
        self._start()

    def _start(self) -> None:
        temper, now_s = self._temper, self._cluster.clock()
        self.caches.read_anew(now_s)
        retry = Retry(
            deadline_s=temper.patience_s,
            sleep=self._sleep,
            clock=self._cluster.clock,
            chance=self._rng.random,
        )
        api = KubeApi(self.line, retry)
        self._rounds = CautiousRounds(self._reconciles(api), self.caches.gaps, api, process=str(self.died))
        self._cycle = self._decides(api) if temper.decides else None
        self._round_at_s = self._rests_until_s = now_s
        self._decide_at_s = now_s if temper.decides else float("inf")
        dies = self._crashes_left > 0
        self.line.doom(
            self._rng.randint(1, temper.writes_per_life) if dies else None,
            after=self._rng.random() < 0.5,  # noqa: PLR2004 - one half
        )

    def _reconciles(self, api: KubeApi) -> Reconciler:
        settings, configuration = self._temper.settings, self._temper.configuration
        live = LiveGate(self._gate(api))
        namespace = settings.reservations.namespace
        executor = ApplyExecutor(
            api=api,
            engine=PlaceholderEngine(settings.reservations),
            koordinator=KoordinatorEngine(settings.reservations),
            namespace=namespace,
            gate=live,
            still_leader=lambda: True,
            record_event=self._hear,
        )
        return Reconciler(
            executor=executor,
            gate=Mirror(switch=live, lenient=True),
            hints=Mirror(switch=LiveGate(self._gate(api, AVOID_CONFIG_MAP))),
            placement=RulesPlacement(
                namespace=namespace,
                profile=configuration.profile,
                protection=protection_of(configuration.protections, configuration.profile),
            ),
            settings=settings,
        )

    def _decides(self, api: KubeApi) -> Cycle:
        return Cycle(
            issuer=ApiIssuer(api),
            metrics=Metrics(),
            gate_ready=self._gate(api).installed,
            clock=self._cluster.clock,
        )

    def _gate(self, api: KubeApi, config_map: str = "live") -> Gate:
        return Gate(
            api,
            namespace=self._temper.settings.reservations.namespace,
            config_map=config_map,
            clock=self._cluster.clock,
            sleep=self._sleep,
            chance=self._rng.random,
        )

    def _hear(self, event: RecordEvent) -> None:
        if event.reason == "Damaged":
            self.damaged.append(f"{event.name}: {event.message}")

    def _turn(self, now_s: float) -> None:
        wake_s = self._rounds.round(self.caches.snapshot(now_s), now_s)
        now_s = self._cluster.clock()
        self._rests_until_s = now_s + self._temper.round_gap_s
        self._round_at_s = now_s + _ROUND_S if wake_s is None else max(wake_s, now_s + _ROUND_GAP_S)
        if self._cycle is not None and now_s >= self._decide_at_s:
            self._decide_at_s = now_s + _DECISION_S
            self._cycle.run(self.caches.snapshot(now_s), self._temper.configuration)

    def _sleep(self, seconds: float) -> None:
        self._sleeps = True
        self._cluster.advance(seconds)
        self._sleeps = False
        if self._killed_asleep:
            self._killed_asleep = False
            raise Killed
