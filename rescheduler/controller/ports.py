"""Everything outside the process that the controller uses: clocks, caches, calls, leadership, and where it tells what it does.

``rescheduler run``, the demo, the random histories and the tests differ in their ports alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from rescheduler.controller.call_pool import CallPool
from rescheduler.controller.cycle import Decision
from rescheduler.controller.memory import sparing
from rescheduler.controller.metrics import Metrics
from rescheduler.controller.server import Heartbeat
from rescheduler.kube.client import KubeApi
from rescheduler.kube.gate import PROOF
from rescheduler.kube.informer import Events
from rescheduler.kube.reflector import Gaps
from rescheduler.kube.retry import Retry
from rescheduler.kube.server_clock import ServerClock
from rescheduler.model.config_map import ConfigMap
from rescheduler.model.event import Event, ObjectReference
from rescheduler.model.kinds import Kind
from rescheduler.model.names import CONFIG_MAP, DEFAULT_NAMESPACE
from rescheduler.model.records import Pod
from rescheduler.model.snapshot import Snapshot


class InformerCaches(Protocol):
    """The caches of the cluster as the loop sees them; ``kube.informers.Informers`` fills them by threads."""

    @property
    def events(self) -> Events:
        """What has changed, in order within each kind."""
        ...

    def synced(self) -> bool:
        """True once the first list of every kind is in the queue."""
        ...

    def stale_for_s(self) -> float:
        """Seconds since the server last proved that the oldest cache is up to date."""
        ...

    def waiting_for(self) -> Sequence[Kind]:
        """Kinds whose first list is not complete."""
        ...

    def unknown(self) -> Mapping[Kind, str]:
        """Kinds of which nothing is known now although they were read before, each with the reason."""
        ...

    def problems(self) -> Mapping[Kind, str]:
        """Kinds that are not up to date, each with the reason."""
        ...

    def gaps(self, kind: Kind) -> Gaps:
        """What may be missing from the events of one kind, or out of order in them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTimings:
    """Intervals of the loop, in seconds."""

    settle_s: float = 1.0
    """From an event that brings a decision forward to the decision, so that related events arrive first."""
    rest_s: float = 2.0
    """Shortest time between two decisions; after a long decision, five times as long as it took."""
    turn_s: float = 1.0
    """Longest wait for events. While the loop may not act, it checks at this interval whether it may."""
    stale_s: float = 120.0
    """No decision is made on caches that were not proven fresh for longer than this."""
    reconcile_gap_s: float = 0.005
    """Shortest time between two reconciliations; after a longer one, twice its CPU time up to 20 ms, then its CPU time.

    Time spent waiting for answers of the API server does not count.
    """
    expectations_s: float = 5.0
    """How long a decision waits for the moves of the last one to appear in the cache."""
    retry_s: float = 1.0
    """Wait after a turn that an error of the API server ended."""


class EventSink(Protocol):
    """Records Events; ``kube.events.EventRecorder`` writes them on a thread of its own."""

    @property
    def dropped(self) -> int:
        """Events that could not be written."""
        ...

    def record(self, what: Event) -> None:
        """Record it. Neither blocks nor fails."""
        ...


def unseen(_snapshot: Snapshot, _decision: Decision | None, _gated: Sequence[Pod]) -> None:
    """Where nothing shows what the core thread sees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPorts:
    """The times that the controller reads."""

    monotonic: Callable[[], float] = time.monotonic
    """Seconds: for intervals."""
    server: ServerClock = field(default_factory=ServerClock)
    """The API server's time: for what is compared with times in objects. It hears what ``api`` is answered."""
    cpu: Callable[[], float] = time.thread_time
    """CPU seconds of the calling thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePorts:
    """What is known of the gate besides the keys that this process has stored."""

    ready: Callable[[], bool]
    """True if new replacements get the gate: otherwise no move is begun. Raises ApiError, TransportError."""
    keys: Callable[[], ConfigMap | None] = lambda: None
    """What a watch of ConfigMap gate-keys has shown last; None: it is not watched. Called by any thread."""
    proof: Retry = PROOF
    """How often and at which intervals the proof of the gate is tried."""
    single_api_server: Callable[[], bool] = lambda: False
    """True if no other API server could lack a gate that is proven. Called by any thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPorts:
    """Where the controller tells what it does."""

    events: EventSink
    configured_by: ObjectReference = field(
        default_factory=lambda: ObjectReference(
            kind="ConfigMap", name=CONFIG_MAP, namespace=DEFAULT_NAMESPACE
        )
    )
    """The object of Events about the configuration."""
    metrics: Metrics = field(default_factory=Metrics)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    show: Callable[[Snapshot, Decision | None, Sequence[Pod]], None] = unseen
    """Called by the core thread with what it has seen and decided last; it keeps nothing that grows with pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything outside the process that the controller uses."""

    api: KubeApi
    """The calls to the API server, without retries: what failed is tried again when it is due."""
    informers: InformerCaches
    """The caches of the cluster. The caller of ``assemble`` starts and stops them."""
    leads: Callable[[], bool]
    """True while this process leads: checked in every turn and right before each eviction."""
    gate: GatePorts
    reports: ReportPorts
    process: str
    """Unique to this process, also among former ones: it is part of names of pods."""
    clocks: ClockPorts = field(default_factory=ClockPorts)
    timings: LoopTimings = field(default_factory=LoopTimings)
    dry_run: bool = False
    """Decide and log; change nothing."""
    once: bool = False
    """Only one decision, whose plan lists every skipped pod; the loop ends when its moves have ended."""
    controllers_away: Callable[[], str] = lambda: ""
    """Why no controller would create a replacement now; "": nothing is known against it. Called by any thread."""
    pool: CallPool = field(default_factory=CallPool)
    """Where calls wait for their answers."""
    deciding: Callable[[bool], AbstractContextManager[None]] = sparing
    """A context for each decision; the argument is True for the first one of the process."""
