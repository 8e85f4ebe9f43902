"""Prometheus metrics of the controller, in a registry of its own.

Names: ``rescheduler_<noun>_<unit>``. Labels come from closed lists, never from names of pods or nodes, and
every series exists from the start with 0. The state of the informers is read at each scrape, so no
series is stale.
"""

from __future__ import annotations

import enum
from collections import Counter as Counted
from collections.abc import Collection, Iterable, Mapping
from typing import Final

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
from rescheduler.kube.reflector import Reflected
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
_RELOADS: Final = (ReloadOutcome.TAKEN, ReloadOutcome.REFUSED, ReloadOutcome.MISSING)


class Metrics:
    """All metrics of one process. Counters may be used from any thread."""

    def guarded(self, why: Why, seconds: float) -> None:
        """The guard has answered."""
        self.guard_answers.labels(why.value).inc()
        self.guard_answer_seconds.observe(seconds)

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry(auto_describe=False)
        self._judged: frozenset[str] = frozenset(REGISTRY)
        self._shown: dict[tuple[Gauge, str], Badness] = {}
        # Moves
        self.moves_planned = self._counter(
            "moves_planned", "Moves that plans decided on and that were begun."
        )
        self.moves_landed = self._counter("moves_landed", "Moves that ended, by how.", "result", MoveResult)
        self.moves_blocked = self._gauge(
            "moves_blocked",
            "Pods of the last decision that are wanted elsewhere but stay, by reason.",
            "reason",
        )
        self.moves_in_flight = self._gauge("moves_in_flight", "Moves that are begun and not ended.")
        self.move_landing_seconds = self._histogram(
            "move_landing_seconds", "From the eviction to the binding of the replacement."
        )
        self.evictions = self._counter("evictions", "Answers to eviction calls.", "outcome", EvictionOutcome)
        # Decisions
        self.cycles = self._counter(
            "cycles", "Decisions, by result.", "result", ("decided", "not_ready", "failed")
        )
        self.cycle_seconds = self._histogram("cycle_seconds", "Duration of one decision.")
        self.badness = self._gauge(
            "badness",
            "How bad the last decision found the placement, by policy and tier of the objective.",
            "policy",
            "tier",
        )
        self.badness_change = self._gauge(
            "badness_change",
            "What the moves of the last decision change in it; below 0 is better.",
            "policy",
            "tier",
        )
        self.nodes_unmeasured = self._gauge(
            "nodes_unmeasured",
            "Nodes that policies with usage: actual leave out, because their usage is not measured.",
        )
        # Rooms
        self.reservations_available = self._counter(
            "reservations_available", "Reservations that became Available."
        )
        self.reservations = self._gauge("reservations", "Reservations, by phase.", "phase")
        self.reserved_cpu = self._gauge("reserved_cpu_cores", "CPU that is held and not used.")
        self.reserved_memory = self._gauge("reserved_memory_bytes", "Memory that is held and not used.")
        self.windows = self._gauge("windows", "ReservationWindows, by phase.", "phase")
        self.head_room = self._gauge(
            "head_room_reservations", "Reservations of HeadRooms: wanted, and standing.", "state"
        )
        self.pods_gated = self._gauge("pods_gated", "Pods that wait at the gate.")
        self.oldest_gated_seconds = self._gauge(
            "oldest_gated_pod_seconds", "For how long the oldest pod at the gate has waited."
        )
        self.node_requests = self._gauge(
            "node_requests", "Pending pods that ask the node autoscaler for a node."
        )
        # The guard
        self.guard_answers = self._counter(
            "guard_answers",
            "Evictions of others that the guard was asked about, by its answer.",
            "answer",
            Why,
        )
        self.guard_answer_seconds = self._histogram(
            "guard_answer_seconds",
            "Time until the guard has answered.",
            (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0),
        )
        self.guard_waiting = self._gauge("guard_waiting", "Evictions that wait at this replica.")
        # The process
        self.clock_skew = self._gauge(
            "clock_skew_seconds",
            "By how much this machine's clock is ahead of the API server's; ages are told by the API server's.",
        )
        self.server_clocks_apart = self._gauge(
            "server_clocks_apart_seconds",
            "By how much the clocks of the API servers differ; beyond 5 s no move begins.",
        )
        self.crashes = self._counter(
            "crashes",
            "Steps that a defect of this program ended; the object of the step rests, the others go on.",
            "step",
            Step,
        )
        self.events_dropped = self._gauge("events_dropped", "Events for people that could not be written.")
        self.configuration_ok = self._gauge("configuration_ok", "1 if the newest configuration is in force.")
        self.configuration_waiting = self._gauge(
            "configuration_waiting",
            "1 while the value of a key in the newest configuration waits for a restart.",
            "key",
        )
        self.configuration_reloads = self._counter(
            "configuration_reloads", "Configurations read, by result.", "result", _RELOADS
        )
        self.leader = self._gauge("leader", "1 while this process leads.")
        self._gauge("build_info", "Always 1.", "version").labels(__version__).set(1)
        self.blocked({})
        self.placement({}, {})
        self.held(Snapshot(taken_at_s=0.0))
        for key in START_ONLY:
            self.configuration_waiting.labels(key)

    def _counter(self, name: str, about: str, label: str = "", values: Iterable[str] = ()) -> Counter:
        """``values``: of the label, which exist from the start."""
        found = Counter(f"rescheduler_{name}", about, [label] if label else [], registry=self.registry)
        for value in values:
            found.labels(str(value))
        return found

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"rescheduler_{name}", about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
        return Histogram(f"rescheduler_{name}", about, buckets=buckets, registry=self.registry)

    def watch_informers(self, informers: Iterable[Reflected]) -> None:
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


class _InformerCollector(Collector):
    """Computes the gauges of the caches when they are asked for."""

    def __init__(self, informers: tuple[Reflected, ...]) -> None:
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
