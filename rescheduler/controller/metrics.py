"""Prometheus metrics of the controller, in a registry of its own.

Names: ``rescheduler_<noun>_<unit>``. Labels come from closed lists, never from names of pods or nodes, and
every series exists from the start with 0. The state of the informers is read at each scrape, so no
series is stale.
"""

from __future__ import annotations

import enum
from collections import Counter as Counted
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rescheduler import __version__
from rescheduler.configuration.live import ReloadOutcome
from rescheduler.configuration.start_only import START_ONLY
from rescheduler.controller.crashes import Step
from rescheduler.guard.decision import Why
from rescheduler.kube.reflector import EndKind
from rescheduler.model.kinds import Kind
from rescheduler.model.outcomes import EvictionOutcome
from rescheduler.model.reservation import ReservationPhase
from rescheduler.model.room_sets import WindowPhase
from rescheduler.model.snapshot import Snapshot
from rescheduler.planning.badness import Badness, tier_name
from rescheduler.planning.plan import SkipReason
from rescheduler.policies.objective import UNITS, Tier
from rescheduler.policies.registry import REGISTRY
from rescheduler.reports.held_capacity import unused_by_node

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class MoveResult(enum.StrEnum):
    """How a move ended."""

    ON_TARGET = "on_target"
    ELSEWHERE = "elsewhere"
    FAILED_BEFORE_EVICTION = "failed_before_eviction"
    FAILED_AFTER_EVICTION = "failed_after_eviction"


_NO_BADNESS: Final = Badness()


class InformerFacts(Protocol):
    """What is read of an informer at each scrape."""

    kind: Kind
    decode_errors: int

    @property
    def objects(self) -> int:
        """Objects known."""
        ...

    @property
    def synced(self) -> bool:
        """First list complete."""
        ...

    @property
    def relists(self) -> dict[EndKind, int]:
        """Re-lists by reason."""
        ...

    def stale_for_s(self) -> float:
        """Age of the cache."""
        ...


class Metrics:
    """All metrics of one process. Counters may be used from any thread."""

    def guarded(self, why: Why, seconds: float) -> None:
        """The guard has answered."""
        self.guard_answers.labels(why.value).inc()
        self.guard_answer_seconds.observe(seconds)

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=False)
        one = self.registry
        self.moves_planned = Counter(
            "rescheduler_moves_planned", "Moves that plans decided on and that were begun.", registry=one
        )
        self.guard_answers = Counter(
            "rescheduler_guard_answers",
            "Evictions of others that the guard was asked about, by its answer.",
            ["answer"],
            registry=one,
        )
        for why in Why:
            self.guard_answers.labels(why.value)
        self.guard_answer_seconds = Histogram(
            "rescheduler_guard_answer_seconds",
            "Time until the guard has answered.",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0),
            registry=one,
        )
        self.guard_waiting = Gauge(
            "rescheduler_guard_waiting", "Evictions that wait at this replica.", registry=one
        )
        self.reservations_available = Counter(
            "rescheduler_reservations_available", "Reservations that became Available.", registry=one
        )
        self.evictions = Counter(
            "rescheduler_evictions", "Answers to eviction calls.", ["outcome"], registry=one
        )
        self.moves_landed = Counter(
            "rescheduler_moves_landed", "Moves that ended, by how.", ["result"], registry=one
        )
        self.moves_blocked = Gauge(
            "rescheduler_moves_blocked",
            "Pods of the last decision that are wanted elsewhere but stay, by reason.",
            ["reason"],
            registry=one,
        )
        self.badness = Gauge(
            "rescheduler_badness",
            "How bad the last decision found the placement, by policy and tier of the objective.",
            ["policy", "tier"],
            registry=one,
        )
        self.badness_change = Gauge(
            "rescheduler_badness_change",
            "What the moves of the last decision change in it; below 0 is better.",
            ["policy", "tier"],
            registry=one,
        )
        self._judged: frozenset[str] = frozenset(REGISTRY)
        self._shown: dict[tuple[Gauge, str], Badness] = {}
        self.moves_in_flight = Gauge(
            "rescheduler_moves_in_flight", "Moves that are begun and not ended.", registry=one
        )
        self.reservations = Gauge(
            "rescheduler_reservations", "Reservations, by phase.", ["phase"], registry=one
        )
        self.reserved_cpu = Gauge(
            "rescheduler_reserved_cpu_cores", "CPU that is held and not used.", registry=one
        )
        self.reserved_memory = Gauge(
            "rescheduler_reserved_memory_bytes", "Memory that is held and not used.", registry=one
        )
        self.windows = Gauge("rescheduler_windows", "ReservationWindows, by phase.", ["phase"], registry=one)
        self.head_room = Gauge(
            "rescheduler_head_room_reservations",
            "Reservations of HeadRooms: wanted, and standing.",
            ["state"],
            registry=one,
        )
        self.pods_gated = Gauge("rescheduler_pods_gated", "Pods that wait at the gate.", registry=one)
        self.oldest_gated_seconds = Gauge(
            "rescheduler_oldest_gated_pod_seconds",
            "For how long the oldest pod at the gate has waited.",
            registry=one,
        )
        self.node_requests = Gauge(
            "rescheduler_node_requests",
            "Pending pods that ask the node autoscaler for a node.",
            registry=one,
        )
        self.move_landing_seconds = Histogram(
            "rescheduler_move_landing_seconds",
            "From the eviction to the binding of the replacement.",
            buckets=_SECONDS,
            registry=one,
        )
        self.cycle_seconds = Histogram(
            "rescheduler_cycle_seconds", "Duration of one decision.", buckets=_SECONDS, registry=one
        )
        self.nodes_unmeasured = Gauge(
            "rescheduler_nodes_unmeasured",
            "Nodes that policies with usage: actual leave out, because their usage is not measured.",
            registry=one,
        )
        self.cycles = Counter("rescheduler_cycles", "Decisions, by result.", ["result"], registry=one)
        self.clock_skew = Gauge(
            "rescheduler_clock_skew_seconds",
            "By how much this machine's clock is ahead of the API server's; ages are told by the API server's.",
            registry=one,
        )
        self.server_clocks_apart = Gauge(
            "rescheduler_server_clocks_apart_seconds",
            "By how much the clocks of the API servers differ; beyond 5 s no move begins.",
            registry=one,
        )
        self.crashes = Counter(
            "rescheduler_crashes",
            "Steps that a defect of this program ended; the object of the step rests, the others go on.",
            ["step"],
            registry=one,
        )
        self.events_dropped = Gauge(
            "rescheduler_events_dropped", "Events for people that could not be written.", registry=one
        )
        self.configuration_ok = Gauge(
            "rescheduler_configuration_ok", "1 if the newest configuration is in force.", registry=one
        )
        self.configuration_waiting = Gauge(
            "rescheduler_configuration_waiting",
            "1 while the value of a key in the newest configuration waits for a restart.",
            ["key"],
            registry=one,
        )
        self.configuration_reloads = Counter(
            "rescheduler_configuration_reloads", "Configurations read, by result.", ["result"], registry=one
        )
        self.leader = Gauge("rescheduler_leader", "1 while this process leads.", registry=one)
        build = Gauge("rescheduler_build_info", "Always 1.", ["version"], registry=one)
        build.labels(__version__).set(1)
        self._start_at_zero()

    def watch_informers(self, informers: Iterable[InformerFacts]) -> None:
        """Show the informers' state at each scrape. Call once."""
        self.registry.register(_InformerCollector(tuple(informers)))

    def blocked(self, by_reason: Mapping[SkipReason, int]) -> None:
        """Replace the counts of pods that stay; reasons that are not there become 0."""
        for reason in SkipReason:
            self.moves_blocked.labels(reason.value).set(by_reason.get(reason, 0))

    def gated(self, count: int, oldest_s: float) -> None:
        """The pods at the gate; ``oldest_s``: the age of the oldest."""
        self.pods_gated.set(count)
        self.oldest_gated_seconds.set(max(0.0, oldest_s))

    def held(self, snapshot: Snapshot) -> None:
        """Replace the figures of Reservations, windows and head-rooms."""
        phases = Counted(room.status.phase for room in snapshot.reservations.values())
        for phase in ReservationPhase:
            self.reservations.labels(phase.value).set(phases[phase])
        unused = unused_by_node(snapshot.reservations.values()).values()
        self.reserved_cpu.set(sum(cpu for cpu, _ in unused) / 1000)
        self.reserved_memory.set(sum(memory for _, memory in unused))
        open_ones = Counted(window.status.phase for window in snapshot.windows.values())
        for window_phase in WindowPhase:
            self.windows.labels(window_phase.value).set(open_ones[window_phase])
        rooms = [one.status for one in snapshot.head_rooms.values()]
        self.head_room.labels("wanted").set(sum(one.wanted for one in rooms))
        self.head_room.labels("standing").set(sum(one.standing for one in rooms))

    def placement(self, before: Mapping[str, Badness], change: Mapping[str, Badness]) -> None:
        """Replace what the last decision found, by policy; a policy that is not in force any more becomes 0."""
        self._judged |= before.keys()
        for policy in self._judged:
            for gauge, now in ((self.badness, before), (self.badness_change, change)):
                found = now.get(policy, _NO_BADNESS)
                # Most policies find the same as before; each label set that is looked up costs more than this comparison.
                if self._shown.get((gauge, policy)) == found:
                    continue
                self._shown[gauge, policy] = found
                for tier, value in zip(Tier, found.tiers(), strict=True):
                    gauge.labels(policy, tier_name(tier)).set(value / UNITS[tier])

    def configuration(self, outcome: ReloadOutcome, waiting: Collection[str]) -> None:
        """A newer configuration was read; ``waiting``: keys of START_ONLY whose new value is not in force."""
        self.configuration_ok.set(outcome is ReloadOutcome.TAKEN)
        self.configuration_reloads.labels(outcome.value).inc()
        if outcome is ReloadOutcome.TAKEN:
            for key in START_ONLY:
                self.configuration_waiting.labels(key).set(key in waiting)

    def crashed(self, step: Step) -> None:
        """A step crashed."""
        self.crashes.labels(step.value).inc()

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)

    def _start_at_zero(self) -> None:
        for answer in EvictionOutcome:
            self.evictions.labels(answer.value)
        for result in MoveResult:
            self.moves_landed.labels(result.value)
        for reason in SkipReason:
            self.moves_blocked.labels(reason.value)
        self.placement({}, {})
        self.held(Snapshot(taken_at_s=0.0))
        for ended in ("decided", "not_ready", "failed"):
            self.cycles.labels(ended)
        for step in Step:
            self.crashes.labels(step.value)
        for outcome in (ReloadOutcome.TAKEN, ReloadOutcome.REFUSED, ReloadOutcome.MISSING):
            self.configuration_reloads.labels(outcome.value)
        for key in START_ONLY:
            self.configuration_waiting.labels(key)


class _InformerCollector(Collector):
    """Computes the gauges of the caches when they are asked for."""

    def __init__(self, informers: tuple[InformerFacts, ...]) -> None:
        self._informers = informers

    def describe(self) -> Iterable[Metric]:
        """Nothing: the names are known only while collecting."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """One family per fact."""
        age = GaugeMetricFamily(
            "rescheduler_cache_age_seconds",
            "Since the cache was last known to be up to date.",
            labels=["kind"],
        )
        objects = GaugeMetricFamily("rescheduler_cache_objects", "Objects in the cache.", labels=["kind"])
        synced = GaugeMetricFamily("rescheduler_cache_synced", "1 once it is complete.", labels=["kind"])
        errors = CounterMetricFamily(
            "rescheduler_decode_errors", "Objects and lines that could not be read.", labels=["kind"]
        )
        relists = CounterMetricFamily(
            "rescheduler_relists", "Times that everything was read again.", labels=["kind", "reason"]
        )
        for informer in self._informers:
            kind = informer.kind.value
            age.add_metric([kind], informer.stale_for_s())
            objects.add_metric([kind], informer.objects)
            synced.add_metric([kind], float(informer.synced))
            errors.add_metric([kind], informer.decode_errors)
            for reason, count in informer.relists.items():
                relists.add_metric([kind, reason.value], count)
        return age, objects, synced, errors, relists
